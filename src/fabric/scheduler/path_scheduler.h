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
// Failing back to a better path (probes.h): when it works again, each side for its own direction says leave(path) and
// waits for the answer, left; what follows takes the better lane.
//
// Gets and puts are those of the first path that has them, while its lane is in use (scheduled_memory.h). A put is
// announced only when it is done.
//
// Tuple queues are those of the best path (scheduled_tuples.h), while its lane is in use. They are no part of the
// counted messages: what a lost one has not delivered is sent again by their user, over the lane that goes on.
//
// path_scheduler.cc: sending, confirming; lane_loss.cc: loss, resuming, changing back; arrivals.cc: the way up. What is
// kept: unconfirmed.h; what has come: arrival_count.h; a peer and its routes: pair.h.
// Thread rule: as Path. The engine polls the paths below itself; poll here does the scheduler's own work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/peer_table.h"
#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/scheduler/pair.h"
#include "fabric/scheduler/peer_notes.h"
#include "fabric/scheduler/probes.h"
#include "fabric/scheduler/scheduled_memory.h"
#include "fabric/scheduler/scheduled_tuples.h"
#include "wire/lanes.h"

namespace tern {

class PathScheduler final : public CountingPath, private Sink {
 public:
  static constexpr size_t kMaxPaths = 4;  ///< of one pair: rdma, udp, tcp, and one to spare

  /// Everything outlives the scheduler. `log`: null: none.
  PathScheduler(const PeerTable& table, const Tunables& tunables, Clock& clock, Sink& sink, const Log* log);

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
  uint64_t next_deadline_ns() const override { return probes_.next_ns(); }
  TupleQueues* tuple_queues() override;
  RemoteMemory* remote_memory() override { return memory_.get(); }

 private:
  using Pair = scheduler::Pair;
  using Route = scheduler::Route;
  using RouteState = scheduler::RouteState;
  using Phase = scheduler::Phase;

  // path_scheduler.cc
  Pair& pair_at(PeerId peer);
  void forward(Pair& pair, SendOperation& operation);
  void hand_over(Pair& pair, SendOperation& carried);
  bool work_due() const;
  bool has_own_work() const;
  void confirm_soon(Pair& pair);
  void tell_arrived();

  // arrivals.cc
  Route& route_of(Lane& lane);
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
  void flush_waiting(Pair& pair);
  void lose(Pair& pair, const Error& error);
  void route_works(Route& route);
  void on_leave(Route& route, const wire::Header& header);
  void on_left(Route& route, const wire::Header& header);
  void say(const Pair& pair, const std::string& what) const;
  void tell(Event event, const Pair& pair) const;

  Sink& sink_;
  const Log* const log_;
  std::vector<Path*> paths_;
  std::unique_ptr<ScheduledMemory> memory_;  ///< of the first path that has one; null: none has
  std::unique_ptr<ScheduledTuples> tuples_;  ///< of the first path; null: not asked for, or it has none
  uint8_t used_ = 0;  ///< paths over which something went or came, a bit each: no other has anything unsent
  scheduler::Unconfirmed::Shared unconfirmed_;
  std::vector<std::unique_ptr<Pair>> pairs_;  ///< by PeerId; null: never used
  scheduler::PeerNotes notes_;
  scheduler::Probes probes_;
  IntrusiveList<SendOperation> unsendable_;  ///< `done` is due, for lost peers
  std::vector<Pair*> confirms_due_;
  uint32_t unsettled_ = 0;  ///< pairs that are neither steady nor lost
  uint32_t polls_ = 0;
};

}  // namespace tern
