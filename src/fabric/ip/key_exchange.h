// KeyExchange: one side of a Diffie-Hellman exchange over Curve25519 (RFC 7748; libsodium). The shared result is part
// of the keys of the connection, beside the job's key: an attacker who records a connection and learns the job's key
// later cannot read it (forward secrecy). The public keys are authenticated by the handshake, or by the launcher that
// hands out the cards.
//
// Thread rule: a value of its connection, under the rank's lock.
#pragma once

#include <array>
#include <cstdint>

namespace tern {

using ExchangeKey = std::array<uint8_t, 32>;

class KeyExchange {
 public:
  /// Makes a fresh secret, which never leaves this object and is wiped with it.
  KeyExchange();
  ~KeyExchange();
  KeyExchange(const KeyExchange&) = delete;
  KeyExchange& operator=(const KeyExchange&) = delete;

  const ExchangeKey& public_key() const { return public_; }
  /// The secret shared with the owner of `theirs`. False: that is not a valid key.
  [[nodiscard]] bool share(const ExchangeKey& theirs, ExchangeKey& shared) const;

 private:
  ExchangeKey secret_, public_;
};

}  // namespace tern
