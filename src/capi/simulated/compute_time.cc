#include "capi/simulated/compute_time.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/clock.h"
#include "base/limits.h"
#include "names.gen.h"

namespace tern::sim {
namespace {

// A burst in 32 bits: nanoseconds, or with the highest bit microseconds (up to 35 minutes).
constexpr uint32_t kMicroseconds = uint32_t{1} << 31;
uint32_t encode(uint64_t ns) {
  return ns < kMicroseconds ? uint32_t(ns) : kMicroseconds | uint32_t(std::min<uint64_t>(ns / 1000, kMicroseconds - 1));
}
uint64_t decode(uint32_t burst) { return burst & kMicroseconds ? uint64_t{burst & ~kMicroseconds} * 1000 : burst; }

uint64_t cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return uint64_t(now.tv_sec) * kSecond_ns + uint64_t(now.tv_nsec);
}

// What an empty burst seems to last: the system call that reads the clock.
uint64_t overhead_ns() {
  static const uint64_t least = [] {
    uint64_t found = kNever_ns;
    for (int i = 0; i < 1000; ++i) {
      const uint64_t before = cpu_ns();
      found = std::min(found, cpu_ns() - before);
    }
    return found;
  }();
  return least;
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// The file: a line, the number of ranks; of each rank the number of lists; of each list the function's name, the number
// of bursts, the bursts. Numbers are 32 bits in the machine's order; names have a byte with their length before them.
constexpr char kMagic[] = "tern bursts 1\n";
constexpr char kClockName[] = "(clock)";

bool put(std::FILE* file, const void* data, size_t bytes) { return std::fwrite(data, 1, bytes, file) == bytes; }
bool take(std::FILE* file, void* data, size_t bytes) { return std::fread(data, 1, bytes, file) == bytes; }
bool put_number(std::FILE* file, size_t value) {
  const auto number = uint32_t(value);
  return put(file, &number, sizeof number);
}

std::string_view name_of(uint16_t function) {
  const auto names = capi::function_names();
  return function < names.size() ? names[function] : kClockName;
}

/// A function that is not known any more keeps its bursts from being used.
uint16_t number_of(std::string_view name) {
  const auto names = capi::function_names();
  if (name == kClockName) return BurstRecord::kClock;
  return uint16_t(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

BurstRecord::List& BurstRecord::list(uint32_t rank, uint16_t function) {
  for (List& list : ranks_[rank]) {
    if (list.function == function) return list;
  }
  return ranks_[rank].emplace_back(List{function});
}

void BurstRecord::add(uint32_t rank, uint16_t function, uint64_t ns) {
  list(rank, function).bursts.push_back(encode(ns));
}

uint64_t BurstRecord::next(uint32_t rank, uint16_t function) {
  List& mine = list(rank, function);
  if (mine.bursts.empty()) return 0;
  const uint64_t ns = decode(mine.bursts[std::min<size_t>(mine.next, mine.bursts.size() - 1)]);
  ++mine.next;
  return ns;
}

void BurstRecord::rewind() {
  for (auto& lists : ranks_) {
    for (List& list : lists) list.next = 0;
  }
}

Error BurstRecord::write(const std::string& path) const {
  File file(std::fopen(path.c_str(), "wbe"));
  bool good = file && put(file.get(), kMagic, sizeof kMagic - 1) && put_number(file.get(), ranks_.size());
  for (const auto& lists : ranks_) {
    good = good && put_number(file.get(), lists.size());
    for (const List& list : lists) {
      const std::string_view name = name_of(list.function);
      const auto length = uint8_t(name.size());
      good = good && put(file.get(), &length, 1) && put(file.get(), name.data(), length) &&
             put_number(file.get(), list.bursts.size()) &&
             put(file.get(), list.bursts.data(), list.bursts.size() * sizeof(uint32_t));
    }
  }
  if (good && std::fflush(file.get()) == 0) return {};
  return Error(ErrorClass::other, "the record " + path + " cannot be written: " + errno_text(errno));
}

Error BurstRecord::read(const std::string& path) {
  File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return Error(ErrorClass::no_such_file, "the record " + path + " cannot be read: " + errno_text(errno));
  auto bad = [&] {
    return Error(ErrorClass::bad_file, path + " is no record of a program's computation, or is cut off");
  };
  char magic[sizeof kMagic - 1];
  uint32_t count = 0;
  if (!take(file.get(), magic, sizeof magic) || std::memcmp(magic, kMagic, sizeof magic) != 0 ||
      !take(file.get(), &count, sizeof count))
    return bad();
  ranks_.clear();
  for (uint32_t rank = 0; rank < count; ++rank) {
    uint32_t lists = 0;
    ranks_.emplace_back();
    if (!take(file.get(), &lists, sizeof lists)) return bad();
    for (uint32_t i = 0; i < lists; ++i) {
      uint8_t length = 0;
      char name[256];
      uint32_t bursts = 0;
      if (!take(file.get(), &length, 1) || !take(file.get(), name, length) || !take(file.get(), &bursts, sizeof bursts))
        return bad();
      List& list = ranks_.back().emplace_back(List{number_of({name, length})});
      for (uint32_t each = 0; each < bursts; ++each) {  // one by one: `bursts` may be any number in a bad file
        uint32_t burst = 0;
        if (!take(file.get(), &burst, sizeof burst)) return bad();
        list.bursts.push_back(burst);
      }
    }
  }
  return {};
}

void ComputeTime::begin() {
  if (options_.kind == ComputeKind::measured) began_ns_ = cpu_ns();
}

uint64_t ComputeTime::end(uint16_t function) {
  switch (options_.kind) {
    case ComputeKind::none: return 0;
    case ComputeKind::constant: return options_.constant_ns;
    case ComputeKind::measured: {
      const uint64_t took = cpu_ns() - began_ns_, ns = took - std::min(took, overhead_ns());
      if (options_.record) options_.record->add(rank_, function, ns);
      return uint64_t(double(ns) * options_.factor);
    }
    case ComputeKind::recorded: return uint64_t(double(options_.record->next(rank_, function)) * options_.factor);
  }
  return 0;
}

}  // namespace tern::sim
