// Provider `ibv`: the adapter itself, and what is made from it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/clock.h"
#include "fabric/rdma/verbs/ibv_objects.h"

namespace tern::rdma {
namespace {

IbvPortAddress read_address(const PortAddress& from) {
  IbvPortAddress address;
  memcpy(&address, from.bytes, sizeof address);
  return address;
}

PortAddress write_address(const IbvPort& port) {
  IbvPortAddress address{};
  memcpy(address.gid, port.gid.bytes, sizeof address.gid);
  address.lid[0] = uint8_t(port.lid);
  address.lid[1] = uint8_t(port.lid >> 8);
  address.mtu = uint8_t(port.mtu);
  address.infiniband = port.infiniband;
  PortAddress result;
  memcpy(result.bytes, &address, sizeof address);
  return result;
}

uint16_t lid_of(const IbvPortAddress& address) { return uint16_t(address.lid[0] | address.lid[1] << 8); }

void set_nonblocking(int descriptor) { fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK); }

// "mlx5_0:2,mlx5_1" -> the entry for this rank.
std::string own_device(std::string_view list, int local_rank) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) names.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names.empty() ? std::string() : names[size_t(local_rank) % names.size()];
}

}  // namespace

Error ibv_failure(std::string_view what, int system_error) {
  std::string text = fmt::format("{}: {}", what, strerror(system_error));
  if (system_error == ENOMEM || system_error == EAGAIN)
    text += " (is `ulimit -l`, the limit of locked memory, too low? RDMA wants it unlimited)";
  return Error(ErrorClass::other, std::move(text));
}

Error open_ibv(const IbvOptions& options, const Tunables& tunables, std::unique_ptr<Hca>& result) {
  std::string why_not;
  const std::vector<IbvPort> ports = find_ibv_ports(tunables, why_not);
  if (ports.empty()) return Error(ErrorClass::other, std::move(why_not));
  const std::string wanted =
      options.device.empty() ? own_device(tunables.rdma_devices, options.local_rank) : options.device;
  const auto port = std::find_if(ports.begin(), ports.end(), [&](const IbvPort& p) {
    return wanted.empty() || wanted == p.device || wanted == fmt::format("{}:{}", p.device, p.port);
  });
  if (port == ports.end())
    return Error(ErrorClass::arg,
                 fmt::format("there is no RDMA adapter '{}'; `tern-info` lists those that are there", wanted));
  if (!port->why_not.empty())
    return Error(ErrorClass::other,
                 fmt::format("RDMA adapter {}, port {}: {}", port->device, port->port, port->why_not));

  std::shared_ptr<const IbvLibrary> library = IbvLibrary::load(why_not);
  int count = 0;
  ibv_device** devices = library->get_device_list(&count);
  Error error(ErrorClass::other, fmt::format("RDMA adapter {} has gone", port->device));
  for (int i = 0; i < count; ++i) {
    if (port->device != library->get_device_name(devices[i])) continue;
    auto hca = std::make_unique<IbvHca>(library, *port, tunables, options.seed);
    error = hca->open(devices[i]);
    if (!error) result = std::move(hca);
    break;
  }
  library->free_device_list(devices);
  return error;
}

IbvHca::IbvHca(std::shared_ptr<const IbvLibrary> library, const IbvPort& port, const Tunables& tunables, uint64_t seed)
    : library_(std::move(library)),
      port_found_(port),
      service_level_(uint8_t(tunables.rdma_service_level)),
      traffic_class_(uint8_t(tunables.rdma_traffic_class)),
      rng_(seed) {
  port_ = write_address(port);
  capabilities_ = port.capabilities;
}

IbvHca::~IbvHca() {
  TERN_ASSERT(queue_pairs_.empty());
  if (xrc_domain_) verbs_get_ctx(context_)->close_xrcd(xrc_domain_);
  if (domain_) verbs().dealloc_pd(domain_);
  if (context_) verbs().close_device(context_);
}

Error IbvHca::open(ibv_device* device) {
  context_ = verbs().open_device(device);
  if (!context_) return ibv_failure(fmt::format("RDMA adapter {} cannot be opened", port_found_.device), errno);
  domain_ = verbs().alloc_pd(context_);
  if (!domain_) return ibv_failure("no protection domain", errno);
  set_nonblocking(context_->async_fd);
  find_inline_limit();
  measure_registration();
  find_xrc();
  find_dc();
  return {};
}

// Verbs cannot be asked for the limit: try queue pairs of falling limits; the driver rounds up what it accepts.
void IbvHca::find_inline_limit() {
  ibv_cq* queue = verbs().create_cq(context_, 1, nullptr, nullptr, 0);
  if (!queue) return;
  for (uint32_t bytes = 1024; bytes >= 16 && capabilities_.max_inline_bytes == 0; bytes /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = bytes;
    if (ibv_qp* pair = verbs().create_qp(domain_, &attributes)) {
      capabilities_.max_inline_bytes = attributes.cap.max_inline_data;
      verbs().destroy_qp(pair);
    }
  }
  verbs().destroy_cq(queue);
}

// Measures what pinning costs here, by a few registrations: protocols weigh it against copying.
void IbvHca::measure_registration() {
  constexpr size_t kPage = 4096, kPages = 64;  // one page, and many of them, give both parts of the cost
  void* memory =
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return;
  RealClock clock;
  auto best_of_three = [&](size_t bytes) {
    uint64_t best = ~uint64_t{0};
    for (int i = 0; i < 3; ++i) {
      const uint64_t begin = clock.now_ns();
      std::unique_ptr<MemoryRegion> region;
      if (register_memory(memory, bytes, Access{}, region)) return uint64_t{0};
      best = std::min(best, clock.now_ns() - begin);
    }
    return best;
  };
  const uint64_t one = best_of_three(kPage), many = best_of_three(kPages * kPage);
  munmap(memory, kPages * kPage);
  capabilities_.register_ns = one;
  capabilities_.register_page_ns = many > one ? (many - one) / (kPages - 1) : 0;
}

