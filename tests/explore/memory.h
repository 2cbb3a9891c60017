// A model of C++'s memory: what a load may return. Each atomic location keeps the stores of this execution in the order
// in which they happened (its modification order); a load takes any of them that is not older than what its thread must
// have seen. What a thread has seen is a View, which release stores leave beside their value and acquire loads take.
//
//   thread A   data = 1 (plain)   flag.store(1, release)   ──view──┐
//   thread B                      flag.load(acquire) = 1  <────────┘   reads data: in order, no race
//                                 flag.load(acquire) = 0               an old value; may not read data
//
// Not modelled: loads that are satisfied by later stores of other threads (load buffering), modification orders other
// than the order of execution, and a failed compare-exchange that reads an old value. So an execution that this allows
// is allowed by C++20; a few exotic ones that C++20 allows are not tried. Source: Batty et al. 2011 (the rules); Norris
// and Demsky 2013, CDSChecker (exploring them); Lahav et al. 2017 (views and fences).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tern::explore {

inline constexpr size_t kMaxThreads = 4;
using Clock = std::array<uint32_t, kMaxThreads>;

/// What a thread must have seen: of each location the number of a store, and of each thread how far it was.
struct View {
  std::vector<uint32_t> seen;
  Clock clock{};
  void see(size_t location, uint32_t store) {
    if (seen.size() <= location) seen.resize(location + 1);
    if (seen[location] < store) seen[location] = store;
  }
  uint32_t at(size_t location) const { return location < seen.size() ? seen[location] : 0; }
  void join_seen(const View& other);
  void join(const View& other);
};

enum class Order : int { relaxed, consume, acquire, release, acq_rel, seq_cst };  // as __ATOMIC_*
constexpr bool acquires(Order order) {
  return order == Order::consume || order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}
constexpr bool releases(Order order) {
  return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

class Memory {
 public:
  explicit Memory(size_t threads) : threads_(threads) {}

  struct Store {
    uint64_t value;
    View view;  ///< what an acquire load of it takes
  };
  struct Location {
    uintptr_t address;
    unsigned bytes;
    std::vector<Store> stores;  ///< never empty
  };

  /// The location of an atomic; made when first used, with what memory holds.
  size_t location(const volatile void* address, unsigned bytes);
  const Location& at(size_t location) const { return locations_[location]; }
  /// How many stores a load may choose among, 0 being the newest.
  size_t choices(size_t thread, size_t location, Order order) const;
  uint64_t load(size_t thread, size_t location, Order order, size_t choice);
  void store(size_t thread, size_t location, Order order, uint64_t value);
  /// Reads the newest and stores `value`; `order` of both.
  void exchange(size_t thread, size_t location, Order order, uint64_t value);
  uint64_t newest(size_t location) const { return locations_[location].stores.back().value; }
  void fence(size_t thread, Order order);
  /// Every thread passes a sequentially consistent fence where it is now (Linux's membarrier).
  void barrier_everywhere(size_t thread);

  /// A plain access. Returns what is wrong with it, or nothing: a race with another thread's.
  std::string plain(size_t thread, uintptr_t address, size_t bytes, bool write);
  uint64_t stores() const { return stores_; }

 private:
  struct Thread {
    View view;
    View to_acquire;  ///< of relaxed loads, for an acquire fence
    View released;    ///< at the last release fence
  };
  /// Eight bytes: who has written and read them last, when, and which.
  struct Plain {
    uint8_t writer = 0, written = 0;
    uint32_t write_at = 0;
    Clock read_at{};
    std::array<uint8_t, kMaxThreads> read{};
  };
  void append(size_t thread, size_t location, Order order, uint64_t value, const View* sequence);
  bool before(size_t thread, size_t other, uint32_t at) const {
    return other == thread || threads_[thread].view.clock[other] >= at;
  }

  std::vector<Thread> threads_;
  std::vector<Location> locations_;
  std::unordered_map<uintptr_t, size_t> by_address_;
  std::unordered_map<uintptr_t, Plain> plain_;
  View sc_;  ///< what sequentially consistent operations so far have shown (`clock` unused)
  uint64_t stores_ = 0;
};

}  // namespace tern::explore
