#include "fabric/udp/seal.h"

#include <sodium.h>

#include <cstring>
#include <string_view>

#include "wire/datagram.h"

namespace tern {
namespace {

constexpr std::string_view kPurpose = "tern udp datagram 1";
static_assert(crypto_aead_aes256gcm_ABYTES == wire::kDatagramTagBytes &&
              crypto_aead_chacha20poly1305_ietf_ABYTES == wire::kDatagramTagBytes);
static_assert(crypto_aead_aes256gcm_NPUBBYTES == 12 && crypto_aead_chacha20poly1305_ietf_NPUBBYTES == 12);

using Nonce = std::array<uint8_t, 12>;
Nonce nonce_of(uint64_t number) {
  Nonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}
const uint8_t* raw(const std::byte* data) { return reinterpret_cast<const uint8_t*>(data); }

}  // namespace

struct DatagramSeal::Aes {
  crypto_aead_aes256gcm_state state;
};

bool DatagramSeal::can_aes() { return crypto_aead_aes256gcm_is_available() == 1; }

DatagramSeal::DatagramSeal(const UdpKey& job, const RankName& from, const UdpSalt& from_salt, const RankName& to,
                           const UdpSalt& to_salt, const ExchangeKey* shared, bool aes)
    : encrypts_(shared != nullptr) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, job.data(), job.size(), key_.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kPurpose.data()), kPurpose.size());
  for (const RankName* name : {&from, &to}) {
    crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(&name->job), sizeof name->job);
    crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(&name->rank), sizeof name->rank);
  }
  crypto_generichash_update(&state, from_salt.data(), from_salt.size());
  crypto_generichash_update(&state, to_salt.data(), to_salt.size());
  if (shared) crypto_generichash_update(&state, shared->data(), shared->size());
  crypto_generichash_final(&state, key_.data(), key_.size());
  if (!aes) return;
  aes_ = std::make_unique<Aes>();
  crypto_aead_aes256gcm_beforenm(&aes_->state, key_.data());
}

std::array<uint8_t, 16> introduction_tag(const UdpKey& job, const RankName& to, const std::byte* datagram,
                                         size_t covered) {
  static constexpr std::string_view kIntroduction = "tern udp introduction 1";
  std::array<uint8_t, 16> tag;
  static_assert(tag.size() == wire::kDatagramTagBytes && tag.size() >= crypto_generichash_BYTES_MIN);
  crypto_generichash_state state;
  crypto_generichash_init(&state, job.data(), job.size(), tag.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kIntroduction.data()), kIntroduction.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(&to.job), sizeof to.job);
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(&to.rank), sizeof to.rank);
  crypto_generichash_update(&state, raw(datagram), covered);
  crypto_generichash_final(&state, tag.data(), tag.size());
  return tag;
}

DatagramSeal::~DatagramSeal() {
  sodium_memzero(key_.data(), key_.size());
  if (aes_) sodium_memzero(&aes_->state, sizeof aes_->state);
}

// The parts of a datagram: bytes that are only authenticated, bytes that are also encrypted, and the tag.
struct DatagramSeal::Parts {
  Parts(std::byte* datagram, size_t bytes, bool encrypts)
      : plain(reinterpret_cast<uint8_t*>(datagram)),
        plain_bytes(encrypts ? sizeof(wire::DatagramHead) : bytes - wire::kDatagramTagBytes),
        secret(plain + plain_bytes),
        secret_bytes(bytes - wire::kDatagramTagBytes - plain_bytes),
        tag(secret + secret_bytes) {}
  uint8_t* plain;
  size_t plain_bytes;
  uint8_t* secret;
  size_t secret_bytes;
  uint8_t* tag;
};

void DatagramSeal::close(std::byte* datagram, size_t bytes, uint64_t number) const {
  const Parts its(datagram, bytes, encrypts_);
  const Nonce nonce = nonce_of(number);
  if (aes_) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(its.secret, its.tag, nullptr, its.secret, its.secret_bytes,
                                                   its.plain, its.plain_bytes, nullptr, nonce.data(), &aes_->state);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(its.secret, its.tag, nullptr, its.secret, its.secret_bytes,
                                                       its.plain, its.plain_bytes, nullptr, nonce.data(), key_.data());
  }
}

bool DatagramSeal::open(std::byte* datagram, size_t bytes, uint64_t number) const {
  const Parts its(datagram, bytes, encrypts_);
  const Nonce nonce = nonce_of(number);
  if (aes_) {
    return crypto_aead_aes256gcm_decrypt_detached_afternm(its.secret, nullptr, its.secret, its.secret_bytes, its.tag,
                                                          its.plain, its.plain_bytes, nonce.data(), &aes_->state) == 0;
  }
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(its.secret, nullptr, its.secret, its.secret_bytes, its.tag,
                                                            its.plain, its.plain_bytes, nonce.data(), key_.data()) == 0;
}

}  // namespace tern
