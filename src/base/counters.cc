#include "base/counters.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <type_traits>

namespace tern {
namespace {

static_assert(std::is_standard_layout_v<Counters> && std::is_trivially_copyable_v<Counters>);
static_assert(size_class(0) == 0 && size_class(64) == 0 && size_class(65) == 1 && size_class(512) == 1 &&
              size_class(513) == 2 && size_class(size_class_limit(6)) == 6 &&
              size_class(size_class_limit(6) + 1) == 7 && size_class(~size_t{0}) == 7);

constexpr CounterRow kCounters[] = {
#define TERN_ROW(name, kind, unit, group, meaning)      \
  {#name,                                               \
   CounterClass::kind,                                  \
   uint32_t(offsetof(Counters, name)),                  \
   uint32_t(sizeof(Counters::name) / sizeof(uint64_t)), \
   unit,                                                \
   group,                                               \
   meaning},
    TERN_PLAIN_COUNTERS(TERN_ROW) TERN_SIZED_COUNTERS(TERN_ROW)
#undef TERN_ROW
};

constexpr CounterGroup kGroups[] = {
    {"messages", "Point-to-point messages, those of collectives included"},
    {"collectives", "Collective calls"},
    {"progress", "Who waits, sleeps and is woken"},
    {"shm", "Shared memory"},
    {"tcp", "TCP"},
    {"udp", "UDP"},
    {"ofi", "libfabric"},
    {"rdma", "InfiniBand and RoCE"},
    {"files", "Reading and writing files (MPI-IO)"},
    {"windows", "One-sided communication"},
};

constexpr bool in_a_group(const CounterRow& row) {
  for (const CounterGroup& group : kGroups) {
    if (std::string_view(group.name) == row.group) return true;
  }
  return false;
}
static_assert(std::all_of(std::begin(kCounters), std::end(kCounters), in_a_group));

}  // namespace

std::span<const CounterRow> counter_rows() { return kCounters; }

void add_counters(Counters& sum, const Counters& more) {
  for (const CounterRow& row : kCounters) {
    const uint64_t* from = row.in(more);
    auto* to = const_cast<uint64_t*>(row.in(sum));
    for (uint32_t i = 0; i < row.elements; ++i) {
      const uint64_t count = std::atomic_ref(const_cast<uint64_t&>(from[i])).load(std::memory_order_relaxed);
      if (count == 0) continue;  // `sum` may be counting what `more` never does
      to[i] = row.counter_class == CounterClass::peak ? std::max(to[i], count) : to[i] + count;
    }
  }
}

std::span<const CounterGroup> counter_groups() { return kGroups; }

const char* counter_class_name(CounterClass counter_class) {
  switch (counter_class) {
    case CounterClass::counter: return "counter";
    case CounterClass::aggregate: return "aggregate";
    case CounterClass::level: return "level";
    case CounterClass::peak: return "high watermark";
    case CounterClass::timer: return "timer";
  }
  return "";
}

}  // namespace tern
