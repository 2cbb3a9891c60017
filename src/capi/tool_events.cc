#include "capi/tool_events.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/recorder.h"
#include "capi/call.h"

namespace tern::capi {
namespace {
constexpr size_t kNone = 0, kRestricted = 1, kThreadSafe = 2;  // places in ToolRegistration::kLevels
}

const ToolRegistration::Callback* ToolRegistration::callback_for(size_t level) const {
  for (size_t i = level; i < std::size(callbacks); ++i) {
    if (callbacks[i].function) return &callbacks[i];
  }
  return nullptr;
}

bool ToolRegistration::listens() const { return !freed && callback_for(kNone); }

ToolEvents::~ToolEvents() {
  for (auto& each : registrations_) each->freed = true;
  update();
}

ToolRegistration& ToolEvents::add(Event event) {
  registrations_.push_back(std::make_unique<ToolRegistration>());
  registrations_.back()->event = event;
  return *registrations_.back();
}

ToolRegistration* ToolEvents::find(MPI_T_event_registration handle) const {
  for (auto& each : registrations_) {
    if (reinterpret_cast<MPI_T_event_registration>(each.get()) == handle && !each->freed) return each.get();
  }
  return nullptr;
}

const ToolInstance* ToolEvents::find(MPI_T_event_instance handle) const {
  for (const ToolInstance* each : told_) {
    if (reinterpret_cast<MPI_T_event_instance>(const_cast<ToolInstance*>(each)) == handle) return each;
  }
  return nullptr;
}

void ToolEvents::free(ToolRegistration& registration) {
  registration.freed = true;
  registration.waiting.clear();
  update();
  if (told_.empty()) sweep(kNone);
}

void ToolEvents::update() {
  const bool listens =
      std::any_of(registrations_.begin(), registrations_.end(), [](auto& each) { return each->listens(); });
  if (listens) world_.observed = true;
  const auto tell = [&](Counters& counters) {
    counters.tap = listens ? this : nullptr;
    if (listens) counters.watched |= Counters::kListened;
    else counters.watched &= ~Counters::kListened;
  };
  tell(*world_.counts.rank);
  Engines* engines = world_.process ? world_.process->engines() : nullptr;
  if (!engines) return;
  // Short calls tell nobody.
  if (listens) engines->retire();
  else engines->close();
  for (uint32_t i = 0; i < engines->count(); ++i) tell((*engines)[i].counters);
}

size_t ToolEvents::level_now() const { return world_.threads || on_event_thread(world_) ? kThreadSafe : kRestricted; }

// Callbacks may free registrations and make new ones: the list is gone through by number, and shrinks only in sweep.
void ToolEvents::on_event(Event event, const EventData& data) {
  const ToolInstance instance{event, data, Recorder::now_ns()};
  const size_t level = level_now();
  for (size_t i = 0; i < registrations_.size(); ++i) {
    ToolRegistration& registration = *registrations_[i];
    if (registration.event != event || !registration.listens()) continue;
    // In the order of time: those that wait come first.
    while (!registration.waiting.empty() && registration.callback_for(level)) {
      const ToolInstance earlier = registration.waiting.front();
      registration.waiting.pop_front();
      raise(registration, earlier, level);
    }
    if (raise(registration, instance, level)) continue;
    if (registration.waiting.size() < ToolRegistration::kMostWaiting) {
      registration.waiting.push_back(instance);
      waits_ = true;
    } else if (registration.dropped_function && registration.dropped < uint64_t(std::numeric_limits<Count>::max())) {
      ++registration.dropped;
    }
  }
  if (told_.empty()) sweep(level);
}

bool ToolEvents::raise(ToolRegistration& registration, const ToolInstance& instance, size_t level) {
  tell_dropped(registration, level);
  const ToolRegistration::Callback* found = registration.callback_for(level);
  if (!found) return false;
  const ToolRegistration::Callback callback = *found;
  told_.push_back(&instance);
  callback.function(reinterpret_cast<MPI_T_event_instance>(const_cast<ToolInstance*>(&instance)),
                    reinterpret_cast<MPI_T_event_registration>(&registration), ToolRegistration::kLevels[level],
                    callback.user_data);
  std::erase(told_, &instance);
  return true;
}

void ToolEvents::tell_dropped(ToolRegistration& registration, size_t level) {
  if (registration.dropped == 0 || !registration.dropped_function) return;
  const ToolRegistration::Callback* found = registration.callback_for(level);
  if (!found) return;
  const auto count = MPI_Count(registration.dropped);
  registration.dropped = 0;
  registration.dropped_function(count, reinterpret_cast<MPI_T_event_registration>(&registration),
                                int(registration.event), ToolRegistration::kLevels[level], found->user_data);
}

// A callback may call MPI, and so come here again: then this one goes on. Such a call gives the lock up where it waits.
void ToolEvents::deliver() {
  if (!waits_ || delivering_) return;
  delivering_ = true;
  waits_ = false;
  for (size_t i = 0; i < registrations_.size(); ++i) {
    ToolRegistration& registration = *registrations_[i];
    size_t left = registration.waiting.size();  // what callbacks cause waits for the end of the next call
    for (; left > 0 && !registration.waiting.empty() && registration.listens(); --left) {
      const ToolInstance instance = registration.waiting.front();
      registration.waiting.pop_front();
      raise(registration, instance, kNone);
    }
    waits_ = waits_ || !registration.waiting.empty();
  }
  delivering_ = false;
  if (told_.empty()) sweep(kNone);
}

void ToolEvents::sweep(size_t level) {
  for (size_t i = registrations_.size(); i > 0; --i) {
    if (!registrations_[i - 1]->freed) continue;
    const std::unique_ptr<ToolRegistration> gone = std::move(registrations_[i - 1]);
    registrations_.erase(registrations_.begin() + std::ptrdiff_t(i - 1));
    if (gone->free_function) {
      gone->free_function(reinterpret_cast<MPI_T_event_registration>(gone.get()), ToolRegistration::kLevels[level],
                          gone->free_data);
    }
  }
}

bool on_event_thread(const World& world) {
  return world.process && !world.threads && world.models.main_thread != std::this_thread::get_id();
}

// A callback on the event thread has called MPI: that thread does not enter as the application does, and what waits is
// told at the application's next call.
void deliver_events(World& world) {
  if (on_event_thread(world)) return;
  const bool locks = world.locking;
  if (locks) world.lock->enter();
  if (world.tools.events) world.tools.events->deliver();
  if (locks) world.lock->leave();
}

}  // namespace tern::capi
