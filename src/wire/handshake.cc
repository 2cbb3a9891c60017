#include "wire/handshake.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/bytes.h"

namespace tern::wire {
namespace {

constexpr uint8_t kMagic[4] = {'T', 'e', 'r', 0xf1};  // the last byte is no text in any encoding that clients speak

std::string prefixed(HandshakeStage stage, std::string_view body) {
  TERN_ASSERT(body.size() <= kMaxHandshakeBody);
  Writer out;
  out.bytes(kMagic, sizeof kMagic);
  out.integer(uint8_t(stage));
  out.integer(uint8_t(0));
  out.integer(uint16_t(body.size()));
  out.text(body);
  return out.take();
}

// The value that `name` has in an agreement; "not set" when it is not there.
std::string_view value_of(std::string_view agreement, std::string_view name) {
  while (!agreement.empty()) {
    size_t end = std::min(agreement.find('\n'), agreement.size());
    std::string_view line = agreement.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=')
      return line.substr(name.size() + 1);
    agreement.remove_prefix(std::min(end + 1, agreement.size()));
  }
  return "not set";
}

// The first name of `names` whose value differs between the two.
std::string first_difference(std::string_view names, std::string_view theirs, std::string_view ours) {
  while (!names.empty()) {
    size_t end = std::min(names.find('\n'), names.size());
    std::string_view name = names.substr(0, std::min(end, names.find('=')));
    std::string_view a = value_of(theirs, name), b = value_of(ours, name);
    if (!name.empty() && a != b) {
      // The peer's text is shown to the user, so it must be plain and short.
      auto plain = [](std::string_view text) {
        std::string out(text.substr(0, 64));
        for (char& c : out) c = c >= ' ' && c <= '~' ? c : '?';
        return out;
      };
      return plain(name) + ": theirs " + plain(a) + ", ours " + plain(b);
    }
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return {};
}

}  // namespace

std::string build_greeting(HandshakeStage stage, const Greeting& greeting) {
  Writer body;
  body.integer(greeting.version);
  body.integer(greeting.from.rank);
  body.integer(greeting.to.rank);
  body.bytes(greeting.nonce.data(), greeting.nonce.size());
  body.integer(uint16_t(greeting.agreement.size()));
  body.text(greeting.agreement);
  body.integer(greeting.stream);
  body.integer(greeting.generation);
  body.integer(greeting.stood);
  body.integer(greeting.from.job);
  body.integer(greeting.to.job);
  body.bytes(greeting.exchange.data(), greeting.exchange.size());
  return prefixed(stage, body.take());
}

std::string build_verdict(HandshakeStage stage, Verdict verdict, uint64_t received) {
  Writer body;
  body.integer(uint8_t(verdict));
  body.integer(received);
  return prefixed(stage, body.take());
}

bool may_be_prefix(const std::byte* data, size_t bytes) {
  return std::memcmp(data, kMagic, std::min(bytes, sizeof kMagic)) == 0;
}

bool parse_prefix(const std::byte* data, HandshakeStage expected, HandshakePrefix& prefix) {
  if (!may_be_prefix(data, kHandshakePrefixBytes)) return false;
  Reader in(data, kHandshakePrefixBytes);
  in.skip(sizeof kMagic);
  prefix.stage = HandshakeStage(in.integer<uint8_t>());
  uint8_t zero = in.integer<uint8_t>();
  prefix.body_bytes = in.integer<uint16_t>();
  return prefix.stage == expected && zero == 0 && prefix.body_bytes <= kMaxHandshakeBody;
}

bool parse_greeting(std::string_view body, Greeting& greeting) {
  Reader in(body);
  greeting.version = in.integer<uint32_t>();
  greeting.from.rank = in.integer<uint32_t>();
  greeting.to.rank = in.integer<uint32_t>();
  in.bytes(greeting.nonce.data(), greeting.nonce.size());
  greeting.agreement = in.text(in.integer<uint16_t>());
  if (greeting.version == 1) return in.ok();  // version 1 had one connection only
  greeting.stream = in.integer<uint8_t>();
  greeting.generation = in.integer<uint32_t>();
  if (greeting.version == 2) return in.ok();
  greeting.stood = in.integer<uint32_t>();
  if (greeting.version <= 5) return in.ok();  // knew only one job
  greeting.from.job = in.integer<uint64_t>();
  greeting.to.job = in.integer<uint64_t>();
  in.bytes(greeting.exchange.data(), greeting.exchange.size());
  return in.ok();
}

bool parse_verdict(std::string_view body, Verdict& verdict, uint64_t& received) {
  Reader in(body);
  uint8_t value = in.integer<uint8_t>();
  received = in.left() != 0 ? in.integer<uint64_t>() : 0;
  verdict = Verdict(value);
  return in.ok() && value >= uint8_t(Verdict::accept) && value <= uint8_t(Verdict::refused);
}

std::string describe_disagreement(std::string_view theirs, std::string_view ours) {
  std::string difference = first_difference(ours, theirs, ours);
  return difference.empty() ? first_difference(theirs, theirs, ours) : difference;
}

}  // namespace tern::wire
