// The writing direction of two_phase.h.
#include <algorithm>
#include <cstring>

#include "io/access.h"
#include "io/two_phase.h"

namespace tern::io {

/// Memory for the data of others, and receives for them.
void TwoPhase::post_parts(Window& window) {
  Environment& environment = at_.environment;
  window.block = environment.buffer(size_t(size_));
  uint64_t staged = 0;
  for (Part& part : window.parts) {
    if (part.rank == rank_) continue;
    if (part.pattern) {
      const int64_t begin = part.pattern->offset_of(part.from);
      part.in_place = uint64_t(part.pattern->end_of(part.from + part.bytes) - begin) == part.bytes;
      if (part.in_place) part.data = window.block.data() + (begin - window.base);
    }
    if (!part.in_place) staged += part.bytes;
  }
  if (staged != 0) window.stage = environment.buffer(staged);
  const bool room = window.block && (staged == 0 || window.stage);
  if (!room) {
    note(Error(ErrorClass::no_mem, "no memory for a window of " + std::to_string(size_) + " bytes of the file"));
    window.sound = false;
  }
  std::byte* next = window.stage.data();
  for (Part& part : window.parts) {
    if (part.rank == rank_) continue;
    if (!part.in_place) part.data = next;
    if (!part.in_place && room) next += part.bytes;
    // Without room the message is received and dropped.
    part.request = receive(room ? part.data : nullptr, room ? part.bytes : 0, part.rank);
  }
}

/// All data of the window come to their places in the block.
Flow TwoPhase::fill(Window& window) {
  co_await take_lists(window);
  for (Part& part : window.parts) {
    if (!part.request) continue;
    Outcome outcome = co_await Done(p2p(), std::exchange(part.request, nullptr), access_.blocking);
    if (outcome.error || uint64_t(outcome.status.bytes) != part.bytes) {
      note(std::move(outcome.error));
      window.sound = false;
    }
  }
  if (!window.sound) co_return Error();
  for (Part& part : window.parts) {
    if (part.in_place) continue;
    Cursor in_block = part.pattern->cursor(window.block.data() - window.base, part.from, part.bytes);
    if (part.rank == rank_) {
      memory_.seek(part.from - access_.position);
      copy(memory_, in_block);
    } else {
      in_block.unpack(part.data, part.bytes);
    }
  }
  co_return Error();
}

/// Whether the data leave no hole, if that is certain without looking at each piece.
bool TwoPhase::covered(const Window& window) const {
  uint64_t bytes = 0;
  for (const Part& part : window.parts) {
    // One rank's stretch without holes over all of it is enough.
    if (part.bytes == uint64_t(window.high - window.low)) return true;
    bytes += part.bytes;
  }
  return disjoint_ && bytes == uint64_t(window.high - window.low);
}

/// A byte for each byte from low to high: 1 where there are data. Empty: no memory.
Buffer TwoPhase::map_of(const Window& window) {
  const auto length = size_t(window.high - window.low);
  Buffer map = at_.environment.buffer(length);
  if (!map) return map;
  std::memset(map.data(), 0, length);
  std::byte ones[4096];
  std::memset(ones, 1, sizeof ones);
  for (const Part& part : window.parts) {
    Cursor marks = part.pattern->cursor(map.data() - window.low, part.from, part.bytes);
    while (marks.remaining() > 0) marks.unpack(ones, sizeof ones);
  }
  return map;
}

namespace {

/// Calls run(begin, end) for the runs of `value` in the map.
template <typename Run>
void for_runs(const Buffer& map, size_t length, int value, Run&& run) {
  const auto* at = reinterpret_cast<const unsigned char*>(map.data());
  const auto* const end = at + length;
  const auto* const begin = at;
  while (at < end) {
    const auto* first = static_cast<const unsigned char*>(std::memchr(at, value, size_t(end - at)));
    if (!first) return;
    const auto* last = static_cast<const unsigned char*>(std::memchr(first, 1 - value, size_t(end - first)));
    if (!last) last = end;
    run(int64_t(first - begin), int64_t(last - begin));
    at = last;
  }
}

}  // namespace

/// Fills the holes with what the file has there, and writes all of it. False: not possible, or not worth it.
bool TwoPhase::change_block(Window& window, const Buffer& map, size_t runs) {
  Environment& environment = at_.environment;
  const OpenFile& file = at_.file;
  const int64_t length = window.high - window.low;
  const int64_t most = file.facts.remote ? kRemoteSieveSpanBytes : kSieveSpanBytes;
  if (at_.hints.sieve_write == Wish::disable || !file.readable || length / int64_t(runs) > most) return false;
  Buffer old = environment.buffer(size_t(length));
  if (!old) return false;
  const int lock = at_.locks.enter_alone(window.low, window.high);
  if (lock < 0) return false;
  FileSystem& files = environment.files();
  const int told = files.lock(file.descriptor, Lock::exclusive, window.low, length, false);
  const bool alone = told != -EAGAIN;
  if (alone) {
    iovec piece{old.data(), size_t(length)};
    Job read(Job::Work::read, files, file.descriptor, file.path);
    read.pieces = &piece;
    read.count = 1;
    read.offset = window.low;
    read.carry_out();
    read.settle();
    std::memset(old.data() + read.status.bytes, 0, size_t(length - read.status.bytes));  // past the end of the file
    for_runs(map, size_t(length), 0, [&](int64_t begin, int64_t end) {
      std::memcpy(window.block.data() + (window.low - window.base) + begin, old.data() + begin, size_t(end - begin));
    });
    piece = {window.block.data() + (window.low - window.base), size_t(length)};
    Job write(Job::Work::write, files, file.descriptor, file.path);
    write.pieces = &piece;
    write.count = 1;
    write.offset = window.low;
    if (!read.error) {
      write.carry_out();
      write.settle();
    }
    note(std::move(read.error ? read.error : write.error));
    ++environment.counters().io_sieved;
  }
  if (told == 0) files.lock(file.descriptor, Lock::none, window.low, length, false);
  at_.locks.leave(lock);
  return alone;
}

void TwoPhase::begin_write(Window& window) {
  if (!window.sound || window.low == window.high || error_) return;
  wrote_ = true;
  ++at_.environment.counters().io_windows;
  if (covered(window)) {
    window.pieces.reserve(1);
    begin_transfer(window, true, window.low, window.high);
    return;
  }
  const auto length = size_t(window.high - window.low);
  const Buffer map = map_of(window);
  if (!map) {
    note(Error(ErrorClass::no_mem, "no memory for a window of " + std::to_string(size_) + " bytes of the file"));
    return;
  }
  size_t runs = 0;
  for_runs(map, length, 1, [&](int64_t, int64_t) { ++runs; });
  if (runs > 1 && change_block(window, map, runs)) return;
  window.pieces.reserve(runs);  // transfers point to them
  for_runs(map, length, 1,
           [&](int64_t begin, int64_t end) { begin_transfer(window, true, window.low + begin, window.low + end); });
}

// A rank sends the parts of round r + 1 before it writes the window of round r. The aggregators of one host write by
// turns, since the system locks the file; the one that does not write can fill its next window meanwhile.
Flow TwoPhase::write() {
  co_await tell_lists();
  Window windows[2];
  std::vector<Message> sent[3];
  if (open_window(0, windows[0])) post_parts(windows[0]);
  send_own(0, sent[0]);
  for (int round = 0; round < rounds(); ++round) {
    Window &now = windows[round % 2], &next = windows[(round + 1) % 2];
    co_await finish_transfers(next);
    if (open_window(round + 1, next)) post_parts(next);
    co_await finish_sends(sent[(round + 1) % 3]);
    if (round + 1 < rounds()) send_own(round + 1, sent[(round + 1) % 3]);
    co_await fill(now);
    begin_write(now);
    at_.environment.flush();
  }
  for (Window& window : windows) co_await finish_transfers(window);
  for (std::vector<Message>& messages : sent) co_await finish_sends(messages);
  if (members_[size_t(rank_)].form != Member::alone && !error_) access_.moved = access_.bytes;
  co_return std::move(error_);
}

}  // namespace tern::io
