// Fuzz target: the pages of memory that mpiexec --top reads from running ranks, at two looks. A faulty program may have
// written anything there.
#include <signal.h>

#include <cstring>
#include <memory>
#include <span>

#include "base/rank_page.h"
#include "fuzz.h"
#include "top/page_view.h"
#include "top/top.h"

using namespace tern;
using namespace tern::top;

namespace {

constexpr int kProcess = 4711;

void check(const TopRank& shown) {
  for (const TopOrder order :
       {TopOrder::rank, TopOrder::in_mpi, TopOrder::messages, TopOrder::bytes, TopOrder::memory}) {
    const auto lines = top_lines({shown, shown}, order);
    TERN_FUZZ_CHECK(lines.size() == 3);
    for (const std::string& line : lines) {
      TERN_FUZZ_CHECK(line.size() < 400);
      for (const char c : line) TERN_FUZZ_CHECK(c >= ' ' && c <= '~');  // a terminal obeys others
    }
  }
}

std::string page(int process, int rank) {
  auto made = std::make_unique<RankPage>();
  std::memcpy(made->magic, RankPage::kMagic, sizeof made->magic);
  made->bytes = sizeof(RankPage);
  made->process = process;
  made->rank = rank;
  made->size = 4;
  made->signal = SIGRTMAX - 3;
  std::strcpy(made->host, "node1");
  std::strcpy(made->call, "MPI_Recv");
  made->samples = made->samples_inside = 7;
  made->place = 0x401234;
  const std::string bytes(reinterpret_cast<const char*>(made.get()), sizeof *made);
  return bytes;
}

}  // namespace

// Two pages, one behind the other; what is missing of the second is as in the first.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const size_t first_bytes = std::min(bytes, sizeof(RankPage));
  std::vector<std::byte> now(first_bytes);
  if (first_bytes != 0) std::memcpy(now.data(), data, first_bytes);
  const auto first = read_page(now, kProcess);
  TERN_FUZZ_CHECK(!first || bytes >= sizeof(RankPage));
  const size_t more = std::min(bytes - first_bytes, sizeof(RankPage));
  if (more != 0) std::memcpy(now.data(), data + first_bytes, more);
  const auto second = read_page(now, kProcess);
  for (const auto& view : {first, second}) {
    if (!view) continue;
    TERN_FUZZ_CHECK(view->rank >= -1);
    TERN_FUZZ_CHECK(view->signal == 0 || (view->signal >= SIGRTMIN && view->signal <= SIGRTMAX));
    TERN_FUZZ_CHECK(view->host.size() <= sizeof RankPage::host && view->call.size() <= sizeof RankPage::call);
    TopRank shown;
    shown.rank = view->rank;
    shown.host = view->host;
    shown.waits = view->call;
    show_counters(shown, view->counters, first ? &first->counters : nullptr, 0.25);
    TERN_FUZZ_CHECK(shown.bytes_s >= 0 && shown.messages_s >= 0);
    check(shown);
  }
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  const std::string one = page(kProcess, 2), other = page(kProcess + 1, 0);
  std::string wild = one, ends_nowhere = one;
  std::memset(wild.data() + offsetof(RankPage, rank), 0xff, wild.size() - offsetof(RankPage, rank));
  std::memset(ends_nowhere.data() + offsetof(RankPage, host), '\x1b', sizeof RankPage::host);
  std::memset(ends_nowhere.data() + offsetof(RankPage, call), 'x', sizeof RankPage::call);
  return {"", one, other, one + one, one + wild, wild + one, ends_nowhere, one.substr(0, one.size() - 1)};
}
