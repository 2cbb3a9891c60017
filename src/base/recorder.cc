#include "base/recorder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/limits.h"

namespace tern {
namespace {

// Reserving, mapping and unmapping a window costs some system calls, about 20 us; a window holds 48 Ki events, so at
// 50 ns or more per event it lasts at least 2.4 ms.
constexpr uint64_t kWindowBytes = 3 << 20;
/// The widths of the fields in an event.
constexpr uint16_t kAllGiven = (1 << 9) - 1, kAnyAlgorithm = (1 << 7) - 1;
static_assert(record::kMaxAlgorithms < kAnyAlgorithm && record::kTarget <= kAllGiven);

/// As Event::wait_share. Threads that wait at a time may wait for longer than one of them is in its call.
uint64_t share_of(uint64_t waited_ns, uint64_t took_ns) {
  if (waited_ns == 0) return 0;
  return waited_ns >= took_ns ? record::kWholeShare
                              : uint64_t(double(waited_ns) / double(took_ns) * record::kWholeShare);
}

bool find_loaded_code(uintptr_t address, std::string& path, uint64_t& offset) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || !info.dli_fbase || !info.dli_fname) return false;
  // The program's own name is what it was called by, perhaps in another folder.
  const auto program = reinterpret_cast<uintptr_t>(getauxval(AT_PHDR));
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  const bool own = program >= base && program - base < record::kPageBytes;
  char* whole = realpath(own ? "/proc/self/exe" : info.dli_fname, nullptr);
  if (!whole) return false;
  path = whole;
  std::free(whole);
  offset = address - base;
  return true;
}

static_assert(kWindowBytes % sizeof(record::Event) == 0 && kWindowBytes % record::kPageBytes == 0);

}  // namespace

