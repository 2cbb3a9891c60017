// Hca: an RDMA adapter as verbs describe it (InfiniBand Architecture 1.4, chapters 9-11; DC: Mellanox' dynamically
// connected transport). There are two providers: `ibv` (libibverbs) and the simulated adapter (sim/adapter.h). The RDMA
// path, its DC channels and tuple queues are written against this interface; they ask `capabilities`, never for a
// provider.
//
// Ownership: an Hca outlives everything made from it. Objects are owned by their makers (unique_ptr) and refer to
// others by plain pointers: a queue pair is destroyed before its completion queues and shared receive queue, a memory
// region after the last request that names it has completed. Destroying a queue pair drops what is outstanding on it
// without completions.
//
// Work requests are copied at post: the WorkRequest and its pieces may be reused at once, the memory that pieces name
// belongs to the adapter until the request completes (inlined: is free at once). Nothing allocates per work request.
//
// Completions: a request that asked for one (`signaled`) gives exactly one entry in the queue pair's completion queue;
// others give one only when they fail. Entries of one queue pair's send side come in the order of posting, and an entry
// means that everything posted there before it is over, too. Unsignaled requests occupy the send queue until such a
// later entry is polled. A request that fails puts its queue pair into the error state; everything outstanding then,
// and all that is posted from then on, comes back as `flushed`.
//
// Order on one connected queue pair: sends and writes take effect at the peer in the order of posting (a receive that
// completes sees the writes before it); reads and atomics are answered in order, but what is posted after one may
// overtake its answer unless it is fenced. Different queue pairs: no order. Whether the bytes inside one write become
// visible in address order is `ordered_writes`.
//
// Units: bytes, nanoseconds. Words of atomics and immediates are in the host's byte order.
// Thread rule: everything under the rank's lock, except that a descriptor may be waited on by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "fabric/registration/registered_memory.h"

// A namespace of its own: these names (Completion, Status, Access) are verbs', and too general for `tern`.
namespace tern::rdma {

/// Transport services. XRC: the sender names the receiver's shared receive queue in each message. DC: the sender names
/// the receiver itself, and the adapters connect and disconnect as messages come.
enum class Service : uint8_t { rc, ud, xrc, dc };

/// What a queue pair is for. XRC and DC have different kinds at the two ends.
enum class QueuePairKind : uint8_t {
  rc,
  ud,
  xrc_initiator,  ///< sends only
  xrc_target,     ///< no queues of its own: arrivals go to the SRQ that the message names
  dc_initiator,   ///< sends only; each request names its target
  dc_target,      ///< receives only, into its SRQ; needs no connect and is at once ready
};

struct Capabilities {
  std::string provider;  ///< "ibv", "sim"
  std::string device;    ///< "mlx5_0", "rxe0", the name of a simulated machine
  bool rc = false, ud = false, xrc = false, dc = false;
  bool shared_receive = false;    ///< SRQs for RC and UD
  bool shared_xrc = false;        ///< messages to an xrc_target may name addressed SRQs of all ranks on the adapter
  bool atomics = false;           ///< compare_swap and fetch_add
  bool atomic_swap = false;       ///< swap (makes the message count of the MCS lock constant: Jiang et al. 2004, 5.2)
  bool atomics_with_cpu = false;  ///< a CPU's own atomic instructions on that memory exclude the adapter's
  /// Of one RDMA write, bytes become visible in address order, as far as the adapter is concerned. What PCI Express
  /// makes of it nobody can ask: it is used only if the user says so (tunable rdma_ordered_writes).
  bool ordered_writes = false;
  bool autonomous = false;  ///< data moves without a CPU; false for software adapters (Soft-RoCE)
  bool roce = false;
  bool polled_wakes = false;  ///< a write into polled memory ends its owner's sleep (simulated ranks poll in reality)
  uint32_t mtu_bytes = 0;     ///< also the largest UD message
  uint32_t max_message_bytes = 0;
  uint32_t max_inline_bytes = 0;
  uint32_t max_pieces = 1;       ///< gather/scatter entries of a request
  uint32_t max_queue_depth = 0;  ///< send or receive requests of a queue pair
  uint32_t max_srq_depth = 0;
  uint32_t max_completions = 0;  ///< entries of a completion queue
  uint32_t max_queue_pairs = 0;
  uint32_t max_reads = 0;         ///< reads and atomics outstanding on one queue pair
  uint32_t queue_pair_cache = 0;  ///< queue pairs whose context fits into the adapter's cache; 0: not known
  uint64_t latency_ns = 0;        ///< estimate: a small write, one way
  uint64_t bytes_per_us = 0;      ///< estimate of the link, after its headers
  uint64_t register_ns = 0;       ///< estimate: registering one page; and
  uint64_t register_page_ns = 0;  ///< each further page
};

/// Where a port is; opaque, plain bytes, the same on every rank of the job. Travels in messages and through the
/// launcher.
struct PortAddress {
  uint8_t bytes[32] = {};
  bool operator==(const PortAddress&) const = default;
};

/// What a peer must know to connect to (or address) a queue pair. Plain bytes: may be sent as it is.
struct QueuePairAddress {
  PortAddress port;
  uint32_t number = 0;        ///< of the queue pair; of a dc_target: the "DCT number"
  uint32_t first_packet = 0;  ///< packet sequence number to start with
  uint64_t key = 0;           ///< ud: the Q_Key; dc_target: the access key
  bool operator==(const QueuePairAddress&) const = default;
};
static_assert(sizeof(QueuePairAddress) == 48);

/// What peers may do with registered memory. Local reading is always allowed.
struct Access {
  bool local_write = true;  ///< receives, answers of reads and atomics may land here
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;
  bool polled = false;  ///< its owner polls it while it waits; see Capabilities::polled_wakes
};

/// Registered (pinned) memory; unregistered by its destruction.
class MemoryRegion : public RegisteredMemory {
 public:
  uint32_t local_key() const { return local_key_; }
  uint32_t remote_key() const { return remote_key_; }  ///< peers name the memory by its own virtual addresses

