#include "fabric/ip/kernel_streams.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/limits.h"
#include "fabric/ip/interface_monitor.h"

namespace tern {
namespace {

static_assert(kReadable == uint32_t(EPOLLIN) && kWritable == uint32_t(EPOLLOUT) &&
              kFailed == (uint32_t(EPOLLERR) | uint32_t(EPOLLHUP)));
static_assert(kReadable == uint32_t(POLLIN) && kWritable == uint32_t(POLLOUT) &&
              kFailed == (uint32_t(POLLERR) | uint32_t(POLLHUP)));

// A temporary lack of memory counts as a full buffer: the caller tries again.
ssize_t failed() {
  const int error = errno;
  return error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM ? -EAGAIN : -error;
}

// A call of the kernel that never waits; one interrupted by a signal is repeated. Not by the C library's functions: in
// a process with several threads these are cancellation points, whose bookkeeping (two atomic operations) takes 3 % of
// a small message's time. (A sixth argument lies on the stack: as long, since half of an int's place is undefined.)
template <typename... Arguments>
ssize_t call(long number, Arguments... arguments) {
  for (;;) {
    const ssize_t n = syscall(number, arguments...);
    if (n >= 0) [[likely]]
      return n;
    if (errno != EINTR) return failed();
  }
}

}  // namespace

std::unique_ptr<StreamPort> KernelStreams::create(Error& error) {
  auto port = std::make_unique<KernelStreams>();
  port->epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (port->epoll_) return port;
  error = Error(ErrorClass::other, "TCP path: epoll_create1: " + errno_text(errno));
  return nullptr;
}

// --- The host.

Error KernelStreams::addresses(std::string_view wanted, std::vector<LocalAddress>& out) {
  return usable_interfaces(wanted, out);
}

void KernelStreams::reserve(uint64_t streams) { raise_descriptor_limit(streams); }

Error KernelStreams::check_congestion(const std::string& name) {
  const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), socklen_t(name.size())) == 0) return {};
  return Error(ErrorClass::arg,
               "TERN_TCP_CONGESTION is '" + name +
                   "', which is none of this host's net.ipv4.tcp_allowed_congestion_control: " + errno_text(errno));
}

// --- Making connections.

int KernelStreams::listen(const SocketAddress& address, std::string_view congestion) {
  const int fd = listen_on(address, congestion).release();
  return fd >= 0 ? fd : -errno;
}

int KernelStreams::accept(int listener, SocketAddress& from) {
  const int fd = accept_from(listener, from).release();
  return fd >= 0 ? fd : errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

int KernelStreams::connect(const SocketAddress& address, std::string_view congestion) {
  Descriptor fd;
  const int result = begin_connect(address, fd, congestion);
  return result == 0 || result == EINPROGRESS ? fd.release() : -result;
}

uint32_t KernelStreams::ready(int stream, uint32_t wanted) {
  pollfd look{stream, short(wanted), 0};
  return ::poll(&look, 1, 0) == 1 ? uint32_t(look.revents) : 0;
}

int KernelStreams::error(int stream) {
  int error = 0;
  socklen_t bytes = sizeof error;
  (void)getsockopt(stream, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error;
}

void KernelStreams::set_send_buffer(int stream, int bytes) {
  (void)setsockopt(stream, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

// --- Data.

ssize_t KernelStreams::send(int stream, const void* data, size_t bytes, bool more) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  return call(SYS_sendto, stream, data, bytes, flags, nullptr, 0L);
}

ssize_t KernelStreams::send_pieces(int stream, const iovec* pieces, size_t count, bool more) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  return call(SYS_sendmsg, stream, &message, flags);
}

void KernelStreams::push(int stream) {
  int on = 1;  // the option is on already; setting it again sends waiting data
  (void)setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

ssize_t KernelStreams::receive(int stream, void* data, size_t bytes) {
  return call(SYS_recvfrom, stream, data, bytes, MSG_DONTWAIT, nullptr, nullptr);
}

ssize_t KernelStreams::receive_pieces(int stream, const iovec* pieces, int count) {
  return call(SYS_readv, stream, pieces, count);
}

ssize_t KernelStreams::discard(int stream, size_t bytes) {
  return call(SYS_recvfrom, stream, nullptr, bytes, MSG_DONTWAIT | MSG_TRUNC, nullptr, nullptr);
}

int KernelStreams::unacknowledged(int stream) {
  int bytes = 0;
  return ioctl(stream, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

void KernelStreams::acknowledge_at_once(int stream) {
  int on = 1;
  (void)setsockopt(stream, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void KernelStreams::shutdown(int stream, bool both) { (void)::shutdown(stream, both ? SHUT_RDWR : SHUT_WR); }

void KernelStreams::close(int stream) { (void)::close(stream); }

// --- Silence.

bool KernelStreams::silence(int stream, Silence& out) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(stream, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  out = {info.tcpi_retransmits, info.tcpi_last_ack_recv};
  return true;
}

int KernelStreams::watch_interfaces() { return InterfaceMonitor::open().release(); }

void KernelStreams::read_interfaces(int watch, std::vector<uint32_t>& down) { InterfaceMonitor::read(watch, down); }

// --- Readiness.

void KernelStreams::watch(int stream, uint32_t before, uint32_t wanted, void* owner) {
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = owner;
  const int operation = before == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  TERN_ASSERT(epoll_ctl(epoll_.get(), operation, stream, &event) == 0);
}

int KernelStreams::events(Event* out) {
  epoll_event ready[kMaxEvents];
  const auto count = int(std::max<ssize_t>(call(SYS_epoll_pwait, epoll_.get(), ready, kMaxEvents, 0, nullptr, 0L), 0));
  for (int i = 0; i < count; ++i) out[i] = {ready[i].data.ptr, ready[i].events};
  return count;
}

void KernelStreams::set_wake_bytes(int stream, int bytes) {
  (void)setsockopt(stream, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

void KernelStreams::wait(std::span<const Awaited> streams, uint64_t at_most_ns) {
  std::vector<pollfd> waits;
  for (const Awaited& awaited : streams) waits.push_back({awaited.stream, short(awaited.what), 0});
  (void)::poll(waits.data(), nfds_t(waits.size()), int(at_most_ns / 1'000'000));
}

}  // namespace tern
