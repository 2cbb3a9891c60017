#include "tests/explore/explorer.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "sim/fiber.h"
#include "tests/explore/hooks.h"

namespace tern::explore {
namespace {

constexpr size_t kNobody = SIZE_MAX;
constexpr size_t kStackBytes = 256 * 1024;
/// A thread that has loaded the same value from the same place so often, and done nothing else, spins.
constexpr int kSpins = 3;

/// The choices of an execution; the next one differs in the last that has another value left.
class Choices {
 public:
  size_t choose(size_t count) {
    if (count < 2) return 0;
    if (depth_ == taken_.size()) taken_.push_back({0, count});
    return taken_[depth_++].value;
  }
  void again() { depth_ = 0; }
  bool next() {
    while (!taken_.empty() && taken_.back().value + 1 == taken_.back().count) taken_.pop_back();
    depth_ = 0;
    if (taken_.empty()) return false;
    ++taken_.back().value;
    return true;
  }

 private:
  struct Choice {
    size_t value, count;
  };
  std::vector<Choice> taken_;
  size_t depth_ = 0;
};

const char* name_of(Order order) {
  constexpr const char* kNames[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return kNames[int(order)];
}

}  // namespace

class Explorer final : public Execution {
 public:
  Explorer(const Bounds& bounds, Choices& choices, std::map<uintptr_t, Place>& places, sim::StackArena& stacks)
      : bounds_(bounds), choices_(choices), places_(places), stacks_(stacks), memory_(kMaxThreads) {}

  // --- Execution
  void share(const void* address, size_t bytes) override {
    regions_.push_back({reinterpret_cast<uintptr_t>(address), bytes});
  }
  void thread(std::function<void()> body) override {
    const size_t me = threads_.size();
    threads_.push_back(std::make_unique<Thread>());
    Thread& made = *threads_.back();
    made.body = std::move(body);
    made.fiber = std::make_unique<sim::Fiber>(
        stacks_.bottom(me), stacks_.usable_bytes(), [](void* it) { static_cast<Thread*>(it)->body(); }, &made);
  }
  void finally(std::function<void()> check) override { check_ = std::move(check); }

  void run();
  bool shares(const volatile void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return std::any_of(regions_.begin(), regions_.end(),
                       [&](const Region& region) { return at - region.begin < region.bytes; });
  }
  /// An atomic operation comes next: others may get the turn before it.
  void point();
  Order order_at(uintptr_t place, const char* what, Order order);
  uint64_t load(const volatile void* address, unsigned bytes, Order order);
  void fail(std::string text);
  void wait_for(const std::function<bool()>& condition);
  void futex_wait(const volatile void* address, uint32_t value);
  void futex_wake(const volatile void* address, uint64_t most);
  void changed(bool by_running = true) {
    ++changes_;
    if (by_running) ++threads_[running_]->own_changes;
    threads_[running_]->spins = 0;
  }

  void trace(bool on) { traced_ = on; }
  /// For people, of an execution that is traced.
  void note(uintptr_t place, const char* what, size_t location, uint64_t value) {
    if (!traced_) return;
    std::printf("  thread %zu: %s %#zx: %#zx at %s\n", running_, what, size_t(memory_.at(location).address) & 0xffff,
                size_t(value), line_of(place).c_str());
  }

  Memory& memory() { return memory_; }
  size_t running() const { return running_; }
  const Bounds& bounds() const { return bounds_; }
  const std::string& failure() const { return failure_; }
  uint64_t steps() const { return steps_; }
  bool cut_off() const { return cut_off_; }
  bool all_ended() const {
    return std::all_of(threads_.begin(), threads_.end(), [](auto& it) { return it->fiber->finished(); });
  }

 private:
  struct Region {
    uintptr_t begin;
    size_t bytes;
  };
  enum class State : uint8_t { ready, waits, spins };
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<sim::Fiber> fiber;
    State state = State::ready;
    uint64_t own_changes = 0;
    uint64_t waited_at = 0;    ///< others' changes when it last asked
    bool took_old = false;     ///< since it last began to ask
    bool newest_only = false;  ///< old values have become visible to it
    size_t spin_location = 0;
    uint64_t spin_value = 0, spin_stores = 0;
    int spins = 0;
    bool spin_freely = false;
  };

