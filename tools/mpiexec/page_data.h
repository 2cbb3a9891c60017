// The data of a page (page.h): overviews at several levels of detail, and the events themselves in chunks of time, of
// which the page reads what is on the screen.
//
//   level k    the time cut into 1024 * 8^k bins; for each cause and lane how much of each bin it took, as a byte; in
//              parts of 1024 bins
//   chunk      columns (page_parts.h) of the calls and messages of a stretch of time; what reaches over its begin is in
//              both
//
// The reader is page/data.js.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "timeline.h"

namespace tern::mpiexec {

struct PageLevel {
  uint32_t bins;
  std::vector<std::string> parts;  ///< packed
};

struct PageChunk {
  uint64_t begin_ns, end_ns;
  uint64_t spans = 0, messages = 0;
  std::string data;  ///< packed
};

/// Of a part: as many as a screen is wide, about.
inline constexpr uint32_t kPartBins = 1024;

std::vector<PageLevel> make_levels(const Timeline& timeline);

/// The contexts of calls and messages, by the number that chunks call them by.
struct PageContexts {
  std::vector<uint64_t> known;  ///< without the plane of a message's kind (comm/context.h)
  std::map<uint64_t, uint32_t> numbers;
  uint32_t number(uint64_t context);
};
/// `take` gets each chunk in the order of time.
void make_chunks(const Timeline& timeline, PageContexts& contexts, const std::function<void(PageChunk)>& take);

}  // namespace tern::mpiexec
