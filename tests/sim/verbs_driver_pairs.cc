// The made-up driver's queue pairs: their states, and what is posted to them, by the usual and by direct verbs.
#include <arpa/inet.h>

#include "base/assert.h"
#include "tests/sim/verbs_driver_objects.h"

namespace tern::sim {
namespace {

/// All queue pairs of the world, by port and number: a peer's first packet is what the adapters have agreed on, not
/// what the provider says.
std::map<std::pair<std::string, uint32_t>, DriverPair*>& all_pairs() {
  static std::map<std::pair<std::string, uint32_t>, DriverPair*> all;
  return all;
}

int join(DriverPair& pair, const ibv_qp_attr& attributes) {
  QueuePairAddress peer;
  peer.port = port_of(attributes.ah_attr);
  peer.number = attributes.dest_qp_num;
  peer.first_packet = attributes.rq_psn;
  auto found = all_pairs().find({name_of(peer.port.bytes), peer.number});
  if (found != all_pairs().end()) {
    if (found->second->first_packet != 0) {
      EXPECT_EQ(found->second->first_packet, attributes.rq_psn);
    }
    peer.first_packet = found->second->of->address().first_packet;
  }
  if (Error error = pair.of->connect(peer)) return fail_with(error);
  return 0;
}

Verb verb_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND: return Verb::send;
    case IBV_WR_SEND_WITH_IMM: return Verb::send_immediate;
    case IBV_WR_RDMA_WRITE: return Verb::write;
    case IBV_WR_RDMA_WRITE_WITH_IMM: return Verb::write_immediate;
    case IBV_WR_RDMA_READ: return Verb::read;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return Verb::compare_swap;
    default: EXPECT_EQ(opcode, IBV_WR_ATOMIC_FETCH_AND_ADD); return Verb::fetch_add;
  }
}

void set_flags(WorkRequest& work, unsigned flags) {
  work.signaled = flags & IBV_SEND_SIGNALED;
  work.inlined = flags & IBV_SEND_INLINE;
  work.fenced = flags & IBV_SEND_FENCE;
  work.solicited = flags & IBV_SEND_SOLICITED;
}

// Direct verbs: what is posted waits for `complete`, and is then taken whole or not at all.
WorkRequest& begin_request(ibv_qp_ex* qp, Verb verb, uint32_t key = 0, uint64_t address = 0) {
  DriverPair& pair = pair_of(qp);
  DriverPair::Request& request = pair.batch.emplace_back();
  request.work.id = qp->wr_id;
  request.work.verb = verb;
  set_flags(request.work, qp->wr_flags);
  request.work.remote_key = key;
  request.work.remote_address = address;
  return request.work;
}

int complete_batch(ibv_qp_ex* qp) {
  DriverPair& pair = pair_of(qp);
  if (pair.out.size() + pair.batch.size() > pair.options.send_depth) return ENOMEM;
  for (DriverPair::Request& request : pair.batch) {
    request.work.pieces = request.pieces.data();
    request.work.piece_count = uint32_t(request.pieces.size());
    if (pair.of->post({&request.work, 1}) != 1) {
      ADD_FAILURE() << "the adapter has less room than the driver has counted";
      return EIO;
    }
    pair.out.push_back({request.work.id, request.work.signaled});
    ++context_of(qp->qp_base.context).direct_requests;
  }
  return 0;
}

