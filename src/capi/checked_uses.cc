#include "capi/checked_uses.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "capi/checked_threads.h"
#include "capi/world.h"
#include "check/heap.h"
#include "check/instruments.h"

namespace tern::capi {

using check::Use;

// Other threads' calls fall into the pause only if they come soon: to start or wake a thread takes up to some 100 us,
// and several ms on a busy machine. Each place in the program pauses a few times only, since what happens there mostly
// repeats.
constexpr int kLongPausesOfPlace = 2, kPausesOfPlace = 10;
constexpr auto kLongPause = std::chrono::milliseconds(20), kPause = std::chrono::milliseconds(2);

void CheckedUses::pause() {
  if (CheckedThreads::count() == 1 || world_.lock->in_round()) return;
  const int earlier = pauses_[findings_.place()]++;
  if (earlier >= kPausesOfPlace) return;
  const auto length = earlier < kLongPausesOfPlace ? kLongPause : kPause;
  // Below MPI_THREAD_MULTIPLE there may be no lock. Threads that do not call MPI touch buffers all the same.
  if (!world_.lock) return std::this_thread::sleep_for(length);
  const char* const call = world_.call_name;
  const uint32_t depth = world_.lock->give_way();
  std::this_thread::sleep_for(length);
  world_.lock->come_back(depth);
  world_.call_name = call;
}

void CheckedUses::begin_alone(check::Sharing::Object object) {
  if (world_.models.thread_level < MPI_THREAD_MULTIPLE) return;
  sharing_.begin(object, true);
  pause();
}

void CheckedUses::share(const Shared& shared) {
  if (world_.models.thread_level < MPI_THREAD_MULTIPLE) return;
  sharing_.begin(check::Sharing::communicator(shared.context), false);
  if (!shared.type->is_predefined()) sharing_.begin(check::Sharing::object(shared.type), false);
}

// The sums are taken first of all, since what follows takes long, and another thread may change a buffer meanwhile.
std::vector<uint32_t> CheckedUses::look_at(const std::vector<Use>& uses, const Shared* shared) {
  bool readable = true;
  std::vector<uint32_t> sums = check::sums_of(uses, readable);
  if (shared) share(*shared);
  if (uses.empty()) return sums;
  if (!readable)
    findings_.report("the buffer of " + findings_.place() +
                     " reaches where no memory is. Are count and datatype right?");
  for (const Use& use : uses) {
    declarations_.check(use);
    ask_instruments(use);
  }
  look_at_blocks(uses);
  return sums;
}

void CheckedUses::await_change(const std::vector<Use>& uses, const std::vector<uint32_t>& sums) {
  if (uses.empty()) return;
  pause();
  bool readable = true;
  if (check::sums_of(uses, readable) == sums) return;
  findings_.report("another thread changes the buffer of " + findings_.place() +
                   " while the call uses it. Let the threads wait for each other.");
}

void CheckedUses::ask_instruments(const Use& use) {
  check::tell_thread_sanitizer(use);
  switch (check::find_memory_fault(use)) {
    case check::MemoryFault::none: break;
    case check::MemoryFault::not_the_programs:
      findings_.report("the buffer of " + findings_.place() +
                       " reaches behind its variable or block of memory, or was freed. Are count and datatype right?");
      break;
    case check::MemoryFault::never_written:
      findings_.report("the buffer of " + findings_.place() +
                       " holds bytes that the program has never written, and is sent.");
  }
}

// Other threads would change the blocks meanwhile.
void CheckedUses::look_at_blocks(const std::vector<Use>& uses) {
  if (CheckedThreads::count() != 1) return;
  check::Bytes all;
  for (const Use& use : uses) all.add(check::Bytes::of(use.buffer, use.count, *use.type));
  const check::HeapFault fault = check::find_heap_fault(all);
  if (!fault.found()) return;
  findings_.report(fault.freed
                       ? fmt::format("the buffer of {} lies in memory that the program has freed or never allocated.",
                                     findings_.place())
                       : fmt::format("the buffer of {} ends {} bytes behind its block of memory, which has {} bytes "
                                     "(malloc, new). Are count and datatype right?",
                                     findings_.place(), fault.excess, fault.bytes));
}

// Known to others during the pause: theirs may overlap.
void CheckedUses::use(const std::vector<Use>& uses, const Shared* shared) {
  const std::vector<uint32_t> sums = look_at(uses, shared);
  buffers_.use(uses);
  await_change(uses, sums);
}

// Another thread may stage during the pause.
void CheckedUses::stage(const std::vector<Use>& uses, const Shared* shared) {
  await_change(uses, look_at(uses, shared));
  buffers_.stage(uses);
}

}  // namespace tern::capi
