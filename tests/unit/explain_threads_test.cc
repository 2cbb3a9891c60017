// mpiexec --explain where ranks have threads: records of made-up runs, whose threads share cores, so that work takes
// now more, now less. Each thread has a communicator of its own; the thread that waits receives for all of its rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/rng.h"
#include "mpiexec/explain.h"
#include "mpiexec/records.h"
#include "mpiexec/timeline.h"

namespace tern::mpiexec {
namespace {

using record::Event;
using record::EventKind;

constexpr int kThreads = 2, kSteps = 60;
constexpr uint64_t kTransfer_ns = 3000;
enum Function : uint16_t { kInit, kIrecv, kIsend, kWait, kAllreduce };

struct Run {
  int ranks;
  uint64_t seed;
  uint64_t late_ns = 0;  ///< how much longer thread 1 of rank 0 computes before its message
};

class MadeUp {
 public:
  explicit MadeUp(const Run& run) : run_(run), rng_(run.seed), events_(size_t(run.ranks)) {
    for (int rank = 0; rank < run.ranks; ++rank) add(rank, 0, kInit, 1000, 2000, 0);
    for (int thread = 0; thread < kThreads; ++thread) play(thread);
  }

  Explanation explained() {
    char folder[] = "explain-test-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    for (int rank = 0; rank < run_.ranks; ++rank) write(folder, rank);
    Explanation explanation;
    {
      const Records records = read_records(folder);
      EXPECT_EQ(records.size(), size_t(run_.ranks));
      const Timeline timeline(records, 0);
      explanation = explain(timeline);
    }
    remove_records(folder);
    return explanation;
  }

 private:
  // A step: work, a message to the right and one from the left, work, a collective call.
  void play(int thread) {
    const auto n = size_t(run_.ranks);
    std::vector<uint64_t> now(n, 10'000), sent(n), began(n);
    for (int step = 0; step < kSteps; ++step) {
      for (size_t r = 0; r < n; ++r) {
        now[r] += work() + (thread == 1 && r == 0 ? run_.late_ns : 0);
        began[r] = now[r];
        sent[r] = now[r] + 600;
      }
      for (size_t r = 0; r < n; ++r) {
        const auto left = (r + n - 1) % n;
        const uint64_t there = std::max(sent[left] + kTransfer_ns, began[r] + 1200);
        add(int(r), thread, kIrecv, began[r], began[r] + 400, record::kComm | record::kSource | record::kTag, left);
        message(int(r), thread, EventKind::send, sent[r], (r + 1) % n);
        add(int(r), thread, kIsend, began[r] + 500, began[r] + 900, record::kComm | record::kDest | record::kTag);
        // The other thread may be the one that waits.
        message(int(r), rng_.chance(1, 2) ? thread : 1 - thread, EventKind::receive, there - 200, left, thread);
        add(int(r), thread, kWait, began[r] + 1000, there, 0);
        now[r] = there + work();
      }
      const uint64_t last = *std::max_element(now.begin(), now.end());
      for (size_t r = 0; r < n; ++r) {
        add(int(r), thread, kAllreduce, now[r], last + kTransfer_ns, record::kComm);
        now[r] = last + kTransfer_ns;
      }
    }
  }
  // Every tenth time another thread has the core first.
  uint64_t work() { return 300'000 + rng_.below(100'000) + (rng_.chance(1, 10) ? 4'000'000 : 0); }

  void add(int rank, int thread, Function function, uint64_t from, uint64_t to, int given, size_t source = 0) {
    Event event{};
    event.kind = EventKind::call;
    event.what = function;
    event.time_ns = from;
    event.duration_ns = to - from;
    event.thread = uint8_t(thread);
    event.given = uint16_t(given) & 0x1ff;
    event.context = context(thread);
    event.source = int32_t(source);
    events_[size_t(rank)].push_back(event);
  }
  void message(int rank, int by, EventKind kind, uint64_t at, size_t peer, int thread = -1) {
    Event event{};
    event.kind = kind;
    event.time_ns = at;
    event.duration_ns = kind == EventKind::receive ? 100 : 0;
    event.thread = uint8_t(by);
    event.peer = uint32_t(peer);
    event.context = context(thread < 0 ? by : thread);
    event.bytes = 64;
    events_[size_t(rank)].push_back(event);
  }
  static uint64_t context(int thread) { return uint64_t(thread + 5) << 2; }

  void write(const std::string& folder, int rank) {
    auto& events = events_[size_t(rank)];
    const auto end = [](const Event& e) { return e.time_ns + e.duration_ns; };
    std::stable_sort(events.begin(), events.end(), [&](const Event& a, const Event& b) { return end(a) < end(b); });
    std::string bytes(record::kEventsAt + events.size() * sizeof(Event), '\0');
    auto& header = *reinterpret_cast<record::Header*>(bytes.data());
    std::memcpy(header.magic, record::kMagic, sizeof header.magic);
    header.header_bytes = sizeof header;
    header.event_bytes = sizeof(Event);
    header.rank = rank;
    header.size = run_.ranks;
    header.threads = kThreads;
    header.finished = 1;
    header.first_ns = 1000;
    header.last_ns = end(events.back());
    header.events = events.size();
    header.functions = 5;
    std::strcpy(header.host, "host");
    std::strcpy(header.clock_domain, "made up");
    constexpr const char* kNames[] = {"MPI_Init_thread", "MPI_Irecv", "MPI_Isend", "MPI_Wait", "MPI_Allreduce"};
    for (size_t i = 0; i < 5; ++i) std::strcpy(header.totals[i].name, kNames[i]);
    std::memcpy(bytes.data() + record::kEventsAt, events.data(), events.size() * sizeof(Event));
    const std::string path = folder + "/" + std::to_string(rank);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    EXPECT_EQ(::write(file, bytes.data(), bytes.size()), ssize_t(bytes.size()));
    close(file);
  }

  const Run run_;
  Rng rng_;
  std::vector<std::vector<Event>> events_;
};

TEST(ExplainThreads, BalancedOnesGetNoAdvice) {
  for (const int ranks : {2, 4, 7}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Explanation explanation = MadeUp({ranks, seed}).explained();
      for (const Advice& advice : explanation.advice)
        ADD_FAILURE() << ranks << " ranks, seed " << seed << ": " << advice.rule << ": " << advice.text;
    }
  }
}

TEST(ExplainThreads, AThreadThatIsLateIsFound) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Explanation explanation = MadeUp({2, seed, 3'000'000}).explained();
    bool found = false;
    for (const Advice& advice : explanation.advice)
      found = found || (std::string(advice.rule) == "late_sender" && advice.text.starts_with("rank 0 sends "));
    EXPECT_TRUE(found) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tern::mpiexec
