// The order of start-up. A rank publishes its addresses before a fence and meets the others after it. If all ranks
// share memory, no socket is ever opened.
//
//   launcher -> job key -> [shm socket bound] [TCP, UDP, RDMA and libfabric cards put] -> fence -> shm segment joined
//     -> (TCP, UDP, RDMA, libfabric after all? fence)
//
// RDMA and libfabric are used if TERN_PATH names them: then every rank must have an adapter. If TERN_PATH names several
// paths of a network, which reach the same ranks, a path scheduler stands before them: messages take the first path
// that works. Without TERN_PATH libfabric is used between ranks that have the same fast provider, TCP between others:
// ranks without one say so in their card.
#include "process/connect.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/config_file.h"
#include "base/kernel_calls.h"
#include "base/limits.h"
#include "coll/collectives.h"
#include "fabric/ip/kernel_streams.h"
#include "fabric/ofi/ofi.h"
#include "fabric/ofi/ofi_path.h"
#include "fabric/rdma/rdma_path.h"
#include "fabric/rdma/verbs/ibv.h"
#include "fabric/scheduler/path_scheduler.h"
#include "fabric/self/self_path.h"
#include "fabric/shm/shm_path.h"
#include "fabric/shm/shm_segments.h"
#include "fabric/tcp/tcp_path.h"
#include "fabric/udp/kernel_port.h"
#include "fabric/udp/udp_path.h"
#include "p2p/core/endpoint.h"
#include "process/allowed_paths.h"
#include "process/cards.h"
#include "process/launch/clients.h"
#include "progress/kernel_wait.h"

namespace tern {
namespace {

// Descriptors that a rank opens until it is ready: to wait (epoll, eventfds, timer) and temporary ones; over a network
// a socket for each address and path; for each rank of its node a doorbell and a life line, and two connections at
// first.
constexpr size_t kOwnDescriptors = 8, kNetworkDescriptors = 16, kNodeDescriptors = 4;
/// Ranks of a node times message engines of each: what they share costs some descriptors for each.
constexpr uint32_t kMostMeetings = 128;

// The TCP path, which a job that shares memory opens only when it meets another job. A value, copied into the process.
struct TcpOpener {
  Process* process;
  JobKey key;
  std::vector<std::string> network;  ///< the paths that TERN_PATH names
  bool allowed;

  Error make(Sink& sink, std::unique_ptr<TcpPath>& path) const {
    return make(kTcpCardKey, sink, process->clock(), path);
  }
  Error make(std::string_view card_key, Sink& sink, Clock& clock, std::unique_ptr<TcpPath>& path) const {
    TcpOptions options;
    options.peers = &process->peers();
    options.key = key;
    options.log = &process->log();
    Error error;
    std::unique_ptr<StreamPort> port = KernelStreams::create(error);
    if (error) return error;
    path = TcpPath::create(
        options, process->tunables(), std::move(port), clock, sink,
        [process = process, find = card_finder(process->launcher(), card_key, "tcp", network)](PeerId peer,
                                                                                               std::string& card) {
          return process->peers().in_my_job(peer) ? find(peer, card) : process->jobs().others()->card_of(peer, card);
        },
        error);
    return error;
  }
};

// Builds one Process step by step; each step returns early with an error that includes the remedy.
class Wireup {
 public:
  Error run(const RankContext& context, std::unique_ptr<Process>& result);

