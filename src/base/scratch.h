// Scratch: memory for intermediate results, kept for the next user. The system's allocator returns blocks of this size
// to the kernel at once, and every new one costs a page fault for each 4 KiB (256 KiB: 130 us, ten times what it takes
// to fill them).
//
// Blocks are powers of two from kMin on, aligned to 64 bytes; at most kMaxKept bytes are kept unused.
// Units: bytes. Thread rule: the owner's lock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace tern {

struct DebugLayout;

class Scratch {
 public:
  static constexpr size_t kMin = 256;                  ///< smallest block: a few lines
  static constexpr size_t kLargest = size_t{4} << 20;  ///< larger ones are not kept: page faults are a tenth of a copy
  static constexpr size_t kMaxKept = size_t{8} << 20;  ///< unused, in all: two of the largest (what a rank keeps)

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    for (Free*& list : free_) {
      while (Free* block = list) {
        list = block->next;
        std::free(block);
      }
    }
  }

  /// At least `bytes`, which becomes what there is. Null: no memory.
  void* take(size_t& bytes) {
    if (bytes > kLargest) {
      if (bytes > SIZE_MAX - 64) return nullptr;
      bytes = (bytes + 63) & ~size_t{63};
      return std::aligned_alloc(64, bytes);
    }
    bytes = bytes < kMin ? kMin : std::bit_ceil(bytes);
    Free*& list = free_[index(bytes)];
    if (!list) return std::aligned_alloc(64, bytes);
    Free* block = list;
    list = block->next;
    kept_ -= bytes;
    return block;
  }
  /// Returns a block; `bytes` as `take` set it.
  void give(void* memory, size_t bytes) {
    if (bytes > kLargest || kept_ + bytes > kMaxKept) {
      std::free(memory);
      return;
    }
    Free*& list = free_[index(bytes)];
    list = new (memory) Free{list};
    kept_ += bytes;
  }

 private:
  struct Free {
    Free* next;
  };
  static size_t index(size_t bytes) { return size_t(std::countr_zero(bytes) - std::countr_zero(kMin)); }
  Free* free_[std::countr_zero(kLargest) - std::countr_zero(kMin) + 1] = {};
  size_t kept_ = 0;
};

/// A block that returns by itself. The Scratch outlives it.
class ScratchBlock {
 public:
  ScratchBlock() = default;
  /// At least `bytes`. Throws std::bad_alloc.
  ScratchBlock(Scratch& scratch, size_t bytes) : scratch_(&scratch), memory_(scratch.take(bytes)), bytes_(bytes) {
    if (!memory_) throw std::bad_alloc();
  }
  ScratchBlock(ScratchBlock&& other) noexcept
      : scratch_(other.scratch_), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  ScratchBlock& operator=(ScratchBlock&& other) noexcept {
    std::swap(scratch_, other.scratch_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ScratchBlock() {
    if (memory_) scratch_->give(memory_, bytes_);
  }

  /// Null: an empty one.
  std::byte* get() const { return static_cast<std::byte*>(memory_); }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  friend struct DebugLayout;  // capi/debug_view.h
  Scratch* scratch_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tern
