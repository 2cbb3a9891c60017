#include "messages.h"

#include <algorithm>
#include <tuple>

namespace tern::mpiexec {
namespace {

using record::Event;
using record::EventKind;

/// One end of a message: what it is matched by, and when.
struct End {
  uint32_t from, to;  ///< ranks
  uint64_t context;
  int32_t tag;
  uint32_t record, event;
  uint64_t time_ns;  ///< of sending, of matching

  auto envelope() const { return std::tie(from, to, context, tag); }
};

bool earlier(const End& a, const End& b) {
  return a.envelope() != b.envelope() ? a.envelope() < b.envelope() : a.time_ns < b.time_ns;
}

}  // namespace

std::vector<Message> paired_messages(const Records& records) {
  std::vector<End> out, in;
  for (uint32_t r = 0; r < records.size(); ++r) {
    const auto me = uint32_t(records[r]->rank());
    for (size_t i = 0; i < records[r]->event_count(); ++i) {
      const Event& e = records[r]->events()[i];
      if (e.kind == EventKind::send) out.push_back({me, e.peer, e.context, e.tag, r, uint32_t(i), e.time_ns});
      if (e.kind == EventKind::receive) in.push_back({e.peer, me, e.context, e.tag, r, uint32_t(i), e.time_ns});
    }
  }
  // Ranks record in the order of time, so that sorting keeps the order of each sender and each receiver.
  std::stable_sort(out.begin(), out.end(), earlier);
  std::stable_sort(in.begin(), in.end(), earlier);
  std::vector<Message> pairs;
  auto to = in.begin();
  for (const End& from : out) {
    while (to != in.end() && to->envelope() < from.envelope()) ++to;
    if (to == in.end() || to->envelope() != from.envelope()) continue;
    pairs.push_back({from.record, to->record, from.event, to->event});
    ++to;
  }
  return pairs;
}

}  // namespace tern::mpiexec
