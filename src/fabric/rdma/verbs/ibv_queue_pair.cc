// Provider `ibv`: queue pairs RC, UD and XRC (DC: ibv_dc.cc). States after the InfiniBand Architecture, 10.3.1: idle is
// INIT (receives may be posted), ready is RTS.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "fabric/rdma/verbs/ibv_objects.h"

namespace tern::rdma {
namespace {

constexpr unsigned kAllAccess = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

// Waiting times that a 5-bit code stands for (IBA, table 45), in units of 10 us: 0 is the longest.
uint8_t ibv_rnr_code(uint64_t wait_ns) {
  static constexpr uint32_t kTensOfMicroseconds[] = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (uint8_t code = 1; code < 32; ++code)
    if (uint64_t(kTensOfMicroseconds[code]) * 10'000 >= wait_ns) return code;
  return 0;
}

// 4.096 us times 2 to the code; 0 would be for ever.
uint8_t ibv_timeout_code(uint64_t timeout_ns) {
  uint8_t code = 1;
  while (code < 31 && (uint64_t{4096} << code) < timeout_ns) ++code;
  return code;
}

namespace {

ibv_wr_opcode opcode_of(Verb verb) {
  switch (verb) {
    case Verb::send: return IBV_WR_SEND;
    case Verb::send_immediate: return IBV_WR_SEND_WITH_IMM;
    case Verb::write: return IBV_WR_RDMA_WRITE;
    case Verb::write_immediate: return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Verb::read: return IBV_WR_RDMA_READ;
    case Verb::compare_swap: return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Verb::fetch_add: return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Verb::swap: break;  // capabilities().atomic_swap is false
  }
  assertion_failed("the verb exists on this adapter", __FILE__, __LINE__);
}

ibv_qp_type type_of(QueuePairKind kind) {
  switch (kind) {
    case QueuePairKind::ud: return IBV_QPT_UD;
    case QueuePairKind::xrc_initiator: return IBV_QPT_XRC_SEND;
    case QueuePairKind::xrc_target: return IBV_QPT_XRC_RECV;
    case QueuePairKind::dc_initiator:
    case QueuePairKind::dc_target: return IBV_QPT_DRIVER;
    default: return IBV_QPT_RC;
  }
}

ibv_cq* queue_of(CompletionQueue* queue) { return queue ? static_cast<IbvCompletionQueue*>(queue)->queue : nullptr; }

ibv_send_wr translate(const WorkRequest& work, QueuePairKind kind) {
  ibv_send_wr to{};
  to.wr_id = work.id;
  to.sg_list = as_verbs(work.pieces);
  to.num_sge = int(work.piece_count);
  to.opcode = opcode_of(work.verb);
  to.send_flags = send_flags(work);
  to.imm_data = htonl(work.immediate);
  if (kind == QueuePairKind::ud) {
    to.wr.ud.ah = static_cast<const IbvAddressHandle*>(work.address_handle)->handle;
    to.wr.ud.remote_qpn = work.remote_number;
    to.wr.ud.remote_qkey = uint32_t(work.remote_key_of_queue);
    return to;
  }
  if (kind == QueuePairKind::xrc_initiator) to.qp_type.xrc.remote_srqn = work.remote_srq;
  if (work.verb == Verb::compare_swap || work.verb == Verb::fetch_add) {
    to.wr.atomic.remote_addr = work.remote_address;
    to.wr.atomic.rkey = work.remote_key;
    to.wr.atomic.compare_add = work.verb == Verb::fetch_add ? work.operand : work.compare;
    to.wr.atomic.swap = work.operand;
  } else {
    to.wr.rdma.remote_addr = work.remote_address;
    to.wr.rdma.rkey = work.remote_key;
  }
  return to;
}

}  // namespace

Error IbvHca::make_queue_pair(const QueuePairOptions& options, std::unique_ptr<QueuePair>& result) {
  const bool xrc = options.kind == QueuePairKind::xrc_initiator || options.kind == QueuePairKind::xrc_target;
  const bool dc = options.kind == QueuePairKind::dc_initiator || options.kind == QueuePairKind::dc_target;
  if ((xrc && !capabilities_.xrc) || (dc && !capabilities_.dc)) {
    return Error(ErrorClass::unsupported_operation,
                 fmt::format("the RDMA adapter {} has no {}{}", capabilities_.device,
                             xrc ? "XRC" : "DC: ", xrc ? std::string() : port_found_.why_no_dc));
  }
  auto made = std::make_unique<IbvQueuePair>(*this, options);
  if (Error error = made->create()) return error;
  result = std::move(made);
  return {};
}

Error IbvQueuePair::create() {
  if (Error error = is_dc() ? create_dc() : create_plain()) return error;
  address_.port = hca_.port();
  address_.number = pair_->qp_num;
  address_.key = options_.key;
  if (Error error = begin()) return error;
  // A dc_target has its number only now.
  address_.number = pair_->qp_num;
  hca_.queue_pairs().emplace(address_.number, this);
  return {};
}

Error IbvQueuePair::create_plain() {
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_context = this;
  attributes.send_cq = queue_of(options_.sends);
  attributes.recv_cq = queue_of(options_.receives);
  attributes.srq = options_.srq ? static_cast<IbvSharedReceiveQueue*>(options_.srq)->queue : nullptr;
  attributes.qp_type = type_of(options_.kind);
  attributes.cap.max_send_wr = std::max(options_.send_depth, 1u);
  attributes.cap.max_send_sge = std::max(options_.send_pieces, 1u);
  attributes.cap.max_inline_data = options_.inline_bytes;
  if (!options_.srq) {
    attributes.cap.max_recv_wr = options_.receive_depth;
    attributes.cap.max_recv_sge = std::max(options_.receive_pieces, 1u);
  }
  if (options_.kind == QueuePairKind::rc || options_.kind == QueuePairKind::ud) {
    // Verbs require both queues: an unused side gets the other's.
    if (!attributes.recv_cq) attributes.recv_cq = attributes.send_cq;
    if (!attributes.send_cq) attributes.send_cq = attributes.recv_cq;
    ibv_qp_init_attr plain{attributes.qp_context,
                           attributes.send_cq,
                           attributes.recv_cq,
                           attributes.srq,
                           attributes.cap,
                           attributes.qp_type,
                           0};
    pair_ = hca_.verbs().create_qp(hca_.domain(), &plain);
  } else if (options_.kind == QueuePairKind::xrc_initiator) {
    attributes.recv_cq = nullptr;
    attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.pd = hca_.domain();
    pair_ = verbs_get_ctx(hca_.context())->create_qp_ex(hca_.context(), &attributes);
  } else {
    ibv_qp_init_attr_ex target{};
    target.qp_context = this;
    target.qp_type = attributes.qp_type;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = hca_.xrc_domain();
    pair_ = verbs_get_ctx(hca_.context())->create_qp_ex(hca_.context(), &target);
  }
  return pair_ ? Error() : ibv_failure("no queue pair", errno);
}

IbvQueuePair::~IbvQueuePair() { destroy(); }

void IbvQueuePair::destroy() {
  if (!pair_) return;
  hca_.queue_pairs().erase(address_.number);
  if (options_.sends) static_cast<IbvCompletionQueue*>(options_.sends)->forget_refused_of(address_.number);
  TERN_ASSERT(hca_.verbs().destroy_qp(pair_) == 0);
  pair_ = nullptr;
}

Error IbvQueuePair::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  const int failure = hca_.verbs().modify_qp(pair_, &attributes, mask | IBV_QP_STATE);
  return failure == 0 ? Error() : ibv_failure(fmt::format("queue pair {} cannot be {}", pair_->qp_num, what), failure);
}

Error IbvQueuePair::begin() {
  address_.first_packet = hca_.draw_packet_number();
  if (is_dc()) return begin_dc();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = uint8_t(hca_.own_port().port);
  if (options_.kind == QueuePairKind::ud) {
    attributes.qkey = uint32_t(options_.key);
    if (Error error = modify(attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "initialised")) return error;
    return begin_ud();
  }
  attributes.qp_access_flags = kAllAccess;  // memory regions say what is really allowed
  state_ = State::idle;
  return modify(attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "initialised");
}

Error IbvQueuePair::begin_ud() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  if (Error error = modify(attributes, 0, "made to receive")) return error;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = address_.first_packet;
  if (Error error = modify(attributes, IBV_QP_SQ_PSN, "made to send")) return error;
  state_ = State::ready;
  return {};
}

Error IbvQueuePair::connect(const QueuePairAddress& peer) {
  TERN_ASSERT(options_.kind != QueuePairKind::ud && !is_dc());
  if (state_ != State::idle) return Error(ErrorClass::intern, "a queue pair is connected from its idle state only");
  const Capabilities& can = hca_.capabilities();
  const uint8_t reads = uint8_t(std::min(options_.reads ? options_.reads : can.max_reads, can.max_reads));
  const bool initiates = options_.kind != QueuePairKind::xrc_target,
             answers = options_.kind != QueuePairKind::xrc_initiator;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = hca_.route_to(peer.port);
  attributes.path_mtu = hca_.mtu_with(peer.port);
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = reads;
  attributes.min_rnr_timer = ibv_rnr_code(options_.rnr_wait_ns);
  int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (answers) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (Error error = modify(attributes, mask, "joined with its peer")) return error;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = address_.first_packet;
  attributes.timeout = ibv_timeout_code(options_.timeout_ns);
  attributes.retry_cnt = std::min<uint8_t>(options_.retries, 7);
  attributes.rnr_retry = std::min<uint8_t>(options_.rnr_retries, 7);
  attributes.max_rd_atomic = reads;
  mask = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
  if (initiates) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (Error error = modify(attributes, mask, "made to send")) return error;
  state_ = State::ready;
  return {};
}

void IbvQueuePair::fail() {
  state_ = State::error;
  // A DC target can only be destroyed, not put into the error state.
  if (options_.kind == QueuePairKind::dc_target) return destroy();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  // Fails only if the adapter has failed, which its event reports.
  (void)hca_.verbs().modify_qp(pair_, &attributes, IBV_QP_STATE);
}

Error IbvQueuePair::reset() {
  if (options_.kind == QueuePairKind::dc_target) {
    destroy();
    return create();
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  if (Error error = modify(attributes, 0, "reset")) return error;
  if (options_.sends) static_cast<IbvCompletionQueue*>(options_.sends)->forget_refused_of(address_.number);
  return begin();
}

size_t IbvQueuePair::post(std::span<const WorkRequest> work) {
  TERN_ASSERT(state_ != State::idle);
  if (is_dc()) return post_dc(work);
  size_t taken = 0;
  while (taken < work.size()) {
    ibv_send_wr chain[kChain];
    const size_t count = std::min(work.size() - taken, kChain);
    for (size_t i = 0; i < count; ++i) {
      chain[i] = translate(work[taken + i], options_.kind);
      chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
    }
    ibv_send_wr* refused = nullptr;
    const int failure = ibv_post_send(pair_, chain, &refused);
    if (failure == 0) {
      taken += count;
      continue;
    }
    taken += refused ? size_t(refused - chain) : 0;
    if (failure == ENOMEM) return taken;
    refuse(work[taken++], failure);
  }
  return taken;
}

void IbvQueuePair::refuse(const WorkRequest& work, int system_error) {
  Completion entry;
  entry.id = work.id;
  entry.status = state_ == State::error ? Status::flushed : Status::local_queue_pair;
  entry.queue_pair = address_.number;
  entry.vendor_error = uint32_t(system_error);
  static_cast<IbvCompletionQueue*>(options_.sends)->add_refused(entry);
  if (state_ != State::error) fail();
}

size_t IbvQueuePair::post_receives(std::span<const ReceiveRequest> requests) {
  TERN_ASSERT(options_.srq == nullptr);
  return post_receive_chain(
      requests, [&](ibv_recv_wr* chain, ibv_recv_wr** refused) { return ibv_post_recv(pair_, chain, refused); });
}

}  // namespace tern::rdma
