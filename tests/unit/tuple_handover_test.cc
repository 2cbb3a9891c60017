// The hand-over between the lane and tuple queues, both ways: the real point-to-point code of two ranks, over a path
// whose every step is chosen by an explorer. All states are visited that two tags and three messages can reach,
// received by name and by wildcard in every order that can end: what both ranks do, the arrival of each control
// message, the landing of each message and when either rank sees it, a queue that finds no way once, a connection that
// fails once. States that were met before are not followed again (Tuples::write_state).
// The bounds of "all": three messages, so that no queue is made a second time (that takes four after its end); a way is
// busy once, or a connection fails once.
//
// Judged in every end: everything is complete, each receive has got the one message that MPI allows (one sender:
// messages and receives both prefer the earlier one), with its bytes, and nothing is left.
//
//   TERN_MODEL_RUNS=n   at most n runs of each program (default: all; 200 under ASan and TSan)
//
// tuple_model_test.cc explores a model of the same protocol, in which queues are made again, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <unordered_set>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/impl.h"
#include "p2p/tuples/tuples.h"
#include "tests/unit/choices.h"
#include "tests/unit/still.h"
#include "tests/unit/tuple_handover_model.h"

namespace tern::test {
namespace {

constexpr uint64_t kContext = 4;
constexpr int kMessages = 3, kTags = 2, kNone = -1;
constexpr size_t kBytes = 4;

struct Program {
  int sends[kMessages];     ///< tags
  int receives[kMessages];  ///< tags, or kAnyTag
};

/// What else may happen.
struct Variant {
  const char* name;
  bool opened;       ///< both tags have a queue from the start; else the next message asks for one
  bool busy;         ///< once a queue finds no way
  bool fails;        ///< once a connection fails
  bool synchronous;  ///< all sends are
  uint32_t depth;    ///< of a queue
};
constexpr Variant kVariants[] = {
    {"making queues", false, true, false, false, 128},
    {"ending queues", true, true, false, true, 128},
    {"repair", true, false, true, false, 128},
    {"short queues", true, false, false, false, 1},
};

bool fits(int wanted, int tag) { return wanted == kAnyTag || wanted == tag; }

/// Which message each receive gets; kNone: none.
std::vector<int> expected(const Program& program) {
  std::vector<int> got(kMessages, kNone);
  bool taken[kMessages] = {};
  for (int r = 0; r < kMessages; ++r) {
    for (int m = 0; m < kMessages && got[size_t(r)] == kNone; ++m) {
      if (taken[m] || !fits(program.receives[r], program.sends[m])) continue;
      taken[m] = true;
      got[size_t(r)] = m;
    }
  }
  return got;
}

PredefinedTypes& types() {
  static PredefinedTypes all;
  return all;
}

/// The programs' memory: at the same addresses in every run, which name requests in the states.
struct Memory {
  std::byte out[kMessages][kBytes], in[kMessages][kBytes], other[kBytes];
};
Memory memory;

struct Rank {
  StillClock clock;
  Driving driving;
  NobodyWaits port;
  ProgressEngine progress{clock, driving, port};
  PointToPoint p2p;
  HandoverPath path;
  Rank(HandoverModel& model, PeerId me, const Tunables& tunables)
      : p2p(progress, tunables), path(model, me, p2p.sink()) {
    progress.add(path);
    p2p.add_path(path);
  }
  PointToPoint::Impl& inside() { return static_cast<PointToPoint::Impl&>(p2p.sink()); }
  void poll(std::function<void()> step) {
    path.next = std::move(step);
    progress.poll();
  }
};

/// 128 bits stand for a state: that two of some 10^8 states share them has a chance of 10^-22.
struct Digest {
  uint64_t low = 0, high = 0;
  explicit Digest(const std::vector<uint64_t>& words) {
    for (uint64_t word : words) {
      low = std::rotl(low ^ word, 29) * 0x9e3779b97f4a7c15u;
      low ^= low >> 32;
      high = std::rotl(high + word, 37) * 0xbf58476d1ce4e5b9u;
      high ^= high >> 29;
    }
  }
  bool operator==(const Digest&) const = default;
};
struct DigestHash {
  size_t operator()(const Digest& digest) const { return size_t(digest.low); }
};

class Run {
 public:
  using Seen = std::unordered_set<Digest, DigestHash>;

