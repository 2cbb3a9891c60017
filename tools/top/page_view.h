// What a rank's page (base/rank_page.h) says at one moment. The page is the rank's own memory: a faulty program may
// write anything into it, or make it shorter, while it is looked at. So it is copied out of its file, never mapped, and
// nothing of it is trusted: neither what it says it is, nor that its texts end, nor the signal that it wants.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/counters.h"
#include "base/rank_page.h"

namespace tern::top {

struct TopRank;

struct PageView {
  int rank = -1;                             ///< -1: MPI is not begun
  int signal = 0;                            ///< real-time, so none that ends a process by surprise; 0: does not answer
  std::string host, call;                    ///< what a terminal can show
  uint32_t samples = 0, samples_inside = 0;  ///< they wrap
  uint64_t place = 0;
  Counters counters{};
};

/// Of the first bytes of a file; nothing: they are no page that this release knows of that process.
std::optional<PageView> read_page(std::span<const std::byte> bytes, pid_t process);

/// Rates of what was sent between two looks, and what stands in the page of memory. `before`: null at the first look.
void show_counters(TopRank& shown, const Counters& now, const Counters* before, double seconds);

}  // namespace tern::top
