#include "tests/sim/verbs_driver.h"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/sim/verbs_driver_objects.h"

namespace tern::sim {
namespace {

// --- Completions and events.

ibv_wc_status code_of(Status status) {
  switch (status) {
    case Status::success: return IBV_WC_SUCCESS;
    case Status::local_length: return IBV_WC_LOC_LEN_ERR;
    case Status::local_queue_pair: return IBV_WC_LOC_QP_OP_ERR;
    case Status::local_protection: return IBV_WC_LOC_PROT_ERR;
    case Status::flushed: return IBV_WC_WR_FLUSH_ERR;
    case Status::remote_invalid_request: return IBV_WC_REM_INV_REQ_ERR;
    case Status::remote_access: return IBV_WC_REM_ACCESS_ERR;
    case Status::remote_operation: return IBV_WC_REM_OP_ERR;
    case Status::retry_exceeded: return IBV_WC_RETRY_EXC_ERR;
    case Status::rnr_retry_exceeded: return IBV_WC_RNR_RETRY_EXC_ERR;
    case Status::aborted: return IBV_WC_REM_ABORT_ERR;
    case Status::fatal: return IBV_WC_FATAL_ERR;
    case Status::other: break;
  }
  return IBV_WC_GENERAL_ERR;
}

ibv_wc_opcode code_of(CompletionKind kind) {
  switch (kind) {
    case CompletionKind::send: return IBV_WC_SEND;
    case CompletionKind::write: return IBV_WC_RDMA_WRITE;
    case CompletionKind::read: return IBV_WC_RDMA_READ;
    case CompletionKind::atomic: return IBV_WC_FETCH_ADD;
    case CompletionKind::receive: return IBV_WC_RECV;
    case CompletionKind::receive_write: break;
  }
  return IBV_WC_RECV_RDMA_WITH_IMM;
}

int poll_cq(ibv_cq* queue, int most, ibv_wc* entries) {
  std::vector<Completion> found(size_t(most), Completion{});
  const size_t count = mine<DriverCq>(queue).of->poll(found.data(), found.size());
  VerbsContext& context = context_of(queue->context);
  for (size_t i = 0; i < count; ++i) {
    const Completion& from = found[i];
    ibv_wc& to = entries[i];
    to = {};
    to.wr_id = from.id;
    to.status = code_of(from.status);
    to.opcode = code_of(from.kind);
    to.vendor_err = from.vendor_error;
    to.byte_len = from.bytes;
    to.imm_data = htonl(from.immediate);
    to.wc_flags = from.has_immediate ? IBV_WC_WITH_IMM : 0;
    to.qp_num = from.queue_pair;
    to.src_qp = from.source_number;
    auto pair = context.pairs.find(from.queue_pair);
    if (pair == context.pairs.end()) continue;
    for (std::deque<DriverPair::Out>& out = pair->second->out; !out.empty();) {
      const DriverPair::Out over = out.front();
      out.pop_front();
      if (over.signaled || over.id == from.id) break;
    }
  }
  return int(count);
}

int take_event(ibv_context* of, ibv_async_event* event) {
  VerbsContext& context = context_of(of);
  AsyncEvent from;
  while (context.adapter->take_event(from)) {
    auto pair = context.pairs.find(from.number);
    *event = {};
    switch (from.kind) {
      case AsyncEventKind::queue_pair_error:
      case AsyncEventKind::srq_drained:
        if (pair == context.pairs.end()) continue;
        event->event_type =
            from.kind == AsyncEventKind::srq_drained ? IBV_EVENT_QP_LAST_WQE_REACHED : IBV_EVENT_QP_FATAL;
        event->element.qp = &pair->second->base.qp_base;
        return 0;
      case AsyncEventKind::srq_limit:
        event->event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
        event->element.srq = &context.srqs.at(from.srq)->base;
        return 0;
      case AsyncEventKind::port_down:
      case AsyncEventKind::port_up:
        event->event_type = from.kind == AsyncEventKind::port_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE;
        event->element.port_num = 1;
        return 0;
      case AsyncEventKind::completion_overrun:
      case AsyncEventKind::fatal: event->event_type = IBV_EVENT_DEVICE_FATAL; return 0;
    }
  }
  return -1;
}

template <typename Queue, typename Post>
int post_receives(Queue& queue, ibv_recv_wr* chain, ibv_recv_wr** refused, Post post) {
  for (; chain; chain = chain->next) {
    const ReceiveRequest request{chain->wr_id, pieces_of(chain->sg_list), uint32_t(chain->num_sge)};
    if (post(queue, request) == 1) continue;
    *refused = chain;
    return ENOMEM;
  }
  return 0;
}

// --- The other objects.

ibv_srq* make_srq(ibv_context* of, const SharedReceiveQueueOptions& options, void* name) {
  auto made = std::make_unique<DriverSrq>();
  VerbsContext& context = context_of(of);
  if (Error error = context.adapter->make_srq(options, made->of)) {
    fail_with(error);
    return nullptr;
  }
  made->base.context = of;
  made->base.srq_context = name;
  context.srqs[made->of.get()] = made.get();
  return &made.release()->base;
}

ibv_mr* register_region(ibv_pd* domain, void* address, size_t bytes, int flags) {
  auto made = std::make_unique<DriverRegion>();
  Access access;
  access.local_write = flags & IBV_ACCESS_LOCAL_WRITE;
  access.remote_read = flags & IBV_ACCESS_REMOTE_READ;
  access.remote_write = flags & IBV_ACCESS_REMOTE_WRITE;
  access.remote_atomic = flags & IBV_ACCESS_REMOTE_ATOMIC;
  access.polled = true;  // verbs cannot say it
  if (Error error = context_of(domain->context).adapter->register_memory(address, bytes, access, made->of)) {
    fail_with(error);
    return nullptr;
  }
  made->base.lkey = made->of->local_key();
  made->base.rkey = made->of->remote_key();
  return &made.release()->base;
}

std::shared_ptr<const IbvLibrary> made_up_library() {
  auto library = std::make_shared<IbvLibrary>();
  library->open_device = [](ibv_device* device) { return &mine<VerbsContext>(device).verbs.context; };
  library->close_device = [](ibv_context* context) { return close(context->async_fd); };
  library->alloc_pd = [](ibv_context* context) { return new ibv_pd{context, 0}; };
  library->dealloc_pd = [](ibv_pd* domain) { return destroy(domain); };
  library->reg_mr = register_region;
  library->dereg_mr = [](ibv_mr* region) { return destroy(&mine<DriverRegion>(region)); };
  library->create_comp_channel = [](ibv_context* context) {
    auto* made = new DriverChannel;
    made->base.context = context;
    made->base.fd = eventfd(0, EFD_CLOEXEC);
    EXPECT_FALSE(context_of(context).adapter->make_channel(made->of));
    return &made->base;
  };
  library->destroy_comp_channel = [](ibv_comp_channel* channel) {
    close(channel->fd);
    return destroy(&mine<DriverChannel>(channel));
  };
  library->get_cq_event = [](ibv_comp_channel* channel, ibv_cq**, void**) {
    mine<DriverChannel>(channel).of->drain();
    return -1;
  };
  library->ack_cq_events = [](ibv_cq*, unsigned) {};
  library->create_cq = [](ibv_context* context, int depth, void* name, ibv_comp_channel* channel, int) -> ibv_cq* {
    auto made = std::make_unique<DriverCq>();
    made->base.context = context;
    made->base.cq_context = name;
    made->base.channel = channel;
    const CompletionQueueOptions options{uint32_t(depth), channel ? mine<DriverChannel>(channel).of.get() : nullptr};
    if (context_of(context).adapter->make_completion_queue(options, made->of)) return nullptr;
    return &made.release()->base;
  };
  library->destroy_cq = [](ibv_cq* queue) { return destroy(&mine<DriverCq>(queue)); };
  library->create_srq = [](ibv_pd* domain, ibv_srq_init_attr* attributes) {
    return make_srq(domain->context, {attributes->attr.max_wr, attributes->attr.max_sge, false, nullptr},
                    attributes->srq_context);
  };
  library->modify_srq = [](ibv_srq* queue, ibv_srq_attr* attributes, int) {
    mine<DriverSrq>(queue).of->arm_limit(attributes->srq_limit);
    return 0;
  };
  library->destroy_srq = [](ibv_srq* queue) {
    DriverSrq& mine_ = mine<DriverSrq>(queue);
    context_of(queue->context).srqs.erase(mine_.of.get());
    return destroy(&mine_);
  };
  library->create_qp = [](ibv_pd* domain, ibv_qp_init_attr* from) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_context = from->qp_context;
    attributes.send_cq = from->send_cq;
    attributes.recv_cq = from->recv_cq;
    attributes.srq = from->srq;
    attributes.cap = from->cap;
    return make_pair(context_of(domain->context), attributes,
                     from->qp_type == IBV_QPT_UD ? QueuePairKind::ud : QueuePairKind::rc, 0);
  };
  library->modify_qp = modify_pair;
  library->destroy_qp = destroy_pair;
  library->qp_to_qp_ex = [](ibv_qp* pair) { return reinterpret_cast<ibv_qp_ex*>(pair); };
  library->create_ah = [](ibv_pd* domain, ibv_ah_attr* attributes) -> ibv_ah* {
    auto made = std::make_unique<DriverAddressHandle>();
    if (context_of(domain->context).adapter->make_address_handle(port_of(*attributes), made->of)) return nullptr;
    return &made.release()->base;
  };
  library->destroy_ah = [](ibv_ah* address_handle) { return destroy(&mine<DriverAddressHandle>(address_handle)); };
  library->get_async_event = take_event;
  library->ack_async_event = [](ibv_async_event*) {};
  library->mlx5.create_qp = make_direct_pair;
  library->mlx5.qp_ex_from_ibv_qp_ex = [](ibv_qp_ex* pair) { return &pair_of(pair).direct.base; };
  return library;
}

void set_inlined_verbs(verbs_context& verbs) {
  verbs.sz = sizeof verbs;
  ibv_context& context = verbs.context;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.async_fd = eventfd(0, EFD_CLOEXEC);
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = [](ibv_cq* queue, int solicited_only) {
    mine<DriverCq>(queue).of->arm(solicited_only != 0);
    return 0;
  };
  context.ops.post_send = post_send;
  context.ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* chain, ibv_recv_wr** refused) {
    return post_receives(*pair_of(qp).of, chain, refused, [](QueuePair& pair, const ReceiveRequest& one) {
      return pair.post_receives({&one, 1});
    });
  };
  context.ops.post_srq_recv = [](ibv_srq* srq, ibv_recv_wr* chain, ibv_recv_wr** refused) {
    return post_receives(*mine<DriverSrq>(srq).of, chain, refused,
                         [](SharedReceiveQueue& queue, const ReceiveRequest& one) {
                           return queue.post({&one, 1});
                         });
  };
  verbs.open_xrcd = [](ibv_context* owner, ibv_xrcd_init_attr*) -> ibv_xrcd* {
    return context_of(owner).adapter->capabilities().xrc ? new ibv_xrcd{owner} : nullptr;
  };
  verbs.close_xrcd = [](ibv_xrcd* domain) { return destroy(domain); };
  verbs.create_srq_ex = [](ibv_context* owner, ibv_srq_init_attr_ex* attributes) {
    return make_srq(owner,
                    {attributes->attr.max_wr, attributes->attr.max_sge, true, mine<DriverCq>(attributes->cq).of.get()},
                    attributes->srq_context);
  };
  verbs.get_srq_num = [](ibv_srq* queue, uint32_t* number) {
    *number = mine<DriverSrq>(queue).of->number();
    return 0;
  };
  verbs.create_qp_ex = [](ibv_context* owner, ibv_qp_init_attr_ex* attributes) {
    const bool send = attributes->qp_type == IBV_QPT_XRC_SEND;
    return make_pair(context_of(owner), *attributes, send ? QueuePairKind::xrc_initiator : QueuePairKind::xrc_target,
                     0);
  };
}

}  // namespace

