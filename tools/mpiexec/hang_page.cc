#include "hang_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ranges.h"

namespace tern::mpiexec {
namespace {

using Kind = PendingMessage::Kind;
constexpr size_t kMaxLines = 20;  // of each part of the page: a screen

std::string named(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", ranges(ranks));
}

/// Lines of one part of the page; the rest is counted.
class PagePart {
 public:
  explicit PagePart(std::string& page) : page_(page) {}
  ~PagePart() {
    if (count_ > kMaxLines) page_ += fmt::format("  and {} more\n", count_ - kMaxLines);
  }
  void add(const std::string& line) {
    if (++count_ <= kMaxLines) page_ += "  " + line + "\n";
  }

 private:
  std::string& page_;
  size_t count_ = 0;
};

// What a rank does, in words. How long it has done so comes between the two parts: ranks of which the same is said
// are one group.
struct Doing {
  std::string what, more{};
  bool alone = false;  ///< it computes

  Doing(std::string words) : what(std::move(words)) {}
  Doing(const char* words) : what(words) {}
  std::string all() const { return what + more; }
};

Doing computing(const RankReport& report) {
  Doing doing("not in an MPI call");
  doing.alone = true;
  if (!report.place().empty()) doing.more = ", at " + report.place();
  if (!report.call().empty()) doing.more += "; its last call was " + report.call();
  return doing;
}

Doing doing(const RankView& rank) {
  const RankReport& report = rank.report;
  const std::string at = report.place().empty() ? "" : ", called at " + report.place();
  if (rank.stage == RankView::Stage::ended) {
    const bool answered = report.placed() && report.inside() && !report.call().empty();
    return answered ? fmt::format("was in {}{}, and has ended", report.call(), at) : "ended";
  }
  if (rank.stopped) return "stopped (by a signal or a debugger)";
  if (rank.stage == RankView::Stage::not_started) return "has not called MPI_Init";
  if (rank.stage == RankView::Stage::finalized) return "has called MPI_Finalize";
  if (report.waits()) {
    const std::string& collective = report.wait().collective;
    return fmt::format("waiting in {}{}{}{}", report.call().empty() ? "MPI" : report.call(),
                       collective.empty() ? "" : " on ", collective, at);
  }
  if (rank.stage == RankView::Stage::meeting) return "waiting in MPI_Init or MPI_Finalize for the other ranks";
  if (report.placed() && report.inside()) return fmt::format("working in {}{}", report.call(), at);
  if (report.placed()) return computing(report);
  if (report.signal() == 0) return "cannot be asked (not a program of Tern, or TERN_HANG_REPORT=0)";
  return "does not answer (it blocks signals)";
}

bool is_collective(std::string_view call) {
  constexpr std::string_view kNames[] = {"Barrier", "Bcast",      "Gather", "Scatter",    "Allgather", "Alltoall",
                                         "Reduce",  "Allreduce",  "Scan",   "Exscan",     "Comm_",     "Win_",
                                         "File_",   "Intercomm_", "Cart_",  "Dist_graph", "Finalize"};
  if (!call.starts_with("MPI_")) return false;
  call.remove_prefix(4);
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view name) { return call.starts_with(name); });
}

std::string seconds(uint64_t least_ms, uint64_t most_ms) {
  const auto text = [](uint64_t ms) {
    return ms < 10'000 ? fmt::format("{:.1f}", double(ms) * 1e-3) : std::to_string(ms / 1000);
  };
  const std::string from = text(least_ms), to = text(most_ms);
  return from == to ? to : from + " to " + to;
}

