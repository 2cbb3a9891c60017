#include "advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "p2p/protocols/protocol.h"

namespace tern::mpiexec {
namespace {

using record::Event;

/// Less of the time of all ranks is not worth a change.
constexpr double kWorth = 0.02;
/// A rule says "always" of what holds so often.
constexpr double kMostly = 0.6;

/// Somebody who was waited for at one place.
struct Late {
  uint64_t times = 0, ns = 0;
  uint64_t computed_ns = 0;              ///< of that time: outside of MPI
  std::map<uint32_t, uint64_t> held_ns;  ///< of that time: in calls, by site
  std::map<uint32_t, uint64_t> at;       ///< where it was when it came, by site: how often
};

/// Calls in a row at one place.
struct Runs {
  uint64_t calls = 0, runs = 0, ns = 0;
  double length() const { return runs == 0 ? 0 : double(calls) / double(runs); }
};

/// What is known of one place.
struct Facts {
  uint64_t calls = 0, total_ns = 0, bytes = 0, waits = 0;
  std::array<uint64_t, kCauses> by_cause{};
  std::set<uint32_t> ranks;
  std::map<int, Late> senders, receivers, members, targets;  ///< who was waited for
  // Of a collective: how long after the mean of all each rank came, added up, and how many operations there were.
  std::map<int, double> offset_ns;
  uint64_t operations = 0, uneven_ns = 0;
  Runs small, fan_out, fan_in, tests, small_together;
  std::map<uint32_t, Runs> before;  ///< a barrier directly before, or behind, such a place
  // Messages that are sent here: not eagerly, and only a little longer than the limit.
  uint64_t just_above = 0, just_above_bytes = 0, limit = 0;
  std::string path;
  // Messages that are received here.
  uint64_t received = 0, unexpected = 0, unexpected_bytes = 0, queued_ns = 0;

  uint64_t own_ns() const { return by_cause[size_t(Cause::none)]; }
};

std::string milliseconds(double ns) {
  if (ns >= 1e9) return fmt::format("{:.2f} s", ns * 1e-9);
  if (ns >= 1e6) return fmt::format("{:.1f} ms", ns * 1e-6);
  return fmt::format("{:.1f} us", ns * 1e-3);
}
std::string byte_text(uint64_t bytes) {
  std::string text = std::to_string(bytes);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text + (bytes == 1 ? " byte" : " bytes");
}
double part(uint64_t of, uint64_t whole) { return whole == 0 ? 0 : double(of) / double(whole); }

template <typename Map, typename Less>
auto largest(const Map& map, Less less) {
  return std::max_element(map.begin(), map.end(), less);
}

class Adviser {
 public:
  Adviser(const Timeline& timeline, uint64_t all_ns)
      : timeline_(timeline), worth_ns_(uint64_t(double(all_ns) * kWorth)), facts_(timeline.sites().size()) {
    for (const TimedLane& lane : timeline.lanes()) read(lane);
    for (const auto& together : timeline.together()) read(together);
    for (const Message& m : timeline.messages()) read(m);
  }

  std::vector<Advice> advise() {
    for (uint32_t site = 0; site < facts_.size(); ++site) {
      const Facts& f = facts_[site];
      late_sender(site, f);
      late_receiver(site, f);
      late_member(site, f);
      imbalance(site, f);
      just_above_eager(site, f);
      copied_twice(site, f);
      in_a_row(site, f);
      barrier(site, f);
      windows(site, f);
      made_often(site, f);
      small_files(site, f);
    }
    return std::move(advice_);
  }

 private:
  // --- Facts.
  void read(const TimedLane& lane);
  void read(const Timeline::Together& members);
  void read(const Message& m);
  void note_late(std::map<int, Late>& map, int rank, uint64_t from, uint64_t to);
  bool follows(const TimedLane& lane, size_t call) const;
  void end_run(const TimedLane& lane, size_t from, size_t to);