VerbsHca::VerbsHca(std::unique_ptr<Hca> adapter) : context_(std::make_unique<VerbsContext>()) {
  IbvPort port;
  port.device = "made_up";
  port.mtu = IBV_MTU_4096;
  std::memcpy(port.gid.bytes, adapter->port().bytes, sizeof port.gid.bytes);
  port.capabilities = adapter->capabilities();
  port.capabilities.provider = "ibv";
  port.capabilities.device = port.device;
  port.capabilities.max_inline_bytes = 0;  // found by trying
  port.capabilities.shared_xrc = false;    // each rank has a domain of its own
  port.capabilities.atomic_swap = false;   // the provider has none
  port.capabilities.dc = false;            // found by trying
  port.capabilities.register_ns = port.capabilities.register_page_ns = 0;
  context_->adapter = std::move(adapter);
  set_inlined_verbs(context_->verbs);
  Tunables tunables;
  auto provider = std::make_unique<IbvHca>(made_up_library(), port, tunables, 1);
  const Error error = provider->open(reinterpret_cast<ibv_device*>(context_.get()));
  EXPECT_FALSE(error) << error.text();
  port_ = provider->port();
  capabilities_ = provider->capabilities();
  // Measured by the real clock: not the same in each run.
  capabilities_.register_ns = context_->adapter->capabilities().register_ns;
  capabilities_.register_page_ns = context_->adapter->capabilities().register_page_ns;
  provider_ = std::move(provider);
}

