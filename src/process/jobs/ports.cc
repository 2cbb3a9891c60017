#include "process/jobs/ports.h"

#include <sodium.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "fabric/ip/interfaces.h"
#include "fabric/ip/socket.h"

namespace tern {
namespace {

// Time for a caller to prove itself (some round trips, and repetitions of lost packets), and how many may do so at a
// time: strangers take no more than this.
constexpr uint64_t kProof_ns = 10'000'000'000;
constexpr size_t kMaxCallers = 64;

Error not_open(std::string_view name) {
  return Error(ErrorClass::port, "'" + std::string(name.substr(0, 80)) + "' is not a port that this process has open");
}

}  // namespace

Ports::Ports(const Tunables& tunables, Clock& clock)
    : tunables_(tunables), clock_(clock), folder_(tunables), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Ports::~Ports() {
  for (const Port& port : ports_) {
    if (port.in_folder) folder_.drop_secret(port.number);
  }
  for (const std::string& service : published_) static_cast<void>(folder_.unpublish(service));
}

// All descriptors stand in one set, which is what a sleeping rank watches.
void Ports::watch(int descriptor, bool writing) {
  epoll_event event{};
  event.events = EPOLLIN | (writing ? uint32_t(EPOLLOUT) : 0);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) != 0)
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void Ports::update_hints() { hints_.dormant = ports_.empty() && waiting_.empty(); }

Error Ports::open(bool private_name, std::string& name) {
  if (!epoll_) return Error(ErrorClass::port, "no descriptor was left for ports");
  std::vector<LocalAddress> addresses;
  if (Error error = usable_interfaces(tunables_.tcp_interfaces, addresses)) return error;
  PortName made;
  Port port{};
  std::string trouble = "this host has no address to listen on";
  made.card.host = host_identity();
  for (const LocalAddress& local : addresses) {
    SocketAddress address(local.address, local.address.link_local() ? local.index : 0);
    address.set_port(0);
    Descriptor listener = listen_on(address);
    if (!listener) {
      trouble = address.text() + ": " + errno_text(errno);
      continue;
    }
    made.card.addresses.push_back(local.address);
    made.card.addresses.back().port = local_address(listener.get()).port();
    port.listeners.push_back(std::move(listener));
  }
  if (port.listeners.empty()) return Error(ErrorClass::port, "no port can be opened: " + trouble);
  randombytes_buf(&port.number, sizeof port.number);
  randombytes_buf(port.secret.data(), port.secret.size());
  made.number = port.number;
  if (private_name) {
    made.secret = port.secret;
  } else if (Error error = folder_.keep_secret(port.number, port.secret)) {
    return error;
  }
  port.in_folder = !private_name;
  name = to_text(std::move(made));
  for (const Descriptor& listener : port.listeners) watch(listener.get(), false);
  ports_.push_back(std::move(port));
  update_hints();
  return {};
}

Error Ports::find(std::string_view name, uint64_t& port) const {
  PortName parsed;
  if (Error error = parse_port_name(name, parsed)) return error;
  port = parsed.number;
  const bool mine = std::any_of(ports_.begin(), ports_.end(), [&](const Port& p) { return p.number == port; });
  return mine ? Error() : not_open(name);
}

Error Ports::close(std::string_view name) {
  uint64_t number = 0;
  if (Error error = find(name, number)) return error;
  auto port = std::find_if(ports_.begin(), ports_.end(), [&](const Port& p) { return p.number == number; });
  if (port->in_folder) folder_.drop_secret(number);
  ports_.erase(port);
  update_hints();
  return {};
}

Error Ports::connect(std::string_view name, std::unique_ptr<PortLink>& link) {
  if (!epoll_) return Error(ErrorClass::port, "no descriptor was left for ports");
  PortName wanted;
  if (Error error = parse_port_name(name, wanted)) return error;
  TcpKey secret;
  if (wanted.secret) {
    secret = *wanted.secret;
  } else if (Error error = folder_.find_secret(wanted.number, secret)) {
    return error;
  }
  std::vector<LocalAddress> ours;
  if (Error error = usable_interfaces(tunables_.tcp_interfaces, ours)) return error;
  link = std::make_unique<PortLink>(rank_candidates(ours, host_identity(), wanted.card), secret, wanted.number);
  return {};
}

