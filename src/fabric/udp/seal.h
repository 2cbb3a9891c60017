// The seal of a datagram: a keyed checksum over all of it, which only ranks of the job can make.
//
// Each direction of a pair of ranks has a key of its own, derived (BLAKE2b) from the job's key, both ranks and both
// ranks' salts, which are fresh for every start of a rank; a datagram's number is the nonce and never used twice. So a
// sealed datagram cannot be made without the key, nor changed, reflected, or used between others; a repeated one is
// known by its number (received_numbers.h). Nothing is encrypted: authentication is that of AES-256-GCM with no
// plaintext where both processors have the instructions (41 ns for a short datagram), else of ChaCha20-Poly1305 (240).
//
// Thread rule: under the rank's lock. Source: RFC 8439, NIST SP 800-38D; libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/types.h"

namespace tern {

using UdpKey = std::array<uint8_t, 32>;
using UdpSalt = std::array<uint8_t, 16>;

class DatagramSeal {
 public:
  /// For what `from` sends to `to`. `aes`: both processors have it.
  DatagramSeal(const UdpKey& job, const RankName& from, const UdpSalt& from_salt, const RankName& to,
               const UdpSalt& to_salt, bool aes);
  ~DatagramSeal();

  /// Fills the last wire::kDatagramTagBytes of a datagram of `bytes` bytes.
  void close(std::byte* datagram, size_t bytes, uint64_t number) const;
  /// Whether they are right.
  bool check(const std::byte* datagram, size_t bytes, uint64_t number) const;

  /// Whether this processor does AES-GCM.
  static bool can_aes();

 private:
  struct Aes;
  std::array<uint8_t, 32> key_;
  std::unique_ptr<Aes> aes_;  ///< null: ChaCha20-Poly1305
};

/// The tag of an introduction (wire::Introduction), which a rank of the job makes for another one. `covered`: the bytes
/// before the tag.
std::array<uint8_t, 16> introduction_tag(const UdpKey& job, const RankName& to, const std::byte* datagram,
                                         size_t covered);

}  // namespace tern