void add_groups(const std::vector<RankView>& ranks, std::string& page) {
  std::map<std::string, std::vector<int>> groups;
  std::vector<Doing> order;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Doing words = doing(ranks[i]);
    std::vector<int>& group = groups[words.all()];
    if (group.empty()) order.push_back(std::move(words));
    group.push_back(int(i));
  }
  PagePart part(page);
  for (const Doing& words : order) {
    const std::vector<int>& group = groups[words.all()];
    uint64_t least = ~uint64_t{0}, most = 0;
    for (int rank : group) {
      const RankView& view = ranks[size_t(rank)];
      if (!words.alone && !view.report.waits()) continue;
      const uint64_t ms = words.alone ? view.alone_ms : view.report.wait().waited_ms;
      least = std::min(least, ms);
      most = std::max(most, ms);
    }
    std::string line = fmt::format("{}: {}", named(group), words.what);
    if (words.alone && most != 0) line += fmt::format(", running for {} s", seconds(least, most));
    line += words.more;
    if (!words.alone && most != 0) line += fmt::format("; nothing has come for {} s", seconds(least, most));
    part.add(line);
  }
}

std::string collective_of(const RankView& rank) {
  const RankReport& report = rank.report;
  return report.waits() && !report.wait().collective.empty() ? report.call() + " on " + report.wait().collective : "";
}

/// Ranks that are in blocking collectives of which one waits for a rank that is in another. No circle, then: the calls
/// do not match.
bool add_mismatch(const std::vector<RankView>& ranks, std::string& page) {
  std::map<std::string, std::vector<int>> where;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (std::string words = collective_of(ranks[i]); !words.empty()) where[words].push_back(int(i));
  }
  const auto awaits = [&](int rank, int other) {
    const auto& pending = ranks[size_t(rank)].report.wait().pending;
    return std::any_of(pending.begin(), pending.end(), [&](const PendingMessage& message) {
      return message.kind == Kind::receive && !message.of_user && message.peer == other;
    });
  };
  bool some = false;
  for (const auto& [words, group] : where) {
    for (const auto& [other_words, others] : where) {
      if (words == other_words) continue;
      for (int rank : group)
        some = some || std::any_of(others.begin(), others.end(), [&](int other) { return awaits(rank, other); });
    }
  }
  // Where nothing is sent, as between the ranks of a node, one communicator in different calls tells, or that of all.
  std::map<std::string, int> communicators;
  for (const auto& entry : where) {
    const std::string& words = entry.first;
    const size_t begin = words.find(" on ") + 4;
    ++communicators[words.substr(begin, words.rfind(", root ") - begin)];
  }
  for (const auto& [name, times] : communicators) some = some || times > 1 || name == "MPI_COMM_WORLD";
  if (!some || where.size() < 2) return false;
  PagePart part(page);
  for (const auto& [words, group] : where)
    part.add(fmt::format("{} {} in {}", named(group), group.size() > 1 ? "are" : "is", words));
  part.add(
      "all members of a communicator must call the same operations on it, in the same order and with the same root; "
      "TERN_CHECK=1 compares the calls");
  return true;
}

// Ranks that are in no call of that name, while several others are.
void add_missing(const std::vector<RankView>& ranks, std::string& page) {
  std::map<std::string, std::vector<int>> calls;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankReport& report = ranks[i].report;
    if (report.waits() && is_collective(report.call())) calls[report.call()].push_back(int(i));
  }
  PagePart part(page);
  for (const auto& [call, inside] : calls) {
    std::vector<int> others;
    for (int rank = 0; rank < int(ranks.size()); ++rank) {
      if (!std::binary_search(inside.begin(), inside.end(), rank)) others.push_back(rank);
    }
    if (others.empty()) continue;
    part.add(fmt::format("{} {} in {}, {} {} not", named(inside), inside.size() > 1 ? "are" : "is", call, named(others),
                         others.size() > 1 ? "are" : "is"));
  }
}

std::string tag_name(int tag) { return tag == PendingMessage::kAnyTagAtAll ? "any tag" : fmt::format("tag {}", tag); }

// What differs between a receive and a message of the same sender. Empty: too much.
std::string difference(const PendingMessage& asked, const PendingMessage& sent) {
  const bool same_tag = asked.tag == sent.tag || asked.tag == PendingMessage::kAnyTagAtAll;
  const bool same_communicator = asked.communicator == sent.communicator;
  if (same_communicator && !same_tag) return fmt::format("{} asked, {} sent", tag_name(asked.tag), tag_name(sent.tag));
  if (same_tag && !same_communicator) return fmt::format("{} asked, {} sent", asked.communicator, sent.communicator);
  return {};
}

