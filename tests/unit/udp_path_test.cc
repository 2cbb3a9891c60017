// The UDP path over the kernel's sockets, several ranks in one process: order, content, both protocols, with and
// without segmentation offload, forged and replayed datagrams, sleep, and a process that ends.
#include <poll.h>
#include <sys/socket.h>

#include "fabric/udp/kernel_port.h"
#include "fabric/udp/udp_path.h"
#include "tcp_fixture.h"

namespace tern {
namespace {

/// A real port that remembers what it has sent.
class TapPort final : public DatagramPort {
 public:
  explicit TapPort(std::unique_ptr<DatagramPort> inner) : inner_(std::move(inner)) {}
  void describe(wire::DatagramCard& card) const override { inner_->describe(card); }
  Error meet(PeerId peer, const wire::DatagramCard& card) override { return inner_->meet(peer, card); }
  size_t datagram_bytes(PeerId peer) const override { return inner_->datagram_bytes(peer); }
  size_t buffer_bytes() const override { return inner_->buffer_bytes(); }
  size_t send(PeerId peer, int channel, const iovec* datagrams, size_t count) override {
    for (size_t i = 0; i < count && sent.size() < 2000; ++i) {
      sent.emplace_back(static_cast<const char*>(datagrams[i].iov_base), datagrams[i].iov_len);
    }
    return inner_->send(peer, channel, datagrams, count);
  }
  size_t receive(Arrival* out) override { return inner_->receive(out); }
  void ask_life(PeerId peer) override { inner_->ask_life(peer); }
  Life life(PeerId peer) override { return inner_->life(peer); }
  int descriptor() const override { return inner_->descriptor(); }
  bool arm() override { return inner_->arm(); }
  std::vector<std::string> sent;

 private:
  std::unique_ptr<DatagramPort> inner_;
};

class UdpWorld {
 public:
  struct Rank {
    Rank(PeerId id, uint32_t size) : peers({0, id}, size) {}
    PeerTable peers;
    KeepingSink sink;
    TapPort* tap = nullptr;
    std::unique_ptr<UdpPath> path;
  };
  UdpWorld(uint32_t size, const char* protocol, bool segmentation = true, std::function<void(Tunables&)> adjust = {}) {
    ranks.resize(size);
    for (PeerId id = 0; id < size; ++id) {
      Tunables tunables;
      tunables.udp = protocol;
      tunables.tcp_interfaces = "lo";
      if (adjust) adjust(tunables);
      UdpProtocol chosen;
      EXPECT_FALSE(UdpPath::read_protocol(tunables, chosen));
      KernelPortOptions sockets;
      sockets.channels = UdpPath::channels(chosen);
      sockets.segmentation = segmentation;
      Error error;
      auto port = std::make_unique<TapPort>(KernelPort::create(sockets, tunables, error));
      EXPECT_FALSE(error) << error.text();
      ranks[id] = std::make_unique<Rank>(id, size);
      ranks[id]->tap = port.get();
      UdpOptions options;
      options.peers = &ranks[id]->peers;
      options.key.fill(7);
      ranks[id]->path = UdpPath::create(
          options, tunables, std::move(port), clock, ranks[id]->sink,
          [this](PeerId peer, std::string& card) {
            ++lookups;
            card = cards.at(peer);
            return Error();
          },
          error);
      EXPECT_FALSE(error) << error.text();
      cards.push_back(ranks[id]->path->card());
    }
  }
  Rank& operator[](PeerId id) { return *ranks[id]; }
  bool until(const std::function<bool()>& done, double seconds = 20) {
    const uint64_t end = clock.now_ns() + uint64_t(kPatience * seconds * 1e9);
    while (!done()) {
      for (auto& rank : ranks) {
        if (rank->path) rank->path->poll();
      }
      if (clock.now_ns() > end) return false;
    }
    return true;
  }
  void send(PeerId from, PeerId to, int32_t tag, const std::string& bytes) {
    UdpPath& path = *ranks[from]->path;
    const wire::Header header{.kind = wire::Kind::eager, .tag = tag};
    if (bytes.size() <= path.properties().eager_bytes &&
        path.try_send(path.lane(to), header, bytes.data(), bytes.size()))
      return;
    sends.push_back(std::make_unique<TestSend>(to, tag, bytes));
    path.enqueue(sends.back()->over(path));
  }
  bool quiet() {
    for (auto& rank : ranks) {
      if (rank->path && (rank->path->has_unsent() || rank->path->held() != 0)) return false;
    }
    return true;
  }