void set_direct_verbs(DriverPair& pair) {
  ibv_qp_ex& to = pair.base;
  to.wr_start = [](ibv_qp_ex* qp) { pair_of(qp).batch.clear(); };
  to.wr_complete = complete_batch;
  to.wr_send = [](ibv_qp_ex* qp) { begin_request(qp, Verb::send); };
  to.wr_send_imm = [](ibv_qp_ex* qp, __be32 value) {
    begin_request(qp, Verb::send_immediate).immediate = ntohl(value);
  };
  to.wr_rdma_write = [](ibv_qp_ex* qp, uint32_t key, uint64_t at) { begin_request(qp, Verb::write, key, at); };
  to.wr_rdma_write_imm = [](ibv_qp_ex* qp, uint32_t key, uint64_t at, __be32 value) {
    begin_request(qp, Verb::write_immediate, key, at).immediate = ntohl(value);
  };
  to.wr_rdma_read = [](ibv_qp_ex* qp, uint32_t key, uint64_t at) { begin_request(qp, Verb::read, key, at); };
  to.wr_atomic_cmp_swp = [](ibv_qp_ex* qp, uint32_t key, uint64_t at, uint64_t compare, uint64_t swap) {
    WorkRequest& work = begin_request(qp, Verb::compare_swap, key, at);
    work.compare = compare;
    work.operand = swap;
  };
  to.wr_atomic_fetch_add = [](ibv_qp_ex* qp, uint32_t key, uint64_t at, uint64_t add) {
    begin_request(qp, Verb::fetch_add, key, at).operand = add;
  };
  to.wr_set_sge_list = [](ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
    pair_of(qp).batch.back().pieces.assign(pieces_of(list), pieces_of(list) + count);
  };
  to.wr_set_inline_data_list = [](ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
    DriverPair::Request& request = pair_of(qp).batch.back();
    EXPECT_TRUE(request.work.inlined);
    for (size_t i = 0; i < count; ++i)
      request.pieces.push_back({uint64_t(uintptr_t(list[i].addr)), uint32_t(list[i].length), 0});
  };
  pair.direct.base.wr_set_dc_addr = [](mlx5dv_qp_ex* qp, ibv_ah* address_handle, uint32_t number, uint64_t key) {
    WorkRequest& work = mine<DriverPair::Direct>(qp).owner->batch.back().work;
    work.address_handle = mine<DriverAddressHandle>(address_handle).of.get();
    work.remote_number = number;
    work.remote_key_of_queue = key;
  };
}

}  // namespace

ibv_qp* make_pair(VerbsContext& context, const ibv_qp_init_attr_ex& attributes, QueuePairKind kind, uint64_t key) {
  auto made = std::make_unique<DriverPair>();
  if (context.next_options && context.next_options->kind == kind) {
    context.options_of[attributes.qp_context] = *context.next_options;
    context.next_options = nullptr;
  }
  QueuePairOptions& options = made->options = context.options_of[attributes.qp_context];
  options.kind = kind;
  options.sends =
      attributes.send_cq && kind != QueuePairKind::dc_target ? mine<DriverCq>(attributes.send_cq).of.get() : nullptr;
  options.receives =
      attributes.recv_cq && kind != QueuePairKind::dc_initiator ? mine<DriverCq>(attributes.recv_cq).of.get() : nullptr;
  options.srq = attributes.srq ? mine<DriverSrq>(attributes.srq).of.get() : nullptr;
  options.send_depth = attributes.cap.max_send_wr;
  options.send_pieces = attributes.cap.max_send_sge;
  options.receive_depth = attributes.cap.max_recv_wr;
  options.receive_pieces = attributes.cap.max_recv_sge;
  options.inline_bytes = attributes.cap.max_inline_data;
  if (kind == QueuePairKind::dc_target) options.key = key;
  if (options.inline_bytes > context.adapter->capabilities().max_inline_bytes) {
    errno = EINVAL;
    return nullptr;
  }
  if (Error error = context.adapter->make_queue_pair(options, made->of)) {
    fail_with(error);
    return nullptr;
  }
  ibv_qp& base = made->base.qp_base;
  base.context = &context.verbs.context;
  base.qp_context = attributes.qp_context;
  base.qp_num = kind == QueuePairKind::dc_target ? 0 : made->of->number();
  context.pairs[made->of->number()] = made.get();
  all_pairs()[{name_of(made->of->address().port.bytes), made->of->number()}] = made.get();
  return &made.release()->base.qp_base;
}

