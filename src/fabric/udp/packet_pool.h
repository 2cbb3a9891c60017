// Memory for datagrams that may have to be sent again: blocks of powers of two, reused for their own size.
// Units: bytes. Thread rule: the owner's lock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tern {

class PacketPool {
 public:
  PacketPool() = default;
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;
  ~PacketPool() {
    for (Free*& list : free_) {
      while (Free* block = list) {
        list = block->next;
        std::free(block);
      }
    }
  }

  void* take(size_t bytes) {
    ++live_;
    Free*& list = free_[index(bytes)];
    if (!list) {
      void* fresh = std::malloc(kMin << index(bytes));
      if (!fresh) throw std::bad_alloc();
      return fresh;
    }
    Free* block = list;
    list = block->next;
    return block;
  }
  /// `bytes` as `take` set it.
  void give(void* memory, size_t bytes) {
    --live_;
    Free*& list = free_[index(bytes)];
    list = new (memory) Free{list};
  }
  /// Blocks handed out and not yet returned.
  size_t live() const { return live_; }

 private:
  struct Free {
    Free* next;
  };
  static constexpr size_t kMin = 512, kClasses = 9;  // 512 bytes to 128 KiB
  static size_t index(size_t bytes) {
    return bytes <= kMin ? 0 : size_t(std::bit_width(bytes - 1)) - size_t(std::bit_width(kMin - 1));
  }
  Free* free_[kClasses] = {};
  size_t live_ = 0;
};

}  // namespace tern
