// The table of protocols as a table, and the log that tells which message an announced receive is for.
#include <gtest/gtest.h>

#include "p2p/matching/sent_log.h"
#include "p2p/protocols/protocol.h"

namespace tern {
namespace {

struct Row {
  const char* what;
  SendSituation situation;
  Protocol expected;
};

constexpr size_t kEager = 100, kHybrid = 1000;

SendSituation with(size_t bytes, bool ready, bool can_put, bool can_get, bool receiver_polls = false,
                   bool returns = true) {
  SendSituation s{};
  s.bytes = bytes;
  s.eager_limit = kEager;
  s.hybrid_limit = kHybrid;
  s.credit = true;
  s.ready = ready;
  s.can_put = can_put;
  s.can_get = can_get;
  s.receiver_polls = receiver_polls;
  s.returns = returns;
  return s;
}

TEST(Protocol, TableOne) {
  auto without_credit = [](SendSituation s) { return s.credit = false, s; };
  auto later = [](SendSituation s) { return s.can_defer = true, s; };
  auto without_buffer = [](SendSituation s) { return s.hybrid_limit = 0, s; };
  auto by_write = [](SendSituation s) { return s.by_write = true, s; };
  const Row rows[] = {
      // Paper 000, Table 1; autonomous puts and gets.
      {"small, sender early", with(100, false, true, true), Protocol::eager},
      {"small, receiver early", with(100, true, true, true), Protocol::eager},
      {"medium, sender early", with(101, false, true, true), Protocol::hybrid},
      {"medium, at the limit", with(1000, false, true, true), Protocol::hybrid},
      {"medium, receiver early", with(1000, true, true, true), Protocol::receiver_put},
      {"large, sender early, by read", with(1001, false, true, true), Protocol::sender_get},
      {"large, sender early, by write", by_write(with(1001, false, true, false)), Protocol::sender_put},
      {"large, receiver early", with(1001, true, true, true), Protocol::receiver_put},
      {"large, receiver early, by write", by_write(with(1001, true, true, false)), Protocol::receiver_put},
      // What there is no room for.
      {"nothing", with(0, false, true, true), Protocol::eager},
      {"nothing, without credit", without_credit(with(0, false, false, true)), Protocol::sender_data},
      {"small, without credit", without_credit(with(100, false, true, true)), Protocol::sender_get},
      {"small, without credit, receiver early", without_credit(with(100, true, true, true)), Protocol::receiver_put},
      {"medium, no buffer", without_buffer(with(500, false, true, true)), Protocol::sender_get},
      {"medium, no buffer, nothing to get", without_buffer(with(500, false, false, false)), Protocol::sender_data},
      // Paths that only send.
      {"large, sender early, no get", with(5000, false, false, false), Protocol::sender_data},
      {"large, receiver early, no put", with(5000, true, false, false), Protocol::receiver_stream},
      // Copies that cost a CPU: the receiver is in its library.
      {"large, receiver there, blocking", with(5000, true, true, true, true, false), Protocol::receiver_stream},
      {"large, receiver there, nonblocking", with(5000, true, true, true, true), Protocol::sender_get},
      {"medium, receiver there, nonblocking", with(500, true, true, true, true), Protocol::receiver_stream},
      {"large, receiver there, nonblocking, no get", with(5000, true, true, false, true), Protocol::receiver_stream},
      {"large, receiver computes", with(5000, true, true, true, false), Protocol::receiver_put},
      {"large, receiver computes, blocking", with(5000, true, true, true, false, false), Protocol::receiver_put},
      {"large, receiver computes, nonblocking, decided later", later(with(5000, true, true, true, false)),
       Protocol::sender_get},
      {"large, receiver computes, blocking, nothing to decide", later(with(5000, true, true, true, false, false)),
       Protocol::receiver_put},
      {"medium, receiver computes, nonblocking, decided later", later(with(500, true, true, true, false)),
       Protocol::sender_get},
      {"medium, receiver there, nonblocking, nothing to decide", later(with(500, true, true, true, true)),
       Protocol::receiver_stream},
      {"large, receiver computes, no put", with(5000, true, false, true, false), Protocol::receiver_stream},
  };
  for (const Row& row : rows) EXPECT_EQ(choose_protocol(row.situation), row.expected) << row.what;
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
