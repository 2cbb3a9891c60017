// The one table of counters. From it come the struct, MPI_T performance variables, tern-info --counters, the reference
// page, and the tables of mpiexec --summary.
//
// A row: name, class, unit, group (an MPI_T category), meaning. Rows of the second table have one element for each size
// class of messages. There is one struct per rank, in plain memory without pointers: it may be mapped from a file that
// other processes read after the rank has died. Thread rule: changed under the rank's lock; reading without the lock
// gives approximate values.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/events.h"

namespace tern {

/// What a number means (MPI 5.0, 15.3.7.1).
enum class CounterClass : uint8_t {
  counter,    ///< grows by one for each event
  aggregate,  ///< grows by amounts
  level,      ///< how much there is now
  peak,       ///< the highest level there was (a high watermark)
  timer,      ///< grows by durations
};

/// Messages are counted by size: up to 64 bytes, 512, 4 Ki, 32 Ki, 256 Ki, 2 Mi, 16 Mi, and longer.
inline constexpr size_t kSizeClasses = 8;
/// The size class by the bit width of the largest number below, which is 6 up to 64 bytes.
inline constexpr auto kSizeClassOfWidth = [] {
  std::array<uint8_t, 65> classes{};
  for (size_t width = 7; width < classes.size(); ++width)
    classes[width] = uint8_t(std::min((width - 4) / 3, kSizeClasses - 1));
  return classes;
}();
constexpr size_t size_class(size_t bytes) {
  return kSizeClassOfWidth[size_t(std::bit_width((bytes - (bytes != 0)) | 63u))];
}
/// The longest message of a size class, in bytes; the last has no limit.
constexpr size_t size_class_limit(size_t index) {
  return index + 1 < kSizeClasses ? size_t{64} << (3 * index) : ~size_t{0};
}

// clang-format off
#define TERN_PLAIN_COUNTERS(X) \
  X(without_credit, counter, "messages", "messages", \
    "short messages announced instead of sent eagerly, because no unexpected-data credit was left") \
  X(sends_queued, counter, "messages", "messages", \
    "eager messages and announcements that waited at their sender because the path was full") \
  X(unexpected_queue, level, "messages", "messages", \
    "messages here that no receive has matched") \
  X(unexpected_queue_peak, peak, "messages", "messages", \
    "the most messages that were here without a receive at one time") \
  X(unexpected_bytes, level, "bytes", "messages", \
    "eager data kept for later receives (bounded for each sender by TERN_UNEXPECTED_CREDIT_BYTES)") \
  X(unexpected_bytes_peak, peak, "bytes", "messages", \
    "the most eager data that was kept at one time") \
  X(tuple_queues, level, "queues", "messages", \
    "tuple queues by which this rank receives (TERN_RENDEZVOUS=tupleq)") \
  X(tuple_asked, counter, "queues", "messages", \
    "tuple queues that this rank has asked its receivers for") \
  X(tuple_refused, counter, "queues", "messages", \
    "requests for tuple queues that were refused: a wildcard was posted, or too many queues") \
  X(tuple_misses, counter, "messages", "messages", \
    "messages sent the traditional way because there was no tuple queue for them (yet)") \
  X(tuple_copies, counter, "messages", "messages", \
    "messages to tuple queues that were copied, so that the send was complete at once") \
  X(tuple_repairs, counter, "queues", "messages", \
    "connections of tuple queues that failed and were repaired") \
  X(tuple_stops_lost, counter, "queues", "messages", \
    "tuple queues stopped because their path was lost while another one goes on") \
  X(tuple_fetched, counter, "messages", "messages", \
    "messages of such queues that were sent again over the other path") \
  X(tuple_stops_wildcard, counter, "queues", "messages", \
    "tuple queues stopped by their receiver because of a wildcard or a probe") \
  X(tuple_stops_cancel, counter, "queues", "messages", \
    "tuple queues stopped because a send or receive was cancelled") \
  X(tuple_stops_long, counter, "queues", "messages", \
    "tuple queues stopped by their sender because of a message longer than TERN_TUPLE_BYTES") \
  X(tuple_stops_busy, counter, "queues", "messages", \
    "tuple queues stopped by their sender because messages that waited for their receives occupied all ways " \
    "(TERN_TUPLE_WAYS)") \
  X(tuple_stops_unused, counter, "queues", "messages", \
    "tuple queues stopped because there were too many (TERN_TUPLE_QUEUES), the longest unused first") \
  X(coll_node, counter, "calls", "collectives", \
    "collective calls that went through the memory shared by a node, without messages") \
  X(coll_blocking, counter, "calls", "collectives", \
    "other blocking collective calls: a schedule of messages, executed in the call") \
  X(coll_scheduled, counter, "calls", "collectives", \
    "nonblocking and persistent collective calls: a schedule that the progress engine drives") \
  X(wait, timer, "nanoseconds", "progress", \
    "time that calls spent in empty polls and asleep; measured only on demand (mpiexec --summary or --trace, a " \
    "started MPI_T handle)") \
  X(asleep, timer, "nanoseconds", "progress", \
    "time that waiting calls spent asleep in the kernel") \
  X(sleeps, counter, "sleeps", "progress", \
    "how often a waiting thread went to sleep") \
  X(yields, counter, "yields", "progress", \
    "how often a waiting rank gave its core to other processes (sched_yield)") \
  X(wakes, counter, "wakes", "progress", \
    "how often one thread of a rank woke another") \
  X(event_ticks, counter, "ticks", "progress", \
    "how often the event thread's timer checked whether the application was outside the library (TERN_PROGRESS)") \
  X(event_wakes, counter, "wakes", "progress", \
    "wake-ups of the event thread by arrivals or by a path's deadline") \
  X(event_wakes_empty, counter, "wakes", "progress", \
    "wake-ups of the event thread that found the application inside the library") \
  X(event_handled, aggregate, "events", "progress", \
    "messages and completions that the event thread handled while the application computed") \
  X(shm_fetches, counter, "transfers", "shm", \
    "messages fetched from their sender's memory by cross-memory attach, with one copy") \
  X(shm_fetched_bytes, aggregate, "bytes", "shm", \
    "bytes fetched that way") \
  X(shm_spilled, counter, "messages", "shm", \
    "messages of the protocols that were put beside a full ring, so that they need no later call of their rank") \
  X(tcp_connections, level, "connections", "tcp", \
    "TCP connections that are open") \
  X(tcp_resumed, counter, "connections", "tcp", \
    "connections that replaced a lost one") \
  X(tcp_unsound, counter, "blocks", "tcp", \
    "blocks whose checksum was wrong (TERN_TCP_CRC); they were sent again") \
  X(tcp_striped, counter, "messages", "tcp", \
    "messages spread over several networks (TERN_TCP_LANES)") \
  X(lane_failovers, counter, "changes", "messages", \
    "times that messages of a peer moved to another path because theirs was lost") \
  X(lane_failbacks, counter, "changes", "messages", \
    "times that messages of a peer moved back to a better path that worked again") \
  X(lane_resent, counter, "messages", "messages", \
    "messages sent again over another path, because they were not known to have arrived") \
  X(udp_sent, counter, "datagrams", "udp", \
    "datagrams sent, repeated ones included") \
  X(udp_received, counter, "datagrams", "udp", \
    "datagrams received: authentic, for the first time") \
  X(udp_repeated, counter, "datagrams", "udp", \
    "datagrams (TERN_UDP=paper: fragments) sent again because they were lost, or seemed lost") \
  X(udp_spurious, counter, "datagrams", "udp", \
    "repeated datagrams whose first copy had arrived as well") \
  X(udp_forged, counter, "datagrams", "udp", \
    "datagrams without a valid seal, or from outside this job") \
  X(udp_replayed, counter, "datagrams", "udp", \
    "datagrams received before (replayed, or duplicated by the network)") \
  X(udp_nacks, counter, "datagrams", "udp", \
    "negative acknowledgements sent (TERN_UDP=paper)") \
  X(udp_moved, counter, "changes", "udp", \
    "times that another network was tried for a silent peer") \
  X(ofi_received, counter, "frames", "ofi", \
    "frames received over libfabric") \
  X(ofi_held, counter, "frames", "ofi", \
    "frames that came before an earlier one, and waited for it") \
  X(ofi_forged, counter, "frames", "ofi", \
    "frames over libfabric without the job's proof, or from outside this job") \
  X(rdma_registration_hits, counter, "registrations", "rdma", \
    "transfers whose memory was registered already") \
  X(rdma_registration_misses, counter, "registrations", "rdma", \
    "transfers whose memory had to be registered") \
  X(rdma_channels_rc, level, "channels", "rdma", \
    "peers whose messages come by a connected queue pair into shared receive buffers") \
  X(rdma_channels_dc, level, "channels", "rdma", \
    "peers whose messages come by DC into shared receive buffers") \
  X(rdma_channels_ud, level, "channels", "rdma", \
    "peers whose messages come by datagrams (UD)") \
  X(rdma_channels_xrc, level, "channels", "rdma", \
    "peers whose messages come by a queue pair for each of their nodes (XRC)") \
  X(rdma_channels_rc_rdma, level, "channels", "rdma", \
    "peers that write their messages into a ring by a connected queue pair") \
  X(rdma_channels_dc_rdma, level, "channels", "rdma", \
    "peers that write their messages into a ring by DC") \
  X(rdma_node_queue_pairs, level, "queue pairs", "rdma", \
    "queue pairs that the ranks of this node use on this rank's adapter: connected ones, DC initiators, those for " \
    "datagrams") \
  X(rdma_node_rings, level, "rings", "rdma", \
    "rings that peers write into, of all ranks of this node on this adapter") \
  X(rdma_switches, counter, "changes", "rdma", \
    "times that a peer's messages changed to another channel") \
  X(rdma_empty_polls, counter, "polls", "rdma", \
    "polls of rings that found nothing") \
  X(rdma_credits, counter, "frames", "rdma", \
    "frames sent only to return credit to a peer") \
  X(rdma_datagrams, counter, "datagrams", "rdma", \
    "datagrams (UD) sent, acknowledgements and repeated ones included") \
  X(rdma_datagrams_repeated, counter, "datagrams", "rdma", \
    "datagrams (UD) sent again because they were lost, or seemed lost") \
  X(rdma_bytes, level, "bytes", "rdma", \
    "registered memory of the RDMA path itself: shared receive and send buffers, rings") \
  X(io_together, counter, "calls", "files", \
    "collective file accesses whose data went through aggregators (two-phase)") \
  X(io_windows, counter, "windows", "files", \
    "windows that this rank has read or written as an aggregator") \
  X(io_sieved, counter, "blocks", "files", \
    "blocks read, or read and written back, with holes between the wanted pieces (data sieving)") \
  X(io_background, counter, "transfers", "files", \
    "reads and writes handed to io_uring or to a thread") \
  X(rma_puts, counter, "operations", "windows", \
    "puts begun (MPI_Put, MPI_Rput)") \
  X(rma_gets, counter, "operations", "windows", \
    "gets begun (MPI_Get, MPI_Rget)") \
  X(rma_accumulates, counter, "operations", "windows", \
    "accumulates begun, also those that fetch, and compare-and-swaps") \
  X(rma_direct, counter, "operations", "windows", \
    "one-sided operations done in memory shared with the target, without a message") \
  X(rma_transfers, counter, "operations", "windows", \
    "puts and gets that an adapter or cross-memory attach carried out, without the target's processor") \
  X(rma_atomics, counter, "operations", "windows", \
    "atomic operations of accumulates that an adapter carried out, without the target's processor") \
  X(rma_messages, counter, "messages", "windows", \
    "messages sent to targets of one-sided operations: operations gathered, data, locks") \
  X(rma_answers, counter, "messages", "windows", \
    "messages sent back to their origins: results, confirmations, locks granted") \
  X(rma_flushes, counter, "exchanges", "windows", \
    "confirmations asked of targets (one for each target and flush, unlock or fence that needs it)") \
  X(rma_locks, counter, "locks", "windows", \
    "passive-target locks asked of targets") \
  X(rma_lock_waits, counter, "locks", "windows", \
    "locks of this rank's windows that an origin had to wait for") \
  X(rma_lock_words, counter, "operations", "windows", \
    "operations on lock words of other ranks (test-and-set, mcs)")

#define TERN_SIZED_COUNTERS(X) \
  X(sent_eager, counter, "messages", "messages", \
    "messages sent eagerly: the data went at once") \
  X(sent_eager_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_receiver_put, counter, "messages", "messages", \
    "messages put by their sender into the buffer that the receiver had announced (RECV_RNDV; Small and Yuan " \
    "2009)") \
  X(sent_receiver_put_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_receiver_stream, counter, "messages", "messages", \
    "messages streamed at once to a receive that had been announced") \
  X(sent_receiver_stream_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_hybrid, counter, "messages", "messages", \
    "messages copied by their sender, whose send is complete at once, and fetched from the copy (HYBRID; Small and " \
    "Yuan 2009)") \
  X(sent_hybrid_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_sender_put, counter, "messages", "messages", \
    "messages announced, then put by their sender when the receiver was ready") \
  X(sent_sender_put_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_sender_get, counter, "messages", "messages", \
    "messages announced, to be fetched by their receivers") \
  X(sent_sender_get_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_sender_data, counter, "messages", "messages", \
    "messages announced, then sent when the receiver was ready") \
  X(sent_sender_data_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(sent_tuple, counter, "messages", "messages", \
    "messages sent into tuple queues") \
  X(sent_tuple_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(received_expected, counter, "messages", "messages", \
    "messages that found their receive waiting") \
  X(received_expected_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(received_unexpected, counter, "messages", "messages", \
    "messages that had arrived, or were announced, before their receive was posted") \
  X(received_unexpected_bytes, aggregate, "bytes", "messages", \
    "bytes of those messages") \
  X(io_read, counter, "transfers", "files", \
    "reads of files (system calls, or by io_uring)") \
  X(io_read_bytes, aggregate, "bytes", "files", \
    "bytes asked for by them") \
  X(io_written, counter, "transfers", "files", \
    "writes to files (system calls, or by io_uring)") \
  X(io_written_bytes, aggregate, "bytes", "files", \
    "bytes of those writes")
// clang-format on

using SizedCounter = std::array<uint64_t, kSizeClasses>;

struct Counters {
#define TERN_MEMBER(name, ...) uint64_t name = 0;
  TERN_PLAIN_COUNTERS(TERN_MEMBER)
#undef TERN_MEMBER
#define TERN_MEMBER(name, ...) SizedCounter name{};
  TERN_SIZED_COUNTERS(TERN_MEMBER)
#undef TERN_MEMBER

  /// How many users want the timer `wait`. It costs two clock reads per wait, so it runs only on demand.
  uint32_t timing = 0;

  // Who wants to know of single events, as bits of `watched`.
  static constexpr uint32_t kTraced = 1;    ///< a Recorder (mpiexec --trace)
  static constexpr uint32_t kListened = 2;  ///< `tap`
  uint32_t watched = 0;
  /// Of this process: nothing for those who read the table from outside.
  EventTap* tap = nullptr;
  /// Only while `watched` is not 0.
  void tell(Event event, const EventData& data) const {
    if (watched & kListened) tap->on_event(event, data);
  }

  void raise_unexpected(size_t queued, size_t bytes) {
    unexpected_queue = queued;
    unexpected_queue_peak = std::max(unexpected_queue_peak, unexpected_queue);
    unexpected_bytes += bytes;
    unexpected_bytes_peak = std::max(unexpected_bytes_peak, unexpected_bytes);
  }
};

/// A row of the table.
struct CounterRow {
  const char* name;
  CounterClass counter_class;
  uint32_t offset;    ///< of its first element in Counters, in bytes
  uint32_t elements;  ///< 1, or kSizeClasses
  const char* unit;
  const char* group;
  const char* meaning;

  const uint64_t* in(const Counters& counters) const {
    return reinterpret_cast<const uint64_t*>(reinterpret_cast<const std::byte*>(&counters) + offset);
  }
};
std::span<const CounterRow> counter_rows();
/// Counts without the rank's lock: a count that one thread alone makes.
inline void count_alone(uint64_t& count) { std::atomic_ref(count).store(count + 1, std::memory_order_relaxed); }
/// Adds; of peaks it takes the higher one. `more` may be counting (count_alone).
void add_counters(Counters& sum, const Counters& more);
/// "counter", "high watermark", ...
const char* counter_class_name(CounterClass counter_class);

/// A group of rows, what MPI_T calls a category.
struct CounterGroup {
  const char* name;
  const char* meaning;
};
std::span<const CounterGroup> counter_groups();

}  // namespace tern
