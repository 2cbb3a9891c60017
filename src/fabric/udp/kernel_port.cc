#include "fabric/udp/kernel_port.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "fabric/poll_bounds.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace tern {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;  // asked for, four windows; the host's net.core.rmem_max may be less
constexpr size_t kScratchBytes = 128 * 1024;      // of one call: two joined datagrams of the largest size
constexpr uint32_t kListenerName = 0x10000;       // in epoll; sockets have smaller names
constexpr size_t kHeads4 = 28, kHeads6 = 48;      // of IP and UDP
constexpr int kMinMtu = 1280;                     // of every network that carries IPv6 (RFC 8200, 5)

void set(int fd, int level, int option, int value) { (void)setsockopt(fd, level, option, &value, sizeof value); }

// Half of what the kernel says is for its own bookkeeping.
size_t widen(int fd, int option, int forced) {
  const int wanted = int(kBufferBytes);
  if (setsockopt(fd, SOL_SOCKET, forced, &wanted, sizeof wanted) != 0)
    (void)setsockopt(fd, SOL_SOCKET, option, &wanted, sizeof wanted);
  int got = 0;
  socklen_t bytes = sizeof got;
  return getsockopt(fd, SOL_SOCKET, option, &got, &bytes) == 0 ? size_t(got) / 2 : 0;
}

bool same_host(const SocketAddress& a, const wire::CardAddress& b) {
  if (a.storage.ss_family == AF_INET) {
    return b.family == 4 &&
           std::memcmp(&reinterpret_cast<const sockaddr_in&>(a.storage).sin_addr, b.bytes.data(), 4) == 0;
  }
  return b.family == 6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_addr, b.bytes.data(), 16) == 0;
}

uint16_t port_at(const wire::Card& card, const wire::CardAddress& address) {
  for (const wire::CardAddress& other : card.addresses) {
    if (other.family == address.family && other.bytes == address.bytes) return other.port;
  }
  return 0;
}

// An established connection: its host answers the kernel's probes (one a second, ask_if_alive) or does not.
DatagramPort::Life stands(int fd) {
  constexpr uint32_t kFresh_ms = 3000;  // three probes unanswered: one or two may be lost
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return DatagramPort::Life::asked;
  return info.tcpi_last_ack_recv <= kFresh_ms ? DatagramPort::Life::lives : DatagramPort::Life::asked;
}

}  // namespace

std::unique_ptr<KernelPort> KernelPort::create(const KernelPortOptions& options, const Tunables& tunables,
                                               Error& error) {
  std::unique_ptr<KernelPort> port(new KernelPort(options, tunables));
  for (const LocalAddress& address : options.addresses) port->locals_.emplace_back().address = address;
  error = port->start(tunables.tcp_interfaces);
  if (error) port.reset();
  return port;
}

KernelPort::KernelPort(const KernelPortOptions& options, const Tunables& tunables)
    : channels_(options.channels),
      most_bytes_(std::min(size_t(tunables.udp_datagram_bytes), wire::kMaxDatagramBytes)),
      segmentation_(options.segmentation),
      memory_(new std::byte[kScratchBytes]) {}

Error KernelPort::start(const std::string& interfaces) {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return Error(ErrorClass::other, "UDP path: epoll_create1: " + errno_text(errno));
  host_ = host_identity();
  if (locals_.empty()) {
    std::vector<LocalAddress> addresses;
    if (Error error = usable_interfaces(interfaces, addresses)) return error;
    for (LocalAddress& address : addresses) locals_.emplace_back().address = std::move(address);
  }
  std::string trouble = "this host has no address to receive at";
  for (size_t i = 0; i < locals_.size();) {
    if (Error error = open(locals_[i])) {  // for example an IPv6 address that is still being checked for duplicates
      trouble = error.text();
      locals_.erase(locals_.begin() + ptrdiff_t(i));
      continue;
    }
    ++i;
  }
  if (locals_.empty()) return Error(ErrorClass::other, "UDP path: " + trouble);
  for (size_t i = 0; i < locals_.size(); ++i) {
    auto watch = [&](int fd, uint32_t name) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = name;
      TERN_ASSERT(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
    };
    for (int channel = 0; channel < channels_; ++channel)
      watch(locals_[i].sockets[channel].get(), uint32_t(2 * i) + uint32_t(channel));
    watch(locals_[i].listener.get(), kListenerName + uint32_t(i));
  }
  return {};
}

