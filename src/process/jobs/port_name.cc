#include "process/jobs/port_name.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tern {
namespace {

constexpr int kPortNameText = sodium_base64_VARIANT_URLSAFE_NO_PADDING;  // port names are pasted into command lines
constexpr std::string_view kBegin = "tern1.";

std::string encoded(const void* data, size_t bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes, kPortNameText), '\0');
  sodium_bin2base64(text.data(), text.size(), static_cast<const unsigned char*>(data), bytes, kPortNameText);
  text.pop_back();  // the terminating null
  return text;
}

bool decoded(std::string_view text, std::string& bytes) {
  bytes.resize(text.size());
  size_t length = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(), text.size(), nullptr,
                        &length, &end, kPortNameText) != 0 ||
      end != text.data() + text.size())
    return false;
  bytes.resize(length);
  return true;
}

Error no_port(std::string_view text) {
  return Error(ErrorClass::port,
               fmt::format("'{}' is not the name of a port, as MPI_Open_port gives it", text.substr(0, 80)));
}

// Returns the text before the next point and removes both from `text`.
std::string_view field(std::string_view& text) {
  const size_t end = std::min(text.find('.'), text.size());
  const std::string_view found = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return found;
}

}  // namespace

std::string to_text(PortName name) {
  while (true) {
    const std::string card = wire::build_card(name.card);
    std::string text = fmt::format("{}{:016x}.{}.{}", kBegin, name.number,
                                   name.secret ? encoded(name.secret->data(), name.secret->size()) : "",
                                   encoded(card.data(), card.size()));
    if (text.size() <= kMaxPortName || name.card.addresses.empty()) return text;
    name.card.addresses.pop_back();
  }
}

Error parse_port_name(std::string_view text, PortName& name) {
  if (!text.starts_with(kBegin) || text.size() > kMaxPortName) return no_port(text);
  std::string_view rest = text.substr(kBegin.size());
  const std::string_view number = field(rest), secret = field(rest);
  auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), name.number, 16);
  std::string bytes;
  if (failure != std::errc() || end != number.data() + number.size() || !decoded(secret, bytes)) return no_port(text);
  name.secret.reset();
  if (!bytes.empty()) {
    TcpKey key;
    if (bytes.size() != key.size()) return no_port(text);
    std::memcpy(key.data(), bytes.data(), key.size());
    name.secret = key;
  }
  if (!decoded(rest, bytes)) return no_port(text);
  if (Error error = wire::parse_card(bytes, name.card)) return no_port(text);
  return {};
}

}  // namespace tern
