// Fuzz target: what ranks tell each other with TERN_CHECK, and the judge's comparison of it.
#include "check/compare.h"
#include "fuzz.h"
#include "wire/check.h"

using namespace tern;
using namespace tern::wire;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string_view input(reinterpret_cast<const char*>(data), bytes);
  CheckedMessage message;
  std::string_view text;
  if (parse_checked_message(input, message, text)) TERN_FUZZ_CHECK(build_checked_message(message, text) == input);
  CheckVerdict verdict;
  if (parse_verdict(input, verdict, text)) TERN_FUZZ_CHECK(build_verdict(verdict, text) == input);
  CheckedCollective call, again;
  if (!parse_checked_collective(input, call)) return 0;
  TERN_FUZZ_CHECK(call.sends.size() <= 1 || call.sends.size() == size_t(call.ranks));
  TERN_FUZZ_CHECK(parse_checked_collective(build_checked_collective(call), again));
  TERN_FUZZ_CHECK(again.function == call.function && again.place == call.place && again.rank == call.rank);
  // As the judge compares it with calls that are right.
  if (call.ranks > 16) return 0;
  std::vector<CheckedCollective> calls(size_t(call.ranks), call);
  for (int i = 0; i < call.ranks; ++i) calls[size_t(i)].rank = i;
  const Error error = check::compare_calls(calls);
  TERN_FUZZ_CHECK(!error || !error.text().empty());
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  const TypeSummary ints = {.elements = 4, .hash = 99, .bytes = 16, .basic = 0x209, .flags = 0};
  std::vector<std::string> corpus = {
      build_checked_message({.context = 4, .tag = 7, .number = 3, .type = ints}, "f (a.c:7)"),
      build_verdict({.context = 4, .sequence = 9, .error_class = 2}, "they differ")};
  for (uint8_t operation = 0; operation < 20; ++operation) {
    CheckedCollective call;
    call.context = 4;
    call.ranks = 3;
    call.rank = operation % 3;
    call.operation = operation;
    call.sends.assign(operation % 2 ? 3 : 1, ints);
    call.receives.assign(operation % 4 < 2 ? 3 : 1, ints);
    call.function = "MPI_Bcast";
    call.place = "main (a.c:7)";
    corpus.push_back(build_checked_collective(call));
  }
  return corpus;
}
