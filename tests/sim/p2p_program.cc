#include "tests/sim/p2p_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "comm/context.h"
#include "datatype/construct.h"
#include "datatype/kind.h"
#include "p2p/protocols/protocol.h"

namespace tern::sim {

uint64_t context_of(Use use) { return make_context(PeerTable({0, 0}, 1), 1000 + uint32_t(use)); }

std::byte byte_of(const PlannedMessage& message, size_t id, size_t at) {
  return std::byte(uint8_t(id * 37 + message.from * 5 + at * 11 + (at >> 7)));
}

Plan Plan::random(Rng& rng, uint32_t ranks, const std::vector<size_t>& thresholds) {
  Plan plan;
  plan.ranks = ranks;
  size_t count = 5 + rng.below(120);
  int tags = int(1 + rng.below(4));
  uint32_t favourite = uint32_t(rng.below(ranks));  // somebody gets more than the others
  for (size_t i = 0; i < count; ++i) {
    PlannedMessage m;
    m.from = uint32_t(rng.below(ranks));
    m.to = rng.chance(1, 3) ? favourite : uint32_t(rng.below(ranks));
    m.use = Use(rng.below(5));
    m.tag = int(rng.below(uint64_t(tags))) * (rng.chance(1, 16) ? 0x1fffffff : 1);
    switch (rng.below(thresholds.empty() ? 4 : 5)) {
      case 4: m.bytes = thresholds[rng.below(thresholds.size())] + rng.below(3); break;
      case 0: m.bytes = rng.below(3); break;
      case 1: m.bytes = rng.below(300); break;
      case 2: m.bytes = rng.below(6000); break;
      default: m.bytes = rng.below(rng.chance(1, 4) ? 60'000 : 12'000); break;
    }
    m.synchronous = rng.chance(1, 5);
    m.truncated = m.use == Use::exact && m.bytes != 0 && rng.chance(1, 10);
    // A burst of equal messages now and then.
    size_t burst = rng.chance(1, 10) ? 1 + rng.below(20) : 1;
    for (size_t b = 0; b < burst; ++b) plan.messages.push_back(m);
  }
  return plan;
}

LaidOut::LaidOut(PredefinedTypes& types, size_t bytes, bool strided) : bytes_(bytes) {
  Datatype& byte = types.get(type_id::kByte);
  size_t span = bytes;
  if (strided && bytes != 0) {
    // One vector of blocks of 3 bytes every 5, and the rest as the last block of an indexed type.
    std::vector<Count> blocks, displacements;
    for (size_t at = 0, where = 1; at < bytes; at += 3, where += 5) {
      blocks.push_back(Count(std::min<size_t>(3, bytes - at)));
      displacements.push_back(Count(where));
      span = where + 3;
    }
    EXPECT_FALSE(construct::hindexed(blocks, displacements, byte, held_));
    held_->commit();
    type_ = held_.get();
    count_ = 1;
  } else {
    type_ = &byte;
    count_ = Count(bytes);
  }
  memory_.assign(span + 2 * kGuard, std::byte{0xa5});
  untouched_ = memory_;
}

void LaidOut::fill(const std::vector<std::byte>& packed) {
  Cursor(buffer(), count_, *type_).unpack(packed.data(), packed.size());
}

std::vector<std::byte> LaidOut::packed() const {
  std::vector<std::byte> out(bytes_);
  Cursor(const_cast<LaidOut*>(this)->buffer(), count_, *type_).pack(out.data(), out.size());
  return out;
}

bool LaidOut::intact() const {
  LaidOut copy(*this);
  copy.fill(std::vector<std::byte>(bytes_, std::byte{0xa5}));
  return copy.memory_ == untouched_;
}

Actor::Actor(Process& process, Plan& plan)
    : process_(process),
      p2p_(process.p2p()),
      plan_(plan),
      rng_(process.rng().next()),
      rank_(uint32_t(process.world_rank())) {
  size_t largest = 0;
  for (const PlannedMessage& m : plan.messages) largest = m.to == rank_ ? std::max(largest, m.bytes) : largest;
  for (size_t id = 0; id < plan.messages.size(); ++id) {
    const PlannedMessage& m = plan.messages[id];
    if (m.from == rank_) to_send_.push_back(id);
    if (m.to != rank_) continue;
    size_t capacity = m.truncated ? rng_.below(m.bytes) : m.bytes;
    switch (m.use) {
      case Use::exact: to_receive_.push_back({m.use, int(m.from), m.tag, capacity}); break;
      case Use::any_source: to_receive_.push_back({m.use, kAnySource, m.tag, largest}); break;
      case Use::any_tag: to_receive_.push_back({m.use, int(m.from), kAnyTag, largest}); break;
      case Use::any_any: to_receive_.push_back({m.use, kAnySource, kAnyTag, largest}); break;
      case Use::mixed:
        to_receive_.push_back(
            {m.use, rng_.chance(1, 2) ? kAnySource : int(m.from), rng_.chance(1, 2) ? kAnyTag : m.tag, largest});
        break;
    }
  }
}

SendArguments Actor::arguments(const PlannedMessage& m, LaidOut& data) const {
  return {data.buffer(), data.count(), &data.type(),      m.to,
          int(rank_),    m.tag,        context_of(m.use), m.synchronous ? SendMode::synchronous : SendMode::standard};
}

ReceiveArguments Actor::arguments(const Wanted& wanted, LaidOut& data) const {
  return {
      data.buffer(), data.count(), &data.type(),          wanted.source == kAnySource ? kNoPeer : PeerId(wanted.source),
      wanted.source, wanted.tag,   context_of(wanted.use)};
}

std::unique_ptr<LaidOut> Actor::lay_out(size_t bytes) {
  return std::make_unique<LaidOut>(types_, bytes, bytes < 20'000 && rng_.chance(1, 3));
}

void Actor::watch(Request& request, int& counter) {
  if (request.complete() && !request.persistent()) {
    ++counter;
    return;
  }
  request.watcher = &counter;
  request.on_complete = [](Request& r) { ++*static_cast<int*>(r.watcher); };
}

void Actor::send_next() {
  size_t id = to_send_.front();
  to_send_.pop_front();
  PlannedMessage& m = plan_.messages[id];
  auto data = lay_out(m.bytes);
  std::vector<std::byte> bytes(m.bytes);
  for (size_t i = 0; i < m.bytes; ++i) bytes[i] = byte_of(m, id, i);
  data->fill(bytes);
  if (m.use != Use::mixed && blocking_allowed(m.to) && rng_.chance(1, 2)) {
    EXPECT_FALSE(p2p_.send(arguments(m, *data)));
    data->fill(std::vector<std::byte>(m.bytes, std::byte{0x99}));
    return;
  }
  Sending& sending = sending_.emplace_back(Sending{id, nullptr, std::move(data)});
  if (rng_.chance(1, 4)) {
    sending.request = p2p_.send_init(arguments(m, *sending.data));
    watch(*sending.request, sending.completions);
    EXPECT_FALSE(sending.request->start());
  } else {
    sending.request = p2p_.isend(arguments(m, *sending.data));
    watch(*sending.request, sending.completions);
  }
  if (m.use == Use::mixed && rng_.chance(1, 4)) cancel(sending);
}

// A send whose data has left is complete, and incomplete again while the receiver is asked.
void Actor::cancel(Sending& sending) {
  bool was_complete = sending.request->complete();
  int completions = sending.completions;
  sending.cancel_asked = true;
  sending.request->cancel();
  if (!was_complete) return;
  if (sending.request->complete()) {
    EXPECT_LE(sending.completions, completions + 1);  // one more: a send to self is answered at once
    sending.completions = completions;
    return;
  }
  sending.completions = 0;
  watch(*sending.request, sending.completions);
}

// Any send that has not been waited for, at any time.
void Actor::cancel_any() {
  if (sending_.empty()) return;
  Sending& sending = sending_[rng_.below(sending_.size())];
  if (!sending.request || plan_.messages[sending.id].use != Use::mixed) return;
  cancel(sending);
}

void Actor::receive_next() {
  Wanted wanted = to_receive_.front();
  to_receive_.pop_front();
  size_t index = receipts_.size();
  Receipt& receipt = receipts_.emplace_back();
  receipt.use = wanted.use;
  receipt.source = wanted.source;
  receipt.tag = wanted.tag;
  receipt.capacity = wanted.capacity;
  Receiving receiving{index, nullptr, lay_out(wanted.capacity)};
  bool exact_peer =
      wanted.source != kAnySource && blocking_allowed(uint32_t(wanted.source)) && wanted.use != Use::mixed;
  if (exact_peer && rng_.chance(1, 2)) {
    Error error = p2p_.receive(arguments(wanted, *receiving.data), receipt.status);
    receipt.error_class = error.error_class();
    receipt.complete = true;
    EXPECT_TRUE(receiving.data->intact());
    receipt.data = receiving.data->packed();
    return;
  }
  Receiving& kept = receiving_.emplace_back(std::move(receiving));
  if (rng_.chance(1, 4)) {
    kept.request = p2p_.receive_init(arguments(wanted, *kept.data));
    watch(*kept.request, kept.completions);
    EXPECT_FALSE(kept.request->start());
  } else {
    kept.request = p2p_.ireceive(arguments(wanted, *kept.data));
    watch(*kept.request, kept.completions);
  }
  if (wanted.use == Use::mixed && rng_.chance(1, 8)) {
    kept.cancel_asked = true;
    kept.request->cancel();
  }
}

void Actor::receive_matched(MatchedMessage* message, const Status& status, Use use) {
  Receipt& receipt = receipts_.emplace_back();
  receipt.use = use;
  receipt.source = status.source;
  receipt.tag = status.tag;
  receipt.probed = true;
  receipt.capacity = size_t(status.bytes);
  Receiving& kept = receiving_.emplace_back(Receiving{receipts_.size() - 1, nullptr, lay_out(receipt.capacity)});
  kept.request = p2p_.imreceive(message, kept.data->buffer(), kept.data->count(), kept.data->type());
  watch(*kept.request, kept.completions);
}

// Looks for a message of the wildcard context; one that is found stands in for one of its receives.
void Actor::probe() {
  auto planned = std::find_if(to_receive_.begin(), to_receive_.end(), [](auto& w) { return w.use == Use::any_any; });
  if (planned == to_receive_.end()) return;
  Status status;
  uint64_t context = context_of(Use::any_any);
  if (rng_.chance(1, 2)) {
    MatchedMessage* message = p2p_.improbe(kAnySource, kAnyTag, context, status);
    if (!message) return;
    to_receive_.erase(planned);
    receive_matched(message, status, Use::any_any);
    return;
  }
  if (!p2p_.iprobe(kAnySource, kAnyTag, context, status)) return;
  to_receive_.erase(planned);
  // Nothing can come between: an exact receive now gets just that message, with room for just that.
  to_receive_.push_front({Use::any_any, status.source, status.tag, size_t(status.bytes)});
  receive_next();
}

void Actor::finish(Sending& sending) {
  EXPECT_EQ(sending.completions, 1);
  EXPECT_FALSE(sending.request->error) << sending.request->error.text();
  PlannedMessage& m = plan_.messages[sending.id];
  if (sending.request->status.cancelled) {
    EXPECT_TRUE(sending.cancel_asked);
    m.cancelled = true;
  }
  EXPECT_TRUE(sending.data->intact());
  // The memory is the user's again; if somebody still reads it, the receiver will notice.
  sending.data->fill(std::vector<std::byte>(m.bytes, std::byte{0x99}));
  if (sending.request->persistent()) sending.request->set_inactive();
  sending.request->release();
  sending.request = nullptr;
}

void Actor::finish(Receiving& receiving) {
  EXPECT_EQ(receiving.completions, 1);
  Receipt& receipt = receipts_[receiving.receipt];
  receipt.status = receiving.request->status;
  receipt.error_class = receiving.request->error.error_class();
  receipt.complete = true;
  EXPECT_TRUE(receiving.data->intact()) << "bytes outside the receive buffer were written";
  receipt.data = receiving.data->packed();
  if (receipt.status.cancelled) {
    EXPECT_TRUE(receiving.cancel_asked);
  }
  if (receiving.request->persistent()) receiving.request->set_inactive();
  receiving.request->release();
  receiving.request = nullptr;
}

void Actor::reap() {
  for (Sending& sending : sending_) {
    if (sending.request && sending.request->complete()) finish(sending);
  }
  for (Receiving& receiving : receiving_) {
    if (receiving.request && receiving.request->complete()) finish(receiving);
  }
}

void Actor::step() {
  switch (rng_.below(8)) {
    case 0:
    case 1:
    case 2:
      if (!to_send_.empty()) send_next();
      break;
    case 3:
    case 4:
      if (!to_receive_.empty()) receive_next();
      break;
    case 5: p2p_.progress().poll(); break;
    case 6:
      if (rng_.chance(1, 2)) {
        reap();
      } else {
        cancel_any();
      }
      break;
    default:
      if (rng_.chance(1, 8)) process_.clock().charge_ns(rng_.below(100'000));
      probe();
      break;
  }
}

bool Actor::mixed_over() const {
  size_t got = 0, sent = 0;
  for (const Receipt& receipt : receipts_) {
    got += receipt.use == Use::mixed && receipt.complete && !receipt.status.cancelled;
  }
  for (const PlannedMessage& m : plan_.messages) sent += m.use == Use::mixed && m.to == rank_ && !m.cancelled;
  return got == sent;
}

// Receives of the mixed context may fit no message that is left, and the other way round: what is posted is cancelled,
// what comes is taken.
void Actor::drain_mixed() {
  while (!mixed_over()) {
    for (Receiving& receiving : receiving_) {
      if (!receiving.request || receipts_[receiving.receipt].use != Use::mixed || receiving.request->complete())
        continue;
      receiving.cancel_asked = true;
      receiving.request->cancel();
    }
    Status status;
    if (MatchedMessage* message = p2p_.improbe(kAnySource, kAnyTag, context_of(Use::mixed), status)) {
      receive_matched(message, status, Use::mixed);
    }
    process_.clock().charge_ns(2000);
    p2p_.progress().poll();
    reap();
  }
}

void Actor::run() {
  while (!to_send_.empty() || !to_receive_.empty()) step();
  auto busy = [&](auto& list, auto&& counts) {
    return std::any_of(list.begin(), list.end(), [&](auto& item) { return item.request && counts(item); });
  };
  p2p_.progress().wait_until([&] {
    reap();
    return !busy(receiving_, [&](Receiving& r) { return receipts_[r.receipt].use != Use::mixed; }) &&
           !busy(sending_, [&](Sending& s) { return plan_.messages[s.id].use != Use::mixed; });
  });
  drain_mixed();
  // Receives of the mixed context that met nothing.
  for (Receiving& receiving : receiving_) {
    if (!receiving.request || receiving.request->complete()) continue;
    receiving.cancel_asked = true;
    receiving.request->cancel();
  }
  p2p_.progress().wait_until([&] {
    reap();
    return !busy(receiving_, [](auto&) { return true; }) && !busy(sending_, [](auto&) { return true; });
  });
  // Nothing of ours is left, whoever still works on his part.
  p2p_.progress().wait_until([&] { return p2p_.quiet() && p2p_.pending() == Need::nothing; });
}

std::string Actor::describe() const {
  std::string text = "rank " + std::to_string(rank_) + ": " + std::to_string(to_send_.size()) + " to send, " +
                     std::to_string(to_receive_.size()) + " to receive";
  for (const Sending& s : sending_) {
    const PlannedMessage& m = plan_.messages[s.id];
    if (!s.request) continue;
    text += "\n  sends message " + std::to_string(s.id) + " to " + std::to_string(m.to) + ", use " +
            std::to_string(int(m.use)) + ", tag " + std::to_string(m.tag) + ", " + std::to_string(m.bytes) + " bytes" +
            (m.synchronous ? ", synchronous" : "") + (s.cancel_asked ? ", cancel asked" : "") +
            (s.request->complete() ? ", complete" : "");
  }
  for (const Receiving& r : receiving_) {
    const Receipt& receipt = receipts_[r.receipt];
    if (!r.request) continue;
    text += "\n  receives from " + std::to_string(receipt.source) + ", use " + std::to_string(int(receipt.use)) +
            ", tag " + std::to_string(receipt.tag) + (r.cancel_asked ? ", cancel asked" : "") +
            (r.request->complete() ? ", complete" : "");
  }
  return text + "\n" + p2p_.report().text() + (p2p_.quiet() ? "" : "  not quiet\n");
}

namespace {

bool fits(const Receipt& receipt, const PlannedMessage& m) {
  return receipt.use == m.use && (receipt.source == kAnySource || receipt.source == int(m.from)) &&
         (receipt.tag == kAnyTag || receipt.tag == m.tag);
}

void check_one(const Receipt& receipt, const PlannedMessage& m, size_t id) {
  size_t stored = std::min(m.bytes, receipt.capacity);
  EXPECT_EQ(receipt.error_class, m.bytes > receipt.capacity ? int(ErrorClass::truncate) : 0) << "message " << id;
  EXPECT_EQ(size_t(receipt.status.bytes), stored) << "message " << id;
  for (size_t i = 0; i < stored; ++i) {
    ASSERT_EQ(receipt.data[i], byte_of(m, id, i))
        << "byte " << i << " of message " << id << " (" << m.bytes << " bytes from " << m.from << " to " << m.to << ")";
  }
  for (size_t i = stored; i < receipt.data.size(); ++i) ASSERT_EQ(receipt.data[i], std::byte{0xa5});
}

}  // namespace

void expect_every_protocol(const ProtocolCounters& counters) {
  for (size_t i = 0; i < kProtocolCount; ++i) {
    if (Protocol(i) == Protocol::tuple) continue;  // tuple_random_test.cc
    EXPECT_GT(counters.sent[i], 10u) << kProtocolNames[i];
  }
  for (size_t i = 0; i < kArrivalCount; ++i) EXPECT_GT(counters.arrivals(Arrival(i)), 10u) << kArrivalNames[i];
  EXPECT_GT(counters.withdrawn, 10u);
  EXPECT_GT(counters.fins_saved, 10u);
  EXPECT_GT(counters.crossed, 10u);
  EXPECT_GT(counters.no_buffer, 10u);
}

Report run_plan(const WorldOptions& options, Plan& plan, const OnRank& after, const OnRank& before) {
  std::vector<std::vector<Receipt>> receipts(options.ranks);
  std::vector<Actor*> actors(options.ranks);
  Report report = World(options).run([&](Process& process) {
    if (before) before(process);
    Actor actor(process, plan);
    actors[size_t(process.world_rank())] = &actor;
    actor.run();
    after(process);
    receipts[size_t(process.world_rank())] = std::move(actor.receipts());
    actors[size_t(process.world_rank())] = nullptr;
  });
  std::string open;
  for (Actor* actor : actors) {
    if (actor && !report.ok()) open += actor->describe();  // its stack is kept
  }
  EXPECT_TRUE(report.ok()) << report.failure << "\n" << open;
  if (report.ok()) check_receipts(plan, receipts);
  return report;
}

void check_receipts(Plan& plan, std::vector<std::vector<Receipt>>& receipts) {
  for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
    // Messages to this rank that were not cancelled, by (context, source, tag), in the order of sending.
    std::map<std::tuple<Use, uint32_t, int>, std::deque<size_t>> sent;
    for (size_t id = 0; id < plan.messages.size(); ++id) {
      const PlannedMessage& m = plan.messages[id];
      if (m.to == rank && !m.cancelled) sent[{m.use, m.from, m.tag}].push_back(id);
    }
    std::vector<std::pair<const Receipt*, size_t>> got;
    for (const Receipt& receipt : receipts[rank]) {
      ASSERT_TRUE(receipt.complete);
      if (receipt.status.cancelled) continue;
      auto& queue = sent[{receipt.use, uint32_t(receipt.status.source), receipt.status.tag}];
      ASSERT_FALSE(queue.empty()) << "rank " << rank << " received a message from " << receipt.status.source << ", tag "
                                  << receipt.status.tag << ", that nobody sent";
      size_t id = queue.front();
      queue.pop_front();
      ++plan.messages[id].received;
      EXPECT_TRUE(fits(receipt, plan.messages[id]));
      check_one(receipt, plan.messages[id], id);
      if (testing::Test::HasFatalFailure()) return;
      got.emplace_back(&receipt, id);
    }
    for (size_t a = 0; a < got.size(); ++a) {
      for (size_t b = a + 1; b < got.size(); ++b) {
        const PlannedMessage& later = plan.messages[got[b].second];
        bool overtaken = got[b].second < got[a].second && later.from == plan.messages[got[a].second].from &&
                         fits(*got[a].first, later) && !got[a].first->probed;
        ASSERT_FALSE(overtaken) << "at rank " << rank << " message " << got[a].second << " overtook " << got[b].second;
      }
    }
  }
  for (size_t id = 0; id < plan.messages.size(); ++id) {
    EXPECT_EQ(plan.messages[id].received, plan.messages[id].cancelled ? 0 : 1) << "message " << id;
  }
}

}  // namespace tern::sim
