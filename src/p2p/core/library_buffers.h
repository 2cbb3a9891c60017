// LibraryBuffers: the few buffers into which hybrid sends (hybrid.h) copy, and peers get from. A buffer is lent for one
// message and comes back by itself. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/core/endpoint.h"

namespace tern {

class LibraryBuffers {
  struct Buffer {
    RemoteMemory* memory_of;  ///< through which peers get from it
    std::byte* memory;
    RemoteKey key;
    std::unique_ptr<std::byte[]> own;  ///< null: lent by the path
  };

 public:
  /// At most so many, ever (tunable hybrid_buffers); they live as long as this object.
  explicit LibraryBuffers(size_t most) : most_(most) {}

  /// A buffer that one message has. Ends by giving it back.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept : of_(other.of_), buffer_(std::exchange(other.buffer_, nullptr)) {}
    Loan& operator=(Loan&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    [[gnu::always_inline]] ~Loan() {
      if (buffer_) [[unlikely]]
        of_->free_.push_back(buffer_);
    }
    explicit operator bool() const { return buffer_ != nullptr; }
    /// Of the path's hybrid_bytes.
    std::byte* memory() const { return buffer_->memory; }
    const RemoteKey& key() const { return buffer_->key; }

   private:
    friend class LibraryBuffers;
    Loan(LibraryBuffers& of, Buffer& buffer) : of_(&of), buffer_(&buffer) {}
    LibraryBuffers* of_ = nullptr;
    Buffer* buffer_ = nullptr;
  };

  /// Whether `borrow` is likely to have one (the path may refuse).
  bool any_for(const Endpoint& peer) const;
  /// Empty: all are lent, or the path has no memory for another.
  Loan borrow(const Endpoint& peer);

 private:
  const size_t most_;
  std::vector<std::unique_ptr<Buffer>> all_;
  std::vector<Buffer*> free_;  ///< the one that was given back last is taken first: it is still in the cache
};

}  // namespace tern
