// The seal of a datagram: a keyed checksum over all of it, which only ranks of the job can make.
//
// Each direction of a pair of ranks has a key of its own, derived (BLAKE2b) from the job's key, both ranks and both
// ranks' salts, which are fresh for every start of a rank. A datagram's number is the nonce and never used twice. So a
// sealed datagram cannot be made without the key, nor changed, reflected, or used between others; a repeated one is
// recognised by its number (received_numbers.h). The cipher is AES-256-GCM if both processors have the instructions (41
// ns for a short datagram), else ChaCha20-Poly1305 (240). Without TERN_ENCRYPT it only authenticates; with it
// everything behind the head is encrypted as well, and the result of the key exchange (key_exchange.h) is part of the
// keys.
//
// Thread rule: under the rank's lock. Source: RFC 8439, NIST SP 800-38D; libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/types.h"
#include "fabric/ip/key_exchange.h"

namespace tern {

using UdpKey = std::array<uint8_t, 32>;
using UdpSalt = std::array<uint8_t, 16>;

class DatagramSeal {
 public:
  /// For what `from` sends to `to`. `shared`: the exchanged secret of the two; null: no encryption. `aes`: both
  /// processors have the instructions.
  DatagramSeal(const UdpKey& job, const RankName& from, const UdpSalt& from_salt, const RankName& to,
               const UdpSalt& to_salt, const ExchangeKey* shared, bool aes);
  ~DatagramSeal();

  /// Fills the last wire::kDatagramTagBytes of a datagram of `bytes` bytes; encrypts what lies between head and tag.
  void close(std::byte* datagram, size_t bytes, uint64_t number) const;
  /// The reverse; false: the tag is wrong.
  [[nodiscard]] bool open(std::byte* datagram, size_t bytes, uint64_t number) const;
  bool encrypts() const { return encrypts_; }

  /// Whether this processor has instructions for AES-GCM.
  static bool can_aes();

 private:
  struct Aes;
  struct Parts;
  std::array<uint8_t, 32> key_;
  bool encrypts_;
  std::unique_ptr<Aes> aes_;  ///< null: ChaCha20-Poly1305
};

/// The tag of an introduction (wire::Introduction), which a rank of the job makes for another one. `covered`: the bytes
/// before the tag.
std::array<uint8_t, 16> introduction_tag(const UdpKey& job, const RankName& to, const std::byte* datagram,
                                         size_t covered);

}  // namespace tern
