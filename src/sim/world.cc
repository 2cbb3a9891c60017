#include "sim/world.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "fabric/rdma/rdma_path.h"
#include "fabric/scheduler/path_scheduler.h"
#include "fabric/self/self_path.h"
#include "fabric/shm/shm_path.h"
#include "fabric/tcp/tcp_path.h"
#include "fabric/udp/udp_path.h"
#include "sim/adapter.h"

namespace tern::sim {
namespace {

void throw_if(const Error& error, const char* where) {
  if (error) throw std::runtime_error(std::string(where) + ": " + std::string(error.text()));
}

/// Where a network path belongs: to the rank itself, or to a message engine.
struct Place {
  Process& process;
  Machine::Rank& rank;
  Sink& sink;
  Clock& clock;
  std::string suffix = {};  ///< of its card's key
  bool of_engine() const { return !suffix.empty(); }
};

// As process/connect.cc does on real adapters.
std::unique_ptr<Path> make_rdma(const Place& place) {
  auto& [process, rank, sink, clock, suffix] = place;
  const std::string key = "rdma-card" + suffix;
  RdmaOptions options;
  options.of_engine = place.of_engine();
  options.peers = &process.peers();
  const WorldOptions& world = rank.machine.options();
  options.nodes = (world.ranks + world.ranks_per_node - 1) / world.ranks_per_node;
  options.send_ns = world.network.send_ns;
  options.receive_ns = world.network.receive_ns;
  options.ring_poll_ns = world.adapter.poll_ns;
  options.keep = world.keep_registrations ? Keep::trusted : Keep::nothing;
  if (world.channel_changed && !place.of_engine()) {
    options.channel_changed = [&tell = world.channel_changed, me = rank.index(), &clock = process.clock()](
                                  PeerId peer, const char* channel) { tell(me, peer, channel, clock.now_ns()); };
  }
  Error error;
  auto path = RdmaPath::create(
      options, process.tunables(), rank.make_hca(), clock, sink,
      [&launcher = process.launcher(), key](PeerId peer, std::string& card) {
        return launcher.get(int(peer), key, card);
      },
      error);
  throw_if(error, "rdma path");
  throw_if(process.launcher().put(key, path->card()), "wire-up");
  if (world.adapter_share) {
    std::vector<AdapterUse*> words;
    for (AdapterUse& use : rank.machine.adapters().node_of(rank.index()).uses) words.push_back(&use);
    AdapterUse& mine = *words[rank.index() % world.ranks_per_node];
    path->share_adapter(std::move(words), mine);
  }
  return path;
}

std::unique_ptr<Path> make_udp(const Place& place) {
  auto& [process, rank, sink, clock, suffix] = place;
  UdpOptions options;
  options.peers = &process.peers();
  options.message_ns = rank.machine.options().network.message_ns;
  Error error;
  auto path = UdpPath::create(
      options, process.tunables(), rank.make_datagram_port(), clock, sink,
      [&launcher = process.launcher()](PeerId peer, std::string& card) {
        return launcher.get(int(peer), "udp-card", card);
      },
      error);
  throw_if(error, "udp path");
  throw_if(process.launcher().put("udp-card", path->card()), "wire-up");
  return path;
}

std::unique_ptr<Path> make_tcp(const Place& place) {
  auto& [process, rank, sink, clock, suffix] = place;
  const std::string key = "tcp-card" + suffix;
  TcpOptions options;
  options.peers = &process.peers();
  Error error;
  auto path = TcpPath::create(
      options, process.tunables(), rank.make_stream_port(), clock, sink,
      [&launcher = process.launcher(), key](PeerId peer, std::string& card) {
        return launcher.get(int(peer), key, card);
      },
      error);
  throw_if(error, "tcp path");
  throw_if(process.launcher().put(key, path->card()), "wire-up");
  return path;
}

using Make = std::unique_ptr<Path> (*)(const Place&);

// Only if the tunable asks for them, as add_shm. (A simulated rank has one port for datagrams.)
void add_engine_networks(Process& process, Machine::Rank& rank, Make make) {
  std::vector<EngineNetwork> networks;
  for (int64_t i = 1; make != make_udp && i <= process.tunables().engines; ++i) {
    EngineNetwork network{rank.make_clock(), std::make_unique<LaterSink>(), nullptr};
    network.path = make({process, rank, *network.sink, *network.clock, "-" + std::to_string(i)});
    network.asks_kernel = make != make_rdma;
    networks.push_back(std::move(network));
  }
  process.give_engine_networks(std::move(networks));
}

// As process/connect.cc does on a real node.
void add_shm(Process& process, Machine::Rank& rank) {
  std::unique_ptr<ShmNode> node = rank.make_shm_node();
  process.node().share_memory(*node);
  auto path = std::make_unique<ShmPath>(std::move(node), process.sink(), process.tunables());
  // Only if the tunable asks for them: real ranks have them without being asked.
  std::vector<std::unique_ptr<ShmNode>> engines;
  for (int64_t i = 1; i <= process.tunables().engines; ++i) engines.push_back(rank.make_shm_node(uint32_t(i)));
  process.share_engine_memory(std::move(engines));
  const NetworkModel& network = rank.machine.options().network;
  process.add_path(rank.with_faults(std::move(path), process.clock(), true, network.poll_ns));
}

void add_network_paths(Process& process, Machine::Rank& rank) {
  const WorldOptions& options = rank.machine.options();
  process.add_path(std::make_unique<SelfPath>(process.peers().me(), process.sink()));
  if (options.shm) {
    add_shm(process, rank);
  } else if (options.node_path) {
    process.add_path(rank.make_path(process.sink(), process.clock(), SimPath::Reach::node_others));
  }
  std::vector<Make> wanted;
  if (options.tcp && options.tcp_first) wanted.push_back(make_tcp);
  if (options.udp && options.udp_first) wanted.push_back(make_udp);
  if (options.rdma) wanted.push_back(make_rdma);
  if (options.udp && !options.udp_first) wanted.push_back(make_udp);
  if (options.tcp && !options.tcp_first) wanted.push_back(make_tcp);
  if (wanted.size() == 1) {
    add_engine_networks(process, rank, wanted[0]);
    const Place own{process, rank, process.sink(), process.clock()};
    process.add_path(rank.with_faults(wanted[0](own), process.clock()));
    return;
  }
  auto scheduler =
      std::make_unique<PathScheduler>(process.peers(), process.tunables(), process.clock(), process.sink(), nullptr);
  for (const Make make : wanted) {
    const bool first = make == wanted[0];
    const Place below{process, rank, scheduler->sink_below(), process.clock()};
    auto path = rank.with_faults(make(below), process.clock(), first);
    scheduler->add_path(*path);
    process.add_path_below(std::move(path));
  }
  process.add_path(std::move(scheduler));
}

}  // namespace

std::unique_ptr<Process> World::make_process(Machine::Rank& rank, std::shared_ptr<Driving> lock, Counters* counters,
                                             Recorder* tracer, const std::map<std::string, std::string>& settings) {
  ProcessParts parts;
  parts.tunables = rank.machine.options().tunables;
  for (const auto& [name, value] : settings) throw_if(parts.tunables.set(name, value), "tunables");
  parts.tunables.oversubscribed = rank.station.oversubscribed() ? 1 : 0;
  parts.tracer = tracer;
  parts.clock = rank.make_clock();
  parts.wait_port = rank.make_wait_port();
  parts.launcher = rank.make_launcher();
  parts.make_event_port = [&rank, lock](ProgressEngine& engine) { return rank.make_event_port(*lock, engine); };
  parts.lock = std::move(lock);
  parts.seed = rank.seed;
  parts.counters = counters;
  auto process = std::make_unique<Process>(std::move(parts));
  if (rank.machine.options().segments) process->node().share_segments(rank.make_segments());
  const WorldOptions& options = rank.machine.options();
  if (options.rdma || options.udp || options.tcp) {
    add_network_paths(*process, rank);
  } else {
    if (options.shm) add_shm(*process, rank);
    const auto reach = options.shm ? SimPath::Reach::beyond_node : SimPath::Reach::all;
    process->add_path(rank.make_path(process->sink(), process->clock(), reach));
  }
  // As after a real wire-up: no rank sends before all can receive.
  throw_if(process->launcher().fence(), "wire-up");
  return process;
}

Report World::run(const std::function<void(Process&)>& body) {
  return machine_.run([&](Machine::Rank& rank) {
    std::unique_ptr<Process> process = make_process(rank, std::make_shared<Driving>());
    try {
      throw_if(process->start(), "start");
      body(*process);
      throw_if(process->finish(), "finish");
    } catch (...) {
      // Data in flight refers to the body's unwound memory: the Process is not destroyed but stays in place.
      static_cast<void>(process.release());
      throw;
    }
  });
}

}  // namespace tern::sim
