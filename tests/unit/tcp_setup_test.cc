// How TCP connections come and go: mismatches, loss, the orderly end, and callers who are none of us.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/descriptor.h"
#include "tcp_fixture.h"

namespace tern {
namespace {

// The address of a rank's loopback listener.
SocketAddress loopback_of(TcpPath& path) {
  wire::Card card;
  EXPECT_FALSE(wire::parse_card(path.card(), card));
  for (auto& address : card.addresses) {
    if (address.loopback() && address.family == 4) return SocketAddress(address);
  }
  ADD_FAILURE() << "no loopback address in the card";
  return {};
}

Descriptor call(TcpPath& path) {
  Descriptor fd;
  int result = begin_connect(loopback_of(path), fd);
  EXPECT_TRUE(result == 0 || result == EINPROGRESS) << errno_text(result);
  return fd;
}

void say(const Descriptor& fd, std::string_view text) {
  (void)!send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Whether the other side has hung up; what it said before is in `heard`.
bool hung_up(const Descriptor& fd, std::string& heard) {
  char bytes[512];
  for (;;) {
    ssize_t n = recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) heard.append(bytes, size_t(n));
    else return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
}

TEST(TcpSetup, AnotherKeyNeverConnects) {
  TcpWorld world(2, [](TcpOptions& options, Tunables& tunables) {
    if (options.peers->me() == 1) options.key.fill(8);
    tunables.tcp_connect_timeout_s = 1;
  });
  TestSend send(1, 1, "secret");
  world.path(0).enqueue(send.over(world.path(0)));
  ASSERT_TRUE(world.until([&] { return send.completions == 1; }));
  EXPECT_NE(send.error.find("rank 1"), std::string::npos) << send.error;
  EXPECT_EQ(world[0].sink.lost.size(), 1u);
  EXPECT_TRUE(world[1].sink.arrivals.empty());
  EXPECT_TRUE(world[1].sink.lost.empty()) << "an unproven caller must not be able to make a peer look lost";
}

TEST(TcpSetup, SettingsThatMustAgreeAreAClearErrorOnBothSides) {
  TcpWorld world(2, [](TcpOptions& options, Tunables& tunables) {
    if (options.peers->me() == 1) tunables.unexpected_credit_bytes = 12345;
  });
  TestSend send(1, 1, "x");
  world.path(0).enqueue(send.over(world.path(0)));
  ASSERT_TRUE(world.until([&] { return world[0].sink.lost.size() == 1 && world[1].sink.lost.size() == 1; }));
  const std::string ours = std::to_string(Tunables().unexpected_credit_bytes);
  EXPECT_NE(send.error.find("unexpected_credit_bytes: theirs 12345, ours " + ours), std::string::npos) << send.error;
  EXPECT_NE(world[1].sink.lost[0].find("unexpected_credit_bytes"), std::string::npos);
  // Later sends fail too, once, and only in poll.
  TestSend late(1, 2, "y");
  EXPECT_FALSE(world.path(0).try_send(world.path(0).lane(1), late.header, "y", 1));
  world.path(0).enqueue(late.over(world.path(0)));
  EXPECT_EQ(late.completions, 0);
  EXPECT_FALSE(world.path(0).arm());
  world.poll();
  EXPECT_EQ(late.completions, 1);
}

TEST(TcpSetup, NobodyThere) {
  TcpWorld world(3);
  world.cards[1] = world.path(1).card();
  world[1].path.reset();
  TestSend send(1, 1, "x");
  uint64_t begin = world.clock.now_ns();
  world.path(0).enqueue(send.over(world.path(0)));
  ASSERT_TRUE(world.until([&] { return send.completions == 1; }));
  for (const char* text : {"127.0.0.1:", " over lo: Connection refused", "TERN_TCP_INTERFACES", "TERN_TCP_PORT_FIRST"})
    EXPECT_NE(send.error.find(text), std::string::npos) << send.error;
  EXPECT_LT(world.clock.now_ns() - begin, 5'000'000'000u) << "refused by everyone: no need to wait for the time limit";
  EXPECT_EQ(world[0].sink.lost.count(1), 1u);
}

TEST(TcpSetup, UnreadableCard) {
  TcpWorld world(3);
  world.cards[1] = "rubbish";
  wire::Card empty;
  world.cards[2] = wire::build_card(empty);
  TestSend first(1, 1, "x"), second(2, 1, "x");
  world.path(0).enqueue(first.over(world.path(0)));
  world.path(0).enqueue(second.over(world.path(0)));
  EXPECT_EQ(first.completions, 0);
  ASSERT_TRUE(world.until([&] { return first.completions == 1 && second.completions == 1; }, 2));
  EXPECT_NE(first.error.find("card is not one"), std::string::npos) << first.error;
  EXPECT_NE(second.error.find("no network leads from here"), std::string::npos) << second.error;
}

// Two ranks' cards are mixed up, as when one address exists on several hosts: the wrong one must not be
// spoken to.
TEST(TcpSetup, TheWrongRankAnswers) {
  TcpWorld world(3, [](TcpOptions&, Tunables& tunables) { tunables.tcp_connect_timeout_s = 1; });
  wire::Card first, second;
  ASSERT_FALSE(wire::parse_card(world.path(1).card(), first));
  ASSERT_FALSE(wire::parse_card(world.path(2).card(), second));
  wire::Card mixed = first;
  mixed.addresses.insert(mixed.addresses.end(), second.addresses.begin(), second.addresses.end());
  world.cards[2] = wire::build_card(mixed);
  world.send(0, 2, 7, "for two");
  ASSERT_TRUE(world.until([&] { return world[2].sink.arrivals.size() == 1; }));
  EXPECT_TRUE(world[1].sink.arrivals.empty());
  world.cards[1] = world.path(2).card();
  TestSend lost(1, 1, "for one");
  world.path(0).enqueue(lost.over(world.path(0)));
  ASSERT_TRUE(world.until([&] { return lost.completions == 1; }));
  EXPECT_NE(lost.error.find("another rank answers there"), std::string::npos) << lost.error;
}

// The peer has gone (its listeners too): what is queued fails, what is half received is given back.
TEST(TcpSetup, ALostPeerFailsWhatIsQueuedAndIsAnnounced) {
  for (PeerId gone : {0u, 1u}) {
    SCOPED_TRACE(gone);
    PeerId left = 1 - gone;
    TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 4096; });
    world.cards[0] = world.path(0).card();
    world.cards[1] = world.path(1).card();
    world.send(0, 1, 0, "hello");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
    TestSend large(left, 1, pattern(8 << 20, 1)), back(gone, 2, pattern(8 << 20, 2)), behind(gone, 3, "behind");
    world.path(gone).enqueue(large.over(world.path(gone)));
    world.path(left).enqueue(back.over(world.path(left)));
    world.path(left).enqueue(behind.over(world.path(left)));
    for (int i = 0; i < 50; ++i) world.poll();
    ASSERT_TRUE(large.header_sent && back.header_sent);
    world.path(gone).abort();
    world[gone].path.reset();
    ASSERT_TRUE(world.until([&] { return world[left].sink.lost.size() == 1; }, 5));
    EXPECT_EQ(back.completions, 1);
    EXPECT_EQ(behind.completions, 1);
    EXPECT_NE(behind.error.find("the connection to 127.0.0.1:"), std::string::npos) << behind.error;
    EXPECT_NE(behind.error.find("refused"), std::string::npos) << behind.error;
    EXPECT_EQ(world[left].sink.arrivals.back().header.tag, 1)
        << "the message in the middle of its arrival is given back";
    EXPECT_NE(world[left].sink.arrivals.back().error, "");
    EXPECT_FALSE(world.path(left).has_unsent());
  }
}

// The peer is killed: no goodbye, so it is a loss; what it had sent before arrives.
TEST(TcpSetup, AKilledProcessIsALoss) {
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(to_parent), 0);
  pid_t child = fork();
  PeerId me = child == 0 ? 1 : 0;
  RealClock clock;
  KeepingSink sink;
  TcpOptions options;
  const PeerTable peers({0, me}, 2);
  options.peers = &peers;
  options.this_host_only = true;
  Tunables tunables;
  Error error;
  std::string other(4096, 0);
  auto path = TcpPath::create(
      options, tunables, KernelStreams::create(error), clock, sink,
      [&](PeerId, std::string& card) {
        card = other;
        return Error();
      },
      error);
  if (error) _exit(1);
  (void)!write(me == 0 ? to_child[1] : to_parent[1], path->card().data(), path->card().size());
  other.resize(size_t(std::max<ssize_t>(0, read(me == 0 ? to_parent[0] : to_child[0], other.data(), other.size()))));
  wire::Header header{.kind = wire::Kind::eager};
  if (child == 0) {
    while (!path->try_send(path->lane(0), header, "last words", 10)) path->poll();
    raise(SIGKILL);
  }
  ASSERT_GT(child, 0);
  uint64_t end = clock.now_ns() + 10'000'000'000;
  while (sink.lost.empty() && clock.now_ns() < end) path->poll();
  ASSERT_EQ(sink.lost.count(1), 1u);
  EXPECT_NE(sink.lost[1].find("without a goodbye"), std::string::npos) << sink.lost[1];
  ASSERT_EQ(sink.arrivals.size(), 1u);
  EXPECT_EQ(sink.arrivals[0].bytes, "last words");
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// One side ends while the other has sent it what it never reads: nothing of its own last data may be lost.
TEST(TcpSetup, TheOrderlyEndDeliversEverything) {
  for (int i = 0; i < 20; ++i) {
    TcpWorld world(2);
    world.send(0, 1, 0, "hello");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
    std::string last = pattern(60'000, uint64_t(i));
    world.send(1, 0, 1, "never read");
    world.send(0, 1, 2, last);
    world.send(1, 0, 3, "never read either");
    ASSERT_TRUE(world.until([&] { return !world.path(0).has_unsent(); }));
    world[0].path.reset();
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 2; }));
    EXPECT_TRUE(world[1].sink.arrivals[1].bytes == last);
    ASSERT_TRUE(world.until([&] { return world.path(1).connections() == 0; }));
    EXPECT_TRUE(world[1].sink.lost.empty()) << "a goodbye is no loss";
    TestSend late(0, 4, "too late");
    world.path(1).enqueue(late.over(world.path(1)));
    ASSERT_TRUE(world.until([&] { return late.completions == 1; }));
    EXPECT_NE(late.error.find("has ended"), std::string::npos) << late.error;
    // Nothing is kept for such a peer but who it was; what is begun later can be withdrawn, or fails.
    wire::Header header{wire::Kind::eager};
    EXPECT_FALSE(world.path(1).try_send(world.path(1).lane(0), header, "late", 4));
    TestSend withdrawn(0, 5, "not any more"), later(0, 6, "later");
    world.path(1).enqueue(withdrawn.over(world.path(1)));
    world.path(1).enqueue(later.over(world.path(1)));
    EXPECT_TRUE(world.path(1).withdraw(withdrawn));
    ASSERT_TRUE(world.until([&] { return later.completions == 1; }));
    EXPECT_EQ(withdrawn.completions, 0);
    EXPECT_NE(later.error.find("has ended"), std::string::npos) << later.error;
  }
}

