// Fuzz target: what ranks tell mpiexec about what they wait for, and the page that mpiexec makes of it.
#include "fuzz.h"
#include "mpiexec/hang_page.h"
#include "mpiexec/rank_errors.h"
#include "process/launch/pmi_text.h"

using namespace tern;
using namespace tern::mpiexec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  constexpr size_t kRanks = 4;
  std::vector<RankView> views(kRanks);
  PmiLines lines;
  lines.append(reinterpret_cast<const char*>(data), bytes);
  size_t count = 0;
  for (std::string_view line; lines.next(line); ++count) {
    RankView& view = views[count * 2654435761u / 7 % kRanks];
    if (!view.report.take(line, 7)) view.stage = RankView::Stage(line.size() % 5);
    if (line.size() % 11 == 0) view.report.ask();
    TERN_FUZZ_CHECK(view.report.wait().pending.size() <= PendingMessage::kKinds * kMaxReported);
    TERN_FUZZ_CHECK(view.report.wait().notes.size() <= kMaxReported);
    TERN_FUZZ_CHECK(view.report.pid() >= 0 && view.report.signal() >= 0);
  }
  std::vector<RankError> errors;
  for (size_t i = 0; i < kRanks; ++i) {
    errors.push_back({int(i), views[i].report.take_error()});
    TERN_FUZZ_CHECK(errors[i].lines.size() <= kMaxErrorLines && !views[i].report.has_error());
  }
  const std::string page = hang_page(views) + folded(errors);
  TERN_FUZZ_CHECK(!page.empty() && page.size() < 1'000'000);
  for (char c : page) TERN_FUZZ_CHECK(c == '\n' || static_cast<unsigned char>(c) >= ' ');
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  WaitReport report;
  report.told = report.certain = true;
  report.waited_ms = 10000;
  report.call = "MPI_Recv";
  report.place = "main (a.c:7)";
  report.collective = "MPI_COMM_WORLD, root 0";
  report.moving = true;
  std::vector<std::string> corpus = {"", "cmd=tern_hello signal=61 pid=123 pids=7\ncmd=tern_going\n",
                                     "cmd=tern_place inside=1 call=MPI_Bcast text=main (a.c:7)\n"};
  for (int peer = 0; peer < 4; ++peer) {
    report.pending.push_back({PendingMessage::Kind(peer), 0, "MPI_COMM_WORLD", true, peer, peer, 7 + peer, 4});
    report.notes.push_back("window 3: the lock of rank 1 has been asked for");
    corpus.push_back(to_lines(report) + to_lines(report) + to_lines(report));
  }
  corpus.push_back("cmd=tern_failing\n" +
                   error_lines("[tern rank 1] MPI_Send: (rank 1 in MPI_COMM_WORLD)\nmore", "[tern rank 1] "));
  return corpus;
}
