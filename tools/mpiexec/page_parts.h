// The pieces of which a page's data is made: columns of numbers in few bytes, compressed, as text that stands in HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::mpiexec {

/// A column of numbers as LEB128: seven bits a byte, the lowest first, the top bit says that more follow.
class Column {
 public:
  void add(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }
  /// Small numbers of either sign are short.
  void add_signed(int64_t value) { add(uint64_t(value) << 1 ^ uint64_t(value >> 63)); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Columns one after the other, each behind its length (a LEB128 number).
std::string join(const std::vector<Column>& columns);
/// zlib's format (RFC 1950), which browsers read (DecompressionStream), then Base64.
std::string packed(std::string_view bytes);
/// As it stands between quotes in JSON, also inside of a <script>.
std::string json_text(std::string_view text);

}  // namespace tern::mpiexec