// Three ranks, each rank 0 of its own job; the first two know each other, the third knows the first.
TEST(TcpSetup, RanksOfSeveralJobsTalkWhenBothKnowTheOtherJob) {
  struct Rank {
    Rank(uint64_t job, uint32_t size) : peers({job, 0}, size) {}
    PeerTable peers;
    KeepingSink sink;
    std::unique_ptr<TcpPath> path;
  };
  RealClock clock;
  std::deque<TestSend> sends;
  Rank ranks[] = {{1, 2}, {2, 1}, {3, 1}};
  const auto key_of = [](uint64_t job) {
    TcpKey key;
    key.fill(uint8_t(job));
    return key;
  };
  const auto secret_of = [&](uint64_t job) { return secret_for_others(key_of(job)); };
  const PeerId second = ranks[0].peers.add_job(2, 1, secret_of(2)), first = ranks[1].peers.add_job(1, 2, secret_of(1)),
               first_of_third = ranks[2].peers.add_job(1, 2, secret_of(1));
  Tunables tunables;
  tunables.tcp_connect_timeout_s = 1;
  for (Rank& rank : ranks) {
    TcpOptions options;
    options.peers = &rank.peers;
    options.key = key_of(rank.peers.my_name().job);
    options.this_host_only = true;
    Error error;
    rank.path = TcpPath::create(
        options, tunables, KernelStreams::create(error), clock, rank.sink,
        [&](PeerId peer, std::string& card) {
          card = ranks[rank.peers.name(peer).job - 1].path->card();
          return Error();
        },
        error);
    ASSERT_FALSE(error) << error.text();
  }
  const PeerId targets[] = {second, first, first_of_third};
  for (size_t i = 0; i < 3; ++i)
    ranks[i].path->enqueue(sends.emplace_back(targets[i], int32_t(i), "hello").over(*ranks[i].path));
  const uint64_t end = clock.now_ns() + uint64_t(kPatience * 20e9);
  while (clock.now_ns() < end &&
         (ranks[0].sink.arrivals.empty() || ranks[1].sink.arrivals.empty() || ranks[2].sink.lost.empty())) {
    for (Rank& rank : ranks) rank.path->poll();
  }
  ASSERT_EQ(ranks[0].sink.arrivals.size(), 1u);
  ASSERT_EQ(ranks[1].sink.arrivals.size(), 1u);
  EXPECT_EQ(ranks[0].sink.arrivals[0].peer, second);
  EXPECT_EQ(ranks[1].sink.arrivals[0].peer, first);
  EXPECT_EQ(ranks[2].sink.lost.size(), 1u);
  EXPECT_TRUE(ranks[0].sink.lost.empty()) << "a job that this rank does not know cannot make a peer look lost";
}

