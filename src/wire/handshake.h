// The messages of a connection's handshake, without their cryptography (that is fabric/tcp/handshake.h):
//
//   initiator  --- hello {ranks, nonce, version, agreement, stream} ->  acceptor
//              <-- answer {ranks, nonce, version, agreement, 0} --------
//              --- proof {verdict on the answer, received} ------------>
//              <-- verdict {use it, or not and why; received} ----------
//
// A connection carries a stream from where the one before it broke: each side says how many of its bytes it has
// received, and nothing the other has sent on the connection before is read after that.
//
// Each is: u32 magic | u8 stage | u8 zero | u16 body bytes | body | 32 bytes of authentication over
// everything that both sides have sent so far. Prefix and authentication never change between versions, so that a
// version mismatch can be reported. Thread rule: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tern::wire {

inline constexpr size_t kHandshakePrefixBytes = 8;
inline constexpr size_t kProofBytes = 32;
/// Bounds the memory of an unproven connection: the lists of agreed tunables are some hundred bytes.
inline constexpr size_t kMaxHandshakeBody = 4096;

enum class HandshakeStage : uint8_t { hello = 1, answer = 2, proof = 3, verdict = 4 };

/// One side's verdict on the other's greeting. Values are wire format: append only.
enum class Verdict : uint8_t {
  accept = 1,      ///< the connection may be used
  keep_other = 2,  ///< both have called each other: the other connection is kept
  wrong_rank = 3,  ///< the caller wanted another rank (an address that exists on several hosts)
  version = 4,     ///< wire versions differ
  agreement = 5,   ///< tunables that must agree do not
  refused = 6,     ///< this peer was lost or has left, and cannot come back
};

/// Hello and answer.
struct Greeting {
  uint32_t version = 0;  ///< wire::kVersion of the sender
  RankName from;
  RankName to;  ///< the rank it wants to reach
  std::array<uint8_t, 32> nonce{};
  std::array<uint8_t, 32> exchange{};  ///< its public key, if what follows is encrypted; else 0
  // Of a hello, the stream this connection is for:
  uint8_t stream = 0;       ///< which of the pair's streams
  uint32_t generation = 0;  ///< its connections are numbered; a later one replaces an earlier one
  uint32_t stood = 0;       ///< the last of them that the caller has used
  std::string agreement;    ///< tunables that must agree, "name=value\n" each, sorted by name
};

struct HandshakePrefix {
  HandshakeStage stage;
  uint16_t body_bytes;
};

/// Prefix and body; the caller appends the authentication.
std::string build_greeting(HandshakeStage stage, const Greeting& greeting);
std::string build_verdict(HandshakeStage stage, Verdict verdict, uint64_t received = 0);

/// False: not a handshake of ours, or a stage other than `expected`, or a body that cannot be. Needs all
/// kHandshakePrefixBytes.
bool parse_prefix(const std::byte* data, HandshakeStage expected, HandshakePrefix& prefix);
/// Whether `bytes` (less than a prefix) can be the beginning of one: other data is rejected at its first
/// byte.
bool may_be_prefix(const std::byte* data, size_t bytes);
/// Of a body alone. A greeting of another version may carry more than we know.
bool parse_greeting(std::string_view body, Greeting& greeting);
bool parse_verdict(std::string_view body, Verdict& verdict, uint64_t& received);

/// The first line in which two agreements differ, as "name: theirs x, ours y"; empty when they are the same.
std::string describe_disagreement(std::string_view theirs, std::string_view ours);

}  // namespace tern::wire
