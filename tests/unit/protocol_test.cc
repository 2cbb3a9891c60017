// The table of protocols as a table, and the log that tells which message an announced receive is for.
#include <gtest/gtest.h>

#include <vector>

#include "p2p/matching/sent_log.h"
#include "p2p/protocols/table.h"

namespace tern {
namespace {

struct Row {
  const char* what;
  SendSituation situation;
  Protocol expected;
};

constexpr size_t kEager = 100, kHybrid = 1000;

const Ready kAnnounced{};

/// What is known of a long message's pair. `polls`: the receiver is in its library, and a stream is faster.
struct Pair {
  bool ready = false, can_put = false, can_get = false;
  bool polls = false, returns = true, can_defer = false;
};

SendSituation with(size_t bytes, const Pair& pair, bool by_write = false, size_t hybrid_limit = kHybrid) {
  SendSituation s{.bytes = bytes, .eager_limit = kEager, .credit = true, .blocking = !pair.returns};
  s.hybrid_limit = hybrid_limit;
  s.by_write = by_write;
  s.can_put = pair.can_put;
  s.can_get = pair.can_get;
  if (!pair.ready) return s;
  s.ready = &kAnnounced;
  s.mover = who_copies({.side = CopySide::sender,
                        .can_put = pair.can_put,
                        .can_get = pair.can_get,
                        .stream_faster = pair.polls,
                        .peer_present = pair.polls,
                        .leaves = pair.returns,
                        .lockable = pair.can_defer,
                        .soon_over = bytes <= hybrid_limit});
  return s;
}

Protocol chosen(const SendSituation& situation) {
  Protocol protocol{};
  choose_protocol(situation, [&](const ProtocolRecord& row) {
    protocol = row.protocol;
    return true;
  });
  return protocol;
}

TEST(Protocol, TableOne) {
  const auto without_credit = [](SendSituation s) { return s.credit = false, s; };
  const Pair late{.can_put = true, .can_get = true}, early{.ready = true, .can_put = true, .can_get = true};
  const Pair sends{}, early_sends{.ready = true};
  const auto there = [](Pair pair) { return pair.polls = true, pair; };
  const auto blocking = [](Pair pair) { return pair.returns = false, pair; };
  const auto later = [](Pair pair) { return pair.can_defer = true, pair; };
  const Row rows[] = {
      // Paper 000, Table 1; autonomous puts and gets.
      {"small, sender early", with(100, late), Protocol::eager},
      {"small, receiver early", with(100, early), Protocol::eager},
      {"medium, sender early", with(101, late), Protocol::hybrid},
      {"medium, at the limit", with(1000, late), Protocol::hybrid},
      {"medium, receiver early", with(1000, early), Protocol::receiver_put},
      {"large, sender early, by read", with(1001, late), Protocol::sender_get},
      {"large, sender early, by write", with(1001, {.can_put = true}, true), Protocol::sender_put},
      {"large, receiver early", with(1001, early), Protocol::receiver_put},
      {"large, receiver early, by write", with(1001, {.ready = true, .can_put = true}, true), Protocol::receiver_put},
      // What there is no room for.
      {"nothing", with(0, late), Protocol::eager},
      {"nothing, without credit", without_credit(with(0, {.can_get = true})), Protocol::sender_data},
      {"small, without credit", without_credit(with(100, late)), Protocol::sender_get},
      {"small, without credit, receiver early", without_credit(with(100, early)), Protocol::receiver_put},
      {"medium, no buffer", with(500, late, false, 0), Protocol::sender_get},
      {"medium, no buffer, nothing to get", with(500, sends, false, 0), Protocol::sender_data},
      // Paths that only send.
      {"large, sender early, no get", with(5000, sends), Protocol::sender_data},
      {"large, receiver early, no put", with(5000, early_sends), Protocol::receiver_stream},
      // Copies that cost a CPU: the receiver is in its library.
      {"large, receiver there, blocking", with(5000, there(blocking(early))), Protocol::receiver_stream},
      {"large, receiver there, nonblocking", with(5000, there(early)), Protocol::sender_get},
      {"medium, receiver there, nonblocking", with(500, there(early)), Protocol::receiver_stream},
      {"large, receiver there, nonblocking, no get", with(5000, there({.ready = true, .can_put = true})),
       Protocol::receiver_stream},
      {"large, receiver computes", with(5000, early), Protocol::receiver_put},
      {"large, receiver computes, blocking", with(5000, blocking(early)), Protocol::receiver_put},
      {"large, receiver computes, nonblocking, decided later", with(5000, later(early)), Protocol::sender_get},
      {"large, receiver computes, blocking, nothing to decide", with(5000, blocking(later(early))),
       Protocol::receiver_put},
      {"medium, receiver computes, nonblocking, decided later", with(500, later(early)), Protocol::sender_get},
      {"medium, receiver there, nonblocking, nothing to decide", with(500, there(later(early))),
       Protocol::receiver_stream},
      {"large, receiver computes, no put", with(5000, {.ready = true, .can_get = true}), Protocol::receiver_stream},
  };
  for (const Row& row : rows) EXPECT_EQ(chosen(row.situation), row.expected) << row.what;
}

TEST(Protocol, ARowThatRefusesLeavesTheMessageToTheNext) {
  SendSituation s = with(500, {.can_put = true, .can_get = true});
  s.queues = true;
  std::vector<Protocol> asked;
  choose_protocol(s, [&](const ProtocolRecord& row) {
    asked.push_back(row.protocol);
    return row.protocol == Protocol::sender_get;
  });
  EXPECT_EQ(asked, (std::vector{Protocol::tuple, Protocol::hybrid, Protocol::sender_get}));
}

TEST(Protocol, EveryProtocolHasOneRecord) {
  for (size_t i = 0; i < kProtocolCount; ++i) {
    const ProtocolRecord& record = record_of(Protocol(i));
    EXPECT_STREQ(record.name(), kProtocolNames[i]);
    EXPECT_TRUE(record.begin && record.on_answer && record.withdraw && record.report) << record.name();
  }
}

TEST(WhoCopies, AsksForThePeerOnlyWhereItMatters) {
  int asked = 0;
  const auto present = [&] { return ++asked, true; };
  const CopySituation receiver{.side = CopySide::receiver, .can_get = true};
  EXPECT_EQ(who_copies(receiver, present), Mover::get) << "a stream is no faster";
  EXPECT_EQ(who_copies({.side = CopySide::receiver, .stream_faster = true}, present), Mover::stream)
      << "nothing to get";
  EXPECT_EQ(
      who_copies({.can_put = true, .can_get = true, .stream_faster = true, .leaves = true, .lockable = true}, present),
      Mover::defer);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(who_copies({.side = CopySide::receiver, .can_get = true, .stream_faster = true}, present), Mover::stream);
  EXPECT_EQ(who_copies({.can_put = true, .stream_faster = true}, [] { return false; }), Mover::put);
  EXPECT_EQ(asked, 1);
}

TEST(WhoCopies, ASenderThatWaitsCopiesWhenItsReceiverIsLate) {
  const auto idle = [](bool known, bool present, bool patient) {
    return who_copies({.can_put = known, .peer_present = present, .idle = true, .patient = patient});
  };
  EXPECT_EQ(idle(true, false, true), Mover::put);
  EXPECT_EQ(idle(true, true, true), Mover::defer) << "the receiver is there to do it";
  EXPECT_EQ(idle(false, false, true), Mover::copy_out) << "(0,0,60,X,0,0): nobody knows where it is wanted";
  EXPECT_EQ(idle(false, true, true), Mover::defer);
  EXPECT_EQ(idle(false, true, false), Mover::copy_out) << "it has not come for it";
}

Ready ready(uint64_t context, int tag, uint32_t arrived, uint16_t ahead, uint32_t serial, uint32_t oldest = 0) {
  Ready r{context, tag, serial + 100, {}};
  r.body.arrived = arrived;
  r.body.ahead = ahead;
  r.body.serial = serial;
  r.body.oldest_before = uint16_t(oldest ? serial - oldest : 0);
  return r;
}

using Verdict = SentLog::Verdict;

TEST(SentLog, TellsWhichMessageAnAnnouncementIsFor) {
  SentLog log(0);
  uint32_t token = 0;
  log.note(1, 5, 1, 0);
  log.note(1, 6, 2, 0);
  log.note(1, 5, 3, 33);
  log.note(1, 5, 4, 44);
  // The receiver had seen two: of the fives after them the first is number 3, the second number 4, the third is to
  // come.
  EXPECT_EQ(log.offer(ready(1, 5, 2, 0, 1), token), Verdict::useless);
  EXPECT_EQ(token, 33u);
  EXPECT_EQ(log.offer(ready(1, 5, 2, 1, 2), token), Verdict::useless);
  EXPECT_EQ(token, 44u);
  EXPECT_EQ(log.offer(ready(1, 5, 2, 2, 3), token), Verdict::held);
  EXPECT_EQ(log.offer(ready(1, 5, 2, 3, 4), token), Verdict::held);
  ASSERT_TRUE(log.find(1, 5));
  EXPECT_EQ(log.find(1, 5)->token, 103u);
  EXPECT_FALSE(log.find(1, 6));
  EXPECT_FALSE(log.find(2, 5));
  log.note(1, 6, 5, 0);  // another key: changes nothing
  EXPECT_EQ(log.find(1, 5)->token, 103u);
  log.note(1, 5, 6, 0);
  ASSERT_TRUE(log.find(1, 5));
  EXPECT_EQ(log.find(1, 5)->token, 104u);
  log.note(1, 5, 7, 0);
  EXPECT_FALSE(log.find(1, 5));
  EXPECT_EQ(log.held(), 0u);
}

TEST(SentLog, PutsWithoutAMessageAreKnownByTheirAnnouncement) {
  SentLog log(0);
  uint32_t token = 0;
  ASSERT_EQ(log.offer(ready(1, 5, 0, 0, 1), token), Verdict::held);
  log.note_put(*log.find(1, 5));
  EXPECT_EQ(log.held(), 0u);
  // Announced while the first receive was still waiting (it is ahead), and after it was seen filled.
  EXPECT_EQ(log.offer(ready(1, 5, 0, 1, 2, 1), token), Verdict::held);
  EXPECT_EQ(log.find(1, 5)->token, 102u);
  log.note_put(*log.find(1, 5));
  EXPECT_EQ(log.offer(ready(1, 5, 0, 0, 3), token), Verdict::held);
  EXPECT_EQ(log.find(1, 5)->token, 103u);
}

TEST(SentLog, ForgetsWhatIsTooLongAgo) {
  SentLog log(10);
  uint32_t token = 0;
  EXPECT_EQ(log.offer(ready(1, 5, 9, 0, 1), token), Verdict::unknown) << "number 10 went unlogged";
  EXPECT_EQ(log.offer(ready(1, 5, 10, 0, 2), token), Verdict::held);
  log.withdraw(1, 6);
  EXPECT_EQ(log.held(), 1u);
  log.withdraw(1, 5);
  EXPECT_EQ(log.held(), 0u);
  for (uint32_t n = 11; n < 11 + SentLog::kLogged; ++n) log.note(1, 7, n, 0);
  EXPECT_EQ(log.offer(ready(1, 5, 10, 0, 3), token), Verdict::held);
  log.note(1, 7, 11 + SentLog::kLogged, 0);
  EXPECT_EQ(log.offer(ready(1, 5, 10, 0, 4), token), Verdict::unknown);
  EXPECT_EQ(log.offer(ready(1, 5, 11, 0, 5), token), Verdict::held);
  log.restart();
  EXPECT_EQ(log.held(), 0u);
  log.note(1, 5, 1, 0);
  EXPECT_EQ(log.offer(ready(1, 5, 0, 1, 6), token), Verdict::held);
}

TEST(SentLog, IsBoundedWithAnyNumberOfTags) {
  SentLog log(0);
  uint32_t token = 0, held = 0;
  for (int tag = 0; tag < 1'000'000; ++tag) {
    log.note(1, tag, uint32_t(tag) + 1, 0);
    held += log.offer(ready(1, tag + 2'000'000, uint32_t(tag) + 1, 0, uint32_t(tag) + 1), token) == Verdict::held;
  }
  EXPECT_EQ(held, SentLog::kHeld);
  EXPECT_EQ(log.held(), SentLog::kHeld);
}

TEST(SentLog, AThousandOffersAreUsedInTheOrderOfTheirKeys) {
  constexpr int kKeys = 3, kOffers = 1000;
  SentLog log(0);
  uint32_t token = 0;
  for (int i = 0; i < kOffers; ++i) {
    // Of the last key every second receive is not announced.
    const int tag = i % kKeys;
    const auto ahead = uint16_t(i / kKeys * (tag == kKeys - 1 ? 2 : 1));
    ASSERT_EQ(log.offer(ready(1, tag, 0, ahead, uint32_t(i + 1)), token), Verdict::held);
  }
  uint32_t number = 0;
  for (int tag = kKeys - 1; tag >= 0; --tag) {
    for (int i = tag; i < kOffers; i += kKeys) {
      const Ready* next = log.find(1, tag);
      ASSERT_TRUE(next);
      EXPECT_EQ(next->token, uint32_t(i + 101));
      log.note(1, tag, ++number, 0);
      if (tag != kKeys - 1) continue;
      EXPECT_FALSE(log.find(1, tag));
      log.note(1, tag, ++number, 0);
    }
    EXPECT_FALSE(log.find(1, tag));
  }
  EXPECT_EQ(log.held(), 0u);
}

TEST(SentLog, NumbersWrap) {
  SentLog log(0xfffffffe);
  uint32_t token = 0;
  log.note(1, 5, 0xffffffff, 0);
  log.note(1, 5, 0, 7);
  log.note(1, 5, 1, 8);
  EXPECT_EQ(log.offer(ready(1, 5, 0xffffffff, 0, 1), token), Verdict::useless);
  EXPECT_EQ(token, 7u);
  EXPECT_EQ(log.offer(ready(1, 5, 0xffffffff, 2, 2), token), Verdict::held);
}

}  // namespace
}  // namespace tern