TEST(TcpSetup, RubbishIsClosedInSilence) {
  TcpWorld world(2);
  std::vector<Descriptor> callers;
  std::string hello;
  {
    TcpIdentity stranger;
    stranger.name.rank = 1;
    stranger.key.fill(99);
    stranger.version = wire::kVersion;
    TcpHandshake handshake(stranger, {0, 0});
    hello = handshake.output();
  }
  std::string long_body("Ter\xf1\x01\x00\xff\xff", 8);
  for (std::string_view text :
       {std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("\0\0\0\0", 4), std::string_view("SSH-2.0-x\r\n"),
        std::string_view(long_body), std::string_view(hello), std::string_view("Tx")}) {
    callers.push_back(call(world.path(0)));
    say(callers.back(), text);
  }
  std::vector<std::string> heard(callers.size());
  std::vector<bool> gone(callers.size());
  ASSERT_TRUE(world.until([&] {
    bool all = true;
    for (size_t i = 0; i < callers.size(); ++i) {
      if (!gone[i]) gone[i] = hung_up(callers[i], heard[i]);
      all = all && gone[i];
    }
    return all;
  }));
  for (auto& text : heard) EXPECT_EQ(text, "");
  EXPECT_EQ(world.path(0).unproven(), 0u);
}

// Callers that say nothing, or a true greeting's first bytes, hold a bounded number of places, and never the
// last one.
TEST(TcpSetup, SlowCallersDoNotKeepPeersOut) {
  TcpWorld world(2);
  std::vector<Descriptor> callers;
  for (int i = 0; i < 600; ++i) {
    callers.push_back(call(world.path(0)));
    if (i % 2) say(callers.back(), "Ter");
    if (i % 16 == 0) world.poll();
  }
  ASSERT_TRUE(world.until([&] {
    std::string heard;
    int gone = 0;
    for (auto& fd : callers) gone += hung_up(fd, heard);
    return gone >= 600 - 256;
  }));
  EXPECT_LE(world.path(0).unproven(), 256u);
  world.send(1, 0, 1, "hello");
  ASSERT_TRUE(world.until([&] { return world[0].sink.arrivals.size() == 1; }));
}