int destroy_pair(ibv_qp* qp) {
  DriverPair& pair = pair_of(qp);
  context_of(qp->context).pairs.erase(pair.of->number());
  all_pairs().erase({name_of(pair.of->address().port.bytes), pair.of->number()});
  return destroy(&pair);
}

int modify_pair(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  DriverPair& pair = pair_of(qp);
  const QueuePairOptions& options = pair.options;
  const bool dc = options.kind == QueuePairKind::dc_initiator || options.kind == QueuePairKind::dc_target;
  switch (attributes->qp_state) {
    case IBV_QPS_RESET:
      pair.out.clear();
      pair.first_packet = 0;
      if (Error error = pair.of->reset()) return fail_with(error);
      return 0;
    case IBV_QPS_ERR: pair.of->fail(); return 0;
    case IBV_QPS_INIT:
      if (mask & IBV_QP_QKEY) {
        EXPECT_EQ(attributes->qkey, uint32_t(options.key));
      }
      return 0;
    case IBV_QPS_RTR:
      if (mask & IBV_QP_MIN_RNR_TIMER) {
        EXPECT_EQ(attributes->min_rnr_timer, ibv_rnr_code(options.rnr_wait_ns));
      }
      if (options.kind == QueuePairKind::dc_target) qp->qp_num = pair.of->number();
      return options.kind == QueuePairKind::ud || dc ? 0 : join(pair, *attributes);
    case IBV_QPS_RTS:
      pair.first_packet = attributes->sq_psn;
      if (mask & IBV_QP_TIMEOUT) {
        EXPECT_EQ(attributes->timeout, ibv_timeout_code(options.timeout_ns));
      }
      if (mask & IBV_QP_RETRY_CNT) {
        EXPECT_EQ(attributes->retry_cnt, options.retries);
      }
      if (mask & IBV_QP_RNR_RETRY) {
        EXPECT_EQ(attributes->rnr_retry, options.rnr_retries);
      }
      return 0;
    default: return EINVAL;
  }
}

int post_send(ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
  DriverPair& pair = pair_of(qp);
  for (; chain; chain = chain->next) {
    WorkRequest work;
    work.id = chain->wr_id;
    work.verb = verb_of(chain->opcode);
    set_flags(work, chain->send_flags);
    work.immediate = ntohl(chain->imm_data);
    work.pieces = pieces_of(chain->sg_list);
    work.piece_count = uint32_t(chain->num_sge);
    if (pair.options.kind == QueuePairKind::ud) {
      work.address_handle = mine<DriverAddressHandle>(chain->wr.ud.ah).of.get();
      work.remote_number = chain->wr.ud.remote_qpn;
      work.remote_key_of_queue = chain->wr.ud.remote_qkey;
    } else if (work.verb == Verb::compare_swap || work.verb == Verb::fetch_add) {
      work.remote_address = chain->wr.atomic.remote_addr;
      work.remote_key = chain->wr.atomic.rkey;
      work.compare = chain->wr.atomic.compare_add;
      work.operand = work.verb == Verb::fetch_add ? chain->wr.atomic.compare_add : chain->wr.atomic.swap;
    } else {
      work.remote_address = chain->wr.rdma.remote_addr;
      work.remote_key = chain->wr.rdma.rkey;
    }
    if (pair.options.kind == QueuePairKind::xrc_initiator) work.remote_srq = chain->qp_type.xrc.remote_srqn;
    if (pair.of->post({&work, 1}) == 1) continue;
    *refused = chain;
    return ENOMEM;
  }
  return 0;
}

ibv_qp* make_direct_pair(ibv_context* context, ibv_qp_init_attr_ex* attributes, mlx5dv_qp_init_attr* direct) {
  EXPECT_EQ(attributes->qp_type, IBV_QPT_DRIVER);
  const bool target = direct->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
  ibv_qp* made =
      make_pair(context_of(context), *attributes, target ? QueuePairKind::dc_target : QueuePairKind::dc_initiator,
                direct->dc_init_attr.dct_access_key);
  if (made && !target) set_direct_verbs(pair_of(made));
  return made;
}

}  // namespace tern::sim
