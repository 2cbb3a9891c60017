// A small world over the TCP path alone: one process per rank, cards exchanged through files in a directory
// that all hosts share. Serves the namespace tests (traffic between hosts without MPI above) and as a
// microbenchmark of the path.
//
//   tcp_world RANK SIZE DIRECTORY traffic [rounds]   ring, then random messages among all; checked; "ok" from rank 0
//   tcp_world RANK SIZE DIRECTORY latency            ranks 0 and 1 polling: one way times by size
//   tcp_world RANK SIZE DIRECTORY stream             rank 0 to rank 1: bandwidth by size
//   tcp_world RANK SIZE DIRECTORY faults SECONDS [BYTES]
//                                                    random messages of up to BYTES, both ways between two ranks,
//                                                    checked, whatever happens to the network; "ok" from rank 0, and
//                                                    the longest time in which no message arrived
//   tcp_world RANK SIZE DIRECTORY rate SECONDS       rank 0 to rank 1: megabits per second of long messages
//   tcp_world RANK SIZE DIRECTORY pingpong SECONDS   messages of 256 KiB to and fro: how many percent of rank
//                                                    0's have gone over several networks
//
// The job key is the environment's TERN_JOB_KEY (any text), so that a test can give a rank a wrong one.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fabric/ip/kernel_streams.h"
#include "fabric/tcp/tcp_path.h"
#include "tests/peer_sink.h"

namespace {

using namespace tern;

int fail(const std::string& text) {
  std::fprintf(stderr, "tcp_world: %s\n", text.c_str());
  return 1;
}

uint64_t content(PeerId from, PeerId to, uint64_t number) {
  return (uint64_t(from) << 48 | uint64_t(to) << 32) ^ number * 0x9e3779b97f4a7c15u;
}

/// Checks what arrives: per sender consecutive tags, the size and bytes that `content` gives.
class CheckingSink final : public test::PeerSink {
 public:
  CheckingSink(PeerId self, uint32_t size) : self_(self), next_(size, 0), memory_(size) {}
  void on_message(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    ++count;
    if (header.token == kLast) ended = true;
    if (header.token == kBye) parted = true;
    if (!checking) return;
    check(peer, header, payload, bytes);
  }
  Landing on_header(PeerId peer, const wire::Header&, size_t bytes) override {
    std::vector<std::byte>& memory = memory_[peer];
    if (memory.size() < bytes) memory.resize(bytes);
    Landing landing;
    landing.target = Cursor::bytes(memory.data(), bytes);
    return landing;
  }
  void on_landed(PeerId peer, const wire::Header& header, Landing&, size_t bytes, Error error) override {
    if (error) return;
    on_message(peer, header, memory_[peer].data(), bytes);
  }
  void on_peer_lost(PeerId, Error error) override { lost = error.text(); }

  static constexpr uint32_t kLast = 1, kBye = 2;
  uint64_t count = 0;
  bool checking = false, ended = false, parted = false;
  std::string wrong, lost;

 private:
  void check(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
    uint64_t number = next_[peer]++;
    Rng rng(content(peer, self_, number));
    bool good = uint64_t(header.tag) == number;
    for (size_t i = 0; good && i + 8 <= bytes; i += 8) {
      uint64_t word;
      std::memcpy(&word, payload + i, 8);
      good = word == rng.next();
    }
    if (!good && wrong.empty())
      wrong = "message " + std::to_string(number) + " from rank " + std::to_string(peer) + " is not what was sent";
  }
  PeerId self_;
  std::vector<uint64_t> next_;
  std::vector<std::vector<std::byte>> memory_;  ///< by peer: messages of several land at the same time
};

struct QueuedSend : SendOperation {
  std::string bytes;
  bool complete = false;
};

struct World {
  RealClock clock;
  PeerId rank;
  uint32_t size;
  std::string directory;
  PeerTable peers;
  CheckingSink sink;
  std::vector<std::unique_ptr<QueuedSend>>
      queued;  // longer-lived than the path, which may end before they are complete
  std::unique_ptr<TcpPath> path;
  std::vector<uint64_t> sent;

  World(PeerId r, uint32_t n, std::string d)
      : rank(r), size(n), directory(std::move(d)), peers({0, r}, n), sink(r, n), sent(n, 0) {}

