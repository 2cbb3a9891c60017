// A record: what a rank writes about itself for mpiexec --summary and --trace. It is a file mapped into the rank's
// memory, so it is complete at every moment, however the rank ends; the kernel writes it to disk. mpiexec reads the
// records after all ranks have ended.
//
//   Header (totals, counters)  |  padding to a page  |  Event, Event, ...  (header.events of them)
//
// Writer and reader are the same version on machines of one kind; the reader checks the magic number and the sizes.
// Units: nanoseconds, bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"

namespace tern::record {

inline constexpr char kMagic[8] = {'T', 'E', 'R', 'N', 'R', 'E', 'C', '3'};
inline constexpr size_t kPageBytes = 4096;     ///< what mmap offsets are multiples of on x86-64
inline constexpr size_t kMaxFunctions = 1024;  ///< more than MPI 5.0 has; later ones would not be recorded
inline constexpr size_t kMaxAlgorithms = 64;   ///< later ones are recorded without a name
inline constexpr size_t kMaxThreads = 64;      ///< later threads are recorded as the last one
inline constexpr size_t kMaxPlaces = 4096;     ///< calls from later ones are recorded without a place
inline constexpr size_t kMaxFiles = 64;        ///< of code; later ones are recorded as none
inline constexpr size_t kMaxPaths = 8;         ///< that carry messages; later ones are recorded as none

/// All calls of one MPI function. Nested calls (from callbacks) are counted; their time belongs to the outer call.
struct Totals {
  char name[48];
  uint64_t calls, time_ns, longest_ns, wait_ns;
};

/// A comparison with rank 0's clock: when it was made (this rank's clock), what to add to get rank 0's time, and how
/// long the exchange took (the error is at most half of it). Round trip 0: both ranks use the same clock.
struct ClockSample {
  uint64_t at_ns;
  int64_t offset_ns;
  uint64_t round_trip_ns;
};

enum class EventKind : uint8_t {
  call,      ///< `what`: the function's place in Header::totals; `given`: which of the other fields say something
  sleep,     ///< a waiting thread was asleep in the kernel
  progress,  ///< the event thread was working
  send,      ///< a message began to leave: peer, tag, context, bytes; `what`: Protocol; `request`: place in
             ///< Header::paths plus 1
  receive,   ///< matched at time_ns, complete `duration_ns` later; other fields as `send`, `what`: 1 if unexpected
  control,   ///< a protocol's message arrived: peer; `what`: its wire::Kind
};

/// The arguments of a call that its event has, as bits of Event::given.
enum Given : uint16_t {
  kNone = 0,
  kComm = 1,       ///< `context`
  kDest = 2,       ///< `peer`, a rank of the communicator
  kSource = 4,     ///< `source`, a rank of the communicator or a wildcard
  kRoot = 8,       ///< `source` is the root
  kTag = 16,       ///< `tag`
  kCount = 32,     ///< `count`
  kBytes = 64,     ///< `bytes`: of count elements of the datatype
  kRequest = 128,  ///< `request`: the handle
  kTarget = 256,   ///< `peer`, a rank of the window
};

struct Event {
  uint64_t time_ns, duration_ns;
  uint64_t context, bytes;
  uint32_t peer;  ///< rank in MPI_COMM_WORLD
  int32_t tag;
  EventKind kind;
  uint8_t thread;
  uint16_t what;
  // Of calls only.
  uint16_t given : 9 = 0;
  uint16_t algorithm : 7 = 0;    ///< place in Header::algorithms plus 1; 0: none
  uint64_t count : 32 = 0;       ///< kManyElements: so many, or more
  uint64_t place : 16 = 0;       ///< in Header::places plus 1; 0: unknown
  uint64_t wait_share : 16 = 0;  ///< of the duration in which the call only polled, or slept; kWholeShare: all of it
  uint32_t request = 0;
  int32_t source = 0;
};
static_assert(sizeof(Event) == 64);
inline constexpr uint64_t kManyElements = 0xffffffff;  ///< the largest of its field
inline constexpr uint64_t kWholeShare = 0xffff;        ///< the largest of its field

/// Where in the program a call of MPI stands: in the file `file` of Header::files, as the file has it in memory.
struct Place {
  uint64_t offset;  ///< of the return address
  uint32_t file;
};

struct Header {
  char magic[8];
  uint32_t header_bytes, event_bytes;
  int32_t rank, size;  ///< -1: MPI is not initialised
  int32_t process;
  uint32_t functions;     ///< entries used in `totals`
  uint32_t threads;       ///< threads seen so far
  uint32_t current;       ///< function that the first thread is in, plus 1; 0: none
  uint32_t event_thread;  ///< number of the event thread, plus 1; 0: none
  uint32_t finished;      ///< 1: the last call was made, MPI_Finalize is over
  char host[64];
  char clock_domain[128];
  uint64_t first_ns, last_ns;  ///< begin of the first call, end of the last one
  uint64_t current_since_ns;
  uint64_t events, events_lost;
  uint64_t lost_because;  ///< the errno with which no more room could be had; 0: --trace-size was reached, or none lost
  ClockSample samples[2];  ///< at the start and at the end; at_ns 0: not made
  Counters counters;
  char algorithms[kMaxAlgorithms][32];  ///< of collectives; an empty one ends the list
  char paths[kMaxPaths][16];            ///< names; an empty one ends the list
  uint64_t eager_limits[kMaxPaths];     ///< of those paths, in bytes
  uint64_t resident_peak_bytes;         ///< of the process, when it ended MPI; 0: unknown
  uint32_t places_used, files_used;
  char files[kMaxFiles][256];  ///< of the program and its libraries
  Place places[kMaxPlaces];
  Totals totals[kMaxFunctions];
};

/// Offset of the events in the file.
inline constexpr size_t kEventsAt = (sizeof(Header) + kPageBytes - 1) / kPageBytes * kPageBytes;

}  // namespace tern::record
