// Fuzz target: what a launcher says in PMI-1, cut into pieces as sockets do, its mapping of ranks to nodes, and PMIx's
// list of the ranks on this node.
#include <algorithm>

#include "fuzz.h"
#include "process/launch/pmi_text.h"

using namespace tern;

namespace {

void parse_line(std::string_view text) {
  const PmiLine line(text);
  TERN_FUZZ_CHECK(line.command().size() <= text.size());
  for (const char* name : {"cmd", "rc", "value", "size", "kvsname", ""}) {
    const std::string_view value = line[name];
    TERN_FUZZ_CHECK(value.empty() ||
                    (value.data() >= text.data() && value.data() + value.size() <= text.data() + text.size()));
    TERN_FUZZ_CHECK(line.has(name) || value.empty());
    (void)line.number(name, -1);
  }
  const int size = 1 + int(text.size() % 100), rank = int(text.size() % size_t(size));
  for (const std::vector<int>& ranks :
       {parse_process_mapping(line["value"], rank, size), parse_rank_list(line["value"], rank, size)}) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      TERN_FUZZ_CHECK(ranks[i] >= 0 && ranks[i] < size && (i == 0 || ranks[i - 1] < ranks[i]));
    }
    TERN_FUZZ_CHECK(ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end());
  }
  TERN_FUZZ_CHECK(!parse_rank_list(text, rank, size).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  PmiLines lines;
  const char* text = reinterpret_cast<const char*>(data);
  size_t given = 0, taken = 0;
  while (given < bytes) {
    const size_t piece = std::min(bytes - given, size_t{1} + data[given] % 64);
    lines.append(text + given, piece);
    given += piece;
    for (std::string_view line; lines.next(line);) {
      taken += line.size() + 1;
      TERN_FUZZ_CHECK(taken <= given && line.find('\n') == std::string_view::npos);
      parse_line(line);
    }
    TERN_FUZZ_CHECK(lines.pending() == given - taken);
  }
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  return {"",
          "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
          "cmd=get_result rc=0 value=(vector,(0,2,2),(4,1,3))\ncmd=barrier_out\n",
          "cmd=get_result rc=0 msg=success value=(vector,(0,16,1))\n",
          "cmd=get_result rc=0 value=0,1,2,3,3,17\n0,2,2,99999999999999999999\n",
          "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
          "cmd= =x value rc=99999999999999999999\n\n\ncmd=get_result value=(vector,(0,0,0),(1,-1,2147483647),\n"};
}
