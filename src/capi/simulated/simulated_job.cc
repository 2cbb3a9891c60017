#include "capi/simulated/simulated_job.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "base/assert.h"
#include "base/system_names.h"
#include "capi/simulated/crash_signals.h"
#include "capi/simulated/rank_process.h"
#include "capi/simulated/unwind.h"
#include "capi/simulated/virtual_clock.h"
#include "capi/world.h"
#include "names.gen.h"
#include "sim/adapter.h"
#include "sim/world.h"

namespace tern::sim {

/// One rank: its process, its C API, its bursts of computation.
class SimulatedJob::RankRun final : public RankHost, public capi::CallObserver {
 public:
  RankRun(SimulatedJob& job, const SimulatedProgram& program, ProgramCopies& copies, uint32_t place,
          Machine::Rank& rank)
      : job_(job),
        rank_(rank),
        program_(program),
        compute_(job.options_.compute, rank.index()),
        process_(copies, place, rank.index(), *this) {}

  Error run(RankProcess::Exit& exit) {
    make_world();
    switch_in();
    if (Error error = process_.prepare(program_.command)) return error;
    compute_.begin();
    exit = process_.run();
    if (depth() == 0) end_burst(BurstRecord::kClock);
    return {};
  }
  void switch_in() {
    capi::exchange_current(world_.get());
    set_virtual_clock(&rank_.strand.scheduler(), &rank_.strand);
    process_.switch_in();
  }
  void switch_out() {
    process_.switch_out();
    set_virtual_clock(&rank_.strand.scheduler(), nullptr);
  }

  capi::World* world() { return world_.get(); }
  Machine::Rank& machine_rank() { return rank_; }
  /// What the rank owns stays in place: others may refer to it.
  void abandon() { static_cast<void>(world_.release()); }

  // --- RankHost
  void write(int stream, std::string_view text) override {
    if (job_.options_.output) return job_.options_.output(rank_.index(), stream, text);
    while (!text.empty()) {
      const ssize_t n = ::write(stream, text.data(), text.size());
      if (n < 0 && errno != EINTR) return;
      text.remove_prefix(size_t(std::max<ssize_t>(n, 0)));
    }
  }
  uint64_t now_ns() override {
    pause();
    resume();
    if (capi::World& world = *world_; world.process) return world.process->clock().now_ns();
    return rank_.strand.now_ns();
  }
  void sleep_ns(uint64_t ns) override {
    pause();
    rank_.station.compute(ns);
    resume();
  }
  void pause() override {
    if (depth() == 0) end_burst(BurstRecord::kClock);
  }
  void resume() override {
    if (depth() == 0) compute_.begin();
  }
  std::string node_name() const override {
    return "node" + std::to_string(rank_.index() / job_.options_.world.ranks_per_node);
  }
  void cannot(const char* what) override {
    auto& known = job_.report_.cannot;
    if (std::find(known.begin(), known.end(), what) != known.end()) return;
    known.emplace_back(what);
    write(2, "[tern rank " + std::to_string(rank_.index()) + "] the program " + what + "\n");
  }

  // --- CallObserver
  void call_begins(uint16_t function) override {
    if (depth()++ != 0) return;
    end_burst(function);
    call().began_ns = rank_.strand.now_ns();
  }
  void call_ends(uint16_t function) override {
    if (--depth() != 0) return;
    CallTotals& totals = job_.report_.calls[function];
    const uint64_t took = rank_.strand.now_ns() - call().began_ns;
    ++totals.calls;
    totals.time_ns += took;
    totals.longest_ns = std::max(totals.longest_ns, took);
    job_.report_.mpi_ns += took;
    compute_.begin();
  }