// A greeting that was overheard is repeated: without the key the second step cannot be answered.
TEST(TcpSetup, AReplayedGreetingLeadsNowhere) {
  TcpWorld world(2);
  TcpIdentity one;
  one.name.rank = 1;
  one.key.fill(7);
  one.version = wire::kVersion;
  one.agreement = "shm_ring_bytes=65536\n";
  TcpHandshake overheard(one, {0, 0});
  Descriptor caller = call(world.path(0));
  say(caller, overheard.output());
  std::string heard;
  ASSERT_TRUE(world.until([&] {
    (void)hung_up(caller, heard);
    return !heard.empty();
  }));
  say(caller, overheard.output());  // not the proof
  ASSERT_TRUE(world.until([&] { return hung_up(caller, heard); }));
  EXPECT_EQ(world.path(0).connections(), 0u);
  EXPECT_TRUE(world[0].sink.lost.empty());
}

// Stands between a caller and a rank, and passes everything on until the rank has said that the caller's connection is
// to be used: that is lost, and from then on the caller's side is a network that has gone (nothing arrives, nothing is
// refused).
class GoingDark {
 public:
  explicit GoingDark(const SocketAddress& rank) : rank_(rank) {
    wire::CardAddress any{.family = 4, .prefix_length = 8, .flags = wire::CardAddress::kLoopback};
    any.bytes = {127, 0, 0, 1};
    listener_ = listen_on(SocketAddress(any));
    EXPECT_TRUE(listener_);
    address = any;
    address.port = local_address(listener_.get()).port();
  }
  void pass_on() {
    if (!caller_) {
      SocketAddress from;
      caller_ = accept_from(listener_.get(), from);
      if (!caller_) return;
      listener_.reset();  // only once
      EXPECT_EQ(begin_connect(rank_, called_), EINPROGRESS);
    }
    if (!dark) pass(caller_, called_);
    if (!dark && answers_ < 2 && pass(called_, caller_)) ++answers_;
  }
  /// So that the rank learns that this connection has ended, as when its own interface has gone down.
  void reset_called() { called_.reset(); }

