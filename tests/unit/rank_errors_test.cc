// How mpiexec prints the errors of several ranks (tools/mpiexec/rank_errors.h), and their way there (rank_report.h).
#include "tools/mpiexec/rank_errors.h"

#include <gtest/gtest.h>

#include "process/launch/pmi_text.h"

namespace tern::mpiexec {
namespace {

RankError error_of(int rank, const std::string& text) {
  RankReport report;
  PmiLines lines;
  const std::string sent = error_lines(rank_prefix(rank) + text, rank_prefix(rank));
  lines.append(sent.data(), sent.size());
  for (std::string_view line; lines.next(line);) EXPECT_TRUE(report.take(line, 0)) << line;
  EXPECT_TRUE(report.is_failing());
  return {rank, report.take_error()};
}

TEST(RankErrors, OfOneRankAsItIs) {
  EXPECT_EQ(folded({error_of(3, "MPI_Send: wrong (rank 3 in MPI_COMM_WORLD). Remedy.\nCalled at main (a.c:7).")}),
            "[tern rank 3] MPI_Send: wrong (rank 3 in MPI_COMM_WORLD). Remedy.\nCalled at main (a.c:7).\n");
}

TEST(RankErrors, ThatDifferInRankAndAddressAreOne) {
  std::vector<RankError> errors;
  for (int rank : {5, 0, 1, 2}) {
    errors.push_back(error_of(rank, "MPI_Send: wrong (rank " + std::to_string(rank) + " in MPI_COMM_WORLD), at 0x7f" +
                                        std::to_string(rank) + "0."));
  }
  EXPECT_EQ(folded(errors), "[tern ranks 0-2,5] MPI_Send: wrong, at 0x7f50.\n");
}

TEST(RankErrors, ThatNameOtherRanksStayApart) {
  const std::string said = folded({error_of(0, "rank 7 has ended"), error_of(1, "rank 6 has ended")});
  EXPECT_EQ(said, "[tern rank 0] rank 7 has ended\n[tern rank 1] rank 6 has ended\n");
}

TEST(RankErrors, ALongTextIsCutAndControlCharactersAreNone) {
  std::string text(3 * kMaxErrorText, 'x');
  text += "\n\033[2J";
  const RankError error = error_of(0, text);
  EXPECT_EQ(error.lines[0].text.size(), kMaxErrorText);
  EXPECT_EQ(error.lines[1].text, " [2J");
}

}  // namespace
}  // namespace tern::mpiexec