 protected:
  uint32_t local_key_ = 0, remote_key_ = 0;
};

/// A piece of registered memory. Same shape as the verbs' scatter/gather element.
struct Piece {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t local_key = 0;
};

/// The way to a port for UD and DC requests (an "address handle"). Kept by its maker while requests name it.
class AddressHandle {
 public:
  virtual ~AddressHandle() = default;
};

enum class Verb : uint8_t {
  send,
  send_immediate,
  write,
  write_immediate,  ///< takes one receive at the peer, whose completion brings the immediate; its memory is not used
  read,
  compare_swap,  ///< *remote == compare ? *remote = operand; the old value lands in the piece (8 bytes, aligned)
  fetch_add,     ///< *remote += operand, likewise
  swap,          ///< *remote = operand, likewise; where capabilities().atomic_swap
};

struct WorkRequest {
  uint64_t id = 0;  ///< comes back in the completion
  Verb verb = Verb::send;
  bool signaled = true;
  bool inlined = false;    ///< the bytes are copied at post; keys of pieces are not looked at
  bool fenced = false;     ///< starts only when all earlier reads and atomics of this queue pair are answered
  bool solicited = false;  ///< wakes a receiver that is armed for solicited completions only
  uint32_t immediate = 0;
  const Piece* pieces = nullptr;  ///< gathered from (send, write) or scattered to (read, atomics: one piece of 8 bytes)
  uint32_t piece_count = 0;
  uint64_t remote_address = 0;  ///< write, read, atomics
  uint32_t remote_key = 0;
  uint64_t compare = 0, operand = 0;  ///< atomics
  // Addressed per message:
  uint32_t remote_srq = 0;  ///< xrc: SharedReceiveQueue::number() at the peer (send, send_immediate, write_immediate)
  const AddressHandle* address_handle = nullptr;  ///< ud, dc
  uint32_t remote_number = 0;                     ///< ud: queue pair; dc: dc_target
  uint64_t remote_key_of_queue = 0;               ///< ud: its Q_Key; dc: its access key
};

struct ReceiveRequest {
  uint64_t id = 0;
  const Piece* pieces = nullptr;  ///< filled in order; a message that is longer is an error at both ends
  uint32_t piece_count = 0;
};

/// Bytes that the adapter uses at the beginning of a receive's memory on UD; Completion::bytes counts them (IBA 11.4).
inline constexpr uint32_t kUdHeaderBytes = 40;

/// The verbs' completion statuses, as far as the library treats them differently.
enum class Status : uint8_t {
  success,
  local_length,      ///< the message is longer than the receive (at the receiver), or than allowed (at the sender)
  local_queue_pair,  ///< the request is not valid on this queue pair
  local_protection,  ///< a piece is not inside its memory region
  flushed,           ///< the queue pair was in (or went to) the error state
  remote_invalid_request,
  remote_access,       ///< remote_address/remote_key do not allow that
  remote_operation,    ///< the peer could not do it
  retry_exceeded,      ///< no acknowledgement: the peer is dead, its queue pair in error, or the link is down
  rnr_retry_exceeded,  ///< the peer had no receive posted for too long
  aborted,             ///< the peer's side of the connection is gone
  fatal,               ///< the adapter has failed
  other,
};
const char* status_name(Status status);

enum class CompletionKind : uint8_t {
  send,
  write,
  read,
  atomic,
  receive,
  receive_write
};  ///< receive_write: by write_immediate

struct Completion {
  uint64_t id = 0;
  Status status = Status::success;  ///< in errors only id, status, queue_pair and vendor_error are valid
  CompletionKind kind = CompletionKind::send;
  bool has_immediate = false;
  uint32_t immediate = 0;
  uint32_t bytes = 0;          ///< receives: of the message; receive_write: that were written
  uint32_t queue_pair = 0;     ///< number of the local queue pair (xrc: of the target, dc: of the dc_target)
  uint32_t source_number = 0;  ///< ud receives: the sender's queue pair
  uint32_t vendor_error = 0;
};

/// Where completion queues report that they have something, for a rank that wants to sleep.
class EventChannel {
 public:
  virtual ~EventChannel() = default;
  /// Readable while an armed queue of this channel has fired and `drain` was not called, and while asynchronous events
  /// of the adapter wait. -1 for a simulated adapter, which wakes the rank itself. Constant.
  virtual int descriptor() const = 0;
  /// Takes all fired events. Queues that fired are not armed any more.
  virtual void drain() = 0;
};

class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  /// Takes up to `most` entries, oldest first. More outstanding entries than its depth cause an event of kind
  /// completion_overrun, and the queue is useless; make it deep enough for everything that can be outstanding.
  virtual size_t poll(Completion* entries, size_t most) = 0;
  /// Requests one event at the next entry (solicited_only: the next solicited receive, or any error). An entry that
  /// came before gives no event: poll once more after arming. Only for queues with a channel.
  virtual void arm(bool solicited_only) = 0;
};

