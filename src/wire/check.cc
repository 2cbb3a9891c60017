#include "wire/check.h"

#include <cstring>

namespace tern::wire {
namespace {

/// The fixed part of a CheckedCollective. Its function's and its place's text follow the summaries.
struct CollectiveHead {
  uint64_t context;
  uint32_t sequence;
  int32_t rank, ranks, root, op;
  uint8_t operation, blocking, in_place, reserved;
  uint32_t sends, receives;
  uint32_t function_bytes;
  uint32_t reserved2;
};
static_assert(sizeof(CollectiveHead) == 48);

template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void append(std::string& out, const std::vector<T>& values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

// There are at least n of them.
void take(std::string_view& bytes, uint32_t n, std::vector<TypeSummary>& values) {
  values.resize(n);
  if (n != 0) std::memcpy(values.data(), bytes.data(), n * sizeof(TypeSummary));
  bytes.remove_prefix(n * sizeof(TypeSummary));
}

bool printable(std::string_view text) {
  if (text.size() > kMaxCheckedText) return false;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < ' ') return false;
  }
  return true;
}

}  // namespace

std::string build_checked_message(const CheckedMessage& message, std::string_view place) {
  std::string out;
  append(out, message);
  return out.append(place.substr(0, kMaxCheckedText));
}

bool parse_checked_message(std::string_view bytes, CheckedMessage& message, std::string_view& place) {
  if (!take(bytes, message)) return false;
  place = bytes;
  return printable(place);
}

std::string build_checked_collective(const CheckedCollective& call) {
  std::string out;
  append(out, CollectiveHead{call.context, call.sequence, call.rank, call.ranks, call.root, call.op, call.operation,
                             call.blocking, call.in_place, 0, uint32_t(call.sends.size()),
                             uint32_t(call.receives.size()), uint32_t(call.function.size()), 0});
  append(out, call.sends);
  append(out, call.receives);
  return out.append(call.function).append(call.place, 0, kMaxCheckedText - call.function.size());
}

bool parse_checked_collective(std::string_view bytes, CheckedCollective& call) {
  CollectiveHead head;
  if (!take(bytes, head)) return false;
  const auto blocks = [&](uint32_t n) { return n <= 1 || n == uint32_t(head.ranks); };
  if (head.ranks < 1 || head.rank < 0 || head.rank >= head.ranks) return false;
  if (!blocks(head.sends) || !blocks(head.receives)) return false;
  const uint64_t summaries = (uint64_t(head.sends) + head.receives) * sizeof(TypeSummary);
  if (bytes.size() < summaries || bytes.size() - summaries < head.function_bytes) return false;
  call.context = head.context;
  call.sequence = head.sequence;
  call.rank = head.rank;
  call.ranks = head.ranks;
  call.root = head.root;
  call.op = head.op;
  call.operation = head.operation;
  call.blocking = head.blocking != 0;
  call.in_place = head.in_place != 0;
  take(bytes, head.sends, call.sends);
  take(bytes, head.receives, call.receives);
  if (!printable(bytes)) return false;
  call.function = bytes.substr(0, head.function_bytes);
  call.place = bytes.substr(head.function_bytes);
  return true;
}

std::string build_verdict(const CheckVerdict& verdict, std::string_view text) {
  std::string out;
  append(out, verdict);
  return out.append(text.substr(0, kMaxCheckedText));
}

bool parse_verdict(std::string_view bytes, CheckVerdict& verdict, std::string_view& text) {
  if (!take(bytes, verdict)) return false;
  text = bytes;
  return printable(text);
}

}  // namespace tern::wire