  Run(Explorer& explorer, const Program& program, const Variant& variant, const Tunables& tunables)
      : explorer_(explorer),
        program_(program),
        variant_(variant),
        ranks_{{prepare(), 0, tunables}, {model_, 1, tunables}} {}

  /// True: to the end. False: it has met a state that was there before.
  bool go(Seen& seen) {
    for (int i = 0; i < kTags; ++i) {
      for (int rounds = variant_.opened ? 3 : 1; rounds > 0; --rounds) say_before(i);
    }
    busy_left_ = variant_.busy;
    failures_left_ = variant_.fails;
    while (!testing::Test::HasFailure()) {
      settle();
      if (!explorer_.replaying() && !seen.insert(state()).second) return false;
      std::vector<std::function<void()>> actions = possible();
      if (actions.empty()) break;
      actions[explorer_.choose(actions.size())]();
    }
    if (!testing::Test::HasFailure()) judge();
    return true;
  }
  uint64_t by_queue() { return ranks_[0].p2p.report().counters().sent[size_t(Protocol::tuple)] - by_queue_before_; }

 private:
  HandoverModel& prepare() {
    model_.depth = variant_.depth;
    model_.is_busy = [this] {
      if (busy_left_ == 0 || explorer_.choose(2) == 0) return false;
      --busy_left_;
      return true;
    };
    memory = {};
    return model_;
  }

  SendArguments to(const std::byte* data, int tag) const {
    const SendMode mode = variant_.synchronous ? SendMode::synchronous : SendMode::standard;
    return {data, Count(kBytes), &types().get(type_id::kByte), 1, 0, tag, kContext, mode};
  }
  ReceiveArguments from(std::byte* data, int tag) const {
    return {data, Count(kBytes), &types().get(type_id::kByte), 0, 0, tag, kContext};
  }

  // A message from before, so that the next of its tag asks for a queue; the second asks, the third finds it.
  void say_before(int tag) {
    Request* sent = ranks_[0].p2p.isend(to(memory.other, tag));
    Request* received = ranks_[1].p2p.ireceive(from(memory.other, tag));
    for (std::vector<std::function<void()>> all = steps(); !all.empty(); all = steps()) all.front()();
    ASSERT_TRUE(sent->complete() && received->complete());
    sent->release();
    received->release();
    by_queue_before_ = by_queue() + by_queue_before_;
  }

  static bool can_land(const ModelQueue& queue) {
    return !queue.failed && !queue.waiting.empty() && !queue.buffers.empty();
  }
  // Steps on whose time nothing depends. Landings are such: neither rank sees one before it is told, which is a step of
  // its own. But not where a connection may fail before.
  void settle() {
    for (Rank& rank : ranks_) {
      if (rank.path.has_sent()) rank.progress.poll();
    }
    for (ModelQueue& queue : model_.queues) {
      while (failures_left_ == 0 && can_land(queue)) HandoverPath::land(queue);
    }
  }
  // What moves without the programs.
  std::vector<std::function<void()>> steps() {
    settle();
    std::vector<std::function<void()>> all;
    for (size_t r = 0; r < 2; ++r) {
      if (!model_.toward[r].empty())
        all.emplace_back([this, r] { ranks_[r].poll([this, r] { ranks_[r].path.deliver(); }); });
    }
    for (ModelQueue& queue : model_.queues) {
      if (can_land(queue)) all.emplace_back([&queue] { HandoverPath::land(queue); });
      if (!queue.unseen.empty()) all.emplace_back([&] { ranks_[1].poll([&] { HandoverPath::see(queue); }); });
      if (!queue.failed && !queue.unacknowledged.empty())
        all.emplace_back([&] { ranks_[0].poll([&] { HandoverPath::acknowledge(queue); }); });
    }
    return all;
  }

