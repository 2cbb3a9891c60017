// The reading direction of two_phase.h.
#include <algorithm>

#include "io/two_phase.h"

namespace tern::io {

void TwoPhase::receive_own(int round, std::vector<Message>& messages) {
  const bool listed = members_[size_t(rank_)].form == Member::listed;
  for (size_t a = 0; a < aggregators_; ++a) {
    const int64_t k = int64_t(round) * int64_t(aggregators_) + int64_t(a);
    if (k >= windows_) break;
    const uint64_t stop = own_stop(k);
    if (stop == sent_) continue;
    Message message;
    message.at = sent_;
    message.bytes = stop - sent_;
    sent_ = stop;
    if (int(a) != mine_) {
      const int from = team_.aggregators[a];
      if (listed) {
        message.list = list_pieces(message.at, message.bytes);
        message.list_request = send_list(message.list, from);
      }
      memory_.seek(message.at);
      std::byte* data = nullptr;
      if (memory_.is_contiguous()) {
        data = memory_.contiguous_data();
      } else if ((message.buffer = at_.environment.buffer(message.bytes))) {
        data = message.buffer.data();
      } else {
        note(Error(ErrorClass::no_mem,
                   "no memory for " + std::to_string(message.bytes) + " bytes of file data on their way"));
      }
      message.request = receive(data, data ? message.bytes : 0, from);
    }
    messages.push_back(std::move(message));
  }
}

/// Waits for the messages of a round, and copies the data into the user's memory.
Flow TwoPhase::take_own(std::vector<Message>& messages) {
  for (Message& message : messages) {
    if (message.list_request) {
      Outcome listed = co_await Done(p2p(), message.list_request, access_.blocking);
      note(std::move(listed.error));
    }
    if (message.request) {
      Outcome outcome = co_await Done(p2p(), message.request, access_.blocking);
      if (!outcome.error) message.got = uint64_t(outcome.status.bytes);
      note(std::move(outcome.error));
      if (message.buffer) {
        memory_.seek(message.at);
        memory_.unpack(message.buffer.data(), message.got);
      }
    }
    if (whole_) access_.moved += message.got;
    whole_ = whole_ && message.got == message.bytes;
  }
  messages.clear();
  co_return Error();
}

void TwoPhase::begin_read(Window& window) {
  if (window.low == window.high) return;
  window.base = window.low;
  window.block = at_.environment.buffer(size_t(window.high - window.low));
  if (!window.block) {
    note(Error(ErrorClass::no_mem, "no memory for a window of " + std::to_string(size_) + " bytes of the file"));
    return;
  }
  ++at_.environment.counters().io_windows;
  window.pieces.reserve(1);
  begin_transfer(window, false, window.low, window.high);
  at_.environment.flush();
}

/// Sends each rank its part of the window: less than it asked for if the file ends.
void TwoPhase::send_parts(Window& window, std::vector<Message>& own) {
  const int64_t known_to = window.low + window.valid;
  for (Part& part : window.parts) {
    uint64_t there = 0;
    if (part.pattern && window.block) {
      const uint64_t below = part.pattern->below(known_to);
      there = std::clamp(below, part.from, part.from + part.bytes) - part.from;
    }
    if (part.rank == rank_) {
      memory_.seek(part.from - access_.position);
      Cursor in_block = part.pattern->cursor(window.block.data() - window.base, part.from, there);
      copy(in_block, memory_);
      for (Message& message : own) {
        if (!message.request && message.at == part.from - access_.position) message.got = there;
      }
      continue;
    }
    if (there == 0) {
      part.request = send(nullptr, 0, part.rank);
      continue;
    }
    const int64_t begin = part.pattern->offset_of(part.from);
    part.in_place = uint64_t(part.pattern->end_of(part.from + there) - begin) == there;
    if (part.in_place) {
      part.data = window.block.data() + (begin - window.base);
    } else {
      part.buffer = at_.environment.buffer(there);
      part.data = part.buffer.data();
      if (part.buffer) {
        Cursor in_block = part.pattern->cursor(window.block.data() - window.base, part.from, there);
        in_block.pack(part.data, there);
      } else {
        note(Error(ErrorClass::no_mem, "no memory for " + std::to_string(there) + " bytes of file data on their way"));
        there = 0;
      }
    }
    part.request = send(part.data, there, part.rank);
  }
}

Flow TwoPhase::finish_parts(Window& window) {
  for (Part& part : window.parts) {
    if (!part.request) continue;
    Outcome outcome = co_await Done(p2p(), std::exchange(part.request, nullptr), access_.blocking);
    note(std::move(outcome.error));
  }
  co_return Error();
}

Flow TwoPhase::read() {
  co_await tell_lists();
  Window windows[2];
  std::vector<Message> messages;
  if (open_window(0, windows[0])) {
    // A listed rank sends its lists in its first round, which is now.
    receive_own(0, messages);
    co_await take_lists(windows[0]);
    begin_read(windows[0]);
  } else {
    receive_own(0, messages);
  }
  std::vector<Message> following;
  for (int round = 0; round < rounds(); ++round) {
    Window &now = windows[round % 2], &next = windows[(round + 1) % 2];
    co_await finish_transfers(now);
    co_await finish_parts(next);
    if (round + 1 < rounds()) receive_own(round + 1, following);
    if (open_window(round + 1, next)) {
      co_await take_lists(next);
      begin_read(next);
    }
    send_parts(now, messages);
    co_await take_own(messages);
    std::swap(messages, following);
  }
  for (Window& window : windows) co_await finish_parts(window);
  co_return std::move(error_);
}

}  // namespace tern::io
