// An open file descriptor and its owner: closed with it. Thread rule: a value.
#pragma once

#include <unistd.h>

#include <utility>

namespace tern {

class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over `fd`; negative: none.
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// The caller owns it from now on.
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) close(release());
  }

 private:
  int fd_ = -1;
};

}  // namespace tern
