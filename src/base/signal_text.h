// Text put together where nothing may be allocated: in signal handlers. Thread rule: values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

/// Writes into a buffer of the caller's, which always ends with a null; what does not fit is cut.
class SignalText {
 public:
  SignalText(char* out, size_t room) : out_(out), room_(room) {
    if (room_ != 0) out_[0] = '\0';
  }
  SignalText& add(const char* words) {
    while (*words != '\0' && size_ + 1 < room_) out_[size_++] = *words++;
    if (room_ != 0) out_[size_] = '\0';
    return *this;
  }
  SignalText& add_number(uint64_t value) { return add_digits(value, 10); }
  SignalText& add_hex(uint64_t value) { return add_digits(value, 16); }
  size_t size() const { return size_; }

 private:
  SignalText& add_digits(uint64_t value, unsigned base) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do digits[--at] = "0123456789abcdef"[value % base];
    while (value /= base);
    return add(digits + at);
  }

  char* out_;
  size_t room_, size_ = 0;
};

}  // namespace tern