 private:
  Error begin(const RankContext& context);
  Error check_descriptors(int ranks, size_t local, bool engines) const;
  Error check_encryption(const Tunables& tunables) const;
  Error share_memory();
  void prepare_engine_memory(ShmSetup& setup);
  void join_engine_memory();
  bool has_parallel_threads() const;
  bool wants_engine_networks() const;
  Error open_engine_networks();
  Error open_engine_network(uint32_t number, EngineNetwork& network);
  /// A network path's: the rank's own, or a message engine's.
  struct Place {
    std::string key;  ///< of its card
    Sink& sink;
    Clock& clock;
    bool of_engine = false;
  };
  Place own(std::string_view key) { return {std::string(key), network_sink(), process_->clock()}; }
  template <typename OnePath>
  Error put_card(const Place& place, const OnePath& path) {
    return process_->launcher().put(place.key, published(allowed_.network, path.card()));
  }
  Error open_streams(const Place& place, std::unique_ptr<TcpPath>& path);
  Error open_datagrams(const Place& place, std::unique_ptr<UdpPath>& path);
  Error open_adapter(const Place& place, std::unique_ptr<RdmaPath>& path);
  Error open_fabric(const Place& place, ofi::Wanted wanted, std::unique_ptr<OfiPath>& path);
  Error open_fast_fabric();
  int local_rank() const;
  Error put_cards();
  void know_other_jobs();
  TcpOpener opener() { return {process_.get(), key_, allowed_.network, allowed_.tcp}; }

  std::unique_ptr<Process> process_;
  JobKey key_{};
  Allowed allowed_;
  /// The sink of the network paths.
  Sink& network_sink() { return scheduler_ ? scheduler_->sink_below() : process_->sink(); }
  void add_network_paths(bool shared_memory);
  void share_adapter();
  void warn_of_unused();

