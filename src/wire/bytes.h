// Reading and writing wire formats field by field: little-endian, bounds-checked, no exceptions. A reader
// that ran off the end yields zeros and stays failed, so that a parser reads everything and asks `ok` once.
// Thread rule: values, no sharing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace tern::wire {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "wire formats are little-endian; swap here for other machines");

class Reader {
 public:
  Reader(const void* data, size_t bytes) : at_(static_cast<const std::byte*>(data)), left_(bytes) {}
  explicit Reader(std::string_view text) : Reader(text.data(), text.size()) {}

  template <typename T>
  T integer() {
    static_assert(std::is_integral_v<T>);
    T value = 0;
    bytes(&value, sizeof value);
    return value;
  }
  /// Copies `n` bytes out; leaves `out` as it is when there are fewer.
  void bytes(void* out, size_t n) {
    if (!take(n)) return;
    if (n != 0) std::memcpy(out, at_ - n, n);
  }
  /// The next `n` bytes, viewed in place.
  std::string_view text(size_t n) {
    if (!take(n)) return {};
    return {reinterpret_cast<const char*>(at_ - n), n};
  }
  void skip(size_t n) { (void)take(n); }

  bool ok() const { return ok_; }
  size_t left() const { return left_; }

 private:
  bool take(size_t n) {
    if (!ok_ || n > left_) {
      ok_ = false;
      return false;
    }
    at_ += n;
    left_ -= n;
    return true;
  }
  const std::byte* at_;
  size_t left_;
  bool ok_ = true;
};

class Writer {
 public:
  template <typename T>
  void integer(T value) {
    static_assert(std::is_integral_v<T>);
    bytes(&value, sizeof value);
  }
  void bytes(const void* data, size_t n) { out_.append(static_cast<const char*>(data), n); }
  void text(std::string_view text) { out_.append(text); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace tern::wire
