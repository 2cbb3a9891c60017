// Datagrams over the simulated network: DatagramPort as the kernel's sockets provide it, with the system call, the
// copy, IP fragments, a receive buffer that overflows, and a network that loses, duplicates, delays (and so reorders),
// damages, replays and forges, by a seed.
//
// Probabilities are parts of 1024 of the datagrams sent. Units: nanoseconds, bytes. Thread rule: the rank's strand, and
// network events (which come when no strand runs).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "fabric/udp/datagram_port.h"
#include "sim/network.h"
#include "sim/poll_cost.h"
#include "sim/scheduler.h"

namespace tern::sim {

struct DatagramModel {
  size_t datagram_bytes = 1472;      ///< one packet: an Ethernet frame minus the headers of IPv4 and UDP
  size_t buffer_bytes = 256 * 1024;  ///< of a rank's receive buffer; what arrives beyond is lost
  uint64_t call_ns = 125;            ///< a receive that finds nothing
};

struct DatagramFaults {
  uint32_t drop_in_1024 = 0;
  uint32_t duplicate_in_1024 = 0;
  uint32_t delay_in_1024 = 0;  ///< arrives later by up to delay_ns, so behind others
  uint64_t delay_ns = 1'000'000;
  uint32_t corrupt_in_1024 = 0;       ///< a bit is wrong
  uint32_t replay_in_1024 = 0;        ///< an old datagram is sent again behind it
  uint32_t forge_in_1024 = 0;         ///< a datagram made of an old one and random bytes is sent behind it
  uint32_t refuse_in_1024 = 0;        ///< the way is full
  size_t largest_bytes = ~size_t{0};  ///< a longer one never arrives (a router with small packets that does not report)
  bool dead_hosts = false;            ///< hosts of lost ranks answer nothing; else that there is no such process
};

class SimDatagramPort final : public DatagramPort, public NetworkPort {
 public:
  SimDatagramPort(Network& network, Strand& strand, const DatagramModel& model, const DatagramFaults& faults,
                  uint64_t seed);
  ~SimDatagramPort() override;

  void describe(wire::DatagramCard& card) const override;
  Error meet(PeerId, const wire::DatagramCard&) override { return {}; }
  size_t datagram_bytes(PeerId) const override { return model_.datagram_bytes; }
  size_t buffer_bytes() const override { return model_.buffer_bytes; }
  size_t send(PeerId peer, int channel, const iovec* datagrams, size_t count) override;
  size_t receive(Arrival* out) override;
  void ask_life(PeerId peer) override;
  Life life(PeerId peer) override;
  bool arm() override { return inbox_.empty(); }

  void on_packet(std::unique_ptr<Packet> packet) override;
  void on_window(PeerId, size_t) override {}
  void on_peer_lost(PeerId) override {}
  NetworkMemory* memory() override { return nullptr; }

 private:
  using Bytes = std::vector<std::byte>;
  void launch(PeerId to, const std::byte* data, size_t bytes, uint64_t delay_ns);
  uint64_t lateness() { return rng_.chance(faults_.delay_in_1024, 1024) ? rng_.below(faults_.delay_ns + 1) : 0; }

  Network& network_;
  Strand& strand_;
  const DatagramModel model_;
  const DatagramFaults faults_;
  Rng rng_;
  uint64_t next_flow_ = 1;
  std::map<uint64_t, std::pair<Bytes, size_t>>
      partial_;  ///< by sender and flow: fragments of IP, and how many bytes are there
  std::deque<Bytes> inbox_, taken_;
  size_t buffered_ = 0;
  PollCost poll_cost_;
  std::vector<std::pair<PeerId, Bytes>> history_;  ///< for replays: some of what was sent
  std::unordered_map<PeerId, uint64_t> asked_ns_;
};

}  // namespace tern::sim