// A device may claim XRC although its driver has no such calls: opening the domain is the test.
void IbvHca::find_xrc() {
  if (!capabilities_.xrc) return;
  capabilities_.xrc = false;
  verbs_context* extended = verbs_get_ctx(context_);
  if (!verbs_get_ctx_op(context_, open_xrcd) || !verbs_get_ctx_op(context_, create_srq_ex) ||
      !verbs_get_ctx_op(context_, create_qp_ex) || !verbs_get_ctx_op(context_, get_srq_num))
    return;
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = -1;
  attributes.oflags = O_CREAT;
  xrc_domain_ = extended->open_xrcd(context_, &attributes);
  capabilities_.xrc = xrc_domain_ != nullptr;
}

Error IbvHca::make_channel(std::unique_ptr<EventChannel>& result) {
  ibv_comp_channel* channel = verbs().create_comp_channel(context_);
  if (!channel) return ibv_failure("no completion channel", errno);
  set_nonblocking(channel->fd);
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  auto made = std::make_unique<IbvEventChannel>(verbs(), channel, poller);
  for (int descriptor : {channel->fd, context_->async_fd}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0)
      return ibv_failure("no epoll for RDMA events", errno);
  }
  result = std::move(made);
  return {};
}

Error IbvHca::make_address_handle(const PortAddress& port, std::unique_ptr<AddressHandle>& result) {
  ibv_ah_attr attributes = route_to(port);
  ibv_ah* handle = verbs().create_ah(domain_, &attributes);
  if (!handle) return ibv_failure("no way to the peer's RDMA port", errno);
  result = std::make_unique<IbvAddressHandle>(verbs(), handle);
  return {};
}

Error IbvHca::register_memory(void* address, size_t bytes, const Access& access,
                              std::unique_ptr<MemoryRegion>& result) {
  unsigned flags = 0;
  if (access.local_write || access.remote_write || access.remote_atomic) flags |= IBV_ACCESS_LOCAL_WRITE;
  if (access.remote_read) flags |= IBV_ACCESS_REMOTE_READ;
  if (access.remote_write) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (access.remote_atomic) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mr* region = verbs().reg_mr(domain_, address, bytes, int(flags));
  if (!region) return ibv_failure(fmt::format("{} bytes cannot be registered with the RDMA adapter", bytes), errno);
  result = std::make_unique<IbvMemoryRegion>(verbs(), region);
  return {};
}

ibv_ah_attr IbvHca::route_to(const PortAddress& peer) const {
  const IbvPortAddress to = read_address(peer);
  ibv_ah_attr attributes{};
  attributes.port_num = uint8_t(port_found_.port);
  attributes.sl = service_level_;
  attributes.dlid = lid_of(to);
  // On InfiniBand a global header is needed between subnets only (the first half of the address is the subnet's).
  const bool one_subnet = to.lid[0] + to.lid[1] != 0 && memcmp(to.gid, port_found_.gid.bytes, 8) == 0;
  if (port_found_.infiniband && one_subnet) return attributes;
  attributes.is_global = 1;
  memcpy(attributes.grh.dgid.raw, to.gid, sizeof to.gid);
  attributes.grh.sgid_index = uint8_t(port_found_.gid.index);
  attributes.grh.hop_limit = 64;
  attributes.grh.traffic_class = traffic_class_;
  return attributes;
}

ibv_mtu IbvHca::mtu_with(const PortAddress& peer) const {
  return ibv_mtu(std::min(int(read_address(peer).mtu), port_found_.mtu));
}

void IbvHca::on_queue_pair_error(uint32_t number) {
  auto found = queue_pairs_.find(number);
  if (found != queue_pairs_.end()) found->second->on_error();
}

bool IbvHca::take_event(AsyncEvent& event) {
  ibv_async_event from;
  while (verbs().get_async_event(context_, &from) == 0) {
    const bool known = translate(from, event);
    verbs().ack_async_event(&from);
    if (known) return true;
  }
  return false;
}

bool IbvHca::translate(const ibv_async_event& from, AsyncEvent& event) {
  event = {};
  switch (from.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
      event.kind = AsyncEventKind::queue_pair_error;
      event.number = from.element.qp->qp_num;
      on_queue_pair_error(event.number);
      return true;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      event.kind = AsyncEventKind::srq_drained;
      event.number = from.element.qp->qp_num;
      return true;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      event.kind = AsyncEventKind::srq_limit;
      event.srq = static_cast<IbvSharedReceiveQueue*>(from.element.srq->srq_context);
      event.number = event.srq->number();
      return true;
    case IBV_EVENT_CQ_ERR:
      event.kind = AsyncEventKind::completion_overrun;
      event.queue = static_cast<IbvCompletionQueue*>(from.element.cq->cq_context);
      return true;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      if (from.element.port_num != port_found_.port) return false;
      event.kind = from.event_type == IBV_EVENT_PORT_ERR ? AsyncEventKind::port_down : AsyncEventKind::port_up;
      return true;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_SRQ_ERR: event.kind = AsyncEventKind::fatal; return true;
    default:  // address tables and subnet managers: the address in use is fixed when the port is opened
      return false;
  }
}

}  // namespace tern::rdma
