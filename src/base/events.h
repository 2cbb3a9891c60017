// Events inside of the library that a tool may ask to be told of (MPI_T events; MPI 5.0, 15.3.8). One table: from it
// come the event types of MPI_T, their elements, and their documentation. What raises an event asks Counters::watched
// first, beside the counter that it counts anyway, so that nobody pays when nobody listens.
//
// Thread rule: under the rank's lock; the event thread raises events, too.
#pragma once

#include <cstdint>
#include <span>

namespace tern {

/// What one event carries; which fields mean what is in the table. Ranks are those in MPI_COMM_WORLD, -1: none.
struct EventData {
  int32_t a = 0, b = 0;
  int64_t x = 0, y = 0;
};

// A row: name, category, what `a`, `b`, `x` and `y` are ("": unused), meaning.
// clang-format off
#define TERN_EVENTS(X) \
  X(message_matched, "messages", "source", "tag", "context", "bytes", \
    "a message has met its receive") \
  X(message_unexpected, "messages", "source", "tag", "context", "bytes", \
    "a message came for which no receive was posted") \
  X(rendezvous_begun, "messages", "destination", "tag", "protocol", "bytes", \
    "a message began to leave that is not sent eagerly (protocol: the rows of the summary's table, from 0)") \
  X(rendezvous_done, "messages", "destination", "tag", "context", "", \
    "the memory of such a message may be used again") \
  X(request_completed, "messages", "peer", "tag", "kind", "bytes", \
    "the request of a send (kind 0, bytes 0) or receive (kind 1) is complete") \
  X(collective_begun, "collectives", "algorithm", "operation", "context", "scheduled", \
    "a collective operation began here (scheduled: 0 blocking, 1 nonblocking or persistent; algorithm: its place in " \
    "docs/algorithms.md from 0, -1: none)") \
  X(collective_done, "collectives", "algorithm", "operation", "context", "scheduled", \
    "a collective operation is over here") \
  X(window_epoch, "windows", "target", "call", "window", "", \
    "an epoch began or ended (call: 0 fence, 1 start, 2 complete, 3 post, 4 wait, 5 lock, 6 unlock, 7 flush)") \
  X(file_access, "files", "write", "blocking", "offset", "bytes", \
    "a part of a file is read (write 0) or written (write 1)") \
  X(path_lost, "messages", "peer", "", "incident", "", \
    "the path that carried the messages to a peer is lost, others may be left (TERN_PATH names several)") \
  X(path_restored, "messages", "peer", "", "incident", "", \
    "messages to that peer go on by another path, nothing was lost") \
  X(hang_suspected, "progress", "", "", "waited_ns", "", \
    "this rank has slept in one call for so long that it tells mpiexec")
// clang-format on

enum class Event : uint8_t {
#define TERN_EVENT(name, ...) name,
  TERN_EVENTS(TERN_EVENT)
#undef TERN_EVENT
};

struct EventRow {
  const char *name, *group;
  const char* elements[4];  ///< in the order of EventData's fields; empty: unused
  const char* meaning;
};
inline constexpr EventRow kEventRows[] = {
#define TERN_EVENT(name, group, a, b, x, y, meaning) {#name, group, {a, b, x, y}, meaning},
    TERN_EVENTS(TERN_EVENT)
#undef TERN_EVENT
};

/// Is told of events as they happen.
class EventTap {
 public:
  /// Called in the middle of the library's work: must not come back into it.
  virtual void on_event(Event event, const EventData& data) = 0;

 protected:
  ~EventTap() = default;
};

}  // namespace tern