  Error start() {
    TcpOptions options;
    options.peers = &peers;
    const char* key = std::getenv("TERN_JOB_KEY");
    std::strncpy(reinterpret_cast<char*>(options.key.data()), key ? key : "no key", options.key.size());
    Tunables tunables;
    if (Error error = tunables.read_environment(environ)) return error;
    Error error;
    path = TcpPath::create(
        options, tunables, KernelStreams::create(error), clock, sink,
        [this](PeerId peer, std::string& card) { return read_card(peer, card); }, error);
    if (error) return error;
    std::string name = directory + "/card." + std::to_string(rank);
    std::ofstream(name + ".new", std::ios::binary) << path->card();
    if (std::rename((name + ".new").c_str(), name.c_str()) != 0)
      return Error(ErrorClass::other, "cannot write " + name);
    for (PeerId peer = 0; peer < size; ++peer) {
      std::string text;
      if (Error missing = read_card(peer, text)) return missing;
    }
    return {};
  }
  // Waits for the card: in a job, the launcher's fence does that.
  Error read_card(PeerId peer, std::string& card) {
    uint64_t end = clock.now_ns() + 20'000'000'000;
    while (clock.now_ns() < end) {
      std::ifstream file(directory + "/card." + std::to_string(peer), std::ios::binary);
      std::stringstream text;
      text << file.rdbuf();
      card = text.str();
      if (file && !card.empty()) return {};
      usleep(2000);
    }
    return Error(ErrorClass::other, "no card of rank " + std::to_string(peer));
  }
  void send(PeerId to, size_t bytes, uint32_t token = 0) {
    uint64_t number = sent[to]++;
    Rng rng(content(rank, to, number));
    std::string text(bytes, 0);
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
      uint64_t word = rng.next();
      std::memcpy(text.data() + i, &word, 8);
    }
    wire::Header header{.kind = wire::Kind::eager, .tag = int32_t(number), .token = token};
    if (bytes <= path->properties().eager_bytes && path->try_send(path->lane(to), header, text.data(), bytes)) return;
    auto operation = std::make_unique<QueuedSend>();
    operation->bytes = std::move(text);
    operation->lane = &path->lane(to);
    operation->header = header;
    operation->payload = Cursor::bytes(operation->bytes.data(), bytes);
    operation->done = [](SendOperation& done, Error) { static_cast<QueuedSend&>(done).complete = true; };
    queued.push_back(std::move(operation));
    path->enqueue(*queued.back());
  }
  /// For what cannot go on without its peer: without it the program ends (the path may still hold sends of the
  /// caller's).
  void poll() {
    path->poll();
    if (!sink.lost.empty()) [[unlikely]]
      std::_Exit(fail(sink.lost));
  }
  bool wait_for(uint64_t count, double seconds = 60) {
    uint64_t end = clock.now_ns() + uint64_t(seconds * 1e9);
    for (uint32_t idle = 0; sink.count < count || path->has_unsent();) {
      if (path->poll() != 0) {
        idle = 0;
      } else if (++idle % 256 == 0) {
        sched_yield();
        if (clock.now_ns() > end || !sink.wrong.empty() || !sink.lost.empty()) return false;
      }
    }
    return sink.wrong.empty();
  }
};

