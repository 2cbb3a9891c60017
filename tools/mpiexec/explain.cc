#include "explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "advice.h"

namespace tern::mpiexec {
namespace {

constexpr size_t kPlacesTold = 10;  // what a person reads

double part_in_percent(uint64_t part, uint64_t whole) { return whole == 0 ? 0 : 100.0 * double(part) / double(whole); }

// "late sender 62 %, own work 38 %", the largest first, without what is below 5 %.
std::string causes_text(const PlaceCost& place) {
  std::vector<size_t> order;
  for (size_t cause = 0; cause < kCauses; ++cause) {
    if (part_in_percent(place.by_cause[cause], place.total_ns) >= 5) order.push_back(cause);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place.by_cause[a] > place.by_cause[b]; });
  std::string text;
  for (const size_t cause : order) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", kCauseNames[cause],
                        part_in_percent(place.by_cause[cause], place.total_ns));
  }
  return text;
}

// Cut at words.
std::string wrapped(const std::string& text, const std::string& margin, size_t width) {
  std::string out, line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && margin.size() + line.size() + 1 + word.size() > width) {
      out += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = space + 1;
  }
  return out + margin + line + "\n";
}

}  // namespace

Explanation explain(const Timeline& timeline) {
  Explanation all;
  std::vector<PlaceCost> places(timeline.sites().size());
  for (uint32_t i = 0; i < places.size(); ++i) places[i].site = i;
  all.ranks.resize(timeline.records().size());
  for (const TimedLane& lane : timeline.lanes()) {
    if (lane.calls.empty()) continue;
    RankCost& rank = all.ranks[lane.record];
    if (lane.thread == 0) {
      rank.total_ns = timeline.end(lane, lane.calls.back()) - timeline.begin(lane, lane.calls.front());
      all.all_ns += rank.total_ns;
    }
    for (const TimedCall& call : lane.calls) {
      PlaceCost& place = places[timeline.site(lane, call)];
      const uint64_t took = timeline.end(lane, call) - timeline.begin(lane, call);
      ++place.calls;
      place.total_ns += took;
      for (auto* causes : {&place.by_cause, &rank.by_cause}) {
        (*causes)[size_t(Cause::imbalance)] += call.uneven_ns;
        (*causes)[size_t(call.cause)] += call.waited_ns;
        (*causes)[size_t(Cause::none)] += took - std::min(took, call.uneven_ns + call.waited_ns);
      }
    }
  }
  all.advice = find_advice(timeline, all.all_ns);
  std::stable_sort(all.advice.begin(), all.advice.end(),
                   [](const Advice& a, const Advice& b) { return a.cost_ns > b.cost_ns; });
  for (uint32_t i = 0; i < all.advice.size(); ++i) places[all.advice[i].site].advice.push_back(i);
  std::stable_sort(places.begin(), places.end(),
                   [](const PlaceCost& a, const PlaceCost& b) { return a.total_ns > b.total_ns; });
  all.places = std::move(places);
  return all;
}

std::string explanation_text(const Timeline& timeline, const Explanation& all) {
  constexpr size_t kWidth = 100;  // of a terminal, with room
  const auto& records = timeline.records();
  std::string out =
      fmt::format("\nmpiexec: where {} ranks spent {:.3f} s each, {:.1f} % of it in MPI\n", records.size(),
                  double(all.all_ns) * 1e-9 / double(std::max<size_t>(records.size(), 1)), [&] {
                    uint64_t sum = 0;
                    for (const PlaceCost& place : all.places) sum += place.total_ns;
                    return part_in_percent(sum, all.all_ns);
                  }());
  for (size_t i = 0; i < std::min(kPlacesTold, all.places.size()); ++i) {
    const PlaceCost& place = all.places[i];
    const Site& site = timeline.sites()[place.site];
    out += fmt::format("{:>3}. {:<46} {:>5.1f} % of the time, {} call{}: {}\n", i + 1,
                       site.function + " at " + site.place.text(), part_in_percent(place.total_ns, all.all_ns),
                       place.calls, place.calls == 1 ? "" : "s", causes_text(place));
    for (const uint32_t advice : place.advice) out += wrapped(all.advice[advice].text, "     ", kWidth);
  }
  // What saves something where little time is spent, and the like.
  for (size_t i = kPlacesTold; i < all.places.size(); ++i) {
    for (const uint32_t advice : all.places[i].advice) {
      const Site& site = timeline.sites()[all.places[i].site];
      out += fmt::format("   - {} at {}\n", site.function, site.place.text());
      out += wrapped(all.advice[advice].text, "     ", kWidth);
    }
  }
  if (all.advice.empty()) out += "     No advice: nothing that one place waits for is worth a change.\n";
  return out;
}

}  // namespace tern::mpiexec