  // --- Rules.
  void late_sender(uint32_t site, const Facts& f);
  void late_receiver(uint32_t site, const Facts& f);
  void late_member(uint32_t site, const Facts& f);
  void imbalance(uint32_t site, const Facts& f);
  void just_above_eager(uint32_t site, const Facts& f);
  void copied_twice(uint32_t site, const Facts& f);
  void in_a_row(uint32_t site, const Facts& f);
  void barrier(uint32_t site, const Facts& f);
  void windows(uint32_t site, const Facts& f);
  void made_often(uint32_t site, const Facts& f);
  void small_files(uint32_t site, const Facts& f);

  void say(uint32_t site, uint64_t cost_ns, const char* rule, std::string text) {
    if (cost_ns >= worth_ns_) advice_.push_back({site, cost_ns, rule, std::move(text)});
  }
  const std::string& function(uint32_t site) const { return timeline_.sites()[site].function; }
  std::string named(uint32_t site) const {
    return fmt::format("{} at {}", function(site), timeline_.sites()[site].place.where());
  }
  std::string why(const Late& late) const;
  uint32_t ranks() const { return uint32_t(timeline_.records().size()); }

  const Timeline& timeline_;
  const uint64_t worth_ns_;
  std::vector<Facts> facts_;
  std::vector<Advice> advice_;
};

// What the rank did in that time, before it came.
void Adviser::note_late(std::map<int, Late>& map, int rank, uint64_t from, uint64_t to) {
  Late& late = map[rank];
  ++late.times;
  late.ns += to - from;
  const int record = timeline_.record_of(uint32_t(rank));
  if (record < 0) return;
  const TimedLane& lane = timeline_.main_lane(uint32_t(record));
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

void Adviser::read(const TimedLane& lane) {
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
    const uint64_t since = begin + call.uneven_ns, until = since + call.waited_ns;
    if (call.waited_ns != 0 && call.culprit >= 0) {
      ++f.waits;
      if (call.cause == Cause::late_sender) note_late(f.senders, call.culprit, since, until);
      if (call.cause == Cause::late_receiver) note_late(f.receivers, call.culprit, since, until);
      if (call.cause == Cause::window) note_late(f.targets, call.culprit, since, until);
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
bool Adviser::follows(const TimedLane& lane, size_t call) const {
  const TimedCall &before = lane.calls[call - 1], &mine = lane.calls[call];
  if (timeline_.site(lane, before) != timeline_.site(lane, mine)) return false;
  const uint64_t ended = timeline_.end(lane, before), took = ended - timeline_.begin(lane, before);
  constexpr uint64_t kNothing_ns = 2000;  // a loop's own time
  return timeline_.begin(lane, mine) <= ended + took + kNothing_ns;
}

// Calls of one place without another call between them.
void Adviser::end_run(const TimedLane& lane, size_t from, size_t to) {
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

void Adviser::read(const Timeline::Together& members) {
  const auto& lanes = timeline_.lanes();
  double sum = 0;
  uint64_t uneven_ns = 0, longest_ns = 0;
  int culprit = -1;
  uint64_t since = 0, until = 0;
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
    culprit = call.culprit;
    since = at + call.uneven_ns;
    until = since + call.waited_ns;
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
  if (culprit >= 0) note_late(f.members, culprit, since, until);
}

void Adviser::read(const Message& m) {
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

// "it computes longer", or where it is held up.
std::string Adviser::why(const Late& late) const {
  if (part(late.computed_ns, late.ns) >= 0.5 || late.held_ns.empty()) return "it computes longer";
  const auto most = largest(late.held_ns, [](auto& a, auto& b) { return a.second < b.second; });
  return fmt::format("it is held up in {}", named(most->first));
}

constexpr auto kLessTime = [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; };

void Adviser::late_sender(uint32_t site, const Facts& f) {
  const uint64_t cost = f.by_cause[size_t(Cause::late_sender)];
  if (f.senders.empty() || part(cost, f.total_ns) < 0.25) return;
  // Do they wait for messages, too, who are waited for?
  uint64_t held_ns = 0, all = 0;
  for (const auto& [rank, late] : f.senders) {
    all += late.ns;
    for (const auto& [at, ns] : late.held_ns) {
      const CallKind kind = kind_of(function(at));
      if (kind == CallKind::receive || kind == CallKind::wait) held_ns += ns;
    }
  }
  if (part(held_ns, all) > 0.5 && f.senders.size() > 1) {
    say(site, cost, "chain",
        "ranks wait for each other in a chain: each sends only after it has received, so that they work one after "
        "the other. Post receives first (MPI_Irecv) and send before waiting, or use MPI_Sendrecv.");
    return;
  }
  const auto& [rank, late] = *largest(f.senders, kLessTime);
  const double each_ns = double(late.ns) / double(late.times);
  if (part(late.ns, all) >= kMostly) {
    say(site, cost, "late_sender",
        fmt::format(
            "rank {} sends {} late to this receive in {:.0f} % of {} waits: {}. Let it send earlier, or give it "
            "less to do; receive later, if there is other work.",
            rank, milliseconds(each_ns), 100 * part(late.times, f.waits), f.waits, why(late)));
  } else {
    say(site, cost, "late_senders",
        fmt::format("messages are sent {} after this call begins (from {} ranks in turn; the last for which it waits "
                    "longest is rank {}: {}). Begin the receive earlier and wait later (MPI_Irecv), with work between.",
                    milliseconds(double(all) / double(std::max<uint64_t>(f.waits, 1))), f.senders.size(), rank,
                    why(late)));
  }
}

void Adviser::late_receiver(uint32_t site, const Facts& f) {
  const uint64_t cost = f.by_cause[size_t(Cause::late_receiver)];
  if (f.receivers.empty() || part(cost, f.total_ns) < 0.25) return;
  const auto& [rank, late] = *largest(f.receivers, kLessTime);
  // clang 14 takes no name of a structured binding into a lambda by itself.
  const std::string where = late.at.empty() ? "" : [this, &places = late.at] {
    const auto most = largest(places, [](auto& a, auto& b) { return a.second < b.second; });
    return fmt::format(" ({})", named(most->first));
  }();
  const std::string head = fmt::format("rank {} posts its receive{} {} after this send, in {:.0f} % of {} waits: {}. ",
                                       rank, where, milliseconds(double(late.ns) / double(late.times)),
                                       100 * part(late.times, f.waits), f.waits, why(late));
  if (function(site) == "MPI_Ssend") {
    say(site, cost, "synchronous",
        head + "MPI_Ssend waits for that by its meaning; MPI_Send returns at once with messages this short.");
  } else {
    say(site, cost, "late_receiver",
        head + "Post the receive before that work (MPI_Irecv), or send with MPI_Isend and wait later.");
  }
}

void Adviser::late_member(uint32_t site, const Facts& f) {
  const uint64_t cost = f.by_cause[size_t(Cause::late_rank)];
  if (f.members.empty() || f.operations < 3 || part(cost, f.total_ns) < 0.2) return;
  if (cost <= f.by_cause[size_t(Cause::imbalance)]) return;
  const auto& [rank, late] = *largest(f.members, kLessTime);
  if (part(late.times, f.operations) < kMostly) return;
  const bool from_root = kind_of(function(site)) == CallKind::from_root;
  say(site, cost, from_root ? "late_root" : "late_rank",
      fmt::format("rank {}{} arrives {} late at {} in {:.0f} % of {} steps: {}. {}", rank,
                  from_root ? ", the root," : "", milliseconds(double(late.ns) / double(late.times)),
                  timeline_.sites()[site].place.where(), 100 * part(late.times, f.operations), f.operations, why(late),
                  from_root
                      ? "The others can do nothing before: let the root begin earlier, or use the nonblocking call."
                      : "Move work from it to the others, or put work that needs no result before this call."));
}

// Ranks come one after the other, each time in about the same order.
void Adviser::imbalance(uint32_t site, const Facts& f) {
  const uint64_t cost = f.by_cause[size_t(Cause::imbalance)] + f.by_cause[size_t(Cause::late_rank)];
  if (f.operations < 3 || f.offset_ns.size() < 3 || part(cost, f.total_ns) < 0.2) return;
  if (f.by_cause[size_t(Cause::late_rank)] > f.by_cause[size_t(Cause::imbalance)]) return;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto last = largest(f.offset_ns, less);
  const auto first = std::min_element(f.offset_ns.begin(), f.offset_ns.end(), less);
  double systematic_ns = 0;
  for (const auto& [rank, offset] : f.offset_ns) systematic_ns += last->second - offset;
  if (systematic_ns < 0.5 * double(cost)) return;
  say(site, cost, "imbalance",
      fmt::format(
          "ranks arrive one after the other: rank {} comes first, rank {} comes {} later, on average of {} steps. "
          "The work before this call is spread unevenly over the ranks: give each the same.",
          first->first, last->first, milliseconds((last->second - first->second) / double(f.operations)),
          f.operations));
}

void Adviser::just_above_eager(uint32_t site, const Facts& f) {
  if (f.just_above < 4 || part(f.just_above, f.calls) < kMostly) return;
  const uint64_t mean = f.just_above_bytes / f.just_above;
  say(site, f.total_ns, "just_above_eager",
      fmt::format(
          "messages of {} are just above the eager limit of {} ({}), so that each waits for an answer of its "
          "receiver. Try a larger limit (TERN_{}_EAGER_BYTES={}), or shorter messages.",
          byte_text(mean), f.path, byte_text(f.limit),
          [&] {
            std::string upper = f.path;
            for (char& c : upper) c = char(toupper(c));
            return upper;
          }(),
          (mean + 4095) / 4096 * 4096));
}

void Adviser::copied_twice(uint32_t site, const Facts& f) {
  if (f.unexpected < 8 || part(f.unexpected, f.received) < 0.8) return;
  const double queued_ns = double(f.queued_ns) / double(f.unexpected);
  constexpr double kEarly_ns = 20'000;  // else both came at about the same time
  if (queued_ns < kEarly_ns || queued_ns < 2 * double(f.total_ns) / double(f.calls)) return;
  say(site, f.own_ns(), "copied_twice",
      fmt::format("receives are posted after the messages come ({:.0f} % of {}, {} on average before): their {} are "
                  "copied twice. Post the receives earlier (MPI_Irecv).",
                  100 * part(f.unexpected, f.received), f.received, milliseconds(queued_ns),
                  byte_text(f.unexpected_bytes / f.unexpected) + " each"));
}

void Adviser::in_a_row(uint32_t site, const Facts& f) {
  if (f.fan_out.runs != 0) {
    say(site, f.fan_out.ns, "broadcast_by_hand",
        fmt::format(
            "one rank sends {} messages of {} in a row, one to each rank: that is MPI_Bcast or MPI_Scatter, which "
            "share the work.",
            uint64_t(f.fan_out.length()), byte_text(f.bytes / f.calls)));
  } else if (f.small.runs != 0 && f.small.length() >= 8) {
    say(site, f.small.ns, "small_messages",
        fmt::format("{} messages of {} go to the same rank in a row, {} times: put them into one.",
                    uint64_t(f.small.length()), byte_text(f.bytes / f.calls), f.small.runs));
  }
  if (f.fan_in.runs != 0 && f.by_cause[size_t(Cause::late_sender)] * 2 < f.total_ns) {
    say(site, f.fan_in.ns, "gather_by_hand",
        fmt::format("one rank receives a message of each of {} ranks in a fixed order, one after the other: that is "
                    "MPI_Gather or MPI_Reduce, which share the work; or receive from MPI_ANY_SOURCE.",
                    uint64_t(f.fan_in.length())));
  } else if (f.fan_in.runs != 0) {
    say(site, f.fan_in.ns, "gather_by_hand",
        "one rank receives a message of each rank in a fixed order, and waits for one while others are there: receive "
        "from MPI_ANY_SOURCE, or use MPI_Gather.");
  }
  constexpr double kManyTests = 16;  // fewer may have work between them
  if (f.tests.length() >= kManyTests) {
    say(site, f.tests.ns, "polling",
        fmt::format("{} calls in a row until one succeeds: a loop that does nothing else should be MPI_Wait (or "
                    "MPI_Probe), which gives the core to others while it waits.",
                    uint64_t(f.tests.length())));
  }
  if (f.small_together.length() >= 3) {
    say(site, f.small_together.ns, "collectives_in_a_row",
        fmt::format("{} collectives of {} in a row, without work between them: put their data into one call.",
                    uint64_t(f.small_together.length()), byte_text(f.bytes / f.calls)));
  }
}

void Adviser::barrier(uint32_t site, const Facts& f) {
  if (f.before.empty()) return;
  const auto& [other, both] = *largest(f.before, kLessTime);
  if (part(both.calls, f.calls) < kMostly || f.calls < 8) return;
  say(site, both.ns, "needless_barrier",
      fmt::format("{}, directly beside it, waits for all ranks by itself: the barrier can go.", named(other)));
}

void Adviser::windows(uint32_t site, const Facts& f) {
  const uint64_t cost = f.by_cause[size_t(Cause::window)];
  if (kind_of(function(site)) != CallKind::window_sync || f.calls < 4 || part(cost, f.total_ns) < 0.25) return;
  const std::string& name = function(site);
  if (name.find("lock") == name.npos && name.find("flush") == name.npos) {
    say(site, cost, "window_partners",
        fmt::format("{} waits {} each time for its partners' part of the epoch: let them come earlier, or begin later.",
                    name, milliseconds(double(cost) / double(f.calls))));
    return;
  }
  const std::string of = f.targets.empty() ? "" : fmt::format(" of rank {}", largest(f.targets, kLessTime)->first);
  say(site, cost, "window_lock",
      fmt::format(
          "{} ranks wait {} each time for the window{}: others hold its lock, or it is busy. MPI_LOCK_SHARED with "
          "accumulates or atomics lets several in; fewer, longer epochs cost less.",
          f.ranks.size(), milliseconds(double(cost) / double(f.calls)), of));
}

void Adviser::made_often(uint32_t site, const Facts& f) {
  if (kind_of(function(site)) != CallKind::making || f.ranks.empty() || f.calls < 8 * f.ranks.size()) return;
  if (function(site).ends_with("_free") || function(site).ends_with("_close")) return;  // what is made has the blame
  say(site, f.total_ns, "made_often",
      fmt::format("called {} times by each rank: make it once, before the loop, and keep it.",
                  f.calls / f.ranks.size()));
}

void Adviser::small_files(uint32_t site, const Facts& f) {
  constexpr uint64_t kSmallBytes = 64 << 10;  // below that a system call costs more than the copy
  if (kind_of(function(site)) != CallKind::file || f.ranks.empty() || f.calls < 16 * f.ranks.size()) return;
  if (f.bytes / f.calls >= kSmallBytes) return;
  say(site, f.total_ns, "small_accesses",
      fmt::format("{} accesses of {} each: a collective call (as {}_all, with a view of the file) puts what all ranks "
                  "access into few large pieces.",
                  f.calls, byte_text(f.bytes / f.calls), function(site)));
}

}  // namespace

// Starting and ending is not what advice is about: a short run is nothing else.
std::vector<Advice> find_advice(const Timeline& timeline, uint64_t all_ns) {
  for (const TimedLane& lane : timeline.lanes()) {
    for (const TimedCall& call : lane.calls) {
      if (timeline.kind(lane, call) != CallKind::start_end) continue;
      all_ns -= std::min(all_ns, timeline.end(lane, call) - timeline.begin(lane, call));
    }
  }
  return Adviser(timeline, all_ns).advise();
}

}  // namespace tern::mpiexec