 private:
  void make_world() {
    world_ = std::make_unique<capi::World>();
    world_->host.connect = [this](const RankContext& context, Error& error) {
      std::unique_ptr<Process> process =
          World::make_process(rank_, context.lock, context.counters, context.tracer, context.settings);
      if (job_.options_.prepare) job_.options_.prepare(rank_, *process);
      error = process->start();
      return process;
    };
    if (job_.options_.record) world_->record_if_asked();
    world_->host.node_name = node_name();
    if (world_->recorder) describe_to(*world_->recorder);
    if (!job_.options_.observe) return;
    world_->host.observer = this;
    world_->observed = true;
  }
  void describe_to(Recorder& recorder) {
    record::Header& header = recorder.header();
    std::snprintf(header.host, sizeof header.host, "%s", world_->host.node_name.c_str());
    recorder.set_find_code([this](uintptr_t address, std::string& file, uint64_t& offset) {
      const std::byte* block = nullptr;
      const auto* part = process_.copies().find(reinterpret_cast<const void*>(address), block);
      if (!part) return false;
      file = part->image->path();
      offset = address - reinterpret_cast<uintptr_t>(block) - part->at;
      return true;
    });
  }
  /// The call that a thread is in.
  struct InCall {
    uint32_t depth = 0;  ///< calls within calls; 0: it is outside
    uint64_t began_ns = 0;
  };
  InCall& call() {
    const Threads* threads = rank_.strand.threads_if_any();
    const size_t thread = threads ? threads->number() : 0;
    if (in_call_.size() <= thread) in_call_.resize(thread + 1);
    return in_call_[thread];
  }
  uint32_t& depth() { return call().depth; }
  void end_burst(uint16_t function) {
    const uint64_t ns = compute_.end(function);
    if (ns == 0) return;
    job_.report_.compute_ns += ns;
    rank_.station.compute(ns);
  }

