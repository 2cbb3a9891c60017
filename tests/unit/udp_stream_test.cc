// The modern UDP protocol's two state machines, face to face: time is the test's, and so is the fate of every datagram.
#include <deque>

#include "fabric/udp/stream_channel.h"
#include "tcp_fixture.h"

namespace tern {
namespace {

/// A port whose datagrams the test carries.
class HeldPort final : public DatagramPort {
 public:
  void describe(wire::DatagramCard&) const override {}
  Error meet(PeerId, const wire::DatagramCard&) override { return {}; }
  size_t datagram_bytes(PeerId) const override { return 1400; }
  size_t buffer_bytes() const override { return 4 << 20; }
  size_t send(PeerId, int, const iovec* datagrams, size_t count) override {
    for (size_t i = 0; i < count; ++i)
      sent.emplace_back(static_cast<const char*>(datagrams[i].iov_base), datagrams[i].iov_len);
    return count;
  }
  size_t receive(Arrival*) override { return 0; }
  void ask_life(PeerId) override {}
  Life life(PeerId) override { return Life::unknown; }
  uint32_t change_route(PeerId) override {
    network = (network + 1) % networks;
    return networks;
  }
  std::vector<std::string> sent;
  uint32_t networks = 1, network = 0;  ///< how many, and the present one
};

/// The conversation's.
struct TalkClock final : Clock {
  explicit TalkClock(const uint64_t& its_now_ns) : now(its_now_ns) {}
  uint64_t now_ns() override { return now; }
  const uint64_t& now;
};

struct End {
  End(PeerId self, PeerId peer, size_t datagram_bytes, size_t window_bytes, const uint64_t& now_ns)
      : clock(now_ns),
        shared{.self = {0, self},
               .port = port,
               .sink = sink,
               .clock = clock,
               .counters = &counters,
               .window_bytes = window_bytes},
        lane(peer),
        link{shared,
             lane,
             peer,
             DatagramSeal({}, {0, self}, {}, {0, peer}, {}, nullptr, false),
             DatagramSeal({}, {0, peer}, {}, {0, self}, {}, nullptr, false),
             1,
             {}},
        channel(link, datagram_bytes) {}
  TalkClock clock;
  HeldPort port;
  KeepingSink sink;
  Counters counters;
  UdpShared shared;
  struct PeerLane : Lane {
    using Lane::Lane;
  } lane;
  UdpLink link;
  StreamChannel channel;
};

/// Two ends, 0 and 1, and a network that takes kDelay_ns.
class Conversation {
 public:
  static constexpr uint64_t kDelay_ns = 50'000;

  explicit Conversation(size_t datagram_bytes = 1400, size_t window_bytes = 1 << 20)
      : zero(0, 1, datagram_bytes, window_bytes, now_ns), one(1, 0, datagram_bytes, window_bytes, now_ns) {}

  /// Whether a datagram is lost: of which end, and what is in it.
  std::function<bool(PeerId from, const wire::Datagram&)> loses = [](PeerId, const wire::Datagram&) { return false; };
  uint64_t now_ns = 1'000'000;
  End zero, one;
  /// Between two polls; so long that small messages never wait for one another (coalescing.h).
  uint64_t step_ns = 25'000;
  /// The end that goes to sleep after each poll.
  const End* sleeper = nullptr;

  /// Rank 0 sends messages as a program does that waits for each.
  void send(const std::string& message, int count = 1) {
    for (int i = 0; i < count; ++i) sent.push_back(message);
    go_on();
  }
  void step() {
    now_ns += step_ns;
    for (End* end : {&zero, &one}) {
      End& other = end == &zero ? one : zero;
      end->channel.advance(now_ns, end == sleeper);
      while (SendOperation* operation = end->shared.finished.pop_front()) operation->done(*operation, {});
      for (std::string& bytes : end->port.sent) on_the_way_.push_back({now_ns + kDelay_ns, &other, std::move(bytes)});
      end->port.sent.clear();
    }
    while (!on_the_way_.empty() && on_the_way_.front().due_ns <= now_ns) {
      const Flight flight = std::move(on_the_way_.front());
      on_the_way_.pop_front();
      deliver(*flight.to, flight.bytes);
    }
    go_on();
  }
  /// False: not within so much time.
  bool until(const std::function<bool()>& done, uint64_t within_ns) {
    const uint64_t end_ns = now_ns + within_ns;
    while (!done()) {
      if (now_ns >= end_ns) return false;
      step();
    }
    return true;
  }
  bool arrived() {
    return one.sink.arrivals.size() == sent.size() && !zero.channel.unacknowledged() && !zero.channel.unsent();
  }
  /// All that has arrived is what was sent, in order.
  void check() {
    for (size_t i = 0; i < one.sink.arrivals.size(); ++i) {
      ASSERT_EQ(one.sink.arrivals[i].header.tag, int32_t(i));
      ASSERT_EQ(one.sink.arrivals[i].bytes, sent[i]);
    }
  }
  std::vector<std::string> sent;

