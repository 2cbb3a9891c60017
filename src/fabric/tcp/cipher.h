// Encryption of one direction of one connection (TERN_ENCRYPT): each block of the stream (wire/frame.h) is
// encrypted and authenticated with ChaCha20-Poly1305 (RFC 8439), its head authenticated. The key is this connection's
// alone (handshake.h), the nonce counts its blocks: a block that was changed, left out, repeated or moved is noticed.
//
// An attacker who learns the job's key later cannot read recordings (key_exchange.h). Message sizes and times are
// visible. Thread rule: a value of its connection, under the rank's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/frame.h"

namespace tern {

using TcpKey = std::array<uint8_t, 32>;

class TcpCipher {
 public:
  static constexpr size_t kTagBytes = wire::kBlockTagBytes;

  /// A new connection.
  void begin(const TcpKey& key);
  bool on() const { return on_; }
  /// Encrypts head.length bytes in place; the tag is written behind them. In the order of sending.
  void seal(const wire::BlockHead& head, std::byte* data);
  /// The reverse; false: this is not what was sealed. In the order of arrival.
  [[nodiscard]] bool open(const wire::BlockHead& head, std::byte* data);

 private:
  void next_nonce(uint8_t* nonce);
  bool on_ = false;
  uint64_t blocks_ = 0;
  TcpKey key_{};
};

}  // namespace tern