class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  /// How many were taken: fewer than asked when the queue is full. Receives are used in the order of posting.
  virtual size_t post(std::span<const ReceiveRequest> requests) = 0;
  /// One event of kind srq_limit when fewer than `limit` receives are left; then no more until asked again. 0: none.
  virtual void arm_limit(uint32_t limit) = 0;
  /// Xrc: what senders name it by (WorkRequest::remote_srq). 0 for others.
  uint32_t number() const { return number_; }

 protected:
  uint32_t number_ = 0;
};

class QueuePair {
 public:
  enum class State : uint8_t { idle, ready, error };  ///< idle: receives may be posted, nothing be sent

  virtual ~QueuePair() = default;
  /// rc, xrc: joins this queue pair with the peer's (the peer does the same with ours); then it is ready. A message
  /// that comes before our `connect` is repeated by the sender's adapter. ud, dc: ready when created.
  virtual Error connect(const QueuePairAddress& peer) = 0;
  /// Posts work, in order, with one ring of the doorbell. How many were taken: fewer than asked when the send queue is
  /// full.
  virtual size_t post(std::span<const WorkRequest> work) = 0;
  /// Posts receives, in order, on a queue pair that has no SRQ. How many were taken.
  virtual size_t post_receives(std::span<const ReceiveRequest> requests) = 0;
  /// To the error state: outstanding work comes back flushed (receives in an SRQ stay there).
  virtual void fail() = 0;
  /// From any state back to idle (ud, dc: ready), for another peer: pools reuse queue pairs, which are expensive to
  /// make (Takagi et al. 2015, 3.4). Outstanding work is dropped: `fail` and poll the flushed completions first if they
  /// matter.
  virtual Error reset() = 0;
  virtual State state() const = 0;
  const QueuePairAddress& address() const { return address_; }
  uint32_t number() const { return address_.number; }