  std::vector<std::function<void()>> possible() {
    std::vector<std::function<void()>> all = steps();
    if (sent_ < kMessages) all.emplace_back([this] { send(); });
    if (received_ < kMessages) all.emplace_back([this] { receive(); });
    for (ModelQueue& queue : model_.queues) {
      const bool carries = !queue.waiting.empty() || !queue.unacknowledged.empty();
      if (failures_left_ == 0 || queue.failed || !carries) continue;
      all.emplace_back([&] {
        --failures_left_;
        ranks_[0].poll([&] { HandoverPath::fail(queue); });
      });
    }
    return all;
  }

  void send() {
    const int i = sent_++;
    std::fill_n(memory.out[i], kBytes, std::byte(i + 1));
    sending_[i] = ranks_[0].p2p.isend(to(memory.out[i], program_.sends[i]));
  }
  void receive() {
    const int i = received_++;
    receiving_[i] = ranks_[1].p2p.ireceive(from(memory.in[i], program_.receives[i]));
  }

  void judge() {
    const std::vector<int> wanted = expected(program_);
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(sending_[i]->complete()) << "send " << i << " does not end";
      ASSERT_TRUE(receiving_[i]->complete()) << "receive " << i << " does not end";
      ASSERT_FALSE(sending_[i]->error || receiving_[i]->error);
      const int message = wanted[size_t(i)];
      for (std::byte b : memory.in[i]) ASSERT_EQ(int(b), message + 1) << "receive " << i;
      ASSERT_EQ(receiving_[i]->status.tag, program_.sends[message]);
      sending_[i]->release();
      receiving_[i]->release();
    }
    for (Rank& rank : ranks_) {
      ASSERT_TRUE(rank.p2p.quiet());
      ASSERT_EQ(rank.inside().receives.matching.posted_count() + rank.inside().receives.matching.waiting_count(), 0u);
    }
    size_t open = 0;
    for (const ModelQueue& queue : model_.queues) open += queue.asked || queue.accepted;
    ASSERT_LE(open, size_t(kTags));
    ASSERT_EQ(ranks_[0].inside().tuples->sender.lines(), ranks_[1].inside().tuples->receiver.queues());
  }

  // --- The state.
  Digest state() {
    std::vector<uint64_t> all{uint64_t(sent_), uint64_t(received_), busy_left_, failures_left_};
    for (int i = 0; i < kMessages; ++i) {
      all.push_back(sending_[i] ? 1u + sending_[i]->complete() : 0u);
      all.push_back(receiving_[i] ? 1u + receiving_[i]->complete() : 0u);
      all.push_back(uint64_t(memory.in[i][0]));
    }
    for (auto& lane : model_.toward) {
      all.push_back(lane.size());
      for (const ModelItem& item : lane) write_item(item, all);
    }
    for (const ModelQueue& queue : model_.queues) write_queue(queue, all);
    for (Rank& rank : ranks_) rank.inside().tuples->write_state(all);
    write_matching(all);
    Endpoint& peer = ranks_[0].inside().endpoints.at(1);
    all.insert(all.end(), {peer.messages.sent(), peer.sent_to_queues});
    return Digest(all);
  }
  static void write_item(const ModelItem& item, std::vector<uint64_t>& all) {
    const wire::Header& h = item.header;
    all.insert(all.end(), {uint64_t(h.kind), h.flags, h.token, uint64_t(h.tag), item.bytes.size()});
    for (std::byte b : item.bytes) all.push_back(uint64_t(b));
  }
  static void write_queue(const ModelQueue& queue, std::vector<uint64_t>& all) {
    auto address = [](const void* at) { return reinterpret_cast<uint64_t>(at); };
    all.insert(all.end(), {queue.asked, queue.accepted, queue.failed, queue.waiting.size(), queue.buffers.size(),
                           queue.unseen.size(), queue.unacknowledged.size()});
    for (const TupleSend* message : queue.waiting) all.push_back(address(message->data));
    for (const TupleSend* message : queue.unacknowledged) all.push_back(address(message->data));
    for (const TupleReceive* buffer : queue.buffers) all.push_back(address(buffer->buffer));
    for (const auto& [buffer, bytes] : queue.unseen) all.push_back(address(buffer->buffer));
  }
  void write_matching(std::vector<uint64_t>& all) {
    Matching& matching = ranks_[1].inside().receives.matching;
    std::vector<std::pair<uint64_t, uint64_t>> posted;
    matching.for_each_posted([&](PostedReceive& receive) {
      posted.emplace_back(receive.order, reinterpret_cast<uint64_t>(static_cast<ReceiveRequest&>(receive).buffer));
    });
    std::sort(posted.begin(), posted.end());
    for (const auto& [order, buffer] : posted) all.push_back(buffer);
    all.push_back(~uint64_t{0});
    matching.for_each_waiting([&](WaitingMessage& waiting) {
      auto& message = static_cast<UnexpectedMessage&>(waiting);
      all.insert(all.end(), {uint64_t(message.tag), message.number, message.order, message.by_queue,
                             message.owed ? 1u : 0u, uint64_t(message.data()[0])});
    });
  }

