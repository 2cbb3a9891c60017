// The records of a job as one time line: calls by lane (a thread of a rank), messages as pairs of what was sent and
// what was received, places in the program, and for each call what it waited for.
//
// Messages are paired by counting: of those with the same sender, receiver, context and tag, the n-th that was sent is
// the n-th that was matched (MPI 5.0, 3.5: messages do not overtake). Collective calls are paired the same way: the
// n-th of each member of a communicator belong together.
//
// What a call waited for:
//
//   receive, wait      late sender: a message that it completed was not sent yet when it began
//   send, wait         late receiver: a message that is not sent eagerly found no receive yet
//   collective         imbalance until all but a few (kFew) of the members have come, then those are late; from a root:
//                      until the root has come; to a root: the root waits for the others
//   window             a lock, or a target; also the ends of epochs whose partners are not known
//   file               the file system
//
// The rest of a call is the library's own work, and the way of the data. Times: nanoseconds since the first event, in
// rank 0's clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "messages.h"
#include "places.h"
#include "records.h"

namespace tern::mpiexec {

enum class Cause : uint8_t { none, late_sender, late_receiver, late_rank, imbalance, window, file };
inline constexpr const char* kCauseNames[] = {"own work",  "late sender", "late receiver", "late rank",
                                              "imbalance", "window",      "file"};
inline constexpr size_t kCauses = 7;  ///< of Cause

/// What a function is, for waits and advice.
enum class CallKind : uint8_t {
  other,
  send,           ///< blocking
  sync_send,      ///< blocking, until the receive has begun
  receive,        ///< blocking, probes included
  wait,           ///< for requests
  test,           ///< MPI_Test..., MPI_Iprobe
  together,       ///< a collective in which every member needs something of every other
  from_root,      ///< MPI_Bcast, MPI_Scatter
  to_root,        ///< MPI_Reduce, MPI_Gather
  collective,     ///< nonblocking, or too seldom to be told apart: only counted
  window_sync,    ///< locks, flushes, general active target
  file,           ///< independent access to a file
  file_together,  ///< collective access
  making,         ///< of a communicator, window, file or datatype
  start_end,      ///< MPI_Init, MPI_Finalize
};
CallKind kind_of(const std::string& function);

/// One outermost call of a lane.
struct TimedCall {
  uint32_t event;              ///< in the record; kUnfinished: the one that the rank never left
  int32_t culprit = -1;        ///< the rank that was waited for at the end; -1: none
  uint8_t culprit_thread = 0;  ///< its thread
  uint64_t uneven_ns = 0;      ///< at its begin, in which several ranks were missing
  uint64_t waited_ns = 0;      ///< then, for `cause`
  Cause cause = Cause::none;
  static constexpr uint32_t kUnfinished = ~uint32_t{0};  ///< no event has that number
};

struct TimedLane {
  uint32_t record;
  uint8_t thread;
  std::vector<TimedCall> calls;  ///< in the order of time, none overlap
  std::vector<uint32_t> inner;   ///< other events with a duration: calls in calls, sleep, the event thread's work
};

/// Where MPI is called: a place and a function.
struct Site {
  SourcePlace place;
  std::string function;
};

class Timeline {
 public:
  /// `records`: outlive this. `ended_ns`: as in summary.h.
  Timeline(const Records& records, uint64_t ended_ns);

  const Records& records() const { return records_; }
  const std::vector<TimedLane>& lanes() const { return lanes_; }
  const std::vector<Message>& messages() const { return messages_; }
  const std::vector<Site>& sites() const { return sites_; }
  uint64_t length_ns() const { return length_ns_; }
  /// All events that are shown: calls, what they contain, sends and receives.
  uint64_t events() const { return events_; }

  const record::Event& event(uint32_t record, uint32_t event) const { return records_[record]->events()[event]; }
  uint64_t at(uint32_t record, uint64_t time_ns) const;
  uint64_t begin(uint32_t record, const record::Event& event) const { return at(record, event.time_ns); }
  uint64_t begin(const TimedLane& lane, const TimedCall& call) const;
  uint64_t end(const TimedLane& lane, const TimedCall& call) const;
  /// Null: the call is unfinished.
  const record::Event* event(const TimedLane& lane, const TimedCall& call) const;
  /// In `sites`.
  uint32_t site(const TimedLane& lane, const TimedCall& call) const;
  CallKind kind(const TimedLane& lane, const TimedCall& call) const;
  const std::string& function(uint32_t record, uint16_t what) const { return records_[record]->function_name(what); }
  /// Of MPI_COMM_WORLD; -1: it left no record.
  int record_of(uint32_t rank) const { return rank < by_rank_.size() ? by_rank_[rank] : -1; }

  /// The outermost call in which a thread was at that time; null: in none.
  const TimedCall* call_at(uint32_t record, uint8_t thread, uint64_t time) const;
  const TimedLane& main_lane(uint32_t record) const { return lanes_[first_lane_[record]]; }
  /// Of a rank's thread; of its first one where that thread has called nothing.
  const TimedLane& lane_of(uint32_t record, uint8_t thread) const;

  // For each record: the messages that it received, by the time of completion, and that it sent, by that of sending; as
  // places in `messages`.
  const std::vector<std::vector<uint32_t>>& received() const { return received_; }
  const std::vector<std::vector<uint32_t>>& sent() const { return sent_; }
  /// The thread that receives the message. Another may have done the work for it.
  uint8_t receiver(const Message& m) const;
  uint64_t sent_at(const Message& m) const { return begin(m.from, event(m.from, m.send)); }
  uint64_t matched_at(const Message& m) const { return begin(m.to, event(m.to, m.receive)); }
  uint64_t done_at(const Message& m) const {
    const auto& e = event(m.to, m.receive);
    return at(m.to, e.time_ns + e.duration_ns);
  }
  /// Calls of one collective operation, by lane and place in it; those of `MPI_Finalize` are one, too.
  struct Member {
    uint32_t lane, call;
  };
  using Together = std::vector<Member>;
  const std::vector<Together>& together() const { return together_; }

 private:
  void read_lanes();
  void name_sites();
  void list_messages();
  void list_receivers();
  void pair_collectives();
  void note_collective_waits(const Together& members);
  void note_message_waits(TimedLane& lane, TimedCall& call);
  void note_waits();

  const Records& records_;
  uint64_t ended_ns_, begin_ns_ = 0, length_ns_ = 0, events_ = 0;
  std::vector<int> by_rank_;
  std::vector<TimedLane> lanes_;
  std::vector<uint32_t> first_lane_;  ///< by record: of its first thread
  std::vector<Message> messages_;
  std::vector<std::vector<uint32_t>> received_, sent_;
  std::vector<Together> together_;
  /// By record: which thread receives in a communicator, and which with a tag there (kManyThreads: several do). Empty
  /// for a rank with one thread.
  struct Receivers {
    std::map<uint64_t, uint8_t> by_context;
    std::map<std::pair<uint64_t, int32_t>, uint8_t> by_tag;
  };
  std::vector<Receivers> receivers_;
  std::vector<Site> sites_;
  std::vector<std::vector<uint32_t>> place_texts_;       ///< by record and place: in `texts_`
  std::vector<SourcePlace> texts_;                       ///< distinct places
  std::vector<std::vector<CallKind>> kinds_;             ///< by record and function
  std::vector<std::vector<uint32_t>> function_names_;    ///< by record and function: in `names_`
  std::vector<std::string> names_;                       ///< distinct functions
  std::unordered_map<uint64_t, uint32_t> site_numbers_;  ///< by text and name
};

}  // namespace tern::mpiexec