bool Ports::has_caller(uint64_t number) const {
  auto port = std::find_if(ports_.begin(), ports_.end(), [&](const Port& p) { return p.number == number; });
  return port != ports_.end() && std::any_of(port->callers.begin(), port->callers.end(),
                                             [](const Caller& caller) { return caller.link->proven(); });
}

std::unique_ptr<PortLink> Ports::next_caller(uint64_t number) {
  auto port = std::find_if(ports_.begin(), ports_.end(), [&](const Port& p) { return p.number == number; });
  if (port == ports_.end()) return nullptr;
  auto caller = std::find_if(port->callers.begin(), port->callers.end(),
                             [](const Caller& candidate) { return candidate.link->proven(); });
  if (caller == port->callers.end()) return nullptr;
  std::unique_ptr<PortLink> link = std::move(caller->link);
  port->callers.erase(caller);
  return link;
}

Ports::Waiting::Waiting(Ports& ports, PortLink* link, uint64_t deadline_ns)
    : ports_(ports), link_(link), deadline_ns_(deadline_ns) {
  ports.waiting_.push_back(this);
  ports.update_hints();
  if (ports.armed_) ports.watch_links();
}

Ports::Waiting::~Waiting() {
  std::erase(ports_.waiting_, this);
  ports_.update_hints();
}

Error Ports::publish(std::string_view service, std::string_view port_name) {
  if (Error error = folder_.publish(service, port_name)) return error;
  published_.emplace_back(service);
  return {};
}

Error Ports::unpublish(std::string_view service) {
  if (Error error = folder_.unpublish(service)) return error;
  std::erase(published_, service);
  return {};
}

void Ports::accept(Port& port, uint64_t now_ns) {
  for (const Descriptor& listener : port.listeners) {
    // Further ones stay in the kernel's queue.
    while (port.callers.size() < kMaxCallers) {
      SocketAddress from;
      Descriptor socket = accept_from(listener.get(), from);
      if (!socket) break;
      port.callers.push_back(
          {std::make_unique<PortLink>(std::move(socket), port.secret, port.number), now_ns + kProof_ns});
      watch(port.callers.back().link->descriptor(), false);
    }
  }
}

int Ports::poll() {
  if (hints_.dormant) return 0;
  int done = 0;
  const uint64_t now = clock_.now_ns();
  for (Port& port : ports_) {
    accept(port, now);
    for (Caller& caller : port.callers) done += caller.link->advance();
    std::erase_if(port.callers, [&](const Caller& caller) {
      return caller.link->ended() || (!caller.link->proven() && now >= caller.deadline_ns);
    });
  }
  for (const Waiting* waits : waiting_) {
    if (waits->link_) done += waits->link_->advance();
  }
  if (armed_) watch_links();
  return done;
}

bool Ports::arm() {
  armed_ = true;
  watch_links();
  return true;
}

void Ports::watch_links() {
  for (const Port& port : ports_) {
    for (const Caller& caller : port.callers) watch(caller.link->descriptor(), caller.link->wants_to_write());
  }
  for (const Waiting* waits : waiting_) {
    const PortLink* link = waits->link_;
    if (link && link->descriptor() >= 0) watch(link->descriptor(), link->wants_to_write());
  }
}

uint64_t Ports::next_deadline_ns() const {
  uint64_t next = ~uint64_t{0};
  for (const Waiting* waits : waiting_) next = std::min(next, waits->deadline_ns_);
  for (const Port& port : ports_) {
    for (const Caller& caller : port.callers) {
      if (!caller.link->proven()) next = std::min(next, caller.deadline_ns);
    }
  }
  return next;
}

}  // namespace tern