  Explorer& explorer_;
  const Program& program_;
  const Variant& variant_;
  HandoverModel model_;
  uint64_t busy_left_ = 0, failures_left_ = 0, by_queue_before_ = 0;
  Rank ranks_[2];
  Request* sending_[kMessages] = {};
  Request* receiving_[kMessages] = {};
  int sent_ = 0, received_ = 0;
};

struct Sum {
  uint64_t programs = 0, complete = 0, runs = 0, states = 0, ends = 0, by_queue = 0;
};

void explore(const Program& program, const Variant& variant, uint64_t most, Sum& sum) {
  Tunables tunables;
  tunables.rendezvous = "tupleq";
  tunables.tuple_wildcards = 1 << 20;
  Explorer explorer;
  Run::Seen seen;
  bool more = true;
  uint64_t runs = 0;
  for (; more && (most == 0 || runs < most); more = explorer.next()) {
    Run run(explorer, program, variant, tunables);
    const bool ended = run.go(seen);
    ++runs;
    sum.ends += ended;
    if (ended) sum.by_queue += run.by_queue() != 0;
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << variant.name << ": sends " << program.sends[0] << program.sends[1] << program.sends[2]
                    << ", receives " << program.receives[0] << " " << program.receives[1] << " " << program.receives[2]
                    << ", run " << runs << ": " << explorer.text();
      return;
    }
  }
  ++sum.programs;
  sum.complete += !more;
  sum.runs += runs;
  sum.states += seen.size();
}

TEST(TupleHandover, TwoTagsThreeMessages) {
  const char* wanted = std::getenv("TERN_MODEL_RUNS");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const uint64_t otherwise = 200;
#else
  const uint64_t otherwise = 0;
#endif
  const uint64_t most = wanted ? std::strtoull(wanted, nullptr, 10) : otherwise;
  for (const Variant& variant : kVariants) {
    Sum sum;
    for (int sends = 0; sends < 8; sends += 2) {  // the first of tag 0: the tags are alike
      for (int receives = 0; receives < 27; ++receives) {
        Program program;
        for (int i = 0, s = sends, r = receives; i < kMessages; ++i, s /= 2, r /= 3) {
          program.sends[i] = s % 2;
          program.receives[i] = r % 3 == 2 ? kAnyTag : r % 3;
        }
        const std::vector<int> got = expected(program);
        if (std::count(got.begin(), got.end(), kNone) != 0) continue;
        explore(program, variant, most, sum);
        if (HasFailure()) return;
      }
    }
    std::printf("%s: %llu programs (%llu explored completely), %llu states, %llu runs, %llu ends (%llu with queues)\n",
                variant.name, static_cast<unsigned long long>(sum.programs),
                static_cast<unsigned long long>(sum.complete), static_cast<unsigned long long>(sum.states),
                static_cast<unsigned long long>(sum.runs), static_cast<unsigned long long>(sum.ends),
                static_cast<unsigned long long>(sum.by_queue));
    EXPECT_GT(sum.by_queue, 50u);
    if (most == 0) {
      EXPECT_EQ(sum.complete, sum.programs);
    }
  }
}

}  // namespace
}  // namespace tern::test
