// For the tests of the TCP path: several paths in one process, each with a sink that keeps what arrives,
// polled in turn.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/ip/kernel_streams.h"
#include "fabric/tcp/tcp_path.h"
#include "tests/peer_sink.h"

namespace tern {

/// By how much longer a test waits before it gives something up: megabytes through small buffers take half a minute
/// under TSan on a crowded machine.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kPatience = 5;
#else
inline constexpr double kPatience = 1;
#endif

struct Arrival {
  PeerId peer;
  wire::Header header;
  std::string bytes;
  bool landed = false;  ///< came by on_header and on_landed
  std::string error;
};

/// Keeps everything; a landing gets a buffer of `landing_limit` bytes at most (less than the message:
/// truncation).
class KeepingSink final : public test::PeerSink {
 public:
  std::vector<Arrival> arrivals;
  std::map<PeerId, std::string> lost;
  size_t landing_limit = ~size_t{0};
  std::function<void(const Arrival&)> on_arrival;
  /// Makes the landing's target; empty: contiguous.
  std::function<Cursor(std::string& storage, size_t bytes)> make_target;

  void on_message(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    add({peer, header, std::string(reinterpret_cast<const char*>(payload), bytes), false, {}});
  }
  Landing on_header(PeerId peer, const wire::Header& header, size_t bytes) override {
    auto made = std::make_unique<std::string>(std::min(bytes, landing_limit), '?');
    std::string* storage = made.get();
    landing_[storage] = std::move(made);
    Landing landing;
    landing.target =
        make_target ? make_target(*storage, storage->size()) : Cursor::bytes(storage->data(), storage->size());
    landing.token = storage;
    return landing;
  }
  void on_landed(PeerId peer, const wire::Header& header, Landing& landing, size_t bytes, Error error) override {
    auto storage = landing_.extract(static_cast<std::string*>(landing.token));
    ASSERT_FALSE(storage.empty());
    add({peer, header, *storage.mapped(), true, std::string(error.text())});
  }
  void on_peer_lost(PeerId peer, Error error) override {
    EXPECT_EQ(lost.count(peer), 0u) << "a loss is announced once";
    lost[peer] = error.text();
  }

 private:
  /// Of messages that have begun to arrive; a path that is aborted never says what became of them.
  std::map<std::string*, std::unique_ptr<std::string>> landing_;
  void add(Arrival arrival) {
    arrivals.push_back(std::move(arrival));
    if (on_arrival) on_arrival(arrivals.back());
  }
};

/// An operation with its own memory, which is used for something else when it is over.
struct TestSend : SendOperation {
  std::string bytes;
  int completions = 0;
  std::string error;
  const PeerId to;
  TestSend(PeerId receiver, int32_t tag, std::string content) : bytes(std::move(content)), to(receiver) {
    header = {.kind = wire::Kind::eager, .tag = tag};
    payload = Cursor::bytes(bytes.data(), bytes.size());
    done = [](SendOperation& operation, Error result) {
      auto& self = static_cast<TestSend&>(operation);
      ++self.completions;
      self.error = result.text();
      std::fill(self.bytes.begin(), self.bytes.end(), 'x');
    };
  }
  /// Itself, to be enqueued there.
  TestSend& over(Path& path) {
    lane = &path.lane(to);
    return *this;
  }
};

class TcpWorld {
 public:
  struct Rank {
    Rank(PeerId id, uint32_t size) : peers({0, id}, size) {}
    PeerTable peers;
    KeepingSink sink;
    std::unique_ptr<TcpPath> path;
    int lookups = 0;
  };

  explicit TcpWorld(uint32_t size, std::function<void(TcpOptions&, Tunables&)> adjust = {}) : ranks(size) {
    for (PeerId id = 0; id < size; ++id) {
      TcpOptions options;
      ranks[id] = std::make_unique<Rank>(id, size);
      options.peers = &ranks[id]->peers;
      options.key.fill(7);
      options.this_host_only = true;
      Tunables tunables;
      if (adjust) adjust(options, tunables);
      Error error;
      Rank& rank = *ranks[id];
      rank.path = TcpPath::create(
          options, tunables, KernelStreams::create(error), clock, rank.sink,
          [this, &rank](PeerId peer, std::string& card) {
            ++rank.lookups;
            if (cards.count(peer)) card = cards[peer];
            else card = ranks[peer]->path->card();
            return Error();
          },
          error);
      EXPECT_FALSE(error) << error.text();
    }
  }
  Rank& operator[](PeerId id) { return *ranks[id]; }
  TcpPath& path(PeerId id) { return *ranks[id]->path; }

  int poll() {
    int handled = 0;
    for (auto& rank : ranks) {
      if (rank && rank->path) handled += rank->path->poll();
    }
    return handled;
  }
  /// Polls everyone until `done` or the time is over (false).
  bool until(const std::function<bool()>& done, double seconds = 20) {
    uint64_t end = clock.now_ns() + uint64_t(kPatience * seconds * 1e9);
    while (!done()) {
      poll();
      if (clock.now_ns() > end) return false;
    }
    return true;
  }
  /// Sends by whatever way takes it, as the layer above does; `kept`: as for who need not have the memory back at once.
  void send(PeerId from, PeerId to, int32_t tag, const std::string& bytes, bool kept = false) {
    wire::Header header{.kind = wire::Kind::eager, .tag = tag};
    const PathProperties& properties = path(from).properties();
    if (bytes.size() <= properties.eager_bytes && !(kept && bytes.size() >= properties.keep_from_bytes) &&
        path(from).try_send(path(from).lane(to), header, bytes.data(), bytes.size())) {
      return;
    }
    sends.push_back(std::make_unique<TestSend>(to, tag, bytes));
    path(from).enqueue(sends.back()->over(path(from)));
  }

  RealClock clock;
  std::map<PeerId, std::string> cards;  ///< instead of the real ones
  std::deque<std::unique_ptr<TestSend>> sends;
  std::vector<std::unique_ptr<Rank>> ranks;
};

/// Bytes that tell a shifted, lost or doubled one.
inline std::string pattern(size_t bytes, uint64_t seed) {
  std::string out(bytes, '\0');
  Rng rng(seed);
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word = rng.next();
    std::memcpy(out.data() + i, &word, 8);
  }
  for (; i < bytes; ++i) out[i] = char(rng.next());
  return out;
}

}  // namespace tern
