// Fuzz target: the bodies by which tuple queues are made and ended.
#include "fuzz.h"
#include "wire/tuples.h"

using namespace tern;

namespace {

template <typename Body>
void parse_and_build(const std::byte* data, size_t bytes) {
  Body body{};
  if (!wire::parse_body(data, bytes, body)) {
    TERN_FUZZ_CHECK(bytes != sizeof body);
    return;
  }
  TERN_FUZZ_CHECK(bytes == sizeof body && std::memcmp(&body, data, bytes) == 0);
}

template <typename Body>
std::string text(const Body& body) {
  return {reinterpret_cast<const char*>(&body), sizeof body};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* start = reinterpret_cast<const std::byte*>(data);
  parse_and_build<wire::TupleAskBody>(start, bytes);
  parse_and_build<wire::TupleAnswerBody>(start, bytes);
  parse_and_build<wire::TupleOwedBody>(start, bytes);
  parse_and_build<wire::TupleStoppedBody>(start, bytes);
  parse_and_build<wire::TupleRepairBody>(start, bytes);
  parse_and_build<wire::TupleResumeBody>(start, bytes);
  parse_and_build<wire::TupleLostBody>(start, bytes);
  parse_and_build<wire::TupleLandedBody>(start, bytes);
  parse_and_build<wire::TupleWantBody>(start, bytes);
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  return {"",
          text(wire::TupleAskBody{}),
          text(wire::TupleAnswerBody{7, 0, {1}}),
          text(wire::TupleOwedBody{100, 3, 9, 12, 1, 1, 0}),
          text(wire::TupleStoppedBody{4, 0}),
          text(wire::TupleRepairBody{5, 0, {2}}),
          text(wire::TupleResumeBody{2, 0, {}}),
          text(wire::TupleLostBody{3, 0}),
          text(wire::TupleLandedBody{4, 1}),
          text(wire::TupleWantBody{5, 6})};
}
