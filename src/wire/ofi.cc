#include "wire/ofi.h"

#include <sodium.h>

#include "wire/bytes.h"

namespace tern::wire {
namespace {

constexpr uint32_t kOfiCardMagic = 0x4f667254;  // "TrfO"
constexpr uint16_t kOfiVersion = 3;

}  // namespace

std::string build_ofi_card(const OfiCard& card) {
  Writer out;
  out.integer(kOfiCardMagic);
  out.integer(kOfiVersion);
  out.integer(uint8_t(card.provider.size()));
  out.integer(uint8_t(card.format.size()));
  out.integer(uint16_t(card.address.size()));
  out.bytes(card.salt.data(), card.salt.size());
  out.text(card.provider);
  out.text(card.format);
  out.text(card.address);
  return out.take();
}

Error parse_ofi_card(std::string_view text, OfiCard& card) {
  Reader in(text);
  const uint32_t magic = in.integer<uint32_t>();
  const uint16_t version = in.integer<uint16_t>();
  const uint8_t provider = in.integer<uint8_t>(), format = in.integer<uint8_t>();
  const uint16_t address = in.integer<uint16_t>();
  if (magic != kOfiCardMagic) return Error(ErrorClass::other, "what the peer published is no libfabric address");
  if (version != kOfiVersion) {
    return Error(ErrorClass::other, "the peer's libfabric address has version " + std::to_string(version) +
                                        ", ours is " + std::to_string(kOfiVersion) +
                                        ": use the same library on all ranks");
  }
  in.bytes(card.salt.data(), card.salt.size());
  card.provider = in.text(provider);
  card.format = in.text(format);
  card.address = in.text(address);
  if (!in.ok() || card.address.empty() || card.address.size() > kMaxOfiAddress)
    return Error(ErrorClass::other, "the peer's libfabric address is cut short");
  return {};
}

uint64_t ofi_proof(const uint8_t* key, const RankName& from, const RankName& to, const std::array<uint8_t, 16>& salt,
                   uint16_t incarnation) {
  Writer text;
  for (const RankName& name : {from, to}) {
    text.integer(name.job);
    text.integer(name.rank);
  }
  text.bytes(salt.data(), salt.size());
  text.integer(incarnation);
  const std::string covered = text.take();
  unsigned char hash[crypto_generichash_BYTES_MIN];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(covered.data()), covered.size(), key,
                     32);
  uint64_t proof;
  std::memcpy(&proof, hash, sizeof proof);
  return proof;
}

}  // namespace tern::wire