VerbsHca::~VerbsHca() = default;

Error VerbsHca::make_channel(std::unique_ptr<EventChannel>& result) { return provider_->make_channel(result); }
Error VerbsHca::make_completion_queue(const CompletionQueueOptions& options, std::unique_ptr<CompletionQueue>& result) {
  return provider_->make_completion_queue(options, result);
}
Error VerbsHca::make_srq(const SharedReceiveQueueOptions& options, std::unique_ptr<SharedReceiveQueue>& result) {
  return provider_->make_srq(options, result);
}
Error VerbsHca::make_queue_pair(const QueuePairOptions& options, std::unique_ptr<QueuePair>& result) {
  context_->next_options = &options;
  Error error = provider_->make_queue_pair(options, result);
  context_->next_options = nullptr;
  return error;
}
Error VerbsHca::make_address_handle(const PortAddress& port, std::unique_ptr<AddressHandle>& result) {
  return provider_->make_address_handle(port, result);
}
Error VerbsHca::register_memory(void* address, size_t bytes, const Access& access,
                                std::unique_ptr<MemoryRegion>& result) {
  return provider_->register_memory(address, bytes, access, result);
}
bool VerbsHca::take_event(AsyncEvent& event) { return provider_->take_event(event); }
void VerbsHca::observe() { context_->adapter->observe(); }
uint64_t VerbsHca::direct_requests() const { return context_->direct_requests; }

}  // namespace tern::sim
