#include "fabric/tcp/call_policy.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"

namespace tern::tcp {
namespace {

// If there are other addresses to try, one that does not answer gets this long: a thousand round trips of a network,
// and two repetitions of the call (after 1 s each).
constexpr uint64_t kAttempt_ns = 2 * kSecond_ns;
// The same for a peer that has been connected before (its address is right).
constexpr uint64_t kRepeatedAttempt_ns = kSecond_ns;
// Rounds in which every address refused: the peer listened when it published its card, so it has ended. More than one,
// since a router may refuse once in a peer's name.
constexpr int kRefusedRounds = 3;
// How long a host may take to answer a question, when nothing else of it answers: two repetitions of the call.
constexpr uint64_t kHostAnswer_ns = 3 * kSecond_ns;
// Pause before all addresses are tried again, doubled up to a second: short for a peer whose process is starting, and a
// round a second costs a lost peer's host nothing.
constexpr uint64_t kFirstPause_ns = 20 * kMillisecond_ns, kMaxPause_ns = kSecond_ns;

}  // namespace

void CallPolicy::begin(std::vector<TcpCandidate> ways, size_t stream, uint64_t now_ns, uint64_t limit_ns) {
  TERN_DEBUG_ASSERT(!ways.empty());
  ways_ = std::move(ways);
  limit_ns_ = limit_ns;
  extend(now_ns);
  next_ = 0;
  rounds_ = hang_ups_ = 0;
  forget_round();
  std::vector<uint32_t> networks;  // in the order of their first addresses
  for (const TcpCandidate& way : ways_) {
    if (std::find(networks.begin(), networks.end(), way.network) == networks.end()) networks.push_back(way.network);
  }
  const uint32_t own = networks[stream % networks.size()];
  std::stable_partition(ways_.begin(), ways_.end(), [own](const TcpCandidate& way) { return way.network == own; });
}

void CallPolicy::succeed() {
  again_ = true;
  closed_ = false;
  rounds_ = 0;
  next_ = 0;
  host_.forget();
}

void CallPolicy::forget_round() {
  only_refusals_ = true;
  refused_ = unanswered_ = false;
}

const TcpCandidate* CallPolicy::next(bool own_network) {
  if (next_ == 0) tried_.clear();
  if (next_ == ways_.size()) return nullptr;
  const TcpCandidate& way = ways_[next_++];
  return own_network && way.network != ways_.front().network ? nullptr : &way;
}

uint64_t CallPolicy::attempt_ends_ns(uint64_t now_ns) const {
  if (again_) return now_ns + kRepeatedAttempt_ns;
  const bool last = next_ == ways_.size();
  return last ? std::max(give_up_ns_, now_ns + kAttempt_ns) : now_ns + kAttempt_ns;
}

void CallPolicy::failed(std::string what, Failure why, bool connected, uint64_t now_ns) {
  TERN_DEBUG_ASSERT(!what.empty());
  tried_.push_back(std::move(what));
  refused_ = refused_ || why == Failure::refused;
  unanswered_ = unanswered_ || why == Failure::unanswered;
  if (connected || why == Failure::unreachable || why == Failure::unanswered) only_refusals_ = false;
  // The peer was alive, perhaps for a long time before it answered: the time limit starts again.
  if (connected && hang_ups_++ == 0 && !again_) extend(now_ns);
}

void CallPolicy::avoid(uint32_t network) {
  const auto other = std::find_if(ways_.begin(), ways_.end(), [&](auto& way) { return way.network != network; });
  if (other != ways_.end()) next_ = size_t(other - ways_.begin());
}

// All addresses are tried again later, unless the peer is certainly lost.
CallPolicy::Outcome CallPolicy::end_round(StreamPort& port, uint64_t now_ns) {
  next_ = 0;
  ++rounds_;
  // An address that accepted calls and now refuses them means that the process has ended, whatever other addresses say;
  // if its connection was closed too, that is certain.
  if ((again_ ? refused_ : only_refusals_) && (closed_ || rounds_ >= kRefusedRounds)) return Outcome::lost;
  Outcome outcome = Outcome::pause;
  if (now_ns >= give_up_ns_ && unanswered_ && host_answers(port, now_ns)) {
    // Its process is alive, or its kernel would refuse the call; but it does not accept calls: it computes, and
    // others have filled its queue.
    extend(now_ns);
    outcome = Outcome::host_lives;
  }
  if (now_ns >= give_up_ns_ + (host_.asked() ? kHostAnswer_ns : 0)) return Outcome::lost;
  forget_round();
  return outcome;
}

// Asks the peer's host if that was not done yet; true when it has answered.
bool CallPolicy::host_answers(StreamPort& port, uint64_t now_ns) {
  if (host_.answered(port)) return true;
  if (!host_.asked()) {
    const TcpCandidate& way = ways_[size_t(rounds_) % ways_.size()];
    host_.ask(port, SocketAddress(way.address, way.scope));
    give_up_ns_ = now_ns;  // a round may have ended long after it: the answer's time starts now
  }
  return false;
}

uint64_t CallPolicy::pause_ns() const { return std::min(kMaxPause_ns, kFirstPause_ns << std::min(rounds_, 6)); }

std::string CallPolicy::troubles() const {
  std::string all;
  for (const std::string& one : tried_) all += (all.empty() ? "" : "; ") + one;
  return all;
}

bool CallPolicy::wants_back_from(uint32_t network) const {
  return !ways_.empty() && ways_.front().network != 0 && ways_.front().network != network;
}

}  // namespace tern::tcp