  RealClock clock;
  std::vector<std::string> cards;
  int lookups = 0;
  std::vector<std::unique_ptr<TestSend>> sends;
  std::vector<std::unique_ptr<Rank>> ranks;
};

struct LoopKind {
  const char* protocol;
  bool segmentation;
};
constexpr LoopKind kWays[] = {{"modern", true}, {"modern", false}, {"paper", true}};

TEST(UdpPath, SizesAroundEveryBoundaryBothWays) {
  for (const LoopKind& way : kWays) {
    for (int64_t datagram : {1400, 61440}) {
      SCOPED_TRACE(std::string(way.protocol) + (way.segmentation ? "" : " without segmentation") + ", " +
                   std::to_string(datagram));
      UdpWorld world(2, way.protocol, way.segmentation,
                     [&](Tunables& tunables) { tunables.udp_datagram_bytes = datagram; });
      const std::vector<size_t> sizes = {0,    1,    32,   64,    65,    1303,  1304,   1305,    1959,         1960,
                                         1961, 2048, 8192, 10063, 10064, 10065, 65'536, 1 << 20, (5 << 20) + 3};
      int tag = 0;
      for (size_t size : sizes) {
        world.send(0, 1, tag, pattern(size, size));
        world.send(1, 0, tag++, pattern(size, size + 1));
      }
      ASSERT_TRUE(world.until([&] {
        return world[1].sink.arrivals.size() == sizes.size() && world[0].sink.arrivals.size() == sizes.size() &&
               world.quiet();
      }));
      for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(world[1].sink.arrivals[i].header.tag, int(i));
        EXPECT_TRUE(world[1].sink.arrivals[i].bytes == pattern(sizes[i], sizes[i])) << sizes[i];
        EXPECT_TRUE(world[0].sink.arrivals[i].bytes == pattern(sizes[i], sizes[i] + 1)) << sizes[i];
      }
      for (auto& send : world.sends) {
        EXPECT_EQ(send->completions, 1);
        EXPECT_EQ(send->error, "");
      }
    }
  }
}

// A short poll takes what comes from peers that are met, and repeats what was lost; who introduces itself is left to a
// poll, since its card must be read.
TEST(UdpPath, ShortPollsTakeWhatComesFromKnownPeers) {
  for (const char* protocol : {"modern", "paper"}) {
    SCOPED_TRACE(protocol);
    UdpWorld world(2, protocol);
    auto& arrivals = world[1].sink.arrivals;
    UdpPath& path = *world[1].path;
    const auto poll_shortly = [&](size_t wanted) {
      const uint64_t end = world.clock.now_ns() + uint64_t(kPatience * 20e9);
      int last = 0;
      while (arrivals.size() < wanted && last >= 0 && world.clock.now_ns() < end) {
        world[0].path->poll();
        last = path.poll_shortly();
      }
      return last;
    };
    world.send(0, 1, 0, "first");
    EXPECT_EQ(poll_shortly(1), -1);
    EXPECT_EQ(world.lookups, 1) << "the sender's";
    EXPECT_TRUE(arrivals.empty());
    EXPECT_EQ(path.poll_shortly(), -1) << "until a poll has come";
    EXPECT_EQ(path.unsent_hint(), Need::now);
    EXPECT_FALSE(path.arm());
    ASSERT_TRUE(world.until([&] { return arrivals.size() == 1; }));
    EXPECT_EQ(world.lookups, 2);

    world.send(0, 1, 1, "second");
    world.send(0, 1, 2, pattern(50'000, 3));
    EXPECT_GE(poll_shortly(3), 0);
    ASSERT_EQ(arrivals.size(), 3u);
    EXPECT_TRUE(arrivals[2].bytes == pattern(50'000, 3));
    // What it sends is acknowledged by short polls alone.
    ASSERT_TRUE(path.try_send(path.lane(0), {.kind = wire::Kind::eager, .tag = 0}, "", 0));
    const uint64_t end = world.clock.now_ns() + uint64_t(kPatience * 20e9);
    while (path.has_unsent() && world.clock.now_ns() < end) {
      world[0].path->poll();
      EXPECT_GE(path.poll_shortly(), 0);
    }
    EXPECT_FALSE(path.has_unsent());
    EXPECT_EQ(world.lookups, 2);
  }
}

// What goes over the wire shows nothing of the messages, and they arrive.
TEST(UdpPath, EncryptedMessagesArriveAndDoNotShow) {
  const std::string secret = "the spring is nearer than it looks";
  for (const char* protocol : {"modern", "paper"}) {
    for (bool encrypt : {false, true}) {
      SCOPED_TRACE(std::string(protocol) + (encrypt ? ", encrypted" : ""));
      UdpWorld world(2, protocol, true, [&](Tunables& tunables) { tunables.encrypt = encrypt; });
      std::string message;
      while (message.size() < 300'000) message += secret;
      for (int i = 0; i < 5; ++i) world.send(0, 1, i, message.substr(0, i % 2 ? 100 : message.size()));
      ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 5 && world.quiet(); }));
      for (auto& arrival : world[1].sink.arrivals) EXPECT_TRUE(message.starts_with(arrival.bytes));
      size_t shown = 0;
      for (const std::string& datagram : world[0].tap->sent) shown += datagram.find(secret) != std::string::npos;
      if (encrypt) EXPECT_EQ(shown, 0u);
      else EXPECT_GT(shown, 0u);
    }
  }
}

TEST(UdpPath, RandomTrafficAmongFour) {
  for (const LoopKind& way : kWays) {
    SCOPED_TRACE(way.protocol);
    constexpr uint32_t kRanks = 4;
    UdpWorld world(kRanks, way.protocol, way.segmentation);
    Rng rng(5);
    std::map<std::pair<PeerId, PeerId>, std::vector<std::string>> streams;
    size_t total = 0;
    for (int i = 0; i < 600; ++i) {
      const PeerId from = PeerId(rng.below(kRanks)), to = PeerId((from + 1 + rng.below(kRanks - 1)) % kRanks);
      auto& stream = streams[{from, to}];
      stream.push_back(pattern(size_t(rng.below(rng.chance(1, 10) ? 300'000 : 3000)), rng.next()));
      world.send(from, to, int32_t(stream.size()) - 1, stream.back());
      ++total;
      if (rng.chance(1, 3)) world.ranks[rng.below(kRanks)]->path->poll();
    }
    ASSERT_TRUE(world.until([&] {
      size_t count = 0;
      for (auto& rank : world.ranks) count += rank->sink.arrivals.size();
      return count == total && world.quiet();
    }));
    for (PeerId to = 0; to < kRanks; ++to) {
      std::map<PeerId, size_t> next;
      for (const Arrival& arrival : world[to].sink.arrivals) {
        const size_t i = next[arrival.peer]++;
        ASSERT_EQ(arrival.header.tag, int32_t(i));
        ASSERT_TRUE(arrival.bytes == (streams[{arrival.peer, to}][i]));
      }
    }
  }
}

// Whoever can send to the socket, and has seen all that went over the wire, changes nothing.
TEST(UdpPath, ForgedAndReplayedDatagramsChangeNothing) {
  for (const char* protocol : {"modern", "paper"}) {
    SCOPED_TRACE(protocol);
    UdpWorld world(2, protocol);
    for (int i = 0; i < 20; ++i) world.send(0, 1, i, pattern(size_t(i) * 700, i));
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 20 && world.quiet(); }));
    wire::DatagramCard card;
    ASSERT_FALSE(wire::parse_datagram_card(world.cards[1], card));
    Descriptor attacker(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress target(card.channels[0].addresses.front());
    uint64_t forged = 0, replayed = 0;
    auto attack = [&](const std::string& bytes) {
      ASSERT_EQ(sendto(attacker.get(), bytes.data(), bytes.size(), 0, target.get(), target.bytes),
                ssize_t(bytes.size()));
      world[1].path->poll();
    };
    const std::vector<std::string> seen = world[0].tap->sent, own = world[1].tap->sent;
    ASSERT_GT(seen.size(), 10u);
    Rng rng(3);
    for (const std::string& datagram : seen) {
      if (wire::DatagramType(datagram[2]) == wire::DatagramType::introduction) continue;  // of a rank that is known
      attack(datagram);
      ++replayed;
      std::string changed = datagram;
      changed[size_t(rng.below(changed.size()))] ^= char(1 << rng.below(8));
      attack(changed);
      attack(datagram.substr(0, size_t(rng.below(datagram.size()))));
      std::string later = datagram;  // the same under a number that has not been there
      later[20] = 1;
      attack(later);
      forged += 3;
    }
    for (const std::string& datagram : own) {  // reflected
      if (wire::DatagramType(datagram[2]) == wire::DatagramType::introduction) continue;
      attack(datagram);
      ++forged;
    }
    ASSERT_TRUE(world.until(
        [&] {
          return world[1].path->counters().udp_forged + world[1].path->counters().udp_replayed >= forged + replayed;
        },
        5));
    EXPECT_EQ(world[1].path->counters().udp_replayed, replayed);
    EXPECT_EQ(world[1].path->counters().udp_forged, forged);
    world.send(0, 1, 20, "after");
    world.send(1, 0, 0, "answer");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 21 && world[0].sink.arrivals.size() == 1; }));
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(world[1].sink.arrivals[size_t(i)].bytes == pattern(size_t(i) * 700, i));
    EXPECT_EQ(world[1].sink.arrivals[20].bytes, "after");
    EXPECT_TRUE(world[1].sink.lost.empty());
  }
}

// Before a rank has introduced itself with the job's key nothing is done for it: no question to the launcher, no
// socket.
TEST(UdpPath, StrangersCauseNoWork) {
  UdpWorld world(3, "modern"), other(3, "modern");
  other.send(0, 1, 0, "hello");
  other.send(0, 1, 1, pattern(5000, 1));
  ASSERT_TRUE(other.until([&] { return other[1].sink.arrivals.size() == 2; }));
  wire::DatagramCard card;
  ASSERT_FALSE(wire::parse_datagram_card(world.cards[1], card));
  Descriptor attacker(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress target(card.channels[0].addresses.front());
  // What a rank of the same name has sent in an earlier job with this key, and changes of that.
  uint64_t sent = 0;
  for (const std::string& datagram : other[0].tap->sent) {
    for (uint32_t rank : {0u, 2u}) {
      std::string changed = datagram;
      std::memcpy(changed.data() + 4, &rank, sizeof rank);
      ASSERT_EQ(sendto(attacker.get(), changed.data(), changed.size(), 0, target.get(), target.bytes),
                ssize_t(changed.size()));
      ++sent;
    }
  }
  ASSERT_GE(sent, 6u);
  EXPECT_FALSE(world.until([&] { return world.lookups != 0; }, 0.3));
  EXPECT_GE(world[1].path->counters().udp_forged, 2u) << "the introductions";
  EXPECT_TRUE(world[1].sink.arrivals.empty());
  world.send(0, 1, 0, "the true one");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  EXPECT_EQ(world.lookups, 2);
}

TEST(UdpPath, AWrongKeyIsNoneOfOurs) {
  UdpWorld world(2, "modern");
  world.cards[0][20] ^= 1;  // rank 1 gets another salt of rank 0, and with it another key
  world.send(0, 1, 0, "hello");
  EXPECT_FALSE(world.until([&] { return !world[1].sink.arrivals.empty(); }, 0.3));
  EXPECT_GT(world[1].path->counters().udp_forged, 0u);
}

TEST(UdpPath, ASleeperIsWoken) {
  for (const char* protocol : {"modern", "paper"}) {
    UdpWorld world(2, protocol);
    world.send(0, 1, 0, "hello");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1 && world.quiet(); }));
    UdpPath& sleeper = *world[1].path;
    auto readable = [&](int ms) {
      pollfd wait{sleeper.wait_fd(), POLLIN, 0};
      return ::poll(&wait, 1, ms) == 1;
    };
    while (sleeper.poll() != 0) {
    }
    ASSERT_TRUE(sleeper.arm());
    EXPECT_FALSE(readable(20));
    world.send(0, 1, 1, pattern(1500, 1));
    EXPECT_TRUE(readable(2000));
    sleeper.disarm();
    // What is not acknowledged is looked after in time, though nothing arrives.
    EXPECT_LT(world[0].path->next_deadline_ns(), world.clock.now_ns() + 1'000'000'000);
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 2; }));
  }
}

