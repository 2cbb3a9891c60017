// KeyExchange: one side of a Diffie-Hellman exchange over Curve25519 (RFC 7748; libsodium). What both sides come to
// goes into the keys of their connection, beside the job's key: so who records a connection and learns the job's key
// later cannot read it (forward secrecy). The handshake, or the
// launcher that hands out the cards, authenticates the public keys.
//
// Thread rule: a value of its connection, under the rank's lock.
#pragma once

#include <array>
#include <cstdint>

namespace tern {

using ExchangeKey = std::array<uint8_t, 32>;

class KeyExchange {
 public:
  /// A fresh secret, which never leaves this object and is wiped with it.
  KeyExchange();
  ~KeyExchange();
  KeyExchange(const KeyExchange&) = delete;
  KeyExchange& operator=(const KeyExchange&) = delete;

  const ExchangeKey& public_key() const { return public_; }
  /// What this side and the holder of `theirs` share. False: that is no sound key.
  [[nodiscard]] bool share(const ExchangeKey& theirs, ExchangeKey& shared) const;

 private:
  ExchangeKey secret_, public_;
};

}  // namespace tern
