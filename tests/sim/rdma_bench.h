// What one simulated rank needs to drive the rdma path without a Process: the path, an engine, and a sink that checks
// the order. Used by the tests of the path.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "fabric/rdma/rdma_path.h"
#include "progress/engine.h"
#include "sim/adapter.h"
#include "sim/machine.h"
#include "tests/peer_sink.h"

namespace tern::sim {

/// Counts what arrives, and keeps the last message.
class RdmaMailbox final : public test::PeerSink {
 public:
  void on_message(PeerId from, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    EXPECT_EQ(header.tag, next[from]++) << "out of order";
    last.assign(payload, payload + bytes);
  }
  Landing on_header(PeerId from, const wire::Header&, size_t bytes) override {
    landing[from].assign(bytes, std::byte{});
    Landing result;
    result.target = Cursor::bytes(landing[from].data(), bytes);
    return result;
  }
  void on_landed(PeerId from, const wire::Header& header, Landing&, size_t bytes, Error error) override {
    if (error && mortal.contains(from)) return;
    EXPECT_FALSE(error) << error.text();
    on_message(from, header, landing[from].data(), bytes);
  }
  void on_peer_lost(PeerId peer, Error error) override {
    EXPECT_TRUE(bool(error));
    lost.push_back(peer);
  }
  std::map<PeerId, int> next;
  std::vector<PeerId> lost;
  std::set<PeerId> mortal;  ///< peers that may die in the middle of a message
  std::vector<std::byte> last;
  std::map<PeerId, std::vector<std::byte>> landing;
};

struct RdmaTransfer : TransferOperation {
  int calls = 0;
  bool failed = false;
};

struct RdmaSending : SendOperation {
  std::vector<std::byte> data;
  int calls = 0;
  bool failed = false;
};

struct RdmaBench {
  /// `hca`: another adapter than the rank's simulated one.
  explicit RdmaBench(Machine::Rank& rank, std::unique_ptr<rdma::Hca> hca = nullptr)
      : strand(rank.strand),
        clock(rank.make_clock()),
        port(rank.make_wait_port()),
        launcher(rank.make_launcher()),
        peers({0, rank.index()}, uint32_t(launcher->size())),
        engine(*clock, driving, *port) {
    RdmaOptions options;
    options.peers = &peers;
    const NetworkModel& network = rank.machine.options().network;
    options.send_ns = network.send_ns;
    options.receive_ns = network.receive_ns;
    options.ring_poll_ns = rank.machine.options().adapter.poll_ns;
    options.keep = rank.machine.options().keep_registrations ? Keep::trusted : Keep::nothing;
    Error error;
    path = RdmaPath::create(
        options, rank.machine.options().tunables, hca ? std::move(hca) : rank.make_hca(), *clock, sink,
        [this](PeerId peer, std::string& card) { return launcher->get(int(peer), "rdma-card", card); }, error);
    EXPECT_FALSE(error) << error.text();
    EXPECT_FALSE(launcher->put("rdma-card", path->card()));
    EXPECT_FALSE(launcher->fence());
    engine.add(*path);
  }
  void send(PeerId to, std::vector<std::byte> data) {
    wire::Header header{wire::Kind::eager};
    header.tag = sent_[to]++;
    if (data.size() <= path->properties().eager_bytes &&
        path->try_send(path->lane(to), header, data.data(), data.size()))
      return;
    RdmaSending& operation = queue.emplace_back();
    operation.lane = &path->lane(to);
    operation.header = header;
    operation.data = std::move(data);
    operation.payload = Cursor::bytes(operation.data.data(), operation.data.size());
    operation.done = [](SendOperation& self, Error error) {
      ++static_cast<RdmaSending&>(self).calls;
      static_cast<RdmaSending&>(self).failed = bool(error);
    };
    path->enqueue(operation);
  }
  void wait_messages(PeerId from, int count) {
    engine.wait_until([&] { return sink.next[from] >= count; });
  }
  void run(RdmaTransfer& transfer, bool is_put) {
    transfer.done = [](TransferOperation& self, Error error) {
      ++static_cast<RdmaTransfer&>(self).calls;
      static_cast<RdmaTransfer&>(self).failed = bool(error);
    };
    if (is_put) {
      path->remote_memory()->put(transfer);
    } else {
      path->remote_memory()->get(transfer);
    }
  }
  void finish() {
    engine.wait_until([&] { return !path->has_unsent(); });
    // Polls on meanwhile, as Process::finish does: peers may miss an acknowledgement of their datagrams.
    Error error = launcher->enter_barrier();
    bool over = bool(error);
    engine.wait_until([&] { return over = over || launcher->barrier_is_over(error); });
    EXPECT_FALSE(error);
    for (const RdmaSending& operation : queue) EXPECT_EQ(operation.calls, 1);
  }

  Strand& strand;
  RdmaMailbox sink;
  std::unique_ptr<Clock> clock;
  Driving driving;
  std::unique_ptr<WaitPort> port;
  std::unique_ptr<Launcher> launcher;
  PeerTable peers;
  ProgressEngine engine;
  std::unique_ptr<RdmaPath> path;
  std::deque<RdmaSending> queue;

 private:
  std::map<PeerId, int> sent_;
};

inline WorldOptions rdma_options_of(uint64_t seed) {
  Rng rng(seed * 71);
  WorldOptions options;
  options.seed = seed;
  options.tunables.rdma_keepalive_ms = 0;
  options.tunables.rdma_eager_bytes = int64_t(256 + rng.below(2000));
  options.tunables.rdma_sends = int64_t(8 + rng.below(8));
  options.adapter.max_message_bytes = uint32_t(5000 + rng.below(50'000));
  options.adapter.ordered_writes = rng.chance(1, 2);
  options.adapter_faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * 500);
  options.adapter_faults.datagram_double_in_1024 = uint32_t(rng.below(2) * rng.below(300));
  options.adapter_faults.datagram_late_in_1024 = uint32_t(rng.below(2) * rng.below(300));
  options.adapter_faults.datagram_late_ns = 20'000;
  return options;
}

}  // namespace tern::sim
