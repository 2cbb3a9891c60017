#include "keeper_messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace tern::mpiexec {
namespace {

constexpr size_t kMaxDescriptors = 4;  // standard streams, and the launcher's socket
// The kernel limits the descriptors in flight (RLIMIT_NOFILE); the other side takes them soon. Tries again for a
// second.
constexpr int kTooManyOnTheWay_us = 1000, kTooManyTries = 1000;

struct Head {
  OrderKind kind;
  int32_t id, number;
  uint32_t text_bytes, descriptors;
};

struct FixedSpec {
  rlimit descriptors;
  cpu_set_t cores;
  uint32_t has_cores, has_keep, keep_as, arguments, environment;
};

union Control {
  cmsghdr head;
  char room[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
};

/// Sends some of head and text; the descriptors with the first byte.
ssize_t send_some(int socket, iovec* pieces, const std::vector<int>& descriptors) {
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  Control control{};
  if (!descriptors.empty()) {
    message.msg_control = control.room;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    memcpy(CMSG_DATA(head), descriptors.data(), sizeof(int) * descriptors.size());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

void advance(iovec* pieces, size_t bytes) {
  for (int i = 0; i < 2; ++i) {
    const size_t part = std::min(bytes, pieces[i].iov_len);
    pieces[i].iov_base = static_cast<char*>(pieces[i].iov_base) + part;
    pieces[i].iov_len -= part;
    bytes -= part;
  }
}

bool receive_all(int socket, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = recv(socket, to, bytes, MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= size_t(n);
  }
  return true;
}

bool receive_head(int socket, Head& head, std::vector<int>& descriptors) {
  iovec piece{&head, sizeof head};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.room;
  message.msg_controllen = sizeof control.room;
  ssize_t n;
  while ((n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (n <= 0) return false;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = descriptors.size();
    descriptors.resize(before + count);
    memcpy(descriptors.data() + before, CMSG_DATA(part), count * sizeof(int));
  }
  return receive_all(socket, reinterpret_cast<char*>(&head) + n, sizeof head - size_t(n));
}

void add_text(std::string& to, const std::string& text) { to.append(text.c_str(), text.size() + 1); }

std::string next_text(std::string_view& from) {
  const size_t end = std::min(from.find('\0'), from.size());
  std::string text(from.substr(0, end));
  from.remove_prefix(std::min(end + 1, from.size()));
  return text;
}

}  // namespace

bool send_order(int socket, const Order& order) {
  Head head{order.kind, order.id, order.number, uint32_t(order.text.size()), uint32_t(order.descriptors.size())};
  iovec pieces[2] = {{&head, sizeof head}, {const_cast<char*>(order.text.data()), order.text.size()}};
  bool first = true;
  for (int tries = 0; pieces[0].iov_len + pieces[1].iov_len > 0;) {
    const ssize_t n = send_some(socket, pieces, first ? order.descriptors : std::vector<int>());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ETOOMANYREFS && ++tries < kTooManyTries) {
      usleep(kTooManyOnTheWay_us);
      continue;
    }
    if (n < 0) return false;
    first = false;
    advance(pieces, size_t(n));
  }
  return true;
}

std::optional<Order> receive_order(int socket, int& failure) {
  failure = 0;
  Head head{};
  Order order{};
  if (!receive_head(socket, head, order.descriptors)) return std::nullopt;
  order.kind = head.kind;
  order.id = head.id;
  order.number = head.number;
  order.text.resize(head.text_bytes);
  if (!receive_all(socket, order.text.data(), order.text.size())) return std::nullopt;
  if (order.descriptors.size() < head.descriptors) failure = EMFILE;
  return order;
}

std::string packed(const ChildSpec& spec) {
  FixedSpec fixed{};
  fixed.descriptors = spec.descriptors;
  fixed.has_cores = spec.cores.has_value();
  if (spec.cores) fixed.cores = *spec.cores;
  fixed.has_keep = spec.keep >= 0;
  fixed.keep_as = uint32_t(spec.keep_as);
  fixed.arguments = uint32_t(spec.arguments.size());
  fixed.environment = uint32_t(spec.environment.size());
  std::string text(reinterpret_cast<const char*>(&fixed), sizeof fixed);
  add_text(text, spec.file);
  add_text(text, spec.directory);
  for (auto& word : spec.arguments) add_text(text, word);
  for (auto& entry : spec.environment) add_text(text, entry);
  return text;
}

ChildSpec unpacked(const Order& order) {
  FixedSpec fixed;
  memcpy(&fixed, order.text.data(), sizeof fixed);
  std::string_view rest(order.text);
  rest.remove_prefix(sizeof fixed);
  ChildSpec spec;
  spec.descriptors = fixed.descriptors;
  if (fixed.has_cores) spec.cores = fixed.cores;
  spec.keep_as = int(fixed.keep_as);
  spec.file = next_text(rest);
  spec.directory = next_text(rest);
  for (uint32_t i = 0; i < fixed.arguments; ++i) spec.arguments.push_back(next_text(rest));
  for (uint32_t i = 0; i < fixed.environment; ++i) spec.environment.push_back(next_text(rest));
  for (size_t i = 0; i < 3; ++i) spec.standard[i] = order.descriptors[i];
  if (fixed.has_keep) spec.keep = order.descriptors[3];
  return spec;
}

}  // namespace tern::mpiexec