// The message of its sender that comes nearest to what is asked for.
std::optional<std::pair<PendingMessage, std::string>> nearest(const PendingMessage& asked, const WaitReport& here) {
  for (const PendingMessage& sent : here.pending) {
    if (sent.kind != Kind::message || !sent.of_user) continue;
    if (asked.peer != PendingMessage::kAnyPeer && asked.peer != sent.peer) continue;
    if (std::string words = difference(asked, sent); !words.empty()) return std::pair(sent, words);
  }
  return std::nullopt;
}

bool asks_for(const RankView& rank, int sender) {
  const auto& pending = rank.report.wait().pending;
  return rank.report.waits() && std::any_of(pending.begin(), pending.end(), [&](const PendingMessage& asked) {
           return asked.kind == Kind::receive && asked.of_user && asked.peer == sender;
         });
}

void add_messages(const std::vector<RankView>& ranks, std::string& page) {
  PagePart part(page);
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].report.waits()) continue;
    const WaitReport& wait = ranks[i].report.wait();
    for (const PendingMessage& pending : wait.pending) {
      if (!pending.of_user) continue;
      if (pending.kind == Kind::receive) {
        part.add(fmt::format("rank {} asks for a message: {}", i, pending.text()));
        if (auto near = nearest(pending, wait)) {
          part.add(fmt::format("  rank {} has sent it: {} ({})", near->first.peer, near->first.text(), near->second));
        }
      } else if (pending.kind == Kind::send) {
        const bool known = size_t(pending.peer) < ranks.size();
        if (known && asks_for(ranks[size_t(pending.peer)], int(i))) continue;  // said there
        part.add(fmt::format("rank {} has sent a message that is not received: {}", i, pending.text()));
      } else if (pending.kind == Kind::moving) {
        part.add(fmt::format("a message of rank {} is on its way: {}", i, pending.text()));
      }
    }
    for (const std::string& note : wait.notes) part.add(fmt::format("rank {}: {}", i, note));
  }
}

// The only rank whose message this one waits for, or which must receive its message; -1: none, or several.
int awaited(const RankView& rank) {
  if (!rank.report.waits() || rank.report.wait().moving) return -1;
  int only = -1;
  for (const PendingMessage& pending : rank.report.wait().pending) {
    if (pending.kind == Kind::message) continue;
    if (pending.kind == Kind::moving) return -1;  // it waits for the network
    if (pending.peer < 0 || (only >= 0 && only != pending.peer)) return -1;
    only = pending.peer;
  }
  return only;
}

void add_circle(const std::vector<RankView>& ranks, std::string& page) {
  std::vector<int> seen_from(ranks.size(), -1);
  for (int start = 0; start < int(ranks.size()); ++start) {
    int at = start;
    while (at >= 0 && size_t(at) < ranks.size() && seen_from[size_t(at)] < 0) {
      seen_from[size_t(at)] = start;
      at = awaited(ranks[size_t(at)]);
    }
    if (at < 0 || size_t(at) >= ranks.size() || seen_from[size_t(at)] != start) continue;
    std::string circle = fmt::format("rank {} waits", at);
    for (int next = awaited(ranks[size_t(at)]); next != at; next = awaited(ranks[size_t(next)])) {
      circle += fmt::format(" for rank {}, which waits", next);
    }
    page += fmt::format("  {} for rank {}: they wait in a circle\n", circle, at);
    return;
  }
}

}  // namespace

std::string hang_page(const std::vector<RankView>& ranks) {
  std::string page;
  add_groups(ranks, page);
  add_missing(ranks, page);
  add_messages(ranks, page);
  if (!add_mismatch(ranks, page)) add_circle(ranks, page);
  if (!page.empty() && page.back() == '\n') page.pop_back();
  return page;
}

}  // namespace tern::mpiexec