  std::unique_ptr<ShmNode> node_;
  std::vector<std::unique_ptr<ShmNode>> engine_nodes_;
  bool engines_ = false;  ///< the rank may have message engines
  std::vector<EngineNetwork> engine_networks_;
  std::unique_ptr<PathScheduler> scheduler_;  ///< null: there is at most one network path
  std::unique_ptr<TcpPath> tcp_;
  std::string tcp_card_;  ///< empty: the path is not there (yet)
  std::unique_ptr<UdpPath> udp_;
  std::unique_ptr<RdmaPath> rdma_;
  std::unique_ptr<OfiPath> ofi_;
  uint64_t seed_ = 0;
  bool one_node_ = false;  ///< according to the launcher
  NodeShare share_;
};

// If a network can replace it, shared memory that fails for lack of descriptors is no error.
Error Wireup::check_descriptors(int ranks, size_t local, bool engines) const {
  size_t wanted = kOwnDescriptors;
  const bool network = !allowed_.network.empty();
  if (ranks > 1 && network) wanted += kNetworkDescriptors;
  if (ranks > 1 && allowed_.shm && !network) wanted += kNodeDescriptors * local;
  if (Error error = require_descriptors(wanted)) return error;
  const size_t for_engines = engines ? kNodeDescriptors * kMostMeetings + kNetworkDescriptors * Engines::kMost : 0;
  raise_descriptor_limit(wanted + 64 + kNodeDescriptors * local + for_engines);
  return {};
}

// Also where no adapter will be used now: whether a job may start does not depend on where its ranks are.
Error Wireup::check_encryption(const Tunables& tunables) const {
  const char* plain = allowed_.rdma ? "rdma" : allowed_.ofi ? "ofi" : nullptr;
  if (tunables.encrypt == 0 || !plain) return {};
  return Error(ErrorClass::arg, std::string("TERN_ENCRYPT=1, but TERN_PATH names ") + plain +
                                    ", whose adapters send everything as it is. Take " + plain +
                                    " out of TERN_PATH, or leave the encryption to the network");
}

Error Wireup::begin(const RankContext& context) {
  ProcessParts parts;
  Configuration configuration;
  if (Error error = read_tunables(context, parts.tunables, configuration)) return error;
  if (Error error = read_allowed(parts.tunables.path, allowed_)) return error;
  if (Error error = check_encryption(parts.tunables)) return error;
  if (Error error = check_collective_tunable(parts.tunables.coll)) return error;
  const std::string& progress = parts.tunables.progress;
  if (progress != "auto" && progress != "polling" && progress != "event" && progress != "adaptive" &&
      progress != "event-driven") {
    return Error(ErrorClass::arg,
                 "TERN_PROGRESS is '" + progress + "'; it can be auto, polling, event, adaptive or event-driven");
  }
  if (Error error = check_rendezvous_tunables(parts.tunables)) return error;
  Error error;
  parts.launcher = connect_launcher(error);
  if (error) return error;
  std::vector<int> local = parts.launcher->local_ranks();
  if (Error short_of = check_descriptors(parts.launcher->size(), local.size(), context.engines)) return short_of;
  if (Error wrong = parts.log.configure(parts.tunables.log, parts.launcher->rank())) return wrong;
  if (parts.launcher->rank() == 0) {  // one rank of the job logs it for all
    for (const std::string& warning : configuration.warnings) parts.log.warn(warning);
  }
  share_ = node_share(*parts.launcher);
  if (allowed_.ofi && ofi::has_polling_thread(parts.tunables.ofi_provider)) share_.threads = share_.ranks;
  if (parts.tunables.oversubscribed == -1) parts.tunables.oversubscribed = share_.oversubscribed() ? 1 : 0;
  const bool oversubscribed = parts.tunables.oversubscribed == 1;
  parts.clock = std::make_unique<RealClock>();
  parts.wait_port = std::make_unique<KernelWait>();
  const int cores = std::max(1, share_.cores / std::max(1, share_.ranks));
  parts.waiting = WaitPolicy::Setup::of(parts.tunables, oversubscribed, int(local.size()), cores);
  parts.lock = context.lock;
  parts.counters = context.counters;
  parts.tracer = context.tracer;
  parts.seed = seed_ = parts.clock->now_ns() ^ (uint64_t(parts.launcher->rank()) << 32);
  if (Error no_key = get_job_key(*parts.launcher, key_)) return no_key;
  parts.job = job_number(key_);
  process_ = std::make_unique<Process>(std::move(parts));
  Launcher& launcher = process_->launcher();
  one_node_ = int(local.size()) == launcher.size();
  const Log& log = process_->log();
  if (log.wants(LogLevel::info)) {
    const std::string available = share_.cores != 0 ? std::to_string(share_.cores) : "less than one";
    log.info("rank " + std::to_string(launcher.rank()) + " of " + std::to_string(launcher.size()) + ", job " +
             std::string(launcher.job_id()) + "; on this node " + std::to_string(share_.ranks) + " ranks, " +
             available + " cores" + (oversubscribed ? ": ranks yield to each other" : ""));
    for (const std::string& file : configuration.files) log.info("tunables from " + file);
  }
  return {};
}

Error Wireup::open_streams(const Place& place, std::unique_ptr<TcpPath>& path) {
  if (Error error = opener().make(place.key, place.sink, place.clock, path)) return error;
  return put_card(place, *path);
}

// Ranks of other jobs are reached over TCP.
void Wireup::know_other_jobs() {
  auto open = [opener = opener(), own_card = tcp_card_](std::string& card) mutable -> Error {
    card = own_card;
    if (!card.empty()) return {};
    if (!opener.allowed) {
      return Error(ErrorClass::other,
                   "processes of other jobs are reached over TCP, which TERN_PATH does not allow. Add tcp");
    }
    std::unique_ptr<TcpPath> path;
    if (Error error = opener.make(opener.process->sink(), path)) return error;
    card = own_card = path->card();
    opener.process->add_path(std::move(path), uint32_t(opener.process->tunables().tcp_poll_interval));
    return {};
  };
  process_->jobs().know(std::make_unique<OtherJobs>(process_->peers(), secret_for_others(key_), std::move(open)));
}

Error Wireup::open_datagrams(const Place& place, std::unique_ptr<UdpPath>& path) {
  const Tunables& tunables = process_->tunables();
  UdpProtocol protocol;
  if (Error error = UdpPath::read_protocol(tunables, protocol)) return error;
  KernelPortOptions sockets;
  sockets.channels = UdpPath::channels(protocol);
  Error error;
  std::unique_ptr<DatagramPort> port = KernelPort::create(sockets, tunables, error);
  if (error) return error;
  UdpOptions options;
  options.peers = &process_->peers();
  options.key = key_;
  options.log = &process_->log();
  path = UdpPath::create(options, tunables, std::move(port), place.clock, place.sink,
                         card_finder(process_->launcher(), place.key, "udp", allowed_.network), error);
  return error ? std::move(error) : put_card(place, *path);
}

// Among the ranks of this node.
int Wireup::local_rank() const {
  Launcher& launcher = process_->launcher();
  const std::vector<int> local = launcher.local_ranks();
  return int(std::find(local.begin(), local.end(), launcher.rank()) - local.begin());
}

Error Wireup::open_adapter(const Place& place, std::unique_ptr<RdmaPath>& path) {
  rdma::IbvOptions wanted;
  wanted.local_rank = local_rank();
  wanted.seed = seed_;
  std::unique_ptr<rdma::Hca> hca;
  if (Error error = rdma::open_ibv(wanted, process_->tunables(), hca)) {
    return std::move(error).context("TERN_PATH asks for RDMA");
  }
  RdmaOptions options;
  options.peers = &process_->peers();
  options.key = key_;
  options.nodes = uint32_t(process_->launcher().nodes());
  options.of_engine = place.of_engine;
  if (process_->log().wants(LogLevel::debug) && !place.of_engine) {
    options.channel_changed = [&log = process_->log()](PeerId peer, const char* channel) {
      log.debug("messages of peer " + std::to_string(peer) + " come by " + channel + " from now on");
    };
  }
  Error error;
  path = RdmaPath::create(options, process_->tunables(), std::move(hca), place.clock, place.sink,
                          card_finder(process_->launcher(), place.key, "rdma", allowed_.network), error);
  return error ? std::move(error) : put_card(place, *path);
}

// An optional path's card is put by open_fast_fabric.
Error Wireup::open_fabric(const Place& place, ofi::Wanted wanted, std::unique_ptr<OfiPath>& path) {
  std::unique_ptr<ofi::Port> port;
  const ofi::Surroundings surroundings{local_rank(), process_->peers().job_ranks(), process_->is_oversubscribed()};
  if (Error error = ofi::open_port(surroundings, wanted, process_->tunables(), port)) return error;
  OfiOptions options;
  options.optional = wanted != ofi::Wanted::any;
  options.peers = &process_->peers();
  options.key = key_;
  options.log = &process_->log();
  Error error;
  path = OfiPath::create(options, process_->tunables(), std::move(port), place.clock, place.sink,
                         card_finder(process_->launcher(), place.key, "ofi", allowed_.network), error);
  return error || options.optional ? std::move(error) : put_card(place, *path);
}

// Nobody has asked for it: without a fast provider there is an empty card. Verbs adapters that the rdma path can use
// are left to it.
Error Wireup::open_fast_fabric() {
  Launcher& launcher = process_->launcher();
  if (process_->tunables().encrypt == 0 && ofi::may_have_fast_provider()) {
    std::string none;
    const std::vector<rdma::IbvPort> ports = rdma::find_ibv_ports(process_->tunables(), none);
    const bool verbs =
        std::any_of(ports.begin(), ports.end(), [](const rdma::IbvPort& port) { return port.why_not.empty(); });
    if (Error error = open_fabric(own(kOfiCardKey), verbs ? ofi::Wanted::fast_without_verbs : ofi::Wanted::fast, ofi_))
      process_->log().info("ofi is not used: " + std::string(error.text()));
  }
  return launcher.put(kOfiCardKey, published(allowed_.network, ofi_ ? ofi_->card() : wire::kNoOfiCard));
}

// Makes this rank reachable from other nodes.
Error Wireup::put_cards() {
  if (allowed_.network.size() > 1) {
    scheduler_ = std::make_unique<PathScheduler>(process_->peers(), process_->tunables(), process_->clock(),
                                                 process_->sink(), &process_->log());
  }
  if (allowed_.rdma) {
    if (Error error = open_adapter(own(kRdmaCardKey), rdma_)) return error;
  }
  if (allowed_.ofi) {
    if (Error error = open_fabric(own(kOfiCardKey), ofi::Wanted::any, ofi_))
      return std::move(error).context("TERN_PATH asks for ofi");
  }
  if (allowed_.fast_ofi) {
    if (Error error = open_fast_fabric()) return error;
  }
  if (allowed_.udp) {
    if (Error error = open_datagrams(own(kUdpCardKey), udp_)) return error;
  }
  if (allowed_.tcp) {
    if (Error error = open_streams(own(kTcpCardKey), tcp_)) return error;
    tcp_card_ = tcp_->card();
  }
  return wants_engine_networks() ? open_engine_networks() : Error();
}

// Threads that share one core gain nothing from engines, and a call that looks for its message keeps the core from them
// (docs/decisions/0011).
bool Wireup::has_parallel_threads() const {
  return engines_ && (share_.cores >= 2 * share_.ranks || process_->tunables().engines >= 0);
}

// All engines take the same network, so there must be one alone. Each has listeners of its own over TCP, for which a
// firewall with room for one port a rank has none; and an endpoint of libfabric may cost much memory. Tuple queues are
// for calls of one thread: an engine that has them would take the rank's lock for each message.
bool Wireup::wants_engine_networks() const {
  const Tunables& tunables = process_->tunables();
  if (!has_parallel_threads() || allowed_.network.size() != 1 || (allowed_.fast_ofi && ofi_)) return false;
  const bool asked = tunables.engines > 0;
  if (allowed_.tcp) return tunables.tcp_port_first == 0 || asked;
  if (allowed_.ofi && !asked) return false;
  return allowed_.udp || tunables.rendezvous != "tupleq";
}

Error Wireup::open_engine_networks() {
  const uint32_t wanted = wanted_engines(process_->tunables());
  while (engine_networks_.size() < wanted) {
    EngineNetwork network{std::make_unique<RealClock>(), std::make_unique<LaterSink>(), nullptr};
    if (Error error = open_engine_network(uint32_t(engine_networks_.size()) + 1, network)) {
      process_->log().info("fewer message engines over the network: " + std::string(error.text()));
      return {};
    }
    engine_networks_.push_back(std::move(network));
  }
  return {};
}

Error Wireup::open_engine_network(uint32_t number, EngineNetwork& network) {
  const auto open = [&]<typename OnePath>(std::string_view key, std::unique_ptr<OnePath> path, auto&& opens) -> Error {
    const Place place{std::string(key) + '-' + std::to_string(number), *network.sink, *network.clock, true};
    if (Error error = opens(place, path)) return error;
    network.path = std::move(path);
    return {};
  };
  network.asks_kernel = !allowed_.rdma;
  if (allowed_.tcp)
    return open(kTcpCardKey, std::unique_ptr<TcpPath>(),
                [&](auto& place, auto& path) { return open_streams(place, path); });
  if (allowed_.udp)
    return open(kUdpCardKey, std::unique_ptr<UdpPath>(),
                [&](auto& place, auto& path) { return open_datagrams(place, path); });
  if (allowed_.rdma)
    return open(kRdmaCardKey, std::unique_ptr<RdmaPath>(),
                [&](auto& place, auto& path) { return open_adapter(place, path); });
  return open(kOfiCardKey, std::unique_ptr<OfiPath>(),
              [&](auto& place, auto& path) { return open_fabric(place, ofi::Wanted::any, path); });
}

// Joins the ranks of this node, also where TERN_PATH leaves the shared-memory path out, and opens sockets if that path
// does not reach all ranks.
Error Wireup::share_memory() {
  Launcher& launcher = process_->launcher();
  std::vector<int> local = launcher.local_ranks();
  bool network = !allowed_.network.empty();
  bool network_now = network && !(one_node_ && allowed_.shm);
  if (network_now) {
    if (Error error = put_cards()) return error;
  }
  Error no_memory;
  if (local.size() > 1 && (allowed_.shm || network)) {
    ShmSetup setup;
    setup.rank = process_->world_rank();
    setup.candidates = local;
    setup.job_key = key_;
    // Without the path there are segments only: windows may have to share memory. Such ranks join each other alone: to
    // one that has the path, a member of its node is a peer that it reaches by the path.
    if (!allowed_.shm) {
      for (uint8_t& byte : setup.job_key) byte = uint8_t(~byte);
    }
    setup.ring_bytes = allowed_.shm ? size_t(process_->tunables().shm_ring_bytes) : 1;
    setup.allow_attach = allowed_.shm && process_->tunables().shm_cma != 0;
    if (allowed_.shm) prepare_engine_memory(setup);
    node_ = ShmNode::create(
        setup, [&] { return launcher.fence(); }, no_memory);
    if (no_memory) {
      process_->log().info(std::string(no_memory.text()));
      node_.reset();
    }
    join_engine_memory();
  } else if (Error error = launcher.fence()) {
    return error;
  }
  bool everybody = node_ && int(node_->members().size()) == launcher.size();
  if (everybody || (network_now && !one_node_)) return {};
  // Other ranks of this node may have tried to share memory first; their addresses are there after their second fence.
  if (network_now) return launcher.fence();
  if (!network) {
    if (!allowed_.shm) {
      return Error(ErrorClass::other,
                   "TERN_PATH allows no other path than self, which leads to no other rank. Add shm, or tcp");
    }
    return Error(ErrorClass::other, "not all ranks can share memory, and TERN_PATH allows no other path" +
                                        (no_memory ? ": " + std::string(no_memory.text()) : std::string()) +
                                        ". Add tcp");
  }
  // Some ranks cannot share memory: every rank has found that out, so all of them get here.
  if (Error error = put_cards()) return error;
  return launcher.fence();
}

// Each message engine has a segment of its own. A rank that comes to the fence can be met in all that it wants; ranks
// that have met in the first segment read there how many all of them want.
void Wireup::prepare_engine_memory(ShmSetup& setup) {
  const uint32_t most = kMostMeetings / uint32_t(setup.candidates.size());
  const uint32_t wanted = has_parallel_threads() ? std::min(wanted_engines(process_->tunables()), most) : 0;
  for (; setup.engines < wanted; ++setup.engines) {
    ShmSetup own = setup;
    own.engines = 0;
    own.job_key[0] ^= uint8_t(setup.engines + 1);
    Error error;
    engine_nodes_.push_back(ShmNode::prepare(own, error));
    if (!error) continue;
    process_->log().info("fewer message engines: " + std::string(error.text()));
    engine_nodes_.pop_back();
    return;
  }
}

// One that this rank cannot join is the same to all: the others do not find this rank there.
void Wireup::join_engine_memory() {
  engine_nodes_.resize(node_ ? std::min<size_t>(engine_nodes_.size(), node_->engines()) : 0);
  for (auto& node : engine_nodes_) {
    Error error = node->join();
    if (!error) continue;
    process_->log().info("a message engine reaches no other rank: " + std::string(error.text()));
    node.reset();
  }
  // Where ranks share memory, an engine without memory would take the network between them.
  if (allowed_.shm && engine_networks_.size() > engine_nodes_.size()) engine_networks_.resize(engine_nodes_.size());
  process_->share_engine_memory(std::move(engine_nodes_));
}

// A poll of sockets costs a system call. So beside a path with cheaper polls they are polled seldom, and so is a path
// that only replaces a better one if that fails.
void Wireup::add_network_paths(bool shared_memory) {
  const auto seldom = uint32_t(process_->tunables().tcp_poll_interval);
  bool cheaper = shared_memory;
  if (allowed_.fast_ofi && ofi_) {
    process_->add_path(std::move(ofi_));
    cheaper = true;
  }
  for (const std::string& name : allowed_.network) {
    std::unique_ptr<Path> path;
    if (name == "rdma") path = std::move(rdma_);
    else if (name == "ofi") path = std::move(ofi_);
    else if (name == "udp") path = std::move(udp_);
    else path = std::move(tcp_);
    if (!path) continue;
    const uint32_t interval = cheaper && name != "rdma" && name != "ofi" ? seldom : 1;
    cheaper = true;
    if (scheduler_) {
      scheduler_->add_path(*path);
      process_->add_path_below(std::move(path), interval);
    } else {
      process_->add_path(std::move(path), interval);
    }
  }
  if (scheduler_) process_->add_path(std::move(scheduler_));
  for (EngineNetwork& network : engine_networks_)
    network.poll_interval = shared_memory && (allowed_.tcp || allowed_.udp) ? seldom : 1;
  process_->give_engine_networks(std::move(engine_networks_));
}

// The words stay mapped as long as the process has the node's memory, longer than the path has timers.
void Wireup::share_adapter() {
  std::vector<AdapterUse*> words;
  for (uint32_t slot = 0; slot < node_->slots(); ++slot) {
    if (node_->present(slot)) words.push_back(&node_->block(slot).adapter);
  }
  AdapterUse& mine = node_->block(node_->my_slot()).adapter;
  rdma_->share_adapter(words, mine);
  for (EngineNetwork& network : engine_networks_) static_cast<RdmaPath&>(*network.path).share_adapter(words, mine);
}

// Names of the paths to other ranks that have no tuple queues, separated by commas.
std::string without_tuple_queues(const std::vector<Path*>& paths) {
  std::string names;
  for (Path* path : paths) {
    const std::string_view name = path->properties().name;
    if (name == "self" || path->tuple_queues()) continue;
    names += (names.empty() ? "" : ", ") + std::string(name.empty() ? "of several lanes" : name);
  }
  return names;
}

// What was asked for and cannot be had: one warning a job.
void Wireup::warn_of_unused() {
  if (process_->world_rank() != 0 || process_->world_size() == 1) return;
  const std::string without = without_tuple_queues(process_->p2p().endpoints().paths());
  if (process_->tunables().rendezvous == "tupleq" && !without.empty()) {
    process_->log().warn(
        "TERN_RENDEZVOUS=tupleq: the path " + without +
        " has no tuple queues (rdma has them, on an adapter with XRC); messages over it are sent as with "
        "TERN_RENDEZVOUS=customised");
  }
}

Error Wireup::run(const RankContext& context, std::unique_ptr<Process>& result) {
  if (Error error = begin(context)) return error;
  engines_ = context.engines;
  if (process_->world_size() > 1) {
    if (Error error = share_memory()) return error;
  }
  know_other_jobs();
  process_->add_path(std::make_unique<SelfPath>(process_->peers().me(), process_->sink()));
  const Tunables& tunables = process_->tunables();
  if (node_ && rdma_) share_adapter();
  if (node_ && !allowed_.shm) {
    process_->node().share_segments(std::make_unique<ShmSegments>(std::move(node_)), false);
  } else if (node_) {
    process_->node().share_memory(*node_);
    process_->node().share_segments(std::make_unique<ShmSegments>(*node_), true);
    process_->add_path(std::make_unique<ShmPath>(std::move(node_), process_->sink(), tunables));
  }
  add_network_paths(process_->environment().node_memory != nullptr);
  warn_of_unused();
  if (Error error = process_->start()) return error;
  result = std::move(process_);
  return {};
}

}  // namespace

Error read_tunables(const RankContext& context, Tunables& tunables, Configuration& configuration) {
  if (Error error = read_tunables(environ, own_prefix(), tunables, configuration)) return error;
  for (auto& [name, value] : context.settings) {
    if (Error error = tunables.set(name, value)) return error;
  }
  return {};
}

std::unique_ptr<Process> connect_process(const RankContext& context, Error& error) {
  std::unique_ptr<Process> process;
  error = require_kernel_calls();
  if (error) return nullptr;
  Wireup wireup;
  error = wireup.run(context, process);
  if (error) report_failed_init();  // while the launcher's connection is open
  return process;
}

}  // namespace tern
