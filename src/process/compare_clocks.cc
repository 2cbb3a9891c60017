#include "process/compare_clocks.h"

#include <algorithm>
#include <cstring>

#include "datatype/predefined.h"

namespace tern {
namespace {

constexpr int kQuestions = 20;        // the quickest of so many is rarely disturbed by the scheduler
constexpr size_t kDomainBytes = 128;  // Recorder's text of a clock is shorter

/// A message of one rank to another: plain bytes in the internal plane of MPI_COMM_WORLD.
class Talk {
 public:
  Talk(Process& process, int partner, int tag)
      : process_(process), byte_(types_.get(type_id::kByte)), partner_(partner), tag_(tag) {}
  bool send(const void* data, size_t bytes) {
    const Error error = process_.p2p().send(process_.world().send_arguments(
        data, Count(bytes), byte_, partner_, tag_, SendMode::standard, Communicator::Plane::internal));
    return !error;
  }
  bool receive(void* data, size_t bytes) {
    Status status;
    const Error error = process_.p2p().receive(
        process_.world().receive_arguments(data, Count(bytes), byte_, partner_, tag_, Communicator::Plane::internal),
        status);
    return !error;
  }

 private:
  Process& process_;
  PredefinedTypes types_;
  const Datatype& byte_;
  int partner_, tag_;
};

void answer(Process& process, int rank, int tag, const char* domain) {
  Talk talk(process, rank, tag);
  char theirs[kDomainBytes];
  if (!talk.receive(theirs, sizeof theirs)) return;
  const uint8_t same = std::memcmp(theirs, domain, sizeof theirs) == 0;
  if (!talk.send(&same, 1) || same) return;
  uint8_t question;
  for (int i = 0; i < kQuestions && talk.receive(&question, 1); ++i) {
    const uint64_t now = process.clock().now_ns();
    if (!talk.send(&now, sizeof now)) return;
  }
}

record::ClockSample ask(Process& process, int tag, const char* domain) {
  Talk talk(process, 0, tag);
  record::ClockSample best{process.clock().now_ns(), 0, 0};
  uint8_t same = 0;
  if (!talk.send(domain, kDomainBytes) || !talk.receive(&same, 1) || same) return best;
  best.round_trip_ns = ~uint64_t{0};
  for (int i = 0; i < kQuestions; ++i) {
    const uint8_t question = 0;
    uint64_t theirs = 0;
    const uint64_t before = process.clock().now_ns();
    if (!talk.send(&question, 1) || !talk.receive(&theirs, sizeof theirs)) break;
    const uint64_t after = process.clock().now_ns(), took = after - before;
    if (took >= best.round_trip_ns) continue;
    best = {after, int64_t(theirs + took / 2) - int64_t(after), std::max<uint64_t>(took, 1)};
  }
  return best;
}

}  // namespace

record::ClockSample compare_clocks(Process& process, const std::string& domain) {
  char text[kDomainBytes] = {};
  std::memcpy(text, domain.data(), std::min(domain.size(), kDomainBytes));
  const int tag = process.world().next_collective_tag();
  if (process.world_rank() != 0) return ask(process, tag, text);
  for (int rank = 1; rank < process.world_size(); ++rank) answer(process, rank, tag, text);
  return {process.clock().now_ns(), 0, 0};
}

}  // namespace tern
