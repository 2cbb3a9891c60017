// Provider `ibv`: DC, the dynamically connected transport of mlx5 adapters, through their direct verbs
// (mlx5dv_create_qp(3), mlx5dv_wr_post(3)). Each request of an initiator names its target by an address handle, a DCT
// number and an access key. Not tested on an adapter: Soft-RoCE has no DC. Which attributes each state takes follows
// the checks of the kernel's driver (drivers/infiniband/hw/mlx5/qp.c, modify_dci_qp_is_ok and mlx5_ib_modify_dct).
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "fabric/rdma/verbs/ibv_objects.h"

namespace tern::rdma {
namespace {

constexpr uint64_t kSendOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
                                     IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                                     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

void start_request(ibv_qp_ex* pair, const WorkRequest& work) {
  pair->wr_id = work.id;
  pair->wr_flags = send_flags(work);
  switch (work.verb) {
    case Verb::send: return ibv_wr_send(pair);
    case Verb::send_immediate: return ibv_wr_send_imm(pair, htonl(work.immediate));
    case Verb::write: return ibv_wr_rdma_write(pair, work.remote_key, work.remote_address);
    case Verb::write_immediate:
      return ibv_wr_rdma_write_imm(pair, work.remote_key, work.remote_address, htonl(work.immediate));
    case Verb::read: return ibv_wr_rdma_read(pair, work.remote_key, work.remote_address);
    case Verb::compare_swap:
      return ibv_wr_atomic_cmp_swp(pair, work.remote_key, work.remote_address, work.compare, work.operand);
    case Verb::fetch_add: return ibv_wr_atomic_fetch_add(pair, work.remote_key, work.remote_address, work.operand);
    case Verb::swap: break;  // capabilities().atomic_swap is false
  }
  assertion_failed("the verb exists on this adapter", __FILE__, __LINE__);
}

void set_data(ibv_qp_ex* pair, const WorkRequest& work) {
  constexpr uint32_t kMaxInlinePieces = 16;  // as frames have; more are not inlined
  if (!work.inlined) {
    ibv_wr_set_sge_list(pair, work.piece_count, as_verbs(work.pieces));
    return;
  }
  TERN_ASSERT(work.piece_count <= kMaxInlinePieces);
  ibv_data_buf pieces[kMaxInlinePieces];
  for (uint32_t i = 0; i < work.piece_count; ++i) {
    pieces[i] = {reinterpret_cast<void*>(uintptr_t(work.pieces[i].address)), work.pieces[i].bytes};
  }
  ibv_wr_set_inline_data_list(pair, work.piece_count, pieces);
}

}  // namespace

// The library cannot be asked whether an adapter has DC: the test is to make a target.
void IbvHca::find_dc() {
  capabilities_.dc = false;
  if (!port_found_.why_no_dc.empty()) return;
  std::unique_ptr<CompletionQueue> completions;
  std::unique_ptr<SharedReceiveQueue> srq;
  std::unique_ptr<QueuePair> target;
  QueuePairOptions options;
  options.kind = QueuePairKind::dc_target;
  capabilities_.dc = true;  // or make_queue_pair would not try
  Error error = make_completion_queue({1, nullptr}, completions);
  if (!error) error = make_srq({.depth = 1}, srq);
  if (!error) {
    options.receives = completions.get();
    options.srq = srq.get();
    error = make_queue_pair(options, target);
  }
  if (!error) return;
  capabilities_.dc = false;
  port_found_.why_no_dc = fmt::format("the adapter refuses to make a DC target ({})", error.text());
}

Error IbvQueuePair::create_dc() {
  const bool target = options_.kind == QueuePairKind::dc_target;
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_context = this;
  attributes.qp_type = IBV_QPT_DRIVER;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  attributes.pd = hca_.domain();
  mlx5dv_qp_init_attr direct{};
  direct.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  CompletionQueue* queue = target ? options_.receives : options_.sends;
  attributes.send_cq = attributes.recv_cq = static_cast<IbvCompletionQueue*>(queue)->queue;
  if (target) {
    TERN_ASSERT(options_.srq != nullptr);
    attributes.srq = static_cast<IbvSharedReceiveQueue*>(options_.srq)->queue;
    direct.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    direct.dc_init_attr.dct_access_key = options_.key;
  } else {
    attributes.cap.max_send_wr = std::max(options_.send_depth, 1u);
    attributes.cap.max_send_sge = std::max(options_.send_pieces, 1u);
    attributes.cap.max_inline_data = options_.inline_bytes;
    attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.send_ops_flags = kSendOperations;
    if (!hca_.capabilities().atomics)
      attributes.send_ops_flags &= ~uint64_t(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
    direct.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
  }
  pair_ = hca_.verbs().mlx5.create_qp(hca_.context(), &attributes, &direct);
  if (!pair_) return ibv_failure("no DC queue pair", errno);
  if (!target) {
    extended_ = hca_.verbs().qp_to_qp_ex(pair_);
    direct_ = hca_.verbs().mlx5.qp_ex_from_ibv_qp_ex(extended_);
  }
  return {};
}

Error IbvQueuePair::begin_dc() {
  const bool target = options_.kind == QueuePairKind::dc_target;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = uint8_t(hca_.own_port().port);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  int mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | (target ? IBV_QP_ACCESS_FLAGS : 0);
  if (Error error = modify(attributes, mask, "initialised")) return error;
  // The peers are not known yet: only what is the same for all of them is set. An initiator accepts such attributes
  // only since Linux 5.14, and needs none unless a service level was chosen.
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = ibv_mtu(hca_.own_port().mtu);
  attributes.ah_attr = hca_.route_to(hca_.port());
  attributes.min_rnr_timer = ibv_rnr_code(options_.rnr_wait_ns);
  mask = IBV_QP_PATH_MTU;
  if (target) mask |= IBV_QP_AV | IBV_QP_MIN_RNR_TIMER;
  if (!target && attributes.ah_attr.sl != 0) mask |= IBV_QP_AV;
  if (Error error = modify(attributes, mask, "made to receive")) return error;
  state_ = State::ready;
  if (target) return {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = address_.first_packet;
  attributes.timeout = ibv_timeout_code(options_.timeout_ns);
  attributes.retry_cnt = std::min<uint8_t>(options_.retries, 7);
  attributes.rnr_retry = std::min<uint8_t>(options_.rnr_retries, 7);
  attributes.max_rd_atomic = uint8_t(hca_.capabilities().max_reads);
  return modify(attributes,
                IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                "made to send");
}

int IbvQueuePair::post_dc_batch(std::span<const WorkRequest> work) {
  ibv_wr_start(extended_);
  for (const WorkRequest& request : work) {
    start_request(extended_, request);
    mlx5dv_wr_set_dc_addr(direct_, static_cast<const IbvAddressHandle*>(request.address_handle)->handle,
                          request.remote_number, request.remote_key_of_queue);
    set_data(extended_, request);
  }
  return ibv_wr_complete(extended_);
}

// A batch is taken as a whole or not at all: one that does not fit is posted again request by request.
size_t IbvQueuePair::post_dc(std::span<const WorkRequest> work) {
  TERN_ASSERT(options_.kind == QueuePairKind::dc_initiator);
  if (post_dc_batch(work) == 0) return work.size();
  size_t taken = 0;
  for (; taken < work.size(); ++taken) {
    const int failure = post_dc_batch(work.subspan(taken, 1));
    if (failure == ENOMEM) break;
    if (failure != 0) refuse(work[taken], failure);
  }
  return taken;
}

}  // namespace tern::rdma
