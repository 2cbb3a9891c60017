// Who listens to events of this rank (MPI_T events; MPI 5.0, 15.3.8), and how they are told. An event happens in the
// middle of the library's work, so that a callback may call only what MPI_T_CB_REQUIRE_MPI_RESTRICTED allows; in the
// event thread, or if several threads are in MPI, it must be MPI_T_CB_REQUIRE_THREAD_SAFE. What has only a callback
// that promises less waits, a bounded number of instances for each registration, until the program's thread is about to
// leave a call of MPI: there a callback may do everything (MPI_T_CB_REQUIRE_NONE). Beyond the bound instances are
// dropped, and counted.
//
//   on_event ──> a callback for this level? ── yes ──> those that wait, the dropped handler, then this one
//                         └─ no ──> it waits ──> deliver (end of a call): the dropped handler, then all that wait
//
// Thread rule: under the rank's lock. One object for each rank that listens.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/events.h"
#include "mpi.h"

namespace tern::capi {

struct World;

/// Target of an MPI_T_event_instance: one event as its callback reads it.
struct ToolInstance {
  Event event;
  EventData data;
  uint64_t time_ns;  ///< of Recorder::now_ns
};

/// Target of an MPI_T_event_registration.
struct ToolRegistration {
  static constexpr size_t kMostWaiting = 4096;  ///< instances, some 200 KiB
  static constexpr MPI_T_cb_safety kLevels[] = {MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED,
                                                MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};
  struct Callback {
    MPI_T_event_cb_function* function = nullptr;
    void* user_data = nullptr;
  };

  Event event;
  Callback callbacks[4];  ///< by place in kLevels
  MPI_T_event_dropped_cb_function* dropped_function = nullptr;
  uint64_t dropped = 0;  ///< since the handler was last told; counted only while there is one
  std::deque<ToolInstance> waiting;
  bool freed = false;  ///< no event any more; the object goes when nothing calls its callbacks
  MPI_T_event_free_cb_function* free_function = nullptr;
  void* free_data = nullptr;

  /// The one with the lowest level that is at least the level at that place of kLevels; null: none is.
  const Callback* callback_for(size_t level) const;
  bool listens() const;
};

class ToolEvents final : public EventTap {
 public:
  explicit ToolEvents(World& world) : world_(world) {}
  ~ToolEvents();
  ToolEvents(const ToolEvents&) = delete;
  ToolEvents& operator=(const ToolEvents&) = delete;

  ToolRegistration& add(Event event);
  /// Null: it is none, or freed.
  ToolRegistration* find(MPI_T_event_registration handle) const;
  /// The instance that a callback on this thread is being told; null: it is another handle.
  const ToolInstance* find(MPI_T_event_instance handle) const;
  void free(ToolRegistration& registration);
  /// After a callback was set or removed, or a registration ended: whether the library raises events at all.
  void update();

  void on_event(Event event, const EventData& data) override;
  /// Whether a callback is running.
  bool telling() const { return !told_.empty(); }
  /// At the end of a call: what waits for that.
  void deliver();

 private:
  size_t level_now() const;
  bool raise(ToolRegistration& registration, const ToolInstance& instance, size_t level);
  void tell_dropped(ToolRegistration& registration, size_t level);
  void sweep(size_t level);

  World& world_;
  std::vector<std::unique_ptr<ToolRegistration>> registrations_;
  std::vector<const ToolInstance*> told_;  ///< being told now, callbacks inside of callbacks last
  bool delivering_ = false;
  bool waits_ = false;  ///< something waits for the end of a call
};

/// Whether this thread is no thread of the application's. (Below MPI_THREAD_MULTIPLE, so there is one that calls MPI.)
bool on_event_thread(const World& world);
/// Call::leave: what waits for the end of a call is told.
void deliver_events(World& world);

}  // namespace tern::capi
