#include "fabric/ip/key_exchange.h"

#include <sodium.h>

namespace tern {

static_assert(crypto_scalarmult_BYTES == sizeof(ExchangeKey) && crypto_scalarmult_SCALARBYTES == sizeof(ExchangeKey));

KeyExchange::KeyExchange() {
  // Random bytes from the system, not from the rank's seeded generator.
  randombytes_buf(secret_.data(), secret_.size());
  crypto_scalarmult_base(public_.data(), secret_.data());
}

KeyExchange::~KeyExchange() { sodium_memzero(secret_.data(), secret_.size()); }

bool KeyExchange::share(const ExchangeKey& theirs, ExchangeKey& shared) const {
  return crypto_scalarmult(shared.data(), secret_.data(), theirs.data()) == 0;
}

}  // namespace tern
