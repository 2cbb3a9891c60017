// Two ranks with the ofi path over fake ports in this process.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/ofi/filter_port.h"
#include "fabric/ofi/ofi_path.h"
#include "ofi_fake.h"
#include "tcp_fixture.h"

namespace tern::test {

using ofi::Capabilities;

/// The real time, or a moment.
struct HeldClock final : Clock {
  uint64_t now_ns() override { return held_ns != 0 ? held_ns : real.now_ns(); }
  RealClock real;
  uint64_t held_ns = 0;  ///< 0: it goes on
};

class OfiWorld {
 public:
  struct Rank {
    Rank(PeerId id, uint32_t size) : peers({5, id}, size) {}
    PeerTable peers;
    KeepingSink sink;
    FakePort* fake = nullptr;
    std::unique_ptr<OfiPath> path;
  };
  static constexpr uint32_t kRanks = 2;
  /// `job`: ranks that the job has; those that are not in this process have the card of the last one here.
  explicit OfiWorld(const char* filter = "", std::function<void(Capabilities&)> adjust = {},
                    std::function<void(Tunables&)> tune = {}, uint32_t job = kRanks) {
    if (adjust) adjust(wire.able);
    for (PeerId id = 0; id < kRanks; ++id) {
      Tunables tunables;
      tunables.ofi_eager_bytes = 1000;
      tunables.ofi_receive_bytes = 65536;
      tunables.ofi_sends = 16;
      if (tune) tune(tunables);
      wire.able.least_room = ofi_frame_bytes(tunables, wire.able);
      auto fake = std::make_unique<FakePort>(wire);
      ranks.push_back(std::make_unique<Rank>(id, job));
      Rank& rank = *ranks.back();
      rank.fake = fake.get();
      std::unique_ptr<ofi::Port> port = std::move(fake);
      ofi::FilterKind kind;
      EXPECT_TRUE(ofi::parse_filter(filter, kind));
      if (kind != ofi::FilterKind::none) port = std::make_unique<ofi::FilterPort>(std::move(port), kind, id + 1);
      OfiOptions options;
      options.peers = &rank.peers;
      options.key.fill(7);
      Error error;
      rank.path = OfiPath::create(
          options, tunables, std::move(port), clock, rank.sink,
          [this](PeerId peer, std::string& card) {
            card = ranks[std::min(peer, kRanks - 1)]->path->card();
            return Error();
          },
          error);
      EXPECT_FALSE(error) << error.text();
    }
  }
  Rank& operator[](PeerId id) { return *ranks[id]; }
  OfiPath& path(PeerId id) { return *ranks[id]->path; }
  bool until(const std::function<bool()>& done, double seconds = 20) {
    const uint64_t end = clock.now_ns() + uint64_t(kPatience * seconds * 1e9);
    while (!done()) {
      for (auto& rank : ranks) rank->path->poll();
      if (clock.now_ns() > end) return false;
    }
    return true;
  }
  void send(PeerId from, PeerId to, int32_t tag, const std::string& bytes) {
    const wire::Header header{.kind = wire::Kind::eager, .tag = tag};
    if (bytes.size() <= path(from).properties().eager_bytes &&
        path(from).try_send(path(from).lane(to), header, bytes.data(), bytes.size()))
      return;
    sends.push_back(std::make_unique<TestSend>(to, tag, bytes));
    path(from).enqueue(sends.back()->over(path(from)));
  }

  /// What has been sent so far, and all that follows from it, takes no more polls than these.
  void poll_some() {
    for (int i = 0; i < 20; ++i) {
      for (auto& rank : ranks) rank->path->poll();
    }
  }

  FakeWire wire;
  HeldClock clock;
  std::vector<std::unique_ptr<TestSend>> sends;
  std::vector<std::unique_ptr<Rank>> ranks;
};

inline std::string content(size_t bytes, char seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = char(seed + i * 7 + i / 251);
  return text;
}

inline RemoteMemory& memory_of(Path& path) { return *path.remote_memory(); }

inline constexpr const char* kFilters[] = {"", "efa", "cxi", "psm3"};

}  // namespace tern::test