  SimulatedJob& job_;
  Machine::Rank& rank_;
  const SimulatedProgram& program_;
  ComputeTime compute_;
  std::unique_ptr<capi::World> world_;
  RankProcess process_;
  std::vector<InCall> in_call_;  ///< by Threads::number
};

SimulatedJob::SimulatedJob(SimulatedJobOptions options) : options_(std::move(options)) {
  options_.world.ranks = 0;
  for (const SimulatedProgram& program : options_.programs) options_.world.ranks += program.ranks;
  ranks_.resize(options_.world.ranks);
  report_.calls.resize(capi::function_names().size());
  if (options_.compute.record && options_.compute.kind == ComputeKind::measured) {
    options_.compute.record->resize(options_.world.ranks);
  }
}

// The last first: the C library keeps streams in a list, and looks for each from its newest on.
SimulatedJob::~SimulatedJob() {
  while (!ranks_.empty()) ranks_.pop_back();
  unwind_through(nullptr);
}

Error SimulatedJob::load() {
  templates_.resize(options_.programs.size());
  for (size_t i = 0; i < options_.programs.size(); ++i) {
    if (Error error = templates_[i].load(options_.programs[i].path)) return error;
    copies_.push_back(std::make_unique<ProgramCopies>());
    if (Error error = copies_[i]->reserve(templates_[i], options_.programs[i].ranks)) return error;
  }
  const ComputeOptions& compute = options_.compute;
  if (compute.kind == ComputeKind::recorded && compute.record->ranks() != options_.world.ranks) {
    return Error(ErrorClass::arg, "the computation was recorded with " + std::to_string(compute.record->ranks()) +
                                      " ranks, and this job has " + std::to_string(options_.world.ranks));
  }
  unwind_through(&copies_);
  return {};
}

SimulatedJobReport SimulatedJob::run() {
  capi::World* const outside = capi::exchange_current(nullptr);
  capi::exchange_current(outside);
  int running = -1;
  WorldOptions world_options = options_.world;
  world_options.crash_notes = false;
  world_options.on_switch = [&](int rank) {
    if (running >= 0 && ranks_[size_t(running)]) ranks_[size_t(running)]->switch_out();
    running = rank;
    if (rank >= 0 && ranks_[size_t(rank)]) ranks_[size_t(rank)]->switch_in();
    else capi::exchange_current(outside);
  };
  World world(std::move(world_options));
  machine_ = &world.machine();
  CrashSignals signals(copies_);
  report_.run = world.run_unstarted([this](Machine::Rank& rank) { rank_main(rank); });
  const NoticeBoard& board = machine_->board();
  if (board.aborted_by() >= 0 && report_.failure.empty()) {
    const int low = board.abort_code() & 255;
    report_.exit_code = low != 0 ? low : 1;  // 256 and multiples would read as success
    report_.failure = board.abort_message();
  } else if (report_.run.deadlock && report_.failure.empty()) {
    explain_deadlock();
  } else if (!report_.run.ok() && report_.failure.empty()) {
    report_.exit_code = 1;
    report_.failure = report_.run.failure;
  }
  for (auto& rank : ranks_) {
    if (!rank || !rank->world()) continue;
    add_counters(report_.counters, *rank->world()->counts.rank);
    rank->abandon();
  }
  describe_links(*machine_);
  set_virtual_clock(nullptr, nullptr);
  machine_ = nullptr;
  return std::move(report_);
}

void SimulatedJob::rank_main(Machine::Rank& rank) {
  uint32_t place = rank.index();
  size_t program = 0;
  while (place >= options_.programs[program].ranks) place -= options_.programs[program++].ranks;
  const uint32_t index = rank.index();
  ranks_[index] = std::make_unique<RankRun>(*this, options_.programs[program], *copies_[program], place, rank);
  RankRun& mine = *ranks_[index];
  RankProcess::Exit exit;
  if (Error error = mine.run(exit)) return fail(index, 126, std::string(error.text()));
  if (rank.strand.now_ns() >= report_.time_ns) {
    report_.time_ns = rank.strand.now_ns();
    report_.last_rank = index;
  }
  const bool inside = mine.world()->models.stage == capi::World::Stage::initialised;
  if (exit.signal != 0) {
    const char* name = signal_name(exit.signal);
    fail(index, 128 + exit.signal,
         "rank " + std::to_string(index) + " was killed by signal " + std::to_string(exit.signal) + " (SIG" +
             (name ? name : "?") + ", " + strsignal(exit.signal) + ")");
  } else if (inside) {
    fail(index, exit.code != 0 ? exit.code : 1,
         "rank " + std::to_string(index) + " ended with exit code " + std::to_string(exit.code) +
             " after MPI_Init, without MPI_Finalize");
  } else if (exit.code != 0 && report_.exit_code == 0) {
    report_.exit_code = exit.code;  // the others go on, as processes do
  }
}

void SimulatedJob::fail(uint32_t rank, int code, const std::string& what) {
  if (report_.failure.empty()) {
    report_.exit_code = code;
    report_.failure = what;
  }
  machine_->scheduler().fail(what);
  ranks_[rank]->machine_rank().strand.stop();
}

void SimulatedJob::explain_deadlock() {
  constexpr uint32_t kShown = 32;  // a screenful
  uint32_t waiting = 0;
  report_.exit_code = 1;
  report_.failure = "deadlock: every rank that has not ended waits, and nothing is on its way";
  for (auto& rank : ranks_) {
    if (!rank) continue;
    Machine::Rank& where = rank->machine_rank();
    if (where.strand.finished() || ++waiting > kShown) continue;
    const char* const call = rank->world() ? rank->world()->call_name : nullptr;
    const bool no_call = !call || where.strand.blocked_in() == Threads::kWaitForEachOther;
    report_.failure +=
        "\n  rank " + std::to_string(where.index()) + " in " +
        (no_call ? "its program" + std::string(call ? " (its threads wait for each other)" : "") : call) + " since " +
        std::to_string(double(where.strand.blocked_since_ns()) * 1e-9) + " s";
  }
  if (waiting > kShown) report_.failure += "\n  and " + std::to_string(waiting - kShown) + " more";
}

}  // namespace tern::sim