  /// A thread asleep at a futex.
  struct Asleep {
    uintptr_t address;
    size_t thread;
    bool operator==(const Asleep&) const = default;
  };

  bool enabled(const Thread& thread) const {
    if (thread.fiber->finished()) return false;
    if (thread.state == State::waits) return changes_ - thread.own_changes > thread.waited_at || thread.newest_only;
    if (thread.state == State::spins)
      return thread.spin_freely || memory_.at(thread.spin_location).stores.size() > thread.spin_stores;
    return true;
  }
  bool rescue();
  void give_up_turn() { threads_[running_]->fiber->suspend(); }
  void note_spin(Thread& thread, size_t location, uint64_t value);

  const Bounds& bounds_;
  Choices& choices_;
  std::map<uintptr_t, Place>& places_;
  sim::StackArena& stacks_;
  Memory memory_;
  std::vector<Region> regions_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Asleep> asleep_;
  std::function<void()> check_;
  size_t running_ = kNobody, next_ = kNobody;
  uint64_t changes_ = 0, steps_ = 0;
  uint32_t preemptions_ = 0, old_values_ = 0;
  bool cut_off_ = false, traced_ = false;
  std::string failure_;
};

namespace {
Explorer* current = nullptr;  // of the execution of this moment
bool is_running() { return current && current->running() != kNobody; }
}  // namespace

void Explorer::run() {
  while (failure_.empty() && !cut_off_) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (enabled(*threads_[i])) ready.push_back(i);
    }
    if (ready.empty()) {
      if (all_ended()) break;
      if (rescue()) continue;
      failure_ = "every thread waits for ever";
      return;
    }
    running_ = next_ != kNobody ? next_ : ready[choices_.choose(ready.size())];
    next_ = kNobody;
    threads_[running_]->state = State::ready;
    threads_[running_]->fiber->resume();
    running_ = kNobody;
  }
  if (failure_.empty() && !cut_off_ && check_) check_();
}

// Nobody can go on with what they have seen: stores become visible in finite time, and who spins does so no longer than
// its code says.
bool Explorer::rescue() {
  bool any = false;
  for (auto& thread : threads_) {
    if (thread->fiber->finished()) continue;
    if (thread->state == State::waits && thread->took_old) thread->newest_only = any = true;
    if (thread->state == State::spins) thread->spin_freely = any = true;
  }
  return any;
}

void Explorer::point() {
  if (++steps_ > bounds_.steps) {
    cut_off_ = true;
    while (true) give_up_turn();
  }
  if (preemptions_ == bounds_.preemptions) return;
  size_t others[kMaxThreads], count = 0;
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (i != running_ && enabled(*threads_[i])) others[count++] = i;
  }
  const size_t chosen = choices_.choose(count + 1);
  if (chosen == 0) return;
  ++preemptions_;
  next_ = others[chosen - 1];
  give_up_turn();
}

Order Explorer::order_at(uintptr_t place, const char* what, Order order) {
  if (order == Order::relaxed) return order;
  Place& seen = places_[place];
  if (seen.count++ == 0) {
    seen.address = place;
    seen.what = std::string(what) + ", " + name_of(order);
  }
  return place == bounds_.weaken ? Order::relaxed : order;
}

uint64_t Explorer::load(const volatile void* address, unsigned bytes, Order order) {
  Thread& thread = *threads_[running_];
  const size_t location = memory_.location(address, bytes);
  size_t choice = 0;
  if (!thread.newest_only && thread.spins < kSpins && old_values_ < bounds_.old_values)
    choice = choices_.choose(memory_.choices(running_, location, order));
  if (choice != 0) {
    ++old_values_;
    thread.took_old = true;
  }
  const uint64_t value = memory_.load(running_, location, order, choice);
  note_spin(thread, location, value);
  return value;
}