int traffic(World& world, int rounds) {
  world.sink.checking = true;
  uint64_t expected = 0;
  PeerId right = (world.rank + 1) % world.size;
  // A ring: each hears from its left neighbour only.
  for (int i = 0; i < rounds; ++i) world.send(right, size_t(8) << (i % 16));
  expected += uint64_t(rounds);
  if (!world.wait_for(expected)) return fail("ring: " + world.sink.wrong + world.sink.lost);
  // Random sizes, the same number of messages from everyone to everyone, so that each knows how many to
  // expect.
  Rng rng(world.rank + 1);
  for (int i = 0; i < rounds; ++i) {
    for (PeerId k = 1; k < world.size; ++k) {
      world.send((world.rank + k) % world.size, size_t(8 * rng.below(rng.chance(1, 10) ? 40'000 : 300)));
    }
    if (i % 4 == 0) world.path->poll();
  }
  expected += uint64_t(rounds) * (world.size - 1);
  if (!world.wait_for(expected)) {
    return fail("random: " + std::to_string(world.sink.count) + " of " + std::to_string(expected) + " messages; " +
                world.sink.wrong + world.sink.lost);
  }
  // Who has everything says so to everyone: nobody leaves before the last has.
  for (PeerId k = 1; k < world.size; ++k) world.send((world.rank + k) % world.size, 0);
  if (!world.wait_for(expected + world.size - 1)) return fail("end: " + world.sink.wrong + world.sink.lost);
  if (world.rank == 0) std::puts("ok");
  return 0;
}

// Both ways until the time is over, then the last message, which says that it is.
int faults(World& world, double seconds, uint64_t longest) {
  world.sink.checking = true;
  const PeerId peer = 1 - world.rank;
  Rng rng(world.rank + 1);
  const uint64_t begin = world.clock.now_ns(), end = begin + uint64_t(seconds * 1e9), patience = end + 60'000'000'000;
  uint64_t last_arrival = begin, longest_gap = 0, seen = 0, bytes = 0;
  bool last_sent = false;
  auto done = [&] {
    std::erase_if(world.queued, [](auto& send) { return send->complete; });
    return last_sent && world.sink.ended && world.queued.empty() && !world.path->has_unsent();
  };
  for (uint64_t now = begin; !done(); now = world.clock.now_ns()) {
    if (now < end && world.queued.size() < 6) {
      size_t size =
          rng.below(10) == 0 ? size_t(rng.below(longest)) : size_t(rng.below(rng.chance(1, 4) ? 40'000 : 2000));
      bytes += size;
      world.send(peer, size);
    } else if (now >= end && !last_sent) {
      last_sent = true;
      world.send(peer, 0, CheckingSink::kLast);
    }
    for (int i = 0; i < 20; ++i) world.path->poll();
    if (world.sink.count != seen || now >= end) {
      longest_gap = std::max(longest_gap, now - last_arrival);
      seen = world.sink.count;
      last_arrival = now;
    } else {
      sched_yield();
    }
    if (!world.sink.wrong.empty() || !world.sink.lost.empty())
      return fail("faults: " + world.sink.wrong + world.sink.lost);
    if (now > patience) return fail("faults: no end; " + std::to_string(world.sink.count) + " messages have arrived");
  }
  // Nobody leaves before the other has everything too.
  world.send(peer, 0, CheckingSink::kBye);
  while (!world.sink.parted || world.path->has_unsent()) {
    world.path->poll();
    if (world.clock.now_ns() > patience) return fail("end: no goodbye; " + world.sink.wrong + world.sink.lost);
  }
  std::printf("rank %u: %.0f MB sent, resumed %llu, striped %llu, unsound %llu, longest gap %.0f ms\n", world.rank,
              double(bytes) / 1e6, static_cast<unsigned long long>(world.path->counters().tcp_resumed),
              static_cast<unsigned long long>(world.path->counters().tcp_striped),
              static_cast<unsigned long long>(world.path->counters().tcp_unsound), double(longest_gap) / 1e6);
  if (world.rank == 0) std::puts("ok");
  return 0;
}

int rate(World& world, double seconds) {
  constexpr size_t kBytes = 1 << 20;
  std::string text(kBytes, 'x');
  std::vector<std::unique_ptr<QueuedSend>> window;
  const uint64_t begin = world.clock.now_ns(), warm = begin + 1'000'000'000, end = warm + uint64_t(seconds * 1e9);
  uint64_t counted = 0, from_ns = 0, to_ns = 0;
  bool last = false;
  for (uint64_t now = begin; !(last && window.empty() && world.sink.ended); now = world.clock.now_ns()) {
    world.poll();
    if (world.rank == 1) {
      if (world.sink.ended && !last) {
        last = true;
        world.send(0, 0, CheckingSink::kLast);
      }
      continue;
    }
    std::erase_if(window, [&](auto& send) {
      if (send->complete && now >= warm && now < end) {
        if (from_ns == 0) from_ns = now;
        else counted += kBytes;
        to_ns = now;
      }
      return send->complete;
    });
    if (now < end && window.size() < 8) {
      window.push_back(std::make_unique<QueuedSend>());
      QueuedSend& send = *window.back();
      send.lane = &world.path->lane(1);
      send.header = {.kind = wire::Kind::eager};
      send.payload = Cursor::bytes(text.data(), kBytes);
      send.done = [](SendOperation& done, Error) { static_cast<QueuedSend&>(done).complete = true; };
      world.path->enqueue(send);
    } else if (now >= end && window.empty() && !last) {
      last = true;
      world.send(1, 0, CheckingSink::kLast);
    }
  }
  while (world.path->has_unsent()) world.poll();
  if (world.rank == 0) std::printf("rate %.0f\n", double(counted) * 8e3 / double(to_ns - from_ns));
  return 0;
}

int pingpong(World& world, double seconds) {
  constexpr size_t kBytes = 256 * 1024;
  const PeerId peer = 1 - world.rank;
  const uint64_t end = world.clock.now_ns() + uint64_t(seconds * 1e9);
  uint64_t messages = 0;
  for (bool last = false; !last && !world.sink.ended;) {
    if (world.rank == 0 || messages != 0) {
      last = world.rank == 0 && world.clock.now_ns() > end;
      world.send(peer, kBytes, last ? CheckingSink::kLast : 0);
    }
    ++messages;
    std::erase_if(world.queued, [](auto& send) { return send->complete; });
    while (!last && world.sink.count < messages) world.poll();
  }
  while (world.path->has_unsent()) world.poll();
  if (world.rank == 0) {
    std::printf("striped %llu percent\n",
                static_cast<unsigned long long>(100 * world.path->counters().tcp_striped / messages));
  }
  return 0;
}

double one_way_us(World& world, size_t bytes, int rounds) {
  std::string text(bytes, 'x');
  wire::Header header{.kind = wire::Kind::eager};
  std::vector<double> times;
  for (int batch = 0; batch < 11; ++batch) {
    uint64_t begin = world.clock.now_ns();
    for (int i = 0; i < rounds; ++i) {
      uint64_t count = world.sink.count;
      if (world.rank == 0) {
        while (!world.path->try_send(world.path->lane(1), header, text.data(), bytes)) world.poll();
      }
      while (world.sink.count == count) world.poll();
      if (world.rank == 1) {
        while (!world.path->try_send(world.path->lane(0), header, text.data(), bytes)) world.poll();
      }
    }
    times.push_back(double(world.clock.now_ns() - begin) / 2e3 / rounds);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

int latency(World& world) {
  for (size_t bytes : {8, 1024, 4096, 16384, 65536}) {
    double us = one_way_us(world, bytes, bytes > 10'000 ? 500 : 2000);
    if (world.rank == 0) std::printf("%8zu B one way %8.2f us\n", bytes, us);
  }
  return 0;
}

int stream(World& world) {
  for (size_t bytes : {8, 1024, 8192, 65536, 1 << 20, 8 << 20}) {
    int messages = int(std::min<size_t>(200'000, (size_t(1) << 30) / bytes));
    std::string text(bytes, 'x');
    std::vector<QueuedSend> window(16);
    uint64_t begin = world.clock.now_ns(), count = world.sink.count;
    if (world.rank == 0) {
      wire::Header header{.kind = wire::Kind::eager};
      for (int i = 0; i < messages; ++i) {
        if (bytes <= world.path->properties().eager_bytes) {
          while (!world.path->try_send(world.path->lane(1), header, text.data(), bytes)) world.poll();
          continue;
        }
        QueuedSend& operation = window[size_t(i) % window.size()];
        while (i >= int(window.size()) && !operation.complete) world.poll();
        operation.complete = false;
        operation.lane = &world.path->lane(1);
        operation.header = header;
        operation.payload = Cursor::bytes(text.data(), bytes);
        operation.done = [](SendOperation& done, Error) { static_cast<QueuedSend&>(done).complete = true; };
        world.path->enqueue(operation);
      }
      while (world.sink.count == count) world.poll();
    } else {
      while (world.sink.count < count + uint64_t(messages)) world.poll();
      world.send(0, 8);
    }
    double seconds = double(world.clock.now_ns() - begin) / 1e9;
    if (world.rank == 0)
      std::printf("%8zu B  %8.3f GB/s  %9.0f messages/s\n", bytes, double(bytes) * messages / seconds / 1e9,
                  messages / seconds);
    while (world.path->has_unsent()) world.poll();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5)
    return fail("usage: tcp_world RANK SIZE DIRECTORY traffic|latency|stream|faults|rate|pingpong [rounds or seconds]");
  World world(PeerId(std::atoi(argv[1])), uint32_t(std::atoi(argv[2])), argv[3]);
  if (Error error = world.start()) return fail(std::string(error.text()));
  std::string what = argv[4];
  const double seconds = argc > 5 ? std::atof(argv[5]) : 2;
  int result = what == "latency"    ? latency(world)
               : what == "faults"   ? faults(world, seconds, argc > 6 ? std::strtoull(argv[6], nullptr, 10) : 2'000'000)
               : what == "rate"     ? rate(world, seconds)
               : what == "pingpong" ? pingpong(world, seconds)
               : what == "stream"   ? stream(world)
                                    : traffic(world, argc > 5 ? std::atoi(argv[5]) : 100);
  return result;
}