Error KernelPort::open(Local& local) {
  for (int channel = 0; channel < channels_; ++channel) {
    if (Error error = open_socket(local, channel)) return error;
  }
  wire::CardAddress address = local.address.address;
  address.port = 0;
  local.listener = listen_on(SocketAddress(address, address.link_local() ? local.address.index : 0));
  if (!local.listener)
    return Error(ErrorClass::other, "cannot listen on " + wire::to_text(address) + ": " + errno_text(errno));
  local.life_port = local_address(local.listener.get()).port();
  return {};
}

Error KernelPort::open_socket(Local& local, int channel) {
  wire::CardAddress address = local.address.address;
  address.port = 0;
  const SocketAddress where(address, address.link_local() ? local.address.index : 0);
  Descriptor fd(socket(where.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd && where.storage.ss_family == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (!fd || bind(fd.get(), where.get(), where.bytes) != 0) {
    return Error(ErrorClass::other, "cannot receive at " + wire::to_text(address) + ": " + errno_text(errno));
  }
  buffer_bytes_ = std::min(buffer_bytes_, widen(fd.get(), SO_RCVBUF, SO_RCVBUFFORCE));
  (void)widen(fd.get(), SO_SNDBUF, SO_SNDBUFFORCE);
  // The kernel fragments datagrams that are larger than the network's packets (LA-MPI's fragments of 8 KB).
  if (where.storage.ss_family == AF_INET) set(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
  if (segmentation_) {
    int on = 1, size = 0;
    socklen_t bytes = sizeof size;
    segmentation_ = setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0 &&
                    getsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &size, &bytes) == 0;
  }
  local.ports[channel] = local_address(fd.get()).port();
  local.sockets[channel] = std::move(fd);
  return {};
}

void KernelPort::describe(wire::DatagramCard& card) const {
  card.channels.assign(size_t(channels_) + 1, {});
  for (int channel = 0; channel <= channels_; ++channel) {
    wire::Card& out = card.channels[size_t(channel)];
    out.host = host_;
    for (const Local& local : locals_) {
      if (out.addresses.size() == wire::kMaxCardAddresses) break;
      wire::CardAddress address = local.address.address;
      address.port = channel < channels_ ? local.ports[channel] : local.life_port;
      out.addresses.push_back(address);
    }
  }
}

// --- Ways to peers.

Error KernelPort::meet(PeerId id, const wire::DatagramCard& card) {
  auto peer = std::make_unique<Peer>();
  std::vector<LocalAddress> ours;
  for (const Local& local : locals_) ours.push_back(local.address);
  const wire::Card& first = card.channels.front();
  int shortage = 0;
  for (const TcpCandidate& candidate : rank_candidates(ours, host_, first)) {
    AddressPair pair;
    const int error = find_pair(candidate.address, candidate.scope, pair);
    if (is_shortage(error)) shortage = error;
    if (error != 0) continue;
    wire::CardAddress address = candidate.address;
    bool known = true;
    for (int channel = 0; channel <= channels_; ++channel) {
      address.port = port_at(card.channels[size_t(channel)], candidate.address);
      known = known && address.port != 0;
      (channel < channels_ ? pair.to[channel] : pair.life) = SocketAddress(address, candidate.scope);
    }
    if (known) peer->pairs.push_back(pair);
  }
  if (peer->pairs.empty() && shortage != 0)
    return Error(ErrorClass::other, "no way to it can be looked for: " + errno_text(shortage));
  if (peer->pairs.empty()) {
    std::string theirs;
    for (auto& address : first.addresses) theirs += " " + wire::to_text(address);
    return Error(ErrorClass::other, "no network leads from here to any of its addresses (" +
                                        (theirs.empty() ? "none" : theirs.substr(1)) +
                                        "). TERN_TCP_INTERFACES chooses which networks are used");
  }
  if (peers_.size() <= id) peers_.resize(size_t(id) + 1);
  peers_[id] = std::move(peer);
  return {};
}

// Which of this host's sockets the kernel's routes would send from, and how large its packets are. Returns 0, or an
// errno number.
int KernelPort::find_pair(const wire::CardAddress& to, uint32_t scope, AddressPair& pair) const {
  const SocketAddress target(to, scope);
  Descriptor fd(socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), target.get(), target.bytes) != 0) return errno;
  const SocketAddress from = local_address(fd.get());
  auto local = std::find_if(locals_.begin(), locals_.end(),
                            [&](const Local& ours) { return same_host(from, ours.address.address); });
  if (local == locals_.end()) return ENETUNREACH;
  pair.local = size_t(local - locals_.begin());
  const bool four = target.storage.ss_family == AF_INET;
  int mtu = 0;
  socklen_t bytes = sizeof mtu;
  if (getsockopt(fd.get(), four ? int(IPPROTO_IP) : int(IPPROTO_IPV6), four ? IP_MTU : IPV6_MTU, &mtu, &bytes) != 0 ||
      mtu < kMinMtu)
    mtu = kMinMtu;
  pair.datagram_bytes = std::min(size_t(mtu) - (four ? kHeads4 : kHeads6), most_bytes_);
  return 0;
}