TEST(UdpPath, AProcessThatHasEndedIsReportedInTime) {
  for (const char* protocol : {"modern", "paper"}) {
    SCOPED_TRACE(protocol);
    UdpWorld world(2, protocol);
    world.send(0, 1, 0, "hello");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1 && world.quiet(); }));
    world[1].path.reset();
    world.send(0, 1, 1, pattern(200'000, 1));
    EXPECT_TRUE(world.until([&] { return world[0].sink.lost.count(1) == 1; }, 4));
    EXPECT_NE(world[0].sink.lost[1].find("its process is not there"), std::string::npos) << world[0].sink.lost[1];
    for (auto& send : world.sends) EXPECT_EQ(send->completions, 1);
    TestSend late(1, 2, "too late");
    world[0].path->enqueue(late.over(*world[0].path));
    EXPECT_TRUE(world.until([&] { return late.completions == 1; }, 1));
    EXPECT_NE(late.error, "");
  }
}

TEST(UdpPath, DifferentProtocolsAreNamed) {
  UdpWorld modern(2, "modern"), paper(2, "paper");
  modern.cards[1] = paper.cards[1];
  modern.send(0, 1, 0, "hello");
  ASSERT_TRUE(modern.until([&] { return modern[0].sink.lost.count(1) == 1; }, 2));
  EXPECT_NE(modern[0].sink.lost[1].find("TERN_UDP"), std::string::npos);
}

}  // namespace
}  // namespace tern
