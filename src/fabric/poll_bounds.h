// Bounds of the work in one poll, which the paths have in common.
#pragma once

#include <cstdint>

namespace tern {

/// Polls between two clock reads of a path's timers: 28 ns for the read, so 0.4 ns per poll.
inline constexpr uint32_t kTimerPolls = 64;
/// Operations that one poll completes: a done-function may send again, and what it sends may complete at once. Some 0.1
/// ms of work.
inline constexpr int kMaxCompletions = 1024;
/// Connections accepted in one poll (some 5 us each): a flood must not keep the rank from its messages.
inline constexpr int kMaxAccepts = 32;

}  // namespace tern
