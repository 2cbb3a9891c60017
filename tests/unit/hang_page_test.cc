// What mpiexec makes of the ranks' reports (tools/mpiexec/hang_page.h), and their way there (rank_report.h).
#include "tools/mpiexec/hang_page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "process/launch/pmi_text.h"

namespace tern::mpiexec {
namespace {

using Kind = PendingMessage::Kind;
using Stage = RankView::Stage;

/// The view of a rank that waits, after its report has gone over the wire.
RankView waiting(const std::string& call, std::vector<PendingMessage> pending, uint64_t ms = 3000,
                 const std::string& collective = "") {
  WaitReport report;
  report.call = call;
  report.place = "main (a.c:7)";
  report.waited_ms = ms;
  report.collective = collective;
  report.pending = std::move(pending);
  RankView view;
  const std::string text = to_lines(report);
  PmiLines lines;
  lines.append(text.data(), text.size());
  for (std::string_view line; lines.next(line);) EXPECT_TRUE(view.report.take(line, 0)) << line;
  EXPECT_TRUE(view.report.waits());
  return view;
}

PendingMessage pending(Kind kind, int peer, int tag, const char* communicator = "MPI_COMM_WORLD") {
  return {kind, 0, communicator, true, peer, peer, tag, 4};
}

TEST(HangPage, GroupsAndTheMissingRank) {
  RankView computing;
  computing.alone_ms = 12'000;
  computing.report.take("cmd=tern_place inside=0 call=MPI_Send text=solve (b.c:9)", 0);
  const std::string page = hang_page(
      {waiting("MPI_Barrier", {}, 3000), waiting("MPI_Barrier", {}, 12'000), computing, {Stage::not_started}});
  EXPECT_EQ(page,
            "  ranks 0-1: waiting in MPI_Barrier, called at main (a.c:7); nothing has come for 3.0 to 12 s\n"
            "  rank 2: not in an MPI call, running for 12 s, at solve (b.c:9); its last call was MPI_Send\n"
            "  rank 3: has not called MPI_Init\n"
            "  ranks 0-1 are in MPI_Barrier, ranks 2-3 are not");
}

TEST(HangPage, TagsAndCommunicatorsSideBySide) {
  std::string page =
      hang_page({waiting("MPI_Recv", {pending(Kind::receive, 1, 7), pending(Kind::message, 1, 8)}),
                 waiting("MPI_Recv", {pending(Kind::receive, 0, 1, "context 9"), pending(Kind::message, 0, 1)})});
  EXPECT_NE(page.find("(tag 7 asked, tag 8 sent)"), std::string::npos) << page;
  EXPECT_NE(page.find("(context 9 asked, MPI_COMM_WORLD sent)"), std::string::npos) << page;
  EXPECT_NE(page.find("rank 0 waits for rank 1, which waits for rank 0: they wait in a circle"), std::string::npos)
      << page;
}

TEST(HangPage, CirclesNeedOneRankEach) {
  // Rank 0 may go on by either of two messages, so there is no circle.
  const std::string page =
      hang_page({waiting("MPI_Waitany", {pending(Kind::receive, 1, 7), pending(Kind::receive, 2, 7)}),
                 waiting("MPI_Recv", {pending(Kind::receive, 0, 7)}), RankView()});
  EXPECT_EQ(page.find("circle"), std::string::npos) << page;
}

TEST(HangPage, NoCircleOverAMessageThatIsOnItsWay) {
  const std::string page = hang_page(
      {waiting("MPI_Send", {pending(Kind::moving, 1, 7)}), waiting("MPI_Recv", {pending(Kind::receive, 0, 7)})});
  EXPECT_EQ(page.find("circle"), std::string::npos) << page;
  EXPECT_NE(page.find("a message of rank 0 is on its way: MPI_COMM_WORLD, to rank 1"), std::string::npos) << page;
}

TEST(HangPage, CollectivesThatDoNotMatchAreNoCircle) {
  const auto inside = [](const char* collective, int other) {
    PendingMessage inner = pending(Kind::receive, other, 0, "x (collective)");
    inner.of_user = false;
    return waiting("MPI_Bcast", {inner}, 3000, collective);
  };
  const std::string page = hang_page({inside("MPI_COMM_WORLD, root 0", 1), inside("MPI_COMM_WORLD, root 1", 0)});
  EXPECT_NE(page.find("rank 0: waiting in MPI_Bcast on MPI_COMM_WORLD, root 0, called at"), std::string::npos) << page;
  EXPECT_NE(page.find("rank 1 is in MPI_Bcast on MPI_COMM_WORLD, root 1"), std::string::npos) << page;
  EXPECT_NE(page.find("TERN_CHECK=1"), std::string::npos) << page;
  EXPECT_EQ(page.find("circle"), std::string::npos) << page;
}

TEST(HangPage, ASendThatNobodyTakes) {
  const std::string page = hang_page({waiting("MPI_Send", {pending(Kind::send, 1, 3)}), {Stage::finalized}});
  EXPECT_NE(page.find("rank 0 has sent a message that is not received: MPI_COMM_WORLD, to rank 1 of MPI_COMM_WORLD, "
                      "tag 3, 4 bytes"),
            std::string::npos)
      << page;
}

TEST(RankReport, WhatIsTrueOnlyUntilTheNextQuestion) {
  RankReport report;
  EXPECT_FALSE(report.take("cmd=put kvsname=a", 5));
  EXPECT_TRUE(report.take("cmd=tern_hello signal=61 pid=123 pids=5", 5));
  EXPECT_EQ(report.pid(), 123);
  EXPECT_TRUE(report.take("cmd=tern_hello signal=61 pid=123 pids=6", 5));
  EXPECT_EQ(report.signal(), 0) << "a process of another container";
  report.take("cmd=tern_wait told=0 certain=1 ms=5 call=MPI_Recv text=x", 5);
  EXPECT_FALSE(report.waits()) << "its end has not come";
  report.take("cmd=tern_wait_end", 5);
  EXPECT_TRUE(report.waits());
  EXPECT_FALSE(report.stalled());
  report.ask();
  EXPECT_FALSE(report.waits());
  report.take("cmd=tern_wait told=1 certain=1 ms=10000 call=MPI_Recv text=x", 5);
  report.take("cmd=tern_wait_end", 5);
  report.ask();
  EXPECT_TRUE(report.stalled() && report.waits());
  report.take("cmd=tern_going", 5);
  EXPECT_FALSE(report.stalled() || report.waits());
}

TEST(RankReport, MemoryThatTellsOfActivity) {
  const Activity activity{{{4096, 64}, {8192, 8}, {}}};
  RankReport report;
  const std::string line = hello_line(61, activity);
  EXPECT_TRUE(report.take(std::string_view(line).substr(0, line.size() - 1), process_numbers()));
  EXPECT_EQ(report.signal(), 61);
  EXPECT_EQ(report.activity()[0].at, 4096u);
  EXPECT_EQ(report.activity()[1].bytes, 8u);
  EXPECT_EQ(report.activity()[2].bytes, 0u);
  report.take("cmd=tern_hello signal=61 pid=123 pids=5 at0=4096 bytes0=99999999 at1=-8 bytes1=8", 5);
  EXPECT_EQ(report.activity()[0].bytes + report.activity()[1].bytes, 0u) << "more than is trusted";
}

TEST(RankReport, TextCannotBringFieldsOrLines) {
  WaitReport report;
  report.place = "f (x cmd=tern_going certain=1\ncmd=abort exitcode=3.c:1)";
  const std::string text = to_lines(report);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  RankReport read;
  read.take(std::string_view(text).substr(0, text.find('\n')), 0);
  read.take("cmd=tern_wait_end", 0);
  EXPECT_FALSE(read.wait().certain);
}

}  // namespace
}  // namespace tern::mpiexec