 protected:
  QueuePairAddress address_;
};

struct CompletionQueueOptions {
  uint32_t depth = 0;
  EventChannel* channel = nullptr;  ///< null: polled only
};

struct SharedReceiveQueueOptions {
  uint32_t depth = 0;
  uint32_t pieces = 1;
  bool addressed = false;                  ///< for xrc: has a number that senders name
  CompletionQueue* completions = nullptr;  ///< addressed: where its receives complete. Others: in the queue pair's
};

struct QueuePairOptions {
  QueuePairKind kind = QueuePairKind::rc;
  CompletionQueue* sends = nullptr;     ///< all but targets
  CompletionQueue* receives = nullptr;  ///< rc, ud, dc_target
  SharedReceiveQueue* srq = nullptr;    ///< rc, ud: instead of receives of its own; dc_target: needed
  uint32_t send_depth = 0;
  uint32_t receive_depth = 0;
  uint32_t send_pieces = 1, receive_pieces = 1;
  uint32_t inline_bytes = 0;  ///< longest inlined message; at most the adapter's
  uint32_t reads = 0;         ///< reads and atomics on their way at one time, either direction; 0: the adapter's most
  uint64_t key = 0;           ///< ud: Q_Key; dc_target: access key
  // If the peer does not answer, or has no receive posted:
  uint64_t timeout_ns = 67'000'000;  ///< as TERN_RDMA_TIMEOUT_MS; rounded up to 4.096 us times a power of two
  uint8_t retries = 7;               ///< of a packet, after timeouts (at most 7)
  uint8_t rnr_retries = 7;           ///< 7: for ever
  uint64_t rnr_wait_ns = 640'000;    ///< how long our peers wait when we have no receive posted
};

enum class AsyncEventKind : uint8_t {
  queue_pair_error,  ///< of a queue pair without outstanding work; number: the queue pair
  srq_limit,         ///< number: SharedReceiveQueue::number(); `srq` is the queue
  srq_drained,  ///< the last receive that a queue pair in error took from its SRQ has completed; number: queue pair
  completion_overrun,  ///< `queue` was too small
  port_down,
  port_up,
  fatal,  ///< the adapter has failed: only destruction is allowed now
};

struct AsyncEvent {
  AsyncEventKind kind = AsyncEventKind::fatal;
  uint32_t number = 0;
  SharedReceiveQueue* srq = nullptr;
  CompletionQueue* queue = nullptr;
};

class Hca {
 public:
  virtual ~Hca() = default;
  const Capabilities& capabilities() const { return capabilities_; }
  const PortAddress& port() const { return port_; }

  // Each returns an error (out of resources, or what the adapter lacks: ErrorClass::unsupported_operation) or an
  // object.
  virtual Error make_channel(std::unique_ptr<EventChannel>& result) = 0;
  virtual Error make_completion_queue(const CompletionQueueOptions& options,
                                      std::unique_ptr<CompletionQueue>& result) = 0;
  virtual Error make_srq(const SharedReceiveQueueOptions& options, std::unique_ptr<SharedReceiveQueue>& result) = 0;
  virtual Error make_queue_pair(const QueuePairOptions& options, std::unique_ptr<QueuePair>& result) = 0;
  virtual Error make_address_handle(const PortAddress& port, std::unique_ptr<AddressHandle>& result) = 0;
  virtual Error register_memory(void* address, size_t bytes, const Access& access,
                                std::unique_ptr<MemoryRegion>& result) = 0;

  /// The oldest asynchronous event, if there is one.
  virtual bool take_event(AsyncEvent& event) = 0;
  /// Call this before looking at memory that peers write (a polled ring, a lock word): in a simulated world it makes
  /// what has happened visible; a real adapter has nothing to do.
  virtual void observe() {}

 protected:
  Capabilities capabilities_;
  PortAddress port_;
};

}  // namespace tern::rdma