 private:
  struct Flight {
    uint64_t due_ns;
    End* to;
    std::string bytes;
  };

  void go_on() {
    for (; begun_ < sent.size() && (!waiting_ || waiting_->completions == 1); ++begun_) {
      waiting_.reset();
      const std::string& message = sent[begun_];
      const wire::Header header{.kind = wire::Kind::eager, .flags = wire::kRequested, .tag = int32_t(begun_)};
      if (zero.channel.try_send(header, message.data(), message.size(), now_ns)) continue;
      waiting_ = std::make_unique<TestSend>(1, header.tag, message);
      zero.channel.enqueue(*waiting_, now_ns);
    }
  }
  void deliver(End& to, const std::string& bytes) {
    wire::Datagram datagram;
    ASSERT_TRUE(wire::parse_datagram(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), datagram));
    if (loses(to.link.peer, datagram) || to.link.received.contains(datagram.head.number)) return;
    int handled = 0;
    ASSERT_TRUE(to.channel.on_datagram(datagram, now_ns, handled));
  }

  std::deque<Flight> on_the_way_;
  std::unique_ptr<TestSend> waiting_;
  size_t begun_ = 0;
};

// What comes early is kept, however short the pieces: only what was lost is sent again.
TEST(UdpStream, ManyShortEarlyPiecesHaveRoom) {
  constexpr int kMany = 50'000;
  Conversation talk;
  talk.send("abcd", kMany);  // opens the window
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 10'000'000'000));
  ASSERT_EQ(talk.zero.counters.udp_repeated, 0u);
  uint64_t first = 0;
  int losses = 0;
  talk.loses = [&](PeerId from, const wire::Datagram& datagram) {
    if (from != 0 || datagram.payload_bytes == 0) return false;
    if (first == 0) first = datagram.stream.offset;
    return datagram.stream.offset == first && ++losses <= 20;
  };
  talk.send("abcd", kMany);
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 20'000'000'000));
  EXPECT_EQ(losses, 21);
  EXPECT_LE(talk.zero.counters.udp_repeated, 25u);
  talk.check();
}

// Where most of what was sent has been lost the receiver may have no room for anything but what it waits for: that
// comes first.
TEST(UdpStream, AFloodGoesOnWhenTheNetworkIsSoundAgain) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Conversation talk(61'440);
    Rng rng(seed);
    talk.send("abcd", 30'000);
    ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 10'000'000'000));
    // First every other one, which leaves the most gaps, then many, then none.
    uint64_t lost_in_8 = 4 + rng.below(4);
    const uint64_t change_ns = talk.now_ns + 200'000 + rng.below(500'000);
    talk.loses = [&](PeerId from, const wire::Datagram& datagram) {
      if (from != 0) return false;
      return talk.now_ns < change_ns ? datagram.head.number % 2 == 0 : rng.chance(lost_in_8, 8);
    };
    talk.send("abcd", 60'000);
    talk.until([&] { return talk.arrived(); }, rng.below(100'000'000));
    lost_in_8 = 0;
    EXPECT_TRUE(talk.until([&] { return talk.arrived(); }, 2'000'000'000))
        << talk.one.sink.arrivals.size() << " messages have arrived";
    talk.check();
  }
}

// What the sink sends while early pieces are being delivered says how far the sender may go: beyond all of them.
TEST(UdpStream, AnAnswerFromWithinADeliveryNamesTheRightLimit) {
  Conversation talk(1400, StreamSender::kFirstLimit);
  uint64_t seen = 0;
  talk.loses = [&](PeerId from, const wire::Datagram& datagram) {
    if (from == 0) seen = std::max(seen, datagram.stream.offset + datagram.payload_bytes);
    return from == 0 && datagram.stream.offset == 0 && seen < StreamSender::kFirstLimit;
  };
  talk.one.sink.on_arrival = [&](const Arrival& arrival) {
    if (arrival.header.tag != 0) return;
    EXPECT_TRUE(talk.one.channel.try_send({.kind = wire::Kind::eager}, nullptr, 0, talk.now_ns));
  };
  // Exactly what the limit allows, a message without data at the beginning.
  constexpr size_t kHead = sizeof(wire::FrameHead), kShort = kHead + 4;
  constexpr size_t kCount = (StreamSender::kFirstLimit - 2 * kHead) / kShort;
  talk.send("");
  talk.send("abcd", int(kCount));
  talk.send(std::string(StreamSender::kFirstLimit - 2 * kHead - kCount * kShort, 'x'));
  ASSERT_TRUE(talk.until([&] { return seen == StreamSender::kFirstLimit; }, 2'000'000'000));
  EXPECT_TRUE(talk.one.sink.arrivals.empty());
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 2'000'000'000));
  talk.send("abcd", 10);
  EXPECT_TRUE(talk.until([&] { return talk.arrived(); }, 2'000'000'000));
  talk.check();
}

// In a program whose bursts have been followed by polls a burst leaves as a whole at the next poll.
TEST(UdpStream, SmallMessagesOfABurstShareADatagram) {
  Conversation talk;
  talk.step_ns = 10'000;
  const Counters& counters = talk.zero.counters;
  for (int burst = 0; burst < 16; ++burst) {
    const uint64_t before = counters.udp_sent;
    talk.send("abcd", 2);
    EXPECT_EQ(counters.udp_sent - before, 2u) << "nothing is known of this program yet";
    ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
  }
  uint64_t before = counters.udp_sent;
  talk.send("abcd", 10);
  EXPECT_EQ(counters.udp_sent - before, 0u);
  talk.step();
  EXPECT_EQ(counters.udp_sent - before, 1u);
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
  // A longer one takes with it what waits; more than a packet holds fills packets.
  before = counters.udp_sent;
  talk.send("abcd", 10);
  talk.send(std::string(20'000, 'x'));
  EXPECT_EQ(counters.udp_sent - before, 16u) << "360 and 20,032 bytes in packets of at most 1336";
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
  before = counters.udp_sent;
  talk.send(std::string(1000, 'y'), 30);
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
  EXPECT_EQ(counters.udp_sent - before, 24u) << "30 times 1032 bytes in packets of 1336";
  talk.check();
}

// A rank that sleeps lets its acknowledgement of a short message wait for a packet of its own, for half the sender's
// timeout; that of a longer one, of which the sender's window may be full, leaves at once.
TEST(UdpStream, ASleeperAcknowledgesLittleLateAndMuchAtOnce) {
  Conversation talk;
  talk.send("abcd");  // measures the round trip
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
  talk.sleeper = &talk.one;
  const Counters& sleeper = talk.one.counters;
  for (int round = 0; round < 3; ++round) {
    uint64_t before = sleeper.udp_sent;
    const uint64_t began_ns = talk.now_ns;
    talk.send("abcd");
    ASSERT_TRUE(talk.until([&] { return talk.one.sink.arrivals.size() == talk.sent.size(); }, 1'000'000));
    talk.step();
    EXPECT_GE(talk.one.channel.deadline_ns(), began_ns + StreamReceiver::kAsleepDelay_ns);
    ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
    EXPECT_GE(talk.now_ns - began_ns, StreamReceiver::kAsleepDelay_ns);
    EXPECT_EQ(sleeper.udp_sent - before, 1u);
    // With a packet that goes back.
    before = sleeper.udp_sent;
    talk.send("abcd");
    ASSERT_TRUE(talk.until([&] { return talk.one.sink.arrivals.size() == talk.sent.size(); }, 1'000'000));
    ASSERT_TRUE(talk.one.channel.try_send({.kind = wire::Kind::eager}, nullptr, 0, talk.now_ns));
    ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 500'000));
    EXPECT_EQ(sleeper.udp_sent - before, 1u);
    const uint64_t long_ns = talk.now_ns;
    talk.send(std::string(1200, 'x'));
    ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 1'000'000'000));
    EXPECT_LE(talk.now_ns - long_ns, 2 * Conversation::kDelay_ns + 4 * talk.step_ns);
  }
  EXPECT_EQ(talk.zero.counters.udp_repeated, 0u);
  talk.check();
}

// Whatever is lost meanwhile, and however long the messages and bursts are.
TEST(UdpStream, JoinedMessagesArriveInOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Conversation talk(seed % 2 != 0 ? 1400 : 61'440);
    talk.step_ns = 10'000;
    Rng rng(seed);
    for (int burst = 0; burst < 200; ++burst) {
      const uint64_t lost_in_64 = burst < 20 ? 0 : rng.below(8);
      talk.loses = [&rng, lost_in_64](PeerId, const wire::Datagram&) { return rng.chance(lost_in_64, 64); };
      for (uint64_t n = 1 + rng.below(60); n != 0; --n) {
        talk.send(std::string(size_t(rng.below(rng.chance(1, 16) ? 20'000 : 2'100)), char('a' + n % 26)));
      }
      if (rng.chance(1, 4)) continue;
      ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 10'000'000'000));
    }
    EXPECT_TRUE(talk.until([&] { return talk.arrived(); }, 10'000'000'000));
    talk.check();
  }
}

// Two networks, of which now one is down and now the other: the first timeout (RoundTrip::kMinTimeout_ns) finds the
// other network, however often that happens.
TEST(UdpStream, ANetworkThatGoesDownCostsOneTimeout) {
  Conversation talk;
  talk.zero.port.networks = 2;
  uint32_t down = 2;
  talk.loses = [&](PeerId from, const wire::Datagram&) { return from == 0 && talk.zero.port.network == down; };
  talk.send("known", 20);
  ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 100'000'000));
  for (int cut = 0; cut < 30; ++cut) {
    down = talk.zero.port.network;
    talk.send(std::string(1000 + 100 * size_t(cut), 'x'), 40);
    ASSERT_TRUE(talk.until([&] { return talk.arrived(); }, 2 * RoundTrip::kMinTimeout_ns)) << "cut " << cut;
    EXPECT_NE(talk.zero.port.network, down);
  }
  talk.check();
}

}  // namespace
}  // namespace tern