// CLOCK_MONOTONIC is the same for all processes of a boot, unless a time namespace shifts it.
std::string Recorder::clock_domain() {
  std::string text;
  for (const char* name : {"/proc/sys/kernel/random/boot_id", "/proc/self/timens_offsets"}) {
    const int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    char part[64];
    const ssize_t got = read(file, part, sizeof part - 1);
    close(file);
    if (got > 0) text.append(part, size_t(got));
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::unique_ptr<Recorder> Recorder::create(const std::string& folder, uint64_t event_bytes,
                                           std::span<const char* const> functions, Error& error) {
  std::string name = folder + "/rank-XXXXXX";
  std::unique_ptr<Recorder> recorder(new Recorder);
  recorder->file_ = mkostemp(name.data(), O_CLOEXEC);
  int why = recorder->file_ < 0 ? errno : reserve_file(recorder->file_, 0, record::kEventsAt);
  void* mapped = MAP_FAILED;
  if (why == 0) {
    mapped = mmap(nullptr, record::kEventsAt, PROT_READ | PROT_WRITE, MAP_SHARED, recorder->file_, 0);
    if (mapped == MAP_FAILED) why = errno;
  }
  if (why != 0) {
    error = Error(ErrorClass::other, "the record " + name + " cannot be written: " + errno_text(why));
    return nullptr;
  }
  recorder->header_ = new (mapped) record::Header{};
  record::Header& header = *recorder->header_;
  header.header_bytes = sizeof header;
  header.event_bytes = sizeof(record::Event);
  header.rank = header.size = -1;
  header.process = int32_t(getpid());
  header.functions = uint32_t(std::min(functions.size(), record::kMaxFunctions));
  for (size_t i = 0; i < header.functions; ++i) {
    std::snprintf(header.totals[i].name, sizeof header.totals[i].name, "%s", functions[i]);
  }
  gethostname(header.host, sizeof header.host - 1);
  std::snprintf(header.clock_domain, sizeof header.clock_domain, "%s", clock_domain().c_str());
  header.counters.timing = 1;  // the time in which calls wait is part of every record
  std::memcpy(header.magic, record::kMagic, sizeof header.magic);
  recorder->most_event_bytes_ = event_bytes / kWindowBytes * kWindowBytes;
  if (recorder->tracing()) header.counters.watched |= Counters::kTraced;
  return recorder;
}

Recorder::~Recorder() {
  unmap_window();
  if (header_) munmap(header_, record::kEventsAt);
  if (file_ >= 0) close(file_);
}

void Recorder::unmap_window() {
  if (window_) munmap(window_, kWindowBytes);
  window_ = nullptr;
  next_ = end_ = nullptr;
}

record::Event* Recorder::slot_slow() {
  unmap_window();
  const off_t at = off_t(record::kEventsAt + window_end_);
  const int full = window_end_ < most_event_bytes_ ? reserve_file(file_, uint64_t(at), kWindowBytes) : 0;
  if (full != 0) header_->lost_because = uint64_t(full);
  if (window_end_ < most_event_bytes_ && full == 0) {
    void* mapped = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_, at);
    if (mapped != MAP_FAILED) {
      window_ = mapped;
      window_end_ += kWindowBytes;
      next_ = static_cast<record::Event*>(mapped);
      end_ = next_ + kWindowBytes / sizeof(record::Event);
      return next_++;
    }
  }
  most_event_bytes_ = std::min(most_event_bytes_, window_end_);
  ++header_->events_lost;
  return nullptr;
}

uint8_t Recorder::thread() {
  const pthread_t self = pthread_self();
  const uint32_t known = header_->threads;
  if (known != 0 && threads_[last_thread_].self == self) return last_thread_;
  for (uint32_t i = 0; i < known; ++i) {
    if (threads_[i].self == self) return last_thread_ = uint8_t(i);
  }
  if (known == record::kMaxThreads) return last_thread_ = uint8_t(known - 1);
  threads_[known] = Thread{self, 0, 0, {}, 0};
  header_->threads = known + 1;
  return last_thread_ = uint8_t(known);
}

uint16_t Recorder::place_of(uintptr_t address) {
  if (address == 0) return 0;
  const auto known = places_.find(address);
  return known != places_.end() ? known->second : places_[address] = add_place(address);
}

// Of the same call in the program each copy of a simulated program has one of its own: they are one place of the file.
uint16_t Recorder::add_place(uintptr_t address) {
  std::string path;
  uint64_t offset = 0;
  if (!(find_code_ ? find_code_(address, path, offset) : find_loaded_code(address, path, offset))) return 0;
  uint32_t file = 0;
  while (file < header_->files_used && path != header_->files[file]) ++file;
  if (file == record::kMaxFiles || path.size() >= sizeof header_->files[0]) return 0;
  if (header_->places_used == record::kMaxPlaces) return 0;
  if (file == header_->files_used) {
    std::memcpy(header_->files[file], path.data(), path.size());
    ++header_->files_used;
  }
  header_->places[header_->places_used] = {offset, file};
  return uint16_t(++header_->places_used);
}

void Recorder::enter(uint16_t function, uint64_t began_ns, uintptr_t from) {
  const uint8_t index = thread();
  Thread& mine = threads_[index];
  if (mine.depth++ != 0) return;
  mine.wait_before_ns = header_->counters.wait;
  mine.arguments = {};
  mine.place = tracing() ? place_of(from) : 0;
  if (header_->first_ns == 0) header_->first_ns = began_ns;
  if (index != 0) return;
  header_->current = uint32_t(function) + 1;
  header_->current_since_ns = began_ns;
}

void Recorder::leave(uint16_t function, uint64_t began_ns) {
  const uint64_t now = now_ns(), took = now - began_ns;
  const uint8_t index = thread();
  Thread& mine = threads_[index];
  record::Totals& totals = header_->totals[function];
  ++totals.calls;
  uint64_t waited = 0;
  if (--mine.depth == 0) {
    waited = header_->counters.wait - mine.wait_before_ns;
    totals.time_ns += took;
    totals.longest_ns = std::max(totals.longest_ns, took);
    totals.wait_ns += waited;
    header_->last_ns = now;
    if (index == 0) header_->current = 0;
  }
  if (!tracing()) return;
  record::Event* event = slot();
  if (!event) return;
  const CallArguments a = mine.depth == 0 ? mine.arguments : CallArguments{};
  *event = {.time_ns = began_ns,
            .duration_ns = took,
            .context = a.context,
            .bytes = a.bytes,
            .peer = a.peer,
            .tag = a.tag,
            .kind = record::EventKind::call,
            .thread = index,
            .what = function,
            .given = uint16_t(a.given & kAllGiven),
            .algorithm = uint16_t(a.algorithm & kAnyAlgorithm),
            .count = std::min(a.count, record::kManyElements),
            .place = mine.depth == 0 ? mine.place : uint64_t{0},
            .wait_share = share_of(waited, took),
            .request = a.request,
            .source = a.source};
  ++header_->events;
}

CallArguments* Recorder::outermost() {
  Thread& mine = threads_[thread()];
  return tracing() && mine.depth == 1 ? &mine.arguments : nullptr;
}

void Recorder::describe(const CallArguments& arguments) {
  if (CallArguments* mine = outermost()) *mine = arguments;
}

void Recorder::describe_request(uint32_t handle) {
  CallArguments* mine = outermost();
  if (!mine) return;
  mine->request = handle;
  mine->given |= record::kRequest;
}

void Recorder::describe_algorithm(const char* name) {
  CallArguments* mine = outermost();
  if (!mine) return;
  for (size_t i = 0; i < record::kMaxAlgorithms; ++i) {
    auto& known = header_->algorithms[i];
    if (known[0] == '\0') std::snprintf(known, sizeof known, "%s", name);
    if (std::strncmp(known, name, sizeof known - 1) != 0) continue;
    mine->algorithm = uint16_t(i + 1);
    return;
  }
}

void Recorder::add_event_thread_work(uint64_t began_ns) {
  header_->event_thread = uint32_t(thread()) + 1;
  add(record::EventKind::progress, began_ns, now_ns() - began_ns);
}

void Recorder::add_send(uint64_t began_ns, uint16_t protocol, const char* path, uint64_t eager_limit, uint32_t peer,
                        int32_t tag, uint64_t context, uint64_t bytes) {
  if (!tracing()) return;
  record::Event* event = slot();
  if (!event) return;
  uint32_t place = 0;
  for (; place < record::kMaxPaths; ++place) {
    auto& known = header_->paths[place];
    if (known[0] == '\0') {
      std::snprintf(known, sizeof known, "%s", path);
      header_->eager_limits[place] = eager_limit;
    }
    if (std::strncmp(known, path, sizeof known - 1) == 0) break;
  }
  *event = {.time_ns = began_ns ? began_ns : now_ns(),
            .duration_ns = 0,
            .context = context,
            .bytes = bytes,
            .peer = peer,
            .tag = tag,
            .kind = record::EventKind::send,
            .thread = thread(),
            .what = protocol,
            .request = place < record::kMaxPaths ? place + 1 : 0};
  ++header_->events;
}

void Recorder::finish() {
  if (find_code_) return;  // many ranks share the process
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) header_->resident_peak_bytes = uint64_t(usage.ru_maxrss) << 10;
}

void Recorder::add(record::EventKind kind, uint64_t time_ns, uint64_t duration_ns, uint16_t what, uint32_t peer,
                   int32_t tag, uint64_t context, uint64_t bytes) {
  if (!tracing()) return;
  record::Event* event = slot();
  if (!event) return;
  *event = {.time_ns = time_ns,
            .duration_ns = duration_ns,
            .context = context,
            .bytes = bytes,
            .peer = peer,
            .tag = tag,
            .kind = kind,
            .thread = thread(),
            .what = what};
  ++header_->events;
}

}  // namespace tern
