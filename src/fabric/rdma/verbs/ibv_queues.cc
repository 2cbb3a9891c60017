// Provider `ibv`: completion queues, event channels, shared receive queues.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "fabric/rdma/verbs/ibv_objects.h"

namespace tern::rdma {
namespace {

Status status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return Status::success;
    case IBV_WC_LOC_LEN_ERR: return Status::local_length;
    case IBV_WC_LOC_QP_OP_ERR: return Status::local_queue_pair;
    case IBV_WC_LOC_PROT_ERR: return Status::local_protection;
    case IBV_WC_LOC_ACCESS_ERR: return Status::local_protection;
    case IBV_WC_WR_FLUSH_ERR: return Status::flushed;
    case IBV_WC_REM_INV_REQ_ERR: return Status::remote_invalid_request;
    case IBV_WC_REM_ACCESS_ERR: return Status::remote_access;
    case IBV_WC_REM_OP_ERR: return Status::remote_operation;
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_RETRY_EXC_ERR: return Status::retry_exceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR: return Status::rnr_retry_exceeded;
    case IBV_WC_REM_ABORT_ERR: return Status::aborted;
    case IBV_WC_FATAL_ERR: return Status::fatal;
    default: return Status::other;
  }
}

CompletionKind kind_of(ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_RDMA_WRITE: return CompletionKind::write;
    case IBV_WC_RDMA_READ: return CompletionKind::read;
    case IBV_WC_COMP_SWAP:
    case IBV_WC_FETCH_ADD: return CompletionKind::atomic;
    case IBV_WC_RECV: return CompletionKind::receive;
    case IBV_WC_RECV_RDMA_WITH_IMM: return CompletionKind::receive_write;
    default: return CompletionKind::send;
  }
}

}  // namespace

IbvEventChannel::~IbvEventChannel() {
  if (poller_ >= 0) close(poller_);
  library_.destroy_comp_channel(channel);
}

void IbvEventChannel::drain() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (library_.get_cq_event(channel, &queue, &context) == 0) library_.ack_cq_events(queue, 1);
}

Error IbvHca::make_completion_queue(const CompletionQueueOptions& options, std::unique_ptr<CompletionQueue>& result) {
  auto made = std::make_unique<IbvCompletionQueue>(*this);
  ibv_comp_channel* channel = options.channel ? static_cast<IbvEventChannel*>(options.channel)->channel : nullptr;
  made->queue = verbs().create_cq(context_, int(std::max(options.depth, 1u)), made.get(), channel, 0);
  if (!made->queue) return ibv_failure("no completion queue", errno);
  result = std::move(made);
  return {};
}

IbvCompletionQueue::~IbvCompletionQueue() {
  if (queue) TERN_ASSERT(hca_.verbs().destroy_cq(queue) == 0);
}

size_t IbvCompletionQueue::poll(Completion* entries, size_t most) {
  size_t count = 0;
  while (count < most) {
    ibv_wc found[kChain];
    const int wanted = int(std::min(most - count, kChain));
    const int got = ibv_poll_cq(queue, wanted, found);
    if (got < 0) break;  // an overrun, which the asynchronous event reports
    for (int i = 0; i < got; ++i) {
      const ibv_wc& from = found[i];
      Completion& to = entries[count++];
      to = {};
      to.id = from.wr_id;
      to.status = status_of(from.status);
      to.queue_pair = from.qp_num;
      if (to.status != Status::success) {
        to.vendor_error = from.vendor_err;
        hca_.on_queue_pair_error(from.qp_num);
        continue;
      }
      to.kind = kind_of(from.opcode);
      to.has_immediate = (from.wc_flags & IBV_WC_WITH_IMM) != 0;
      to.immediate = to.has_immediate ? ntohl(from.imm_data) : 0;
      to.bytes = from.byte_len;
      to.source_number = from.src_qp;
    }
    if (got < wanted) break;
  }
  while (count < most && !refused_.empty()) {
    entries[count++] = refused_.front();
    refused_.pop_front();
  }
  return count;
}

void IbvCompletionQueue::arm(bool solicited_only) {
  TERN_ASSERT(queue->channel != nullptr);
  TERN_ASSERT(ibv_req_notify_cq(queue, solicited_only) == 0);
}

void IbvCompletionQueue::forget_refused_of(uint32_t queue_pair) {
  std::erase_if(refused_, [queue_pair](const Completion& entry) { return entry.queue_pair == queue_pair; });
}

Error IbvHca::make_srq(const SharedReceiveQueueOptions& options, std::unique_ptr<SharedReceiveQueue>& result) {
  auto made = std::make_unique<IbvSharedReceiveQueue>(*this);
  ibv_srq_init_attr_ex attributes{};
  attributes.srq_context = made.get();
  attributes.attr.max_wr = options.depth;
  attributes.attr.max_sge = options.pieces;
  if (!options.addressed) {
    ibv_srq_init_attr plain{attributes.srq_context, attributes.attr};
    made->queue = verbs().create_srq(domain_, &plain);
    if (!made->queue) return ibv_failure("no shared receive queue", errno);
  } else {
    if (!capabilities_.xrc)
      return Error(ErrorClass::unsupported_operation, "the RDMA adapter " + capabilities_.device + " has no XRC");
    TERN_ASSERT(options.completions != nullptr);
    attributes.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
    attributes.srq_type = IBV_SRQT_XRC;
    attributes.xrcd = xrc_domain_;
    attributes.cq = static_cast<IbvCompletionQueue*>(options.completions)->queue;
    attributes.pd = domain_;
    made->queue = verbs_get_ctx(context_)->create_srq_ex(context_, &attributes);
    if (!made->queue) return ibv_failure("no shared receive queue for XRC", errno);
    uint32_t number = 0;
    if (int failure = verbs_get_ctx(context_)->get_srq_num(made->queue, &number))
      return ibv_failure("a shared receive queue without number", failure);
    made->set_number(number);
  }
  result = std::move(made);
  return {};
}

IbvSharedReceiveQueue::~IbvSharedReceiveQueue() {
  if (queue) TERN_ASSERT(hca_.verbs().destroy_srq(queue) == 0);
}

size_t IbvSharedReceiveQueue::post(std::span<const ReceiveRequest> requests) {
  return post_receive_chain(
      requests, [&](ibv_recv_wr* chain, ibv_recv_wr** refused) { return ibv_post_srq_recv(queue, chain, refused); });
}

void IbvSharedReceiveQueue::arm_limit(uint32_t limit) {
  ibv_srq_attr attributes{};
  attributes.srq_limit = limit;
  TERN_ASSERT(hca_.verbs().modify_srq(queue, &attributes, IBV_SRQ_LIMIT) == 0);
}

}  // namespace tern::rdma