uint32_t KernelPort::change_route(PeerId id) {
  Peer& peer = *peers_[id];
  peer.current = (peer.current + 1) % peer.pairs.size();
  return uint32_t(peer.pairs.size());
}

void KernelPort::follow(PeerId id, uint64_t route) {
  Peer& peer = *peers_[id];
  if (peer.pairs[peer.current].local == size_t(route) || peer.pairs.size() == 1) return;
  for (size_t i = 0; i < peer.pairs.size(); ++i) {
    if (peer.pairs[i].local == size_t(route)) {
      peer.current = i;
      return;
    }
  }
}

// --- Sending.

size_t KernelPort::send(PeerId id, int channel, const iovec* datagrams, size_t count) {
  Peer& peer = *peers_[id];
  const AddressPair& pair = peer.pairs[peer.current];
  const int fd = locals_[pair.local].sockets[channel].get();
  const SocketAddress& to = pair.to[channel];
  if (count > 1 && segmentation_) return send_cut(fd, to, datagrams, count);
  return send_each(fd, to, datagrams, count);
}

size_t KernelPort::send_cut(int fd, const SocketAddress& to, const iovec* datagrams, size_t count) {
  size_t done = 0;
  while (done < count) {
    size_t part = 0, bytes = 0;
    while (done + part < count && part < kBatch && bytes + datagrams[done + part].iov_len <= kBatchBytes) {
      bytes += datagrams[done + part].iov_len;
      ++part;
    }
    if (part <= 1) return done + send_each(fd, to, datagrams + done, count - done);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {};
    msghdr message{};
    message.msg_name = const_cast<sockaddr*>(to.get());
    message.msg_namelen = to.bytes;
    message.msg_iov = const_cast<iovec*>(datagrams + done);
    message.msg_iovlen = part;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* segment = CMSG_FIRSTHDR(&message);
    segment->cmsg_level = IPPROTO_UDP;
    segment->cmsg_type = UDP_SEGMENT;
    segment->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    const uint16_t size = uint16_t(datagrams[done].iov_len);
    std::memcpy(CMSG_DATA(segment), &size, sizeof size);
    const ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return done;
      // This interface cannot send so much, or its packets have become smaller.
      return done + send_each(fd, to, datagrams + done, count - done);
    }
    done += part;
  }
  return done;
}

