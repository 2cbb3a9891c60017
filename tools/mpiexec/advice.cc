#include "advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "advice_facts.h"

namespace tern::mpiexec {
namespace {

/// Less of the time of all ranks is not worth a change.
constexpr double kWorth = 0.02;
/// A rule says "always" of what holds so often.
constexpr double kMostly = 0.6;
/// Where so much of the waiting is by turns, what is left over is chance, too.
constexpr double kByTurns = 0.4;

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

template <typename Map, typename Less>
auto largest(const Map& map, Less less) {
  return std::max_element(map.begin(), map.end(), less);
}

class Adviser {
 public:
  Adviser(const Timeline& timeline, uint64_t all_ns)
      : timeline_(timeline), worth_ns_(uint64_t(double(all_ns) * kWorth)), facts_(facts_of(timeline)) {}

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
  uint64_t mutual_ns(const Facts& f) const;
  bool to_blame(const Facts& f, int rank, const Late& late, uint64_t waited, uint64_t mutual) const;
  bool always_late(const Facts& f, int rank, uint64_t cost) const;

  const Timeline& timeline_;
  const uint64_t worth_ns_;
  std::vector<Facts> facts_;
  std::vector<Advice> advice_;
};

// "it computes longer", or where it is held up.
std::string Adviser::why(const Late& late) const {
  if (part(late.computed_ns, late.ns) >= 0.5 || late.held_ns.empty()) return "it computes longer";
  const auto most = largest(late.held_ns, [](auto& a, auto& b) { return a.second < b.second; });
  return fmt::format("it is held up in {}", named(most->first));
}

// Of what ranks wait for each other here: the part that no rank is to blame for. Where the work of a step varies, a
// rank waits in one step and is waited for in another one, for about as long. These two times cancel. A rank that is
// late in every step waits for nobody here, so nothing of what others wait for it cancels.
uint64_t Adviser::mutual_ns(const Facts& f) const {
  std::map<int, uint64_t> waited_for;
  uint64_t by_turns = 0, early_ns = 0;
  for (const auto& [pair, ns] : f.waited_ns) waited_for[pair.second] += ns;
  for (const auto& [pair, ns] : f.early_ns) early_ns += ns;
  for (const auto& [rank, ns] : waited_for) {
    const auto own = f.waits_of_ns.find(rank);
    if (own != f.waits_of_ns.end()) by_turns += std::min(ns, own->second);
  }
  return std::min(by_turns, early_ns);
}

// One rank is waited for more than its part. By turns that happens now and then: it must be late nearly each time.
bool Adviser::to_blame(const Facts& f, int rank, const Late& late, uint64_t waited, uint64_t mutual) const {
  constexpr double kEachTime = 0.75;  // half the times is what chance has
  if (part(mutual, waited) < kByTurns) return true;
  const auto messages = f.messages_of.find(rank);
  return messages != f.messages_of.end() && part(late.times, messages->second) >= kEachTime;
}

// In a collective: the rank comes after the others by much of what they wait, all steps taken together. Where another
// comes last in each step the differences cancel out.
bool Adviser::always_late(const Facts& f, int rank, uint64_t cost) const {
  const auto mine = f.offset_ns.find(rank);
  if (mine == f.offset_ns.end()) return false;
  double later_ns = 0;
  for (const auto& [other, offset] : f.offset_ns) later_ns += std::max(0.0, mine->second - offset);
  return later_ns >= 0.5 * double(cost);
}

constexpr auto kLessTime = [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; };

void Adviser::late_sender(uint32_t site, const Facts& f) {
  const uint64_t waited = f.by_cause[size_t(Cause::late_sender)], mutual = std::min(waited, mutual_ns(f));
  const uint64_t cost = waited - mutual;
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
    if (!to_blame(f, rank, late, waited, mutual)) return;
    say(site, cost, "late_sender",
        fmt::format(
            "rank {} sends {} late to this receive in {:.0f} % of {} waits: {}. Let it send earlier, or give it "
            "less to do; receive later, if there is other work.",
            rank, milliseconds(each_ns), 100 * part(late.times, f.waits), f.waits, why(late)));
  } else if (part(mutual, waited) < kByTurns) {
    say(site, cost, "late_senders",
        fmt::format("messages are sent {} after this call begins (from {} ranks in turn; the last for which it waits "
                    "longest is rank {}: {}). Begin the receive earlier and wait later (MPI_Irecv), with work between.",
                    milliseconds(double(all) / double(std::max<uint64_t>(f.waits, 1))), f.senders.size(), rank,
                    why(late)));
  }
}

void Adviser::late_receiver(uint32_t site, const Facts& f) {
  const uint64_t waited = f.by_cause[size_t(Cause::late_receiver)], mutual = std::min(waited, mutual_ns(f));
  const uint64_t cost = waited - mutual;
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
  // By chance each comes last as often as the others: of two, half the times.
  const double chance = 1 / double(std::max<size_t>(f.offset_ns.size(), 1));
  const double mostly = std::max(kMostly, (1 + chance) / 2);
  if (part(late.times, f.operations) < mostly || !always_late(f, rank, cost)) return;
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
  constexpr double kSystematic = 0.7;  // the rest is chance: now one comes later, now another
  if (systematic_ns < kSystematic * double(cost)) return;
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
