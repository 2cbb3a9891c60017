#include "fabric/tcp/cipher.h"

#include <sodium.h>

#include <cstring>

namespace tern {

static_assert(TcpCipher::kTagBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(sizeof(TcpKey) == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

void TcpCipher::begin(const TcpKey& key) {
  key_ = key;
  blocks_ = 0;
  on_ = true;
}

void TcpCipher::next_nonce(uint8_t* nonce) {
  std::memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
  std::memcpy(nonce, &blocks_, sizeof blocks_);
  ++blocks_;
}

void TcpCipher::seal(const wire::BlockHead& head, std::byte* data) {
  uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  next_nonce(nonce);
  auto* bytes = reinterpret_cast<uint8_t*>(data);
  crypto_aead_chacha20poly1305_ietf_encrypt(bytes, nullptr, bytes, head.length, reinterpret_cast<const uint8_t*>(&head),
                                            sizeof head, nullptr, nonce, key_.data());
}

bool TcpCipher::open(const wire::BlockHead& head, std::byte* data) {
  uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  next_nonce(nonce);
  auto* bytes = reinterpret_cast<uint8_t*>(data);
  return crypto_aead_chacha20poly1305_ietf_decrypt(bytes, nullptr, nullptr, bytes, head.length + kTagBytes,
                                                   reinterpret_cast<const uint8_t*>(&head), sizeof head, nonce,
                                                   key_.data()) == 0;
}

}  // namespace tern