size_t KernelPort::send_each(int fd, const SocketAddress& to, const iovec* datagrams, size_t count) {
  size_t done = 0;
  while (done < count) {
    mmsghdr messages[kBatch] = {};
    const size_t part = std::min(count - done, kBatch);
    for (size_t i = 0; i < part; ++i) {
      messages[i].msg_hdr.msg_name = const_cast<sockaddr*>(to.get());
      messages[i].msg_hdr.msg_namelen = to.bytes;
      messages[i].msg_hdr.msg_iov = const_cast<iovec*>(datagrams + done + i);
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = part == 1 ? (sendmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1)
                               : sendmmsg(fd, messages, unsigned(part), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      done += size_t(sent);
    } else if (errno == EINTR) {
      continue;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
      return done;
    } else {
      ++done;  // lost: its repetition will show why
    }
  }
  return done;
}

// --- Receiving.

size_t KernelPort::read_socket(size_t index, Arrival* out) {
  const int fd = locals_[index / 2].sockets[index % 2].get();
  for (;;) {
    iovec piece{memory_.get(), kScratchBytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      return 0;
    }
    size_t size = size_t(got);
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != IPPROTO_UDP || head->cmsg_type != UDP_GRO) continue;
      int joined = 0;
      std::memcpy(&joined, CMSG_DATA(head), sizeof joined);
      if (joined > 0) size = size_t(joined);
    }
    size_t count = 0;
    for (size_t at = 0; count < kMaxArrivals && (at < size_t(got) || count == 0); at += size) {
      out[count++] = {memory_.get() + at, std::min(size, size_t(got) - at), index / 2};
      if (size == 0) break;
    }
    return count;
  }
}

size_t KernelPort::receive(Arrival* out) {
  ++calls_;
  if (hot_count_ == 0 || empty_calls_ >= kEmptyInterval || calls_ % kInterval == 0) look_at_all();
  for (size_t i = 0; i < hot_count_; ++i) {
    if (const size_t count = read_socket(hot_[i], out)) {
      if (i != 0) std::swap(hot_[0], hot_[i]);
      empty_calls_ = 0;
      return count;
    }
  }
  ++empty_calls_;
  return 0;
}

// Finds sockets that have something, and answers peers that ask whether this process lives.
void KernelPort::look_at_all() {
  empty_calls_ = 0;
  epoll_event events[16];
  const int count = epoll_wait(epoll_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    const uint32_t name = events[i].data.u32;
    if (name >= kListenerName) {
      SocketAddress from;
      for (int taken = 0; taken < kMaxAccepts && accept_from(locals_[name - kListenerName].listener.get(), from);)
        ++taken;
      continue;
    }
    if (std::find(hot_, hot_ + hot_count_, size_t(name)) != hot_ + hot_count_) continue;
    // One that was empty for long makes room.
    if (hot_count_ < kHot) ++hot_count_;
    hot_[hot_count_ - 1] = name;
  }
}

// --- Whether a process lives.

void KernelPort::ask_life(PeerId id) {
  Peer& peer = *peers_[id];
  if (!peer.question) {
    peer.asked_pair = peer.current;
  } else if (peer.pairs.size() > 1) {  // its host has not answered the last call
    peer.question.reset();
    peer.asked_pair = (peer.asked_pair + 1) % peer.pairs.size();
  }
  const SocketAddress& address = peer.pairs[peer.asked_pair].life;
  if (!peer.question) {
    const int result = begin_connect(address, peer.question);
    peer.refused = result == ECONNREFUSED;
    if (result == 0 || result == EINPROGRESS) ask_if_alive(peer.question.get(), true);
    else peer.question.reset();
  }
  peer.host.ask(streams_, address);
}

DatagramPort::Life KernelPort::life(PeerId id) {
  Peer& peer = *peers_[id];
  if (std::exchange(peer.refused, false)) return Life::gone;
  if (!peer.question) return Life::unknown;
  pollfd wait{peer.question.get(), POLLIN | POLLOUT, 0};
  // Its kernel has not answered the call: its queue is full, or a packet or its host is lost.
  if (::poll(&wait, 1, 0) <= 0) return peer.host.answered(streams_) ? Life::lives : Life::asked;
  peer.host.forget();
  int error = 0;
  socklen_t bytes = sizeof error;
  (void)getsockopt(peer.question.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error == ECONNREFUSED) {
    peer.question.reset();
    return Life::gone;
  }
  if (error == 0 && !(wait.revents & (POLLIN | POLLERR | POLLHUP))) return stands(peer.question.get());
  // It has closed the connection. If it had accepted the call it lives; else it may have ended, so it is called again.
  char byte;
  const bool taken = error == 0 && recv(peer.question.get(), &byte, 1, MSG_DONTWAIT) == 0;
  peer.question.reset();
  return taken ? Life::lives : Life::unknown;
}

void KernelPort::stop_asking(PeerId id) {
  peers_[id]->question.reset();
  peers_[id]->host.forget();
}

}  // namespace tern
