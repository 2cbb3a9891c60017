// Memory for file data in transfer: blocks of powers of two, aligned as O_DIRECT requires, kept for the next user.
// (A new block costs a page fault for each 4 KiB: 1 MiB 60 to 130 us, as long as writing it to the page cache.)
// Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tern::io {

class Buffers {
 public:
  static constexpr size_t kAlignment = 4096;  ///< what direct input and output needs on all common devices

  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (auto& list : free_) {
      for (void* block : list) std::free(block);
    }
  }

 private:
  friend class Buffer;
  static constexpr size_t kMinBits = 12, kLargestBits = 24;  ///< larger blocks are not kept
  static constexpr size_t kMaxKept = size_t{64} << 20;       ///< unused, in all: four of the largest blocks

  static size_t rounded(size_t bytes) {
    if (bytes > size_t{1} << kLargestBits) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return std::bit_ceil(bytes < kAlignment ? kAlignment : bytes);
  }
  std::byte* take(size_t rounded_bytes) {
    if (rounded_bytes <= size_t{1} << kLargestBits) {
      auto& list = free_[size_t(std::countr_zero(rounded_bytes)) - kMinBits];
      if (!list.empty()) {
        auto* block = static_cast<std::byte*>(list.back());
        list.pop_back();
        kept_ -= rounded_bytes;
        return block;
      }
    }
    return static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded_bytes));
  }
  void give(void* block, size_t rounded_bytes) {
    if (rounded_bytes > size_t{1} << kLargestBits || kept_ + rounded_bytes > kMaxKept) {
      std::free(block);
      return;
    }
    kept_ += rounded_bytes;
    free_[size_t(std::countr_zero(rounded_bytes)) - kMinBits].push_back(block);
  }

  std::array<std::vector<void*>, kLargestBits - kMinBits + 1> free_;
  size_t kept_ = 0;
};

/// One block and its owner. Empty when there was no memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffers& pool, size_t bytes) : pool_(&pool), bytes_(Buffers::rounded(bytes)), data_(pool.take(bytes_)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Buffer() {
    if (data_) pool_->give(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  Buffers* pool_ = nullptr;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace tern::io
