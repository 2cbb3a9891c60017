// The path scheduler (Majumder 2004, chapter 2: LA-MPI): several paths that reach the same peers, as one path. Each
// message is bound to one lane. When a lane dies while another path reaches the peer, everything that is not known to
// have arrived goes by the other one: nothing is lost, duplicated or reordered. A better path is used again when it
// works again.
//
// Messages of a pair are numbered by counting: the n-th that was handed to a lane is the n-th that the peer delivers,
// whichever lanes they took. A sender keeps what is not confirmed: small messages as copies, large ones in their
// operations, which complete only then. Confirmations travel in headers of messages the other way (wire/header.h), or
// alone after some messages or bytes.
//
//   A                                       B
//     lane 0: m1 m2 m3 ... is lost            has m1; perhaps it has not noticed
//     lane 1: resume(lost 0, has k) ------->  gives up lane 0, takes nothing more from it
//     <------ resume(lost 0, has 1)
//     m2 m3 again, then what has waited ---->  (and the same the other way)
//
// Between its own resume and the peer's a rank discards what arrives: it will come again. A message that was arriving
// when its lane was lost comes again as a whole, into the same memory.
//
// Failing back to a better path is begun by the lower rank of the pair, after a pause that doubles:
//
//     probe(path) over the lane in use; both restart that lane; hello and welcome over it;
//     then each side for its own direction: leave(path), left; what follows takes the better lane.
//
// Gets and puts use the lane in use if it has them; those that a lost lane fails fall back to messages as always. A put
// is announced only when it is done: a message must not overtake a put that may have to be repeated.
//
// Tuple queues are those of the best path (scheduled_tuples.h), while its lane is in use. They are no part of the
// counted messages: what a lost one has not delivered is sent again by their user, over the lane that goes on.
//
// path_scheduler.cc: sending, confirming; lane_loss.cc: loss, resuming, failing back; arrivals.cc: the way up.
// Thread rule: as Path. The engine polls the paths below itself; poll here does the scheduler's own work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/peer_table.h"
#include "base/pool.h"
#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/scheduler/scheduled_tuples.h"
#include "wire/lanes.h"

namespace tern {

class PathScheduler final : public CountingPath, public RemoteMemory, private Sink {
 public:
  static constexpr size_t kMaxPaths = 4;  ///< of one pair: rdma, udp, tcp, and one to spare

  /// Everything outlives the scheduler. `log`: null: none.
  PathScheduler(const PeerTable& table, const Tunables& tunables, Clock& clock, Sink& sink, const Log* log);
  ~PathScheduler() override;

  /// The sink for the paths below.
  Sink& sink_below() { return *this; }
  /// Best first, all before the first lane. Not owned; each was made with sink_below().
  void add_path(Path& path);

  bool reaches(PeerId peer) const override;
  Lane& lane(PeerId peer) override { return pair_at(peer); }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  bool has_unsent() const override;
  Need unsent_hint() const override;
  int poll() override;
  bool arm() override { return !work_due(); }
  uint64_t next_deadline_ns() const override { return next_probe_ns_; }

  TupleQueues* tuple_queues() override;
  RemoteMemory* remote_memory() override { return memory_ ? this : nullptr; }
  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override {
    return memory_->expose(address, bytes, access);
  }
  void conceal(const RemoteKey& key) override { memory_->conceal(key); }
  bool can_get(Lane& lane) override { return moves_memory(lane) && memory_->can_get(*in_use(lane).lane); }
  bool can_put(Lane& lane) override { return moves_memory(lane) && memory_->can_put(*in_use(lane).lane); }
  void get(TransferOperation& operation) override;
  void put(TransferOperation& operation) override;
  void atomic(AtomicOperation& operation) override;
  void flush(FlushOperation& operation) override;

 private:
  struct Pair;
  enum class RouteState : uint8_t {
    up,       ///< or never used
    closing,  ///< given up; its path has not confirmed that yet
    down,
    probing,  ///< restarted, not yet known to work
  };
  /// One path's lane to the peer. The path owns the lane.
  struct Route {
    Pair* pair = nullptr;
    Path* path = nullptr;
    Lane* lane = nullptr;
    uint8_t index = 0;     ///< in Pair::routes
    uint8_t path_bit = 0;  ///< in used_
    RouteState state = RouteState::up;
    uint32_t incarnation = 0;
  };
  /// A message of the scheduler's own.
  struct Note final : SendOperation {
    PathScheduler* owner = nullptr;
  };
  /// A message that is not confirmed.
  struct Kept;
  struct Inner final : SendOperation {
    Kept* kept = nullptr;
  };
  /// Recycled: what a use does not set is as after construction.
  struct Kept : ListHook<Kept> {
    static constexpr size_t kInlineBytes = 64;  ///< as kAlwaysWholeBytes: protocols' messages need no allocation
    Kept() {
      inner.kept = this;
      inner.done = path_is_done;
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    static void path_is_done(SendOperation& operation, Error error);

    Kept* next_free = nullptr;
    Pair* pair = nullptr;
    wire::Header header{};
    size_t bytes = 0;
    Cursor original;                ///< while `user` is set: its payload from the beginning
    SendOperation* user = nullptr;  ///< not yet complete; null: there is none, or it is complete
    bool in_path = false;           ///< a path holds `inner`
    bool confirmed = false;         ///< waits only for its path to return `inner`
    bool copied = false;            ///< the data is here, inline or on the heap
    std::unique_ptr<std::byte[]> heap;
    std::byte small[kInlineBytes];
    Inner inner;
    std::byte* data() { return heap ? heap.get() : small; }
  };
  enum class Phase : uint8_t {
    steady,
    resuming,  ///< between the loss of a lane and the peer's resume
    leaving,   ///< a better lane works; the peer has not confirmed all messages of this one
    lost,
  };
  struct Pair : Lane {
    Pair(PeerId peer, PathScheduler& its) : Lane(peer), scheduler(its) {}
    PathScheduler& scheduler;
    std::vector<Route> routes;  ///< best first
    Phase phase = Phase::steady;
    uint8_t out = 0, in = 0;  ///< routes in use
    uint8_t next_out = 0;     ///< while leaving: the better one
    // Sending.
    IntrusiveList<Kept> kept;              ///< oldest first
    size_t copied_bytes = 0;               ///< size of the copies
    uint32_t in_path = 0;                  ///< messages that a path holds
    uint64_t confirmed = 0;                ///< messages that the peer has
    IntrusiveList<SendOperation> waiting;  ///< for the end of the phase
    // Receiving.
    uint64_t arrived = 0, told = 0;  ///< complete messages; those already confirmed to the peer
    size_t untold_bytes = 0;
    bool confirm_due = false;   ///< in confirms_due_
    bool landing_open = false;  ///< a message is arriving on route `in`
    bool interrupted = false;   ///< that message will come again, from the beginning
    wire::Header landing_header{};
    Landing landing;
    size_t landing_bytes = 0;
    // Resuming.
    uint32_t incident = 0;
    uint8_t lost_route = 0;
    bool resume_sent = false, peer_resumed = false;
    uint64_t peer_has = 0;
    std::string trouble;  ///< why the last lane was lost
    bool queues = false;  ///< tuple queues were begun on the best lane since it is in use
    // Failing back.
    uint64_t probe_ns = ~uint64_t{0}, probe_pause_ns = 0;
  };