void Explorer::note_spin(Thread& thread, size_t location, uint64_t value) {
  if (thread.spins == 0 || thread.spin_location != location || thread.spin_value != value) {
    thread.spins = 0;
    thread.spin_freely = false;
  }
  thread.spin_location = location;
  thread.spin_value = value;
  if (++thread.spins <= kSpins || thread.spin_freely) return;
  thread.spin_stores = memory_.at(location).stores.size();
  thread.state = State::spins;
  give_up_turn();
}

void Explorer::wait_for(const std::function<bool()>& condition) {
  Thread& thread = *threads_[running_];
  while (true) {
    thread.took_old = false;
    thread.spins = 0;
    const uint64_t before = changes_ - thread.own_changes;
    if (condition()) break;
    thread.newest_only = false;
    thread.waited_at = before;
    thread.state = State::waits;
    give_up_turn();
  }
  thread.newest_only = false;
}

// The kernel looks at the word under its lock, which every waker takes after its store: so it finds the newest value.
void Explorer::futex_wait(const volatile void* address, uint32_t value) {
  point();
  if (memory_.load(running_, memory_.location(address, sizeof value), Order::relaxed, 0) != value) return;
  const Asleep me{reinterpret_cast<uintptr_t>(address), running_};
  asleep_.push_back(me);
  wait_for([&] { return std::find(asleep_.begin(), asleep_.end(), me) == asleep_.end(); });
}

void Explorer::futex_wake(const volatile void* address, uint64_t most) {
  point();
  for (auto it = asleep_.begin(); it != asleep_.end() && most != 0;) {
    if (it->address != reinterpret_cast<uintptr_t>(address)) {
      ++it;
    } else {
      it = asleep_.erase(it);
      --most;
      changed();
    }
  }
}

void Explorer::fail(std::string text) {
  if (failure_.empty()) failure_ = std::move(text);
  while (running_ != kNobody) give_up_turn();
}

Outcome explore(const Bounds& bounds, const std::function<void(Execution&)>& program) {
  Outcome outcome;
  bool traced = false;
  Choices choices;
  std::map<uintptr_t, Place> places;
  auto stacks = std::make_unique<sim::StackArena>(kMaxThreads, kStackBytes);
  do {
    auto execution = std::make_unique<Explorer>(bounds, choices, places, *stacks);
    execution->trace(traced);
    program(*execution);
    current = execution.get();
    execution->run();
    current = nullptr;
    if (traced) return outcome;
    ++outcome.executions;
    outcome.steps += execution->steps();
    outcome.cut_off += execution->cut_off();
    outcome.failure = execution->failure();
    // What the threads that have not ended own stays where it is, with their stacks.
    if (!execution->all_ended()) {
      static_cast<void>(execution.release());
      stacks->abandon();
      static_cast<void>(stacks.release());
      stacks = std::make_unique<sim::StackArena>(kMaxThreads, kStackBytes);
    }
    if (!bounds.trace || outcome.failure.empty()) continue;
    choices.again();
    traced = true;
  } while (traced || (outcome.failure.empty() && outcome.executions < bounds.executions && choices.next()));
  outcome.exhausted = outcome.failure.empty() && outcome.executions < bounds.executions;
  for (auto& [address, place] : places) outcome.places.push_back(std::move(place));
  return outcome;
}

std::string Outcome::text() const {
  return std::to_string(executions) + " executions, " + std::to_string(steps) + " steps" +
         (exhausted ? ", exhausted" : "") + (cut_off ? ", cut off: " + std::to_string(cut_off) : "") +
         (failure.empty() ? "" : "; " + failure);
}

std::string line_of(uintptr_t address) {
  Dl_info info{};
  char text[512];
  std::snprintf(text, sizeof text, "%#zx", size_t(address));
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0) return text;
  // The call's own line: an address is where it returns to.
  char command[600];
  std::snprintf(command, sizeof command, "addr2line -i -s -e %s %#zx 2>/dev/null", info.dli_fname,
                size_t(address - 1 - reinterpret_cast<uintptr_t>(info.dli_fbase)));
  std::string lines;
  if (FILE* pipe = popen(command, "r")) {
    while (std::fgets(text, sizeof text, pipe)) {
      std::string line(text);
      if (line.find("_test.cc") != std::string::npos) break;
      if (line.find("atomic") == std::string::npos)
        lines += (lines.empty() ? "" : " < ") + line.substr(0, line.find('\n'));
    }
    pclose(pipe);
  }
  return lines.empty() ? text : lines;
}

