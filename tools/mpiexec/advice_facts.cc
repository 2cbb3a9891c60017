#include "advice_facts.h"

#include <algorithm>

#include "p2p/protocols/protocol.h"

namespace tern::mpiexec {
namespace {

using record::Event;

class FactReader {
 public:
  explicit FactReader(const Timeline& timeline) : timeline_(timeline), facts_(timeline.sites().size()) {
    for (const TimedLane& lane : timeline.lanes()) read(lane);
    for (const auto& together : timeline.together()) read(together);
    for (const Message& m : timeline.messages()) read(m);
  }
  std::vector<Facts> take() { return std::move(facts_); }

 private:
  void read(const TimedLane& lane);
  void read(const Timeline::Together& members);
  void read(const Message& m);
  void note_late(std::map<int, Late>& map, const TimedCall& call, uint64_t from);
  const TimedCall* call_for(const Message& m) const;
  void note_early(const Message& m);
  bool follows(const TimedLane& lane, size_t call) const;
  void end_run(const TimedLane& lane, size_t from, size_t to);

  const std::string& function(uint32_t site) const { return timeline_.sites()[site].function; }
  uint32_t ranks() const { return uint32_t(timeline_.records().size()); }

  const Timeline& timeline_;
  std::vector<Facts> facts_;
};

// What the call's culprit did in the time in which it was waited for, before it came.
void FactReader::note_late(std::map<int, Late>& map, const TimedCall& waiting, uint64_t from) {
  const uint64_t to = from + waiting.waited_ns;
  Late& late = map[waiting.culprit];
  ++late.times;
  late.ns += to - from;
  const int record = timeline_.record_of(uint32_t(waiting.culprit));
  if (record < 0) return;
  const TimedLane& lane = timeline_.lane_of(uint32_t(record), waiting.culprit_thread);
  auto call = std::upper_bound(lane.calls.begin(), lane.calls.end(), to,
                               [&](uint64_t at, const TimedCall& c) { return at < timeline_.begin(lane, c); });
  uint64_t in_calls = 0;
  bool first = true;
  constexpr int kLooks = 64;  // calls, back in time
  for (int looks = 0; call != lane.calls.begin() && looks < kLooks; ++looks) {
    --call;
    const uint64_t begin = std::max(timeline_.begin(lane, *call), from), end = std::min(timeline_.end(lane, *call), to);
    const uint32_t site = timeline_.site(lane, *call);
    if (std::exchange(first, false)) ++late.at[site];
    if (timeline_.end(lane, *call) <= from) break;
    if (end <= begin) continue;
    in_calls += end - begin;
    late.held_ns[site] += end - begin;
  }
  late.computed_ns += to - from - std::min(in_calls, to - from);
}

void FactReader::read(const TimedLane& lane) {
  size_t run = 0;
  for (size_t i = 0; i < lane.calls.size(); ++i) {
    const TimedCall& call = lane.calls[i];
    const uint32_t site = timeline_.site(lane, call);
    const uint64_t begin = timeline_.begin(lane, call), took = timeline_.end(lane, call) - begin;
    const Event* event = timeline_.event(lane, call);
    Facts& f = facts_[site];
    ++f.calls;
    f.total_ns += took;
    f.ranks.insert(lane.record);
    f.by_cause[size_t(Cause::imbalance)] += call.uneven_ns;
    f.by_cause[size_t(call.cause)] += call.waited_ns;
    f.by_cause[size_t(Cause::none)] += took - std::min(took, call.uneven_ns + call.waited_ns);
    if (event && event->given & record::kBytes) f.bytes += event->bytes;
    const uint64_t since = begin + call.uneven_ns;
    if (call.waited_ns != 0 && call.culprit >= 0) {
      ++f.waits;
      if (call.cause == Cause::late_sender) note_late(f.senders, call, since);
      if (call.cause == Cause::late_receiver) note_late(f.receivers, call, since);
      if (call.cause == Cause::window) note_late(f.targets, call, since);
      if (call.cause == Cause::late_sender || call.cause == Cause::late_receiver) {
        const int rank = timeline_.records()[lane.record]->rank();
        f.waited_ns[{rank, call.culprit}] += call.waited_ns;
        f.waits_of_ns[rank] += call.waited_ns;
      }
    }
    if (i != 0 && !follows(lane, i)) {
      end_run(lane, run, i);
      run = i;
    }
    if (timeline_.kind(lane, call) != CallKind::together || function(site) != "MPI_Barrier") continue;
    // Which neighbour in time makes the barrier needless?
    const auto neighbour = [&](size_t n) {
      const TimedCall& other = lane.calls[n];
      const CallKind kind = timeline_.kind(lane, other);
      const Event* its = timeline_.event(lane, other);
      const bool all = kind == CallKind::together && timeline_.site(lane, other) != site;
      if (!event || !its || !all || its->context != event->context) return false;
      const uint64_t gap = n > i ? timeline_.begin(lane, other) - (begin + took) : begin - timeline_.end(lane, other);
      constexpr uint64_t kNothing_ns = 3000;  // no work of the program is between them
      return gap < kNothing_ns;
    };
    for (const size_t n : {i + 1, i - 1}) {
      if (n >= lane.calls.size() || !neighbour(n)) continue;
      Runs& both = f.before[timeline_.site(lane, lane.calls[n])];
      ++both.calls;
      both.ns += took - std::min(took, call.uneven_ns + call.waited_ns);
      break;
    }
  }
  end_run(lane, run, lane.calls.size());
}

// The call before it is of the same place, and the program has done nothing worth the name between them.
bool FactReader::follows(const TimedLane& lane, size_t call) const {
  const TimedCall &before = lane.calls[call - 1], &mine = lane.calls[call];
  if (timeline_.site(lane, before) != timeline_.site(lane, mine)) return false;
  const uint64_t ended = timeline_.end(lane, before), took = ended - timeline_.begin(lane, before);
  constexpr uint64_t kNothing_ns = 2000;  // a loop's own time
  return timeline_.begin(lane, mine) <= ended + took + kNothing_ns;
}

// Calls of one place without another call between them.
void FactReader::end_run(const TimedLane& lane, size_t from, size_t to) {
  constexpr size_t kShortest = 3;  // two may be chance
  if (to < from + kShortest) return;
  const TimedCall& first = lane.calls[from];
  const Event* event = timeline_.event(lane, first);
  if (!event) return;
  Facts& f = facts_[timeline_.site(lane, first)];
  const CallKind kind = timeline_.kind(lane, first);
  std::set<int64_t> peers;
  uint64_t ns = 0, waited_ns = 0, most_bytes = 0, least_bytes = ~uint64_t{0};
  const bool sends = event->given & record::kDest && !(event->given & record::kSource);
  for (size_t i = from; i < to; ++i) {
    const Event* each = timeline_.event(lane, lane.calls[i]);
    if (!each) return;
    peers.insert(sends ? int64_t{each->peer} : each->source);
    ns += each->duration_ns;
    waited_ns += lane.calls[i].uneven_ns + lane.calls[i].waited_ns;
    most_bytes = std::max(most_bytes, each->bytes);
    least_bytes = std::min(least_bytes, each->bytes);
  }
  const uint64_t whole_ns = timeline_.end(lane, lane.calls[to - 1]) - timeline_.begin(lane, first);
  const auto add = [&](Runs& runs, uint64_t cost_ns) {
    ++runs.runs;
    runs.calls += to - from;
    runs.ns += cost_ns;
  };
  constexpr uint64_t kShortBytes = 1024;  // a message costs its latency, whatever its length

  const bool receives = event->given & record::kSource && !(event->given & record::kDest);
  const bool many = peers.size() >= std::max<size_t>(3, ranks() - 1);
  if (sends && peers.size() == 1 && most_bytes <= kShortBytes && event->given & record::kBytes) add(f.small, ns);
  if (sends && many && most_bytes == least_bytes) add(f.fan_out, ns);
  if (receives && many && kind == CallKind::receive) add(f.fan_in, ns);
  if (kind == CallKind::test) add(f.tests, whole_ns);
  const bool collective = kind == CallKind::together || kind == CallKind::from_root || kind == CallKind::to_root;
  if (collective && event->given & record::kBytes && most_bytes <= kShortBytes && event->bytes != 0) {
    // Where more time is waited for others, or passes between the calls, they are not what costs.
    ns -= std::min(ns, waited_ns);
    if (part(ns, whole_ns) > 0.5) add(f.small_together, ns);
  }
}

void FactReader::read(const Timeline::Together& members) {
  const auto& lanes = timeline_.lanes();
  double sum = 0;
  uint64_t uneven_ns = 0, longest_ns = 0;
  const TimedCall* longest = nullptr;
  uint64_t since = 0;
  uint32_t site = 0;
  for (const auto& m : members) {
    const TimedLane& lane = lanes[m.lane];
    const TimedCall& call = lane.calls[m.call];
    const uint64_t at = timeline_.begin(lane, call);
    sum += double(at);
    uneven_ns += call.uneven_ns;
    if (&m == &members[0]) site = timeline_.site(lane, call);
    if (call.waited_ns <= longest_ns) continue;
    longest_ns = call.waited_ns;
    longest = &call;
    since = at + call.uneven_ns;
    site = timeline_.site(lane, call);
  }
  Facts& f = facts_[site];
  ++f.operations;
  f.uneven_ns += uneven_ns;
  for (const auto& m : members) {
    const TimedLane& lane = lanes[m.lane];
    f.offset_ns[timeline_.records()[lane.record]->rank()] +=
        double(timeline_.begin(lane, lane.calls[m.call])) - sum / double(members.size());
  }
  if (longest && longest->culprit >= 0) note_late(f.members, *longest, since);
}

// The call that received the message, or waited for it. It was there before where another thread has received it.
const TimedCall* FactReader::call_for(const Message& m) const {
  const TimedLane& lane = timeline_.lane_of(m.to, timeline_.receiver(m));
  const uint64_t done = timeline_.done_at(m);
  auto call = std::lower_bound(lane.calls.begin(), lane.calls.end(), done,
                               [&](const TimedCall& c, uint64_t at) { return timeline_.end(lane, c) < at; });
  constexpr int kLooks = 8;  // calls that begin more operations, before one waits
  for (int looks = 0; looks < kLooks && call != lane.calls.end(); ++looks, ++call) {
    const CallKind kind = timeline_.kind(lane, *call);
    if (kind == CallKind::receive || kind == CallKind::wait) return &*call;
  }
  return nullptr;
}

// How long a message was there before the call that received it, and a receive before the call that sent to it.
void FactReader::note_early(const Message& m) {
  const Event &sent = timeline_.event(m.from, m.send), &received = timeline_.event(m.to, m.receive);
  const int from = timeline_.records()[m.from]->rank(), to = timeline_.records()[m.to]->rank();
  const uint64_t left = timeline_.sent_at(m);
  const auto note = [&](uint32_t record, const TimedCall* in, std::pair<int, int> pair, uint64_t since) {
    if (!in) return;
    const TimedLane& lane = timeline_.main_lane(record);
    const uint64_t began = timeline_.begin(lane, *in);
    if (since < began) facts_[timeline_.site(lane, *in)].early_ns[pair] += began - since;
  };
  const TimedCall* call = call_for(m);
  if (call) ++facts_[timeline_.site(timeline_.main_lane(m.to), *call)].messages_of[from];
  note(m.to, call, {to, from}, left);
  if (sent.what == uint16_t(Protocol::eager)) return;
  const TimedCall* there = timeline_.call_at(m.to, received.thread, timeline_.matched_at(m));
  if (!there) return;
  const uint64_t came = timeline_.begin(timeline_.main_lane(m.to), *there);
  note(m.from, timeline_.call_at(m.from, sent.thread, left), {from, to}, came);
}

void FactReader::read(const Message& m) {
  note_early(m);
  const Event &sent = timeline_.event(m.from, m.send), &received = timeline_.event(m.to, m.receive);
  const auto& header = timeline_.records()[m.from]->header();
  const auto path = size_t{sent.request} - 1;
  const uint64_t limit = path < record::kMaxPaths ? header.eager_limits[path] : 0;
  if (sent.what != uint16_t(Protocol::eager) && limit != 0 && sent.bytes > limit && sent.bytes <= limit + limit / 2) {
    if (const TimedCall* call = timeline_.call_at(m.from, sent.thread, timeline_.sent_at(m))) {
      Facts& f = facts_[timeline_.site(timeline_.main_lane(m.from), *call)];
      ++f.just_above;
      f.just_above_bytes += sent.bytes;
      f.limit = limit;
      f.path = timeline_.records()[m.from]->path_name(sent.request);
    }
  }
  constexpr uint64_t kWorthACopyBytes = 256;  // shorter ones are copied within a cache line's time
  if (received.bytes < kWorthACopyBytes || sent.what != uint16_t(Protocol::eager)) return;
  const TimedCall* call = timeline_.call_at(m.to, received.thread, timeline_.done_at(m));
  if (!call) return;
  Facts& f = facts_[timeline_.site(timeline_.main_lane(m.to), *call)];
  ++f.received;
  if (received.what == 0) return;
  ++f.unexpected;
  f.unexpected_bytes += received.bytes;
  f.queued_ns += timeline_.matched_at(m) - std::min(timeline_.matched_at(m), timeline_.sent_at(m));
}

}  // namespace

std::vector<Facts> facts_of(const Timeline& timeline) { return FactReader(timeline).take(); }

}  // namespace tern::mpiexec
