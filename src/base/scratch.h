// Scratch: memory for intermediate results, kept for the next user. The system's allocator returns blocks of this size
// to the kernel at once, and every new one costs a page fault for each 4 KiB (256 KiB: 130 us, ten times what it takes
// to fill them).
//
// Blocks are powers of two, up to `largest`; longer ones are not kept. Units: bytes. Thread rule: the owner's lock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace tern {

struct DebugLayout;

struct ScratchLimits {
  size_t alignment;  ///< of every block: a power of two
  size_t smallest;   ///< a power of two, a multiple of `alignment`
  size_t largest;    ///< a power of two
  size_t kept;       ///< unused, in all
};

template <ScratchLimits kLimits>
class BasicScratch {
 public:
  BasicScratch() = default;
  BasicScratch(const BasicScratch&) = delete;
  BasicScratch& operator=(const BasicScratch&) = delete;
  ~BasicScratch() {
    for (Free*& list : free_) {
      while (Free* block = list) {
        list = block->next;
        std::free(block);
      }
    }
  }

  /// A block and its owner, which ends before the scratch does.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept {
      std::swap(scratch_, other.scratch_);
      std::swap(data_, other.data_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Block() {
      if (data_) scratch_->give(data_, bytes_);
    }
    std::byte* data() const { return data_; }
    size_t size() const { return bytes_; }
    explicit operator bool() const { return data_ != nullptr; }

   private:
    friend class BasicScratch;
    friend struct tern::DebugLayout;  // capi/debug_view.h
    BasicScratch* scratch_ = nullptr;
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
  };
  /// At least `bytes`. Empty: no memory.
  Block try_block(size_t bytes) {
    Block made;
    made.data_ = static_cast<std::byte*>(take(bytes));
    made.scratch_ = this;
    made.bytes_ = made.data_ ? bytes : 0;
    return made;
  }
  /// At least `bytes`. Throws std::bad_alloc.
  Block block(size_t bytes) {
    Block made = try_block(bytes);
    if (!made) throw std::bad_alloc();
    return made;
  }

  /// At least `bytes`, which becomes what there is. Null: no memory.
  void* take(size_t& bytes) {
    if (bytes > kLimits.largest) {
      if (bytes > SIZE_MAX - kLimits.alignment) return nullptr;
      bytes = (bytes + kLimits.alignment - 1) & ~(kLimits.alignment - 1);
      return std::aligned_alloc(kLimits.alignment, bytes);
    }
    bytes = bytes < kLimits.smallest ? kLimits.smallest : std::bit_ceil(bytes);
    Free*& list = free_[index(bytes)];
    if (!list) return std::aligned_alloc(kLimits.alignment, bytes);
    Free* block = list;
    list = block->next;
    kept_ -= bytes;
    return block;
  }
  /// Returns a block; `bytes` as `take` set it.
  void give(void* memory, size_t bytes) {
    if (bytes > kLimits.largest || kept_ + bytes > kLimits.kept) {
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
  static constexpr size_t index(size_t bytes) {
    return size_t(std::countr_zero(bytes) - std::countr_zero(kLimits.smallest));
  }
  Free* free_[index(kLimits.largest) + 1] = {};
  size_t kept_ = 0;
};

/// What most of a rank uses: from a few cache lines on; above the largest, page faults are a tenth of a copy. Two of
/// the largest are kept.
using Scratch =
    BasicScratch<ScratchLimits{.alignment = 64, .smallest = 256, .largest = size_t{4} << 20, .kept = size_t{8} << 20}>;
using ScratchBlock = Scratch::Block;

}  // namespace tern