void require(bool condition, const char* what) {
  if (!condition) current->fail(what);
}

void wait_for(const std::function<bool()>& condition) { current->wait_for(condition); }

void note_change() {
  if (is_running()) current->changed();
}

// --- For the run-time.

size_t running_thread() { return current ? current->running() : kNobody; }

bool is_explored(const volatile void* address) { return is_running() && current->shares(address); }

uint64_t on_load(uintptr_t place, const volatile void* address, unsigned bytes, Order order) {
  current->point();
  const uint64_t value = current->load(address, bytes, current->order_at(place, "load", order));
  current->note(place, "load", current->memory().location(address, bytes), value);
  return value;
}

void on_store(uintptr_t place, const volatile void* address, unsigned bytes, uint64_t value, Order order) {
  current->point();
  Memory& memory = current->memory();
  order = current->order_at(place, "store", order);
  memory.store(current->running(), memory.location(address, bytes), order, value);
  current->note(place, "store", memory.location(address, bytes), value);
  current->changed();
}

uint64_t on_change(uintptr_t place, const volatile void* address, unsigned bytes, Change change, uint64_t operand,
                   Order order) {
  current->point();
  Memory& memory = current->memory();
  const size_t location = memory.location(address, bytes);
  const uint64_t before = memory.newest(location);
  uint64_t after = operand;
  switch (change) {
    case Change::exchange: break;
    case Change::add: after = before + operand; break;
    case Change::sub: after = before - operand; break;
    case Change::bit_and: after = before & operand; break;
    case Change::bit_or: after = before | operand; break;
    case Change::bit_xor: after = before ^ operand; break;
  }
  if (bytes < 8) after &= (uint64_t{1} << (8 * bytes)) - 1;
  memory.exchange(current->running(), location, current->order_at(place, "read-modify-write", order), after);
  current->note(place, "change", location, after);
  current->changed();
  return before;
}

uint64_t on_compare_exchange(uintptr_t place, const volatile void* address, unsigned bytes, uint64_t expected,
                             uint64_t desired, Order order) {
  current->point();
  Memory& memory = current->memory();
  const size_t location = memory.location(address, bytes);
  const uint64_t before = memory.newest(location);
  order = current->order_at(place, "compare-exchange", order);
  if (before == expected) {
    memory.exchange(current->running(), location, order, desired);
    current->changed();
  } else {
    memory.load(current->running(), location, order, 0);
  }
  current->note(place, "compare", location, before);
  return before;
}

void on_fence(uintptr_t place, Order order) {
  if (!is_running()) return;
  current->memory().fence(current->running(), current->order_at(place, "fence", order));
}

void on_plain(const volatile void* address, uint64_t bytes, bool write) {
  if (!is_explored(address)) return;
  const std::string wrong =
      current->memory().plain(current->running(), reinterpret_cast<uintptr_t>(address), bytes, write);
  if (!wrong.empty()) current->fail("thread " + std::to_string(current->running()) + ": " + wrong);
}

bool on_barrier_everywhere() {
  if (!is_running()) return false;
  current->point();
  if (!current->bounds().no_barrier) current->memory().barrier_everywhere(current->running());
  return true;
}

bool on_futex_wait(const volatile void* address, uint32_t value) {
  if (!is_running()) return false;
  current->futex_wait(address, value);
  return true;
}

bool on_futex_wake(const volatile void* address, uint64_t most) {
  if (!is_running()) return false;
  current->futex_wake(address, most);
  return true;
}

bool on_failure(const char* text) {
  if (!is_running()) return false;
  current->fail(text);
  return true;
}

}  // namespace tern::explore