  wire::CardAddress address;
  bool dark = false;

 private:
  bool pass(const Descriptor& from, const Descriptor& to) {
    char bytes[4096];
    const ssize_t n = recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) return false;
    if (&from == &called_ && answers_ == 1) {  // the verdict
      sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
      const sock_fprog program{1, &drop};
      EXPECT_EQ(setsockopt(caller_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
      dark = true;
      return true;
    }
    EXPECT_EQ(send(to.get(), bytes, size_t(n), MSG_NOSIGNAL), n);
    return true;
  }
  const SocketAddress rank_;
  Descriptor listener_, caller_, called_;
  int answers_ = 0;  ///< pieces that the rank has said
};

// The network goes when the called side already relies on the connection and the caller does not yet. A kernel that has
// nothing to repeat would wait for hours.
TEST(TcpSetup, ANetworkThatGoesDarkInTheHandshakeIsLeft) {
  for (const bool called_knows : {false, true}) {
    SCOPED_TRACE(called_knows);
    TcpWorld world(2);
    GoingDark network(loopback_of(world.path(1)));
    wire::Card card;
    ASSERT_FALSE(wire::parse_card(world.path(1).card(), card));
    card.addresses.insert(card.addresses.begin(), network.address);
    world.cards[1] = wire::build_card(card);
    world.send(0, 1, 7, "hello");
    ASSERT_TRUE(world.until([&] { return network.pass_on(), network.dark; }));
    ASSERT_TRUE(world.until([&] { return world.path(1).connections() == 1; }));
    if (called_knows) network.reset_called();
    const uint64_t begin = world.clock.now_ns();
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
    // The called side knows that its connection was lost, and says so when it calls: nothing is waited for.
    if (called_knows) {
      EXPECT_LT(world.clock.now_ns() - begin, 700'000'000u);
    }
    EXPECT_EQ(world[1].sink.arrivals[0].bytes, "hello");
    EXPECT_TRUE(world[0].sink.lost.empty() && world[1].sink.lost.empty());
  }
}

// TERN_TCP_FLOOD=1000000 for the full count of the issue; 20,000 here.
TEST(TcpSetup, AFloodOfStrangersChangesNothing) {
  const char* wanted = std::getenv("TERN_TCP_FLOOD");
  const int count = wanted ? std::atoi(wanted) : 20'000;
  TcpWorld world(2);
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  auto round_trips_us = [&] {
    std::vector<double> times;
    for (int i = 0; i < 2000; ++i) {
      size_t before = world[1].sink.arrivals.size();
      uint64_t begin = world.clock.now_ns();
      world.send(0, 1, i, "ping");
      while (world[1].sink.arrivals.size() == before) world.poll();
      times.push_back(double(world.clock.now_ns() - begin) / 1e3);
      world[1].sink.arrivals.clear();
    }
    std::nth_element(times.begin(), times.begin() + 1000, times.end());
    return times[1000];
  };
  double before_us = round_trips_us();
  Rng rng(5);
  linger reset{1, 0};  // closing leaves no port behind, or the flood would run out of them
  TcpIdentity stranger;
  stranger.key.fill(99);
  TcpHandshake forged(stranger, {0, 0});
  std::string hello = forged.output();
  for (int i = 0; i < count; ++i) {
    Descriptor fd = call(world.path(0));
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    std::string text = i % 4 == 0 ? hello : pattern(size_t(rng.below(200)), rng.next());
    if (i % 8 == 1) text = "Ter\xf1" + text;
    if (i % 8 == 4) text.resize(size_t(rng.below(text.size())));
    say(fd, text);
    if (i % 3 == 0) world.path(0).poll();
    if (i % 1000 == 0) {
      world.send(1, 0, 0, "still here");
      ASSERT_TRUE(world.until([&] { return !world[0].sink.arrivals.empty(); }));
      world[0].sink.arrivals.clear();
    }
  }
  ASSERT_TRUE(world.until([&] { return world.path(0).unproven() == 0; }));
  EXPECT_EQ(world.path(0).connections(), 1u);
  EXPECT_TRUE(world[0].sink.lost.empty());
  double after_us = round_trips_us();
  EXPECT_LT(after_us, 3 * before_us + 20) << "before " << before_us << " us";
}

TEST(TcpSetup, PortsBeginWhereTheyAreTold) {
  TcpWorld world(3, [](TcpOptions&, Tunables& tunables) { tunables.tcp_port_first = 28'700; });
  std::vector<uint16_t> ports;
  for (PeerId id = 0; id < 3; ++id) ports.push_back(loopback_of(world.path(id)).port());
  for (uint16_t port : ports) {
    EXPECT_GE(port, 28'700);
    EXPECT_LT(port, 28'700 + 1024);
  }
  EXPECT_NE(ports[0], ports[1]);
  world.send(0, 2, 0, "x");
  ASSERT_TRUE(world.until([&] { return world[2].sink.arrivals.size() == 1; }));
}

// How many of this process's TCP sockets in a state have which congestion control.
std::map<std::string, int> congestion_controls(int state) {
  std::map<std::string, int> count;
  for (int fd = 0; fd < 1024; ++fd) {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_state != state) continue;
    char name[32] = {};
    bytes = sizeof name - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0) ++count[name];
  }
  return count;
}

// From its first packet on: a connection is accepted with that of its listener.
TEST(TcpSetup, BothEndsTakeTheCongestionControlTheyAreTold) {
  const std::string other = [] {  // within a host it is reno anyhow
    std::ifstream allowed("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    for (std::string name; allowed >> name;) {
      if (name != "reno") return name;
    }
    return std::string();
  }();
  if (other.empty()) GTEST_SKIP() << "this system allows reno only";
  const Descriptor probe(socket(AF_INET, SOCK_STREAM, 0));
  if (setsockopt(probe.get(), IPPROTO_TCP, TCP_CONGESTION, other.data(), socklen_t(other.size())) != 0)
    GTEST_SKIP() << "this system lists " << other << " and refuses it (qemu-user does)";
  TcpWorld world(2, [&](TcpOptions&, Tunables& tunables) { tunables.tcp_congestion = other; });
  world.send(0, 1, 0, "x");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  EXPECT_EQ(congestion_controls(TCP_ESTABLISHED)[other], 2);
  EXPECT_GE(congestion_controls(TCP_LISTEN)[other], 2);
  EXPECT_EQ(congestion_controls(TCP_LISTEN).size(), 1u);
}

TEST(TcpSetup, NothingPacesWithinAHost) {
  TcpWorld world(2);
  world.send(0, 1, 0, "x");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  for (int state : {TCP_ESTABLISHED, TCP_LISTEN}) {
    EXPECT_GE(congestion_controls(state)["reno"], 2);
    EXPECT_EQ(congestion_controls(state).size(), 1u);
  }
}

TEST(TcpSetup, ACongestionControlThatIsNotThereIsNamed) {
  RealClock clock;
  KeepingSink sink;
  const PeerTable alone({0, 0}, 1);
  TcpOptions options;
  options.peers = &alone;
  options.this_host_only = true;
  Tunables tunables;
  tunables.tcp_congestion = "nonsense";
  Error error;
  EXPECT_FALSE(TcpPath::create(
      options, tunables, KernelStreams::create(error), clock, sink, [](PeerId, std::string&) { return Error(); },
      error));
  EXPECT_NE(std::string(error.text()).find("TERN_TCP_CONGESTION is 'nonsense'"), std::string::npos) << error.text();
}

TEST(TcpSetup, AWorldOfOneNeedsNoNetwork) {
  RealClock clock;
  KeepingSink sink;
  const PeerTable alone({0, 0}, 1);
  TcpOptions options;
  options.peers = &alone;
  options.this_host_only = true;
  Tunables tunables;
  Error error;
  auto path = TcpPath::create(options, tunables, KernelStreams::create(error), clock, sink, {}, error);
  ASSERT_FALSE(error) << error.text();
  EXPECT_FALSE(path->reaches(0));
  EXPECT_EQ(path->poll(), 0);
  EXPECT_EQ(path->next_deadline_ns(), ~uint64_t{0});
}

}  // namespace
}  // namespace tern
