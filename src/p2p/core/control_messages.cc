#include "p2p/core/control_messages.h"

#include <algorithm>

#include "base/assert.h"

namespace tern {

namespace {
/// Releases to one peer that wait for a message to take them along.
constexpr size_t kMaxOwed = 4;
/// Names in one message of kind release, which so stays within kAlwaysWholeBytes.
constexpr size_t kMaxInOneMessage = 16;
static_assert(kMaxInOneMessage * sizeof(uint16_t) <= kAlwaysWholeBytes);
/// Releases wait for so many empty polls: some 10 us of a rank that polls shared memory.
constexpr uint32_t kMaxRounds = 256;
}  // namespace

void ControlMessages::post(Endpoint& to, const wire::Header& plain, const void* payload, size_t bytes) {
  if (to.lost()) return;  // its requests are completed with an error when it is lost
  wire::Header header = plain;
  header.carried = carry_release(to);
  endpoints_.post(to, header, payload, bytes);
}

void ControlMessages::acknowledge(Endpoint& to, const wire::Header& message) {
  const bool wanted = message.kind == wire::Kind::direct ? (message.flags & wire::kWantsAck) != 0
                                                         : message.kind == wire::Kind::eager_sync;
  if (wanted) post(to, wire::make_control_header(wire::Kind::sync_ack, message.token));
}

void ControlMessages::owe_release(Endpoint& to, uint16_t name) {
  TERN_ASSERT(name != 0);
  if (to.owed_releases.empty()) owing_.push_back(&to);
  to.owed_releases.push_back(name);
  rounds_ = 0;
  if (to.owed_releases.size() >= kMaxOwed) flush_releases(to);
  want(!owing_.empty());
}

uint16_t ControlMessages::carry_release(Endpoint& to) {
  if (owing_.empty() || to.owed_releases.empty()) return 0;
  const uint16_t name = to.owed_releases.back();
  to.owed_releases.pop_back();
  if (to.owed_releases.empty()) forget(to);
  return name;
}

void ControlMessages::flush_releases(Endpoint& to) {
  if (to.owed_releases.empty()) return;
  std::vector<uint16_t> names;
  names.swap(to.owed_releases);
  forget(to);
  for (size_t at = 0; at < names.size(); at += kMaxInOneMessage) {
    const size_t n = std::min(kMaxInOneMessage, names.size() - at);
    post(to, wire::make_control_header(wire::Kind::release, 0), &names[at], n * sizeof names[0]);
  }
}

bool ControlMessages::flush_all_releases() {
  const bool any = !owing_.empty();
  while (!owing_.empty()) flush_releases(*owing_.back());
  return any;
}

void ControlMessages::forget(Endpoint& peer) {
  peer.owed_releases.clear();
  std::erase(owing_, &peer);
  want(!owing_.empty());
}

int ControlMessages::advance() {
  // Outside of a poll this rank is about to sleep.
  if (progress_.polling() && ++rounds_ < kMaxRounds) return 0;
  rounds_ = 0;
  return flush_all_releases();
}

}  // namespace tern
