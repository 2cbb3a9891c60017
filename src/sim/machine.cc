#include "sim/machine.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "base/assert.h"
#include "sim/adapter.h"
#include "sim/crash_note.h"
#include "sim/streams.h"

namespace tern::sim {
namespace {

// Independent random streams, derived from one seed.
enum class Stream : uint64_t { weather = 1, start, slow, rank, adapters, streams, shared_memory, threads };
uint64_t derive(uint64_t seed, Stream stream, uint64_t index = 0) {
  Rng rng(seed ^ (uint64_t(stream) << 56) ^ (index * 0xd1342543de82ef95u));
  return rng.next();
}

}  // namespace

std::unique_ptr<WaitPort> Machine::Rank::make_wait_port() {
  return std::make_unique<SimWait>(strand, station, seed + 1, machine.options_.faults.early_in_8);
}

std::unique_ptr<Launcher> Machine::Rank::make_launcher() {
  return std::make_unique<SimLauncher>(machine.board_, strand);
}

std::unique_ptr<Path> Machine::Rank::make_path(Sink& sink, Clock& clock, SimPath::Reach reach) {
  auto inner = std::make_unique<SimPath>(machine.network_, strand, sink, seed + 2, reach);
  path = inner.get();
  return with_faults(std::move(inner), clock);
}

std::unique_ptr<Path> Machine::Rank::with_faults(std::unique_ptr<Path> inner, Clock& clock, bool may_be_cut,
                                                 uint64_t poll_ns) {
  Faults faults = machine.options_.faults;
  if (!may_be_cut) faults.cut_in_65536 = 0;
  return std::make_unique<FaultPath>(std::move(inner), clock, faults, seed + 3, FaultPath::Pace{&strand, poll_ns});
}

std::unique_ptr<ShmNode> Machine::Rank::make_shm_node(uint32_t engine) {
  return machine.shared_memory_of(index(), engine).take(index());
}

std::unique_ptr<DatagramPort> Machine::Rank::make_datagram_port() {
  return std::make_unique<SimDatagramPort>(machine.network_, strand, machine.options_.datagrams,
                                           machine.options_.datagram_faults, seed + 4);
}

std::unique_ptr<StreamPort> Machine::Rank::make_stream_port() {
  return std::make_unique<SimStreams>(*machine.streams_, strand, seed + 5);
}

std::unique_ptr<rdma::Hca> Machine::Rank::make_hca() { return machine.adapters_->open(strand); }

std::unique_ptr<NodeSegments> Machine::Rank::make_segments() {
  return std::make_unique<SimSegments>(machine.segments_, machine.network_, index());
}

Machine::Machine(WorldOptions options)
    : options_(std::move(options)),
      scheduler_(options_.limits, options_.keep_trace),
      network_(scheduler_, options_.network, options_.ranks, options_.ranks_per_node),
      adapters_(std::make_unique<SimAdapters>(scheduler_, network_, options_.adapter, options_.adapter_faults,
                                              derive(options_.seed, Stream::adapters))),
      streams_(std::make_unique<StreamHosts>(scheduler_, network_, options_.streams, options_.stream_faults,
                                             derive(options_.seed, Stream::streams))),
      board_(int(options_.ranks), int(options_.ranks_per_node), options_.network.fence_ns),
      stacks_(options_.ranks, options_.stack_bytes) {
  for (uint32_t node = 0; node < network_.nodes(); ++node)
    adapters_->node(node).uses = std::vector<AdapterUse>(options_.ranks_per_node);
  if (options_.faults.delay_in_1024 != 0 || options_.faults.stall_in_1024 != 0) {
    network_.set_weather(std::make_unique<FaultyWeather>(options_.faults, derive(options_.seed, Stream::weather)));
  }
}

Machine::~Machine() = default;

void Machine::rank_main(Rank& rank, const Body& body) {
  RankExit& exit = report_.ranks[rank.index()];
  try {
    body(rank);
    exit.finished = true;
  } catch (const std::exception& failure) {
    exit.error = failure.what();
  } catch (...) {
    exit.error = "an exception of an unknown type";
  }
  rank.path = nullptr;
  exit.at_ns = rank.strand.now_ns();
  streams_->end(rank.index());  // a program may end with its connections open: its kernel closes them
  if (!exit.finished) scheduler_.fail("rank " + std::to_string(rank.index()) + " threw: " + exit.error);
}

Report Machine::run(const Body& body) {
  TERN_ASSERT(strands_.empty());
  report_.seed = options_.seed;
  report_.ranks.resize(options_.ranks);
  std::optional<CrashNote> note;
  if (options_.crash_notes) note.emplace(scheduler_, options_.seed);
  Strand::OnSwitch on_switch = [&](int rank) {
    if (note) note->set_rank(rank);
    if (options_.on_switch) options_.on_switch(rank);
  };
  cores_.assign((options_.ranks + options_.ranks_per_node - 1) / options_.ranks_per_node,
                {options_.cores_per_node, options_.ranks_per_node});
  Rng start(derive(options_.seed, Stream::start)), slow(derive(options_.seed, Stream::slow));
  for (uint32_t r = 0; r < options_.ranks; ++r) {
    strands_.push_back(std::make_unique<Strand>(
        scheduler_, r, stacks_.bottom(r), stacks_.usable_bytes(),
        [this, r, &body](Strand&) { rank_main(*ranks_[r], body); }, on_switch));
    Strand& strand = *strands_.back();
    strand.set_thread_seed(derive(options_.seed, Stream::threads, r));
    stations_.push_back(
        std::make_unique<EventStation>(strand, cores_[r / options_.ranks_per_node], options_.network.wake_ns));
    ranks_.push_back(
        std::make_unique<Rank>(Rank{*this, strand, derive(options_.seed, Stream::rank, r), *stations_.back()}));
    board_.attach(strand);
    if (slow.chance(options_.faults.slow_in_1024, 1024)) strand.set_slowness(options_.faults.slow_factor);
    strand.start(options_.faults.start_skew_ns ? start.below(options_.faults.start_skew_ns) : 0);
  }
  for (const Faults::Loss& loss : options_.faults.losses) kill(loss);
  scheduler_.run();

  bool all_done = true;
  for (uint32_t r = 0; r < options_.ranks; ++r) {
    RankExit& exit = report_.ranks[r];
    if (exit.finished || !exit.error.empty()) continue;
    exit.at_ns = strands_[r]->now_ns();
    if (!exit.lost) all_done = false;
  }
  if (!all_done && !scheduler_.failed()) {
    report_.deadlock = true;
    scheduler_.fail(explain_deadlock());
  }
  for (const auto& strand : strands_) {
    if (!strand->finished()) stacks_.abandon();
  }
  report_.virtual_ns = scheduler_.now_ns();
  report_.events = scheduler_.events();
  report_.packets = network_.packets();
  report_.trace_hash = scheduler_.trace_hash();
  report_.trace = scheduler_.trace();
  if (scheduler_.failed()) {
    report_.failure = scheduler_.failure() + "\n  replay with TERN_SIM_SEED=" + std::to_string(options_.seed) + " (" +
                      std::to_string(options_.ranks) + " ranks, virtual time " + std::to_string(report_.virtual_ns) +
                      " ns)";
  }
  return report_;
}

void Machine::kill(const Faults::Loss& loss) {
  TERN_ASSERT(loss.rank < options_.ranks);
  deaths_.push_back(std::make_unique<Death>());
  deaths_.back()->machine = this;
  deaths_.back()->strand = strands_[loss.rank].get();
  report_.ranks[loss.rank].lost = true;
  scheduler_.at(loss.at_ns, *deaths_.back(), EventKind::lost, loss.rank, 0);
  if (options_.shm) scheduler_.at(loss.at_ns + loss.notice_ns, *deaths_.back(), EventKind::lost, loss.rank, 1);
  network_.lose(loss.at_ns, loss.rank, loss.notice_ns);
}

SharedMemory& Machine::shared_memory_of(PeerId rank, uint32_t engine) {
  shared_memories_.resize(network_.nodes());
  const uint32_t node = network_.node_of(rank);
  auto& memories = shared_memories_[node];
  if (memories.size() <= engine) memories.resize(engine + 1);
  if (!memories[engine]) {
    const PeerId first = network_.first_rank_of(node);
    std::vector<Strand*> strands;
    for (PeerId r = first; r < options_.ranks && network_.node_of(r) == node; ++r) strands.push_back(strands_[r].get());
    memories[engine] =
        std::make_unique<SharedMemory>(network_, options_.shared_memory, first, strands,
                                       derive(options_.seed, Stream::shared_memory, node + (engine << 20)));
  }
  return *memories[engine];
}

void Machine::note_loss(PeerId rank) {
  shared_memory_of(rank);
  for (const auto& memory : shared_memories_[network_.node_of(rank)]) memory->lose(rank);
}

// First it dies; then the ranks that share its memory notice.
void Machine::Death::on_event(EventKind, uint64_t noticed) {
  if (strand->finished()) return;
  if (noticed) return machine->note_loss(strand->rank());
  strand->kill();
  machine->board_.lose(*strand, machine->scheduler_.now_ns());
  machine->streams_->kill(strand->rank());
}

std::string Machine::explain_deadlock() const {
  constexpr int kShown = 32;  // ranks in a report of a deadlock: a screenful
  std::string text = "deadlock: nothing more will happen, and not every rank has finished";
  int blocked = 0;
  for (uint32_t r = 0; r < options_.ranks; ++r) {
    const RankExit& exit = report_.ranks[r];
    if (exit.finished || exit.lost) continue;
    if (++blocked > kShown) continue;
    const Strand& strand = *strands_[r];
    text += "\n  rank " + std::to_string(r) + ": " + (strand.blocked_in() ? strand.blocked_in() : "not blocked") +
            " since " + std::to_string(strand.blocked_since_ns()) + " ns";
    if (ranks_[r]->path) text += "; " + ranks_[r]->path->describe();
  }
  if (blocked > kShown) text += "\n  and " + std::to_string(blocked - kShown) + " more";
  return text;
}

}  // namespace tern::sim
