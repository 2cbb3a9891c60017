// The routes that an operation can take to its target, best first; docs/windows.md has them for users.
//
//   route     header            reason
//   direct    routes/direct.h   the target's memory is mapped here: an operation is some loads and stores
//   words     routes/words.h    an adapter's atomics need no processor at the target
//   cell      routes/cell.h     one line of memory moves there and back, where a message and its answer are two each
//   adapter   routes/adapter.h  an adapter, or this rank's processor, moves the bytes while the target computes
//   record    routes/record.h   always works: the target carries operations out in the order in which they come
//
// Which of them can lead to a target does not change, and is kept with it (`Routes`); whether one takes an operation
// now is asked for each (`takes`). `begin` starts it; each header says what its end waits for. Thread rule: values.
#pragma once

#include <cstdint>

namespace tern::rma {

enum class Route : uint8_t { direct, words, cell, adapter, record };

/// Those that can lead to one target.
class Routes {
 public:
  void add(Route route) { bits_ |= bit(route); }
  bool has(Route route) const { return (bits_ & bit(route)) != 0; }

 private:
  static constexpr uint8_t bit(Route route) { return uint8_t(1u << uint8_t(route)); }
  uint8_t bits_ = bit(Route::record);
};

}  // namespace tern::rma