  // path_scheduler.cc
  Pair& pair_at(PeerId peer);
  static Route& in_use(Lane& lane) {
    auto& pair = static_cast<Pair&>(lane);
    return pair.routes[pair.out];
  }
  bool moves_memory(Lane& lane) const;
  Lane* memory_lane(Lane& lane);
  bool ready(const Pair& pair) const { return pair.phase == Phase::steady && pair.waiting.empty(); }
  uint8_t take_confirmation(Pair& pair);
  Kept& keep(Pair& pair, const wire::Header& header, size_t bytes);
  void forward(Pair& pair, SendOperation& operation);
  void hand_over(Kept& kept);
  void inner_done(Kept& kept, Error error);
  std::byte* memory_for_copy(Kept& kept);
  void copy_of(Kept& kept);
  void recycle(Kept& kept);
  void release(Kept& kept);
  void confirm_up_to(Pair& pair, uint64_t count);
  void finish(SendOperation& operation) {
    finished_.push_back(&operation);
    hints_.dormant = false;
  }
  void post(Route& route, wire::LaneKind kind, uint8_t path, uint32_t incarnation = 0, uint64_t count = 0);
  bool work_due() const;
  void confirm_soon(Pair& pair);
  void tell_arrived();

  // arrivals.cc
  Route& route_of(Lane& lane);
  bool takes(const Route& route) const;
  void count_arrival(Pair& pair, size_t bytes);
  wire::Header accept(Pair& pair, const wire::Header& header);
  void on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) override;
  Landing on_header(Lane& from, const wire::Header& header, size_t bytes) override;
  void on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Lane& from, Error error) override;
  void on_control(Route& route, const wire::Header& header);

  // lane_loss.cc
  void lose_route(Route& route, const Error& error);
  void begin_resume(Pair& pair, uint8_t lost_route, uint32_t incident);
  void send_resume(Pair& pair);
  void on_resume(Route& route, const wire::Header& header);
  void try_finish_resume(Pair& pair);
  void finish_resume(Pair& pair);
  void flush_waiting(Pair& pair);
  int choose_route(const Pair& pair) const;
  void lose(Pair& pair, const Error& error);
  void plan_probe(Pair& pair);
  void run_probes(uint64_t now_ns);
  void on_probe(Route& route, const wire::Header& header);
  void on_probed(Route& route, const wire::Header& header);
  void route_works(Route& route);
  void on_leave(Route& route, const wire::Header& header);
  void on_left(Route& route, const wire::Header& header);
  void say(const Pair& pair, const std::string& what) const;
  void tell(Event event, const Pair& pair) const;

  const PeerTable& table_;
  const uint64_t first_probe_ns_;
  Clock& clock_;
  Sink& sink_;
  const Log* const log_;
  std::vector<Path*> paths_;
  RemoteMemory* memory_ = nullptr;  ///< that of the first path that has one
  uint8_t memory_path_ = 0;
  std::unique_ptr<ScheduledTuples> tuples_;  ///< of the first path; null: not asked for, or it has none
  uint8_t used_ = 0;  ///< paths over which something went or came, a bit each: no other has anything unsent
  std::vector<std::unique_ptr<Pair>> pairs_;  ///< by PeerId; null: never used
  Recycler<Kept> kept_pool_;
  std::vector<std::unique_ptr<std::byte[]>> spare_;  ///< of the longest copies: their memory is warm
  Pool<Note, 16> notes_;                             ///< in the paths' queues; a path may end before it has sent them
  IntrusiveList<SendOperation> finished_;            ///< `done` is due
  IntrusiveList<SendOperation> unsendable_;          ///< likewise, for lost peers
  std::vector<Pair*> confirms_due_;
  uint32_t held_ = 0;       ///< operations that wait for a confirmation
  uint32_t unsettled_ = 0;  ///< pairs that are neither steady nor lost
  uint64_t next_probe_ns_ = ~uint64_t{0};
  uint32_t polls_ = 0;
};

}  // namespace tern
