// Recorder: keeps a rank's record (base/record.h). It exists only when mpiexec --summary or --trace asks for it; users
// hold a pointer that is null otherwise.
//
// Events go to a mapped window of the file. A full window is replaced by the next one. The file grows by whole windows,
// which are reserved before they are touched, up to a limit. Beyond the limit, or when the disk is full, events are
// counted as lost and the run goes on.
//
// Thread rule: under the rank's lock, except now_ns, which any thread may call.
#pragma once

#include <pthread.h>

#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/record.h"

namespace tern {

/// Arguments of a call; which of them there are is in `given` (record::Given).
struct CallArguments {
  uint64_t context = 0, bytes = 0, count = 0;
  uint32_t peer = 0;
  int32_t source = 0, tag = 0;
  uint32_t request = 0;
  uint16_t given = 0;
  uint16_t algorithm = 0;
};

class Recorder {
 public:
  /// Makes a new file in `folder`. `event_bytes`: limit for events; 0: only totals are kept. `functions`: the names of
  /// the numbers passed to `enter` and `leave`. Null exactly when `error` is set.
  static std::unique_ptr<Recorder> create(const std::string& folder, uint64_t event_bytes,
                                          std::span<const char* const> functions, Error& error);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The rank's counters; they live in the record.
  Counters& counters() { return header_->counters; }
  record::Header& header() { return *header_; }
  /// True: events are wanted, not only totals.
  bool tracing() const { return most_event_bytes_ != 0; }
  /// The clock of all records on this machine.
  static uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
  }

  /// Two processes with the same text have the same clock.
  static std::string clock_domain();

  /// Finds the file that has the code at an address, and where in it: as the file has it in memory, from its first
  /// byte. False: none has.
  using FindCode = std::function<bool(uintptr_t address, std::string& file, uint64_t& offset)>;
  /// Instead of asking the dynamic linker (programs that something else has loaded).
  void set_find_code(FindCode find) { find_code_ = std::move(find); }

  /// A call has taken the lock (it began at an earlier time), and is about to return. `from`: the return address in the
  /// program; 0: unknown.
  void enter(uint16_t function, uint64_t began_ns, uintptr_t from = 0);
  void leave(uint16_t function, uint64_t began_ns);

  /// What the call that this thread is in was given; its event will have that. Of a call inside of a call: nothing.
  void describe(const CallArguments& arguments);
  /// What request the call that this thread is in makes or waits for, and which algorithm its collective takes (`name`
  /// is copied).
  void describe_request(uint32_t handle);
  void describe_algorithm(const char* name);

  /// The event thread was working since that time.
  void add_event_thread_work(uint64_t began_ns);
  /// A message began to leave; `began_ns` 0: now. `path`: a name, with the longest message that it sends eagerly.
  void add_send(uint64_t began_ns, uint16_t protocol, const char* path, uint64_t eager_limit, uint32_t peer,
                int32_t tag, uint64_t context, uint64_t bytes);
  /// What is known of the process only at its end. While it still runs MPI.
  void finish();
  /// Records one event; does nothing when there is no room. Fields that a kind does not use are 0.
  void add(record::EventKind kind, uint64_t time_ns, uint64_t duration_ns = 0, uint16_t what = 0, uint32_t peer = 0,
           int32_t tag = 0, uint64_t context = 0, uint64_t bytes = 0);

 private:
  Recorder() = default;
  record::Event* slot() { return next_ != end_ ? next_++ : slot_slow(); }
  record::Event* slot_slow();
  void unmap_window();
  struct Thread {
    pthread_t self;
    uint32_t depth;           ///< nesting of calls that the thread is in
    uint64_t wait_before_ns;  ///< the rank's waiting time when the outermost call began
    CallArguments arguments;  ///< of the outermost call
    uint16_t place;           ///< of the outermost call: in Header::places plus 1; 0: unknown
  };
  uint16_t place_of(uintptr_t address);
  uint16_t add_place(uintptr_t address);
  uint8_t thread();
  /// Of the outermost call of this thread; null: it is in an inner one, or there are no events.
  CallArguments* outermost();

  int file_ = -1;
  record::Header* header_ = nullptr;
  uint64_t most_event_bytes_ = 0, window_end_ = 0;  ///< of the file, from the first event on
  void* window_ = nullptr;
  record::Event *next_ = nullptr, *end_ = nullptr;
  Thread threads_[record::kMaxThreads];
  FindCode find_code_;
  std::unordered_map<uintptr_t, uint16_t> places_;  ///< by address: in Header::places plus 1; 0: none
  uint8_t last_thread_ = 0;
};

}  // namespace tern
