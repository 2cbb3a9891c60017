#include "page_parts.h"

#include <fmt/format.h>
#ifdef TERN_HAVE_ZLIB
#include <zlib.h>
#endif

#include <new>

namespace tern::mpiexec {
namespace {

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    const auto byte = [&](size_t k) { return k < left ? uint32_t(static_cast<unsigned char>(bytes[i + k])) : 0; };
    const uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    text += kDigits[word >> 18];
    text += kDigits[word >> 12 & 63];
    text += left > 1 ? kDigits[word >> 6 & 63] : '=';
    text += left > 2 ? kDigits[word & 63] : '=';
  }
  return text;
}

}  // namespace

std::string join(const std::vector<Column>& columns) {
  std::string all;
  for (const Column& column : columns) {
    Column length;
    length.add(column.bytes().size());
    all += length.bytes() + column.bytes();
  }
  return all;
}

#ifdef TERN_HAVE_ZLIB
std::string packed(std::string_view bytes) {
  constexpr int kQuick = 2;  // half the time of the default, a tenth more bytes (deltas of times)
  uLongf size = compressBound(uLong(bytes.size()));
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                uLong(bytes.size()), kQuick) != Z_OK) {
    throw std::bad_alloc();
  }
  out.resize(size);
  return base64(out);
}
#else
std::string packed(std::string_view bytes) { return base64(bytes); }  // no pages are written then (has_page_library)
#endif

std::string json_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '"' || c == '\\' || c == '<') out += fmt::format("\\u{:04x}", c);
    else out += c;
  }
  return out;
}

}  // namespace tern::mpiexec
