#include "rma/environment.h"

#include <algorithm>

#include "base/assert.h"
#include "rma/window.h"
#include "wire/window.h"

namespace tern::rma {

namespace {
/// A message that is taken apart when all of it is here: records.
struct Gathered {
  std::vector<std::byte> bytes;
};
enum LandingKind : int { kThrownAway, kGathered, kOfWindow };
}  // namespace

Environment::Environment(PointToPoint& p2p, std::function<uint64_t()> new_context, bool shares_cores)
    : p2p_(p2p),
      new_context_(std::move(new_context)),
      transfer_from_bytes_(size_t(p2p.tunables().rma_transfer_bytes)),
      shares_cores_(shares_cores) {
  progress().add(word_poller_);
  endpoints().register_kinds(wire::kFirstWindowKind, wire::kLastWindowKind, *this);
}

Environment::~Environment() = default;

int WordPoller::poll() {
  int done = 0;
  bool dormant = true;
  for (const Waiter& waiter : waiters_) {
    if (!waiter.hints->dormant) done += waiter.pollable->poll();
    dormant = dormant && waiter.hints->dormant;
  }
  hints_.dormant = dormant;
  return done;
}

bool WordPoller::arm() {
  if (std::all_of(waiters_.begin(), waiters_.end(), [](const Waiter& one) { return one.pollable->arm(); })) return true;
  disarm();
  return false;
}

void WordPoller::disarm() {
  for (const Waiter& waiter : waiters_) waiter.pollable->disarm();
}

uint64_t WordPoller::next_deadline_ns() const {
  uint64_t next = ~uint64_t{0};
  for (const Waiter& waiter : waiters_) next = std::min(next, waiter.pollable->next_deadline_ns());
  return next;
}

void Environment::add(Window& window) {
  TERN_DEBUG_ASSERT(!windows_.contains(window.id()));
  windows_[window.id()] = &window;
  if (window.serves()) ++serving_;
  if (window.wants_polls()) progress().keep_awake(true);
}

void Environment::remove(Window& window) {
  if (last_ == &window) last_ = nullptr;
  if (windows_.erase(window.id()) == 0) return;
  TERN_DEBUG_ASSERT(!window.serves() || serving_ != 0);
  if (window.serves()) --serving_;
  if (window.wants_polls()) progress().keep_awake(false);
}

Window* Environment::window_of(const Endpoint& from, const wire::Header& header) {
  if (!last_ || last_->id() != header.context) {
    const auto found = windows_.find(header.context);
    if (found == windows_.end()) return nullptr;
    last_ = found->second;
    TERN_DEBUG_ASSERT(last_->id() == header.context);
  }
  last_->close_gate();
  const Group& group = last_->comm().group();
  const bool right = header.source >= 0 && header.source < group.size() && group.peer(header.source) == from.peer;
  return right ? last_ : nullptr;
}

void Environment::on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Window* window = window_of(from, header);
  if (!window) return;
  const std::span<const std::byte> all(payload, bytes);
  if (header.kind == wire::kWindowBatch) {
    window->exposure().serve(header.source, all, header.token);
    return;
  }
  if (header.kind == wire::kWindowAnswers) return window->take_answers(header.source, all);
  if (header.kind == wire::kWindowPost) return window->access().take_post(header.source);
  if (header.kind == wire::kWindowNudge) return window->take_nudge();
  Landing landing;
  if (!window->land(header, bytes, landing)) return;
  landing.target.unpack(payload, bytes);
  window->landed(header, Error());
}

Landing Environment::on_header(Endpoint& from, const wire::Header& header, size_t bytes) {
  Landing landing;
  Window* window = window_of(from, header);
  if (!window) return landing;
  if (header.kind == wire::kWindowBatch || header.kind == wire::kWindowAnswers) {
    auto* gathered = new Gathered{std::vector<std::byte>(bytes)};
    landing.target = Cursor::bytes(gathered->bytes.data(), bytes);
    landing.token = gathered;
    landing.token_kind = kGathered;
  } else if (window->land(header, bytes, landing)) {
    landing.token_kind = kOfWindow;
  }
  return landing;
}

void Environment::on_landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) {
  if (landing.token_kind == kThrownAway) return;
  if (landing.token_kind == kGathered) {
    std::unique_ptr<Gathered> gathered(static_cast<Gathered*>(landing.token));
    if (!error) on_message(from, header, gathered->bytes.data(), bytes);
    return;
  }
  if (Window* window = window_of(from, header)) window->landed(header, std::move(error));
}

void Environment::on_peer_lost(Endpoint& peer, const Error& error) {
  for (const auto& [id, window] : windows_) {
    window->close_gate();
    const int rank = window->comm().group().rank_of(peer.peer);
    if (rank != kUndefined) window->lose(rank, error);
  }
}

void Environment::close_gates() {
  for (const auto& [id, window] : windows_) window->close_gate();
}

std::string Environment::report() const {
  std::string lines;
  for (const auto& [id, window] : windows_) lines += window->report();
  return lines;
}

}  // namespace tern::rma
