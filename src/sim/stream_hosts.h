// StreamHosts: the IP hosts of a simulated machine, one per node: their interfaces, listeners, the ends of all
// connections, and faults (StreamFaults). A rank's view of its host is SimStreams (streams.h).
//
// Connections that are still closing when a rank has closed everything, or was killed, continue here, as in a kernel.
//
// Thread rule: one scheduler.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/stream_end.h"
#include "sim/stream_model.h"

namespace tern::sim {

class StreamListener;

/// A rank's view of its host, as the host sees it.
class StreamProcess : public StreamOwner {
 public:
  virtual void on_interface_down(uint32_t network) = 0;
  /// A connection waits at a listener.
  virtual void on_caller(StreamListener& listener) = 0;
  /// The rank was killed: what it had open is closed. It calls nothing any more.
  virtual void on_death(uint64_t now_ns) = 0;

 protected:
  ~StreamProcess() = default;
};

class StreamListener {
 public:
  StreamProcess* process;
  StreamAddress address;
  std::deque<StreamEnd*> queue;
};

class StreamHosts final : public EventTarget, public NetworkAdapter {
 public:
  StreamHosts(Scheduler& scheduler, Network& network, const StreamModel& model, const StreamFaults& faults,
              uint64_t seed);
  ~StreamHosts();

  const StreamModel& model() const { return model_; }
  const StreamFaults& faults() const { return faults_; }
  const Network& network() const { return network_; }

  // --- For the ranks' views.
  void attach(uint32_t rank, StreamProcess& process) { processes_[rank].push_back(&process); }
  void detach(uint32_t rank, StreamProcess& process) { std::erase(processes_[rank], &process); }
  /// The rank has ended: what it has open is closed.
  void end(uint32_t rank);
  /// The rank ends before its time: what it has open is closed. With faults its host is gone, too.
  void kill(uint32_t rank);
  bool works(uint32_t node, uint32_t network) const;
  /// Null: the address is in use. Port 0: any free one.
  StreamListener* listen(StreamProcess& process, StreamAddress address);
  void close(uint64_t now_ns, StreamListener& listener);
  StreamEnd& call(uint64_t now_ns, StreamOwner& owner, uint32_t node, StreamAddress target);

  // --- For the ends.
  void transmit(uint64_t now_ns, std::unique_ptr<StreamSegment> segment);
  /// Returns the time that it is set for.
  uint64_t set_timer(StreamEnd& end, uint64_t at_ns);
  /// The end is over; it is destroyed when none of its functions runs.
  void forget(StreamEnd& end) { forgotten_.push_back(end.id); }
  /// False: no room in the queue of the listener it has called.
  bool enter_queue(StreamEnd& end);

  void on_event(EventKind kind, uint64_t datum) override;
  void on_packet(std::unique_ptr<Packet> packet) override;
  void on_dropped(std::unique_ptr<Packet>) override {}

  /// Faults so far, for tests that check that there were any.
  struct Totals {
    uint64_t dropped = 0, resets = 0, outages = 0, strangers = 0, queue_full = 0;
    std::vector<uint64_t> segments;  ///< that left, by network
  };
  const Totals& totals() const { return totals_; }
  /// All connections, a line for each end; for people.
  std::string describe() const;
  /// At that time the node's interface goes down for so long.
  struct Outage {
    uint64_t at_ns;
    uint32_t node, network;
    uint64_t for_ns;
  };
  void plan(const Outage& outage);
  /// At that time a stranger connects to a listener on the node.
  void plan_stranger(uint64_t at_ns, uint32_t node) { later(at_ns, What::stranger, node, node); }

 private:
  /// What an event is about, in the upper bits of its datum.
  enum class What : uint64_t { timer, reset, outage, planned, stranger };
  static constexpr int kWhatShift = 60;                 // leaves 60 bits for the number of an end
  using Key = std::pair<StreamAddress, StreamAddress>;  ///< own, peer
  /// Sends random bytes, or nothing, and ends when the other side closes.
  struct Stranger final : StreamOwner {
    void on_change(StreamEnd& end) override;
    StreamHosts* hosts = nullptr;
    bool talks = false;
  };

  void later(uint64_t now_ns, What what, uint64_t datum, uint32_t node);
  void fault(uint64_t now_ns, StreamSegment& segment);
  void cut(uint32_t node, uint32_t network, uint64_t for_ns);
  void call_as_stranger(uint32_t node);
  StreamEnd& add(StreamAddress own, StreamAddress peer, bool called);
  StreamEnd* find(const Key& key) const;
  uint16_t free_port(uint32_t node);
  void purge();

  Scheduler& scheduler_;
  Network& network_;
  const StreamModel model_;
  const StreamFaults faults_;
  Rng rng_;
  std::vector<std::vector<StreamProcess*>> processes_;            ///< by rank: one for each of its paths
  std::vector<bool> dead_;                                        ///< by node
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> down_until_;  ///< by node and network
  std::map<StreamAddress, std::unique_ptr<StreamListener>> listeners_;
  std::map<uint64_t, std::unique_ptr<StreamEnd>> ends_;
  std::map<Key, StreamEnd*> by_address_;
  std::map<Key, uint64_t> flows_;
  std::vector<uint64_t> forgotten_;
  std::vector<Outage> planned_;
  std::vector<std::unique_ptr<Stranger>> strangers_;
  uint64_t next_id_ = 1;
  uint16_t next_port_ = 32768;
  Totals totals_;
};

}  // namespace tern::sim
