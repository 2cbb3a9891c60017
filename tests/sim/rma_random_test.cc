// Random programs of one-sided operations against a sequential model, in the world: drawn ranks, windows, lock designs,
// synchronisation, datatypes, networks with and without get and put, with faults.
//
// In each round every part of every rank's memory has one use: owned by one origin (whose operations on it are
// ordered), read by all, or added to by all. So the outcome is known, whatever the timing; each rank keeps a model of
// all memory.
#include <gtest/gtest.h>

#include "coll/collectives.h"
#include "datatype/construct.h"
#include "rma/window.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using rma::Operation;
using rma::Window;
using wire::WindowAction;

constexpr int kParts = 6;

enum class Style { fence, post_start, lock, lock_all };
enum class Use { owned, read, added };

/// The words of a part that an operation touches: word i is at start + i / block * stride + i % block.
struct Shape {
  int64_t start = 0, block = 1, stride = 1, words = 1;
  int64_t at(int64_t i) const { return start + i / block * stride + i % block; }
};

struct Step {
  int origin, target, part;
  WindowAction action;
  OpId op;
  Shape shape;
  uint64_t seed;
  bool spread;   ///< the origin's buffer has holes, too
  bool request;  ///< passive styles: the request form
  Use use;
};

struct Round {
  Style style;
  bool exclusive, unchecked;
  std::vector<Step> steps;
};

struct Program {
  Program(uint64_t seed, int ranks, int64_t most_words = 40000);
  Round draw_round(Rng& rng) const;
  Step draw_step(Rng& rng, int origin, int target, int part, Use use) const;

  int ranks;
  int64_t words;  ///< of a part
  bool dynamic, allocate;
  std::vector<Round> rounds;
};

Program::Program(uint64_t seed, int n, int64_t most_words) : ranks(n) {
  Rng rng(seed);
  const int64_t sizes[] = {4, 64, 700, 3000, 40000};
  words = std::min(sizes[rng.below(5)], most_words);
  dynamic = rng.chance(1, 4);
  allocate = rng.chance(1, 3);
  for (int i = 0; i < 5; ++i) rounds.push_back(draw_round(rng));
}

Step Program::draw_step(Rng& rng, int origin, int target, int part, Use use) const {
  constexpr OpId kAdding[] = {OpId::sum, OpId::bxor};
  Step step{origin,           target,           part, WindowAction::get, OpId::replace, {}, rng.next(),
            rng.chance(1, 3), rng.chance(1, 3), use};
  Shape& shape = step.shape;
  shape.words = 1 + int64_t(rng.below(uint64_t(words)));
  if (rng.chance(1, 3)) shape.words = 1;
  const int64_t spare = words - shape.words;
  shape.block = 1 + int64_t(rng.below(uint64_t(shape.words)));
  const int64_t blocks = (shape.words + shape.block - 1) / shape.block;
  if (shape.words % shape.block != 0) shape.block = shape.words;  // whole blocks only
  shape.stride = shape.block + (blocks > 1 ? int64_t(rng.below(uint64_t(spare / blocks + 1))) : 0);
  const int64_t span = (shape.words / shape.block - 1) * shape.stride + shape.block;
  shape.start = int64_t(rng.below(uint64_t(words - span + 1)));
  if (use == Use::owned) {
    const WindowAction actions[] = {WindowAction::put, WindowAction::get, WindowAction::accumulate,
                                    WindowAction::get_accumulate, WindowAction::compare_and_swap};
    step.action = actions[rng.below(5)];
    constexpr OpId kOps[] = {OpId::sum, OpId::max, OpId::replace, OpId::no_op, OpId::bxor};
    step.op = kOps[rng.below(5)];
    if (step.action == WindowAction::put || step.action == WindowAction::get) step.op = OpId::replace;
    if (step.action == WindowAction::compare_and_swap) shape = {shape.start, 1, 1, 1}, step.op = OpId::replace;
  } else if (use == Use::added) {
    step.action = rng.chance(1, 2) ? WindowAction::accumulate : WindowAction::get_accumulate;
    step.op = kAdding[part % 2];
  }
  return step;
}

Round Program::draw_round(Rng& rng) const {
  Round round{Style(rng.below(4)), rng.chance(1, 2), rng.chance(1, 8), {}};
  for (int target = 0; target < ranks; ++target) {
    for (int part = 0; part < kParts; ++part) {
      const auto use = Use(rng.below(3));
      const int owner = int(rng.below(uint64_t(ranks)));
      for (int origin = 0; origin < ranks; ++origin) {
        if (use == Use::owned && origin != owner) continue;
        // Where operations on the same place are not ordered there is one for each part.
        const bool passive = round.style == Style::lock || round.style == Style::lock_all;
        const int steps = int(rng.below(passive ? 4 : 2));
        for (int i = 0; i < steps; ++i) round.steps.push_back(draw_step(rng, origin, target, part, use));
      }
    }
  }
  return round;
}

int64_t value_of(uint64_t seed, int64_t i) {
  const uint64_t x = (seed + uint64_t(i)) * 0x9e3779b97f4a7c15u;
  return int64_t(x ^ x >> 29);
}

int64_t combine(OpId op, int64_t in, int64_t old) {
  switch (op) {
    case OpId::sum: return int64_t(uint64_t(in) + uint64_t(old));
    case OpId::max: return std::max(in, old);
    case OpId::bxor: return in ^ old;
    case OpId::no_op: return old;
    default: return in;
  }
}

[[noreturn]] void wrong(const std::string& what) { throw std::runtime_error(what); }
void right(const Error& error, const std::string& what) {
  if (error) wrong(what + ": " + std::string(error.text()));
}

/// One rank.
class Player {
 public:
  Player(Process& process, const Program& program)
      : process_(process), program_(program), me_(process.world_rank()), word_(types_.get(type_id::kInt64)) {
    const size_t all = size_t(kParts * program.words);
    model_.assign(size_t(program.ranks), std::vector<int64_t>(all));
    memory_.assign(all, 0);
  }
  void play();

 private:
  struct Pending {
    const Step* step;
    std::vector<int64_t> origin, result, expected;
    int64_t compare = 0;
    bool known = false;  ///< the result can be predicted
    Request* request = nullptr;
  };
  void make_window();
  void open(const Round& round);
  void close(const Round& round);
  void carry_out(const Round& round);
  void begin(const Step& step, const Round& round, bool unordered);
  void check(Pending& pending);
  Ref<Datatype> type_of(const Shape& shape);
  void barrier() {
    Request* none = nullptr;
    right(collective(process_.world(), tern::Operation::barrier, Operands(), Mode::blocking, none), "barrier");
  }
  void apply(const Step& step, Pending* mine);

  Process& process_;
  const Program& program_;
  const int me_;
  PredefinedTypes types_;
  Datatype& word_;
  std::unique_ptr<Window> window_;
  std::vector<int64_t> memory_;
  std::vector<std::vector<int64_t>> model_;
  std::vector<uint64_t> addresses_;
  std::vector<std::unique_ptr<Pending>> pending_;
};

Ref<Datatype> Player::type_of(const Shape& shape) {
  Ref<Datatype> made;
  right(construct::vector(shape.words / shape.block, shape.block, shape.stride, word_, made), "vector");
  made->commit();
  return made;
}

void Player::make_window() {
  Window::Plan plan{rma::Flavor::create, memory_.data(), Aint(memory_.size() * 8), 8, nullptr};
  if (program_.allocate) plan.flavor = rma::Flavor::allocate, plan.base = nullptr;
  if (program_.dynamic) plan = {rma::Flavor::dynamic, nullptr, 0, 1, nullptr};
  right(Window::create(process_.windows(), process_.world(), plan, window_), "create");
  if (program_.dynamic) right(window_->memory().attach(memory_.data(), Aint(memory_.size() * 8)), "attach");
  if (!program_.dynamic && program_.allocate)
    std::fill_n(reinterpret_cast<int64_t*>(window_->memory().base()), memory_.size(), 0);
  addresses_.resize(size_t(program_.ranks));
  const auto mine = reinterpret_cast<uint64_t>(memory_.data());
  Operands operands;
  operands.send.buffer = reinterpret_cast<std::byte*>(const_cast<uint64_t*>(&mine));
  operands.receive.buffer = reinterpret_cast<std::byte*>(addresses_.data());
  operands.send.count = operands.receive.count = 1;
  operands.send.type = operands.receive.type = &word_;
  Request* none = nullptr;
  right(collective(process_.world(), tern::Operation::allgather, operands, Mode::blocking, none), "allgather");
}

void Player::open(const Round& round) {
  Group& all = process_.world().group();
  const int assertions = round.unchecked && !round.exclusive ? rma::assertion::kNoCheck : 0;
  if (round.style == Style::fence) right(window_->access().fence(0), "fence");
  if (round.style == Style::post_start) {
    right(window_->access().post(all, round.unchecked ? rma::assertion::kNoCheck : 0), "post");
    if (round.unchecked) barrier();
    right(window_->access().start(all, round.unchecked ? rma::assertion::kNoCheck : 0), "start");
  }
  if (round.style == Style::lock_all) right(window_->access().lock_all(assertions), "lock_all");
}

void Player::close(const Round& round) {
  if (round.style == Style::fence) right(window_->access().fence(rma::assertion::kNoSucceed), "fence");
  if (round.style == Style::post_start) {
    right(window_->access().complete(), "complete");
    bool over = false;
    for (int tests = round.exclusive ? 20 : 0; tests > 0 && !over; --tests) right(window_->access().test(over), "test");
    if (!over) right(window_->access().wait(), "wait");
  }
  if (round.style == Style::lock_all) right(window_->access().unlock_all(), "unlock_all");
}

// What the step does to the model; `mine`: this rank's own step, whose result is noted.
void Player::apply(const Step& step, Pending* mine) {
  std::vector<int64_t>& target = model_[size_t(step.target)];
  for (int64_t i = 0; i < step.shape.words; ++i) {
    int64_t& word = target[size_t(step.part * program_.words + step.shape.at(i))];
    if (mine) mine->expected.push_back(word);
    const int64_t in = value_of(step.seed, i);
    if (step.action == WindowAction::get) continue;
    if (step.action != WindowAction::compare_and_swap) word = combine(step.op, in, word);
    else if (step.seed % 2 == 0) word = in;  // compared with what is there; else with something else
  }
}

void Player::begin(const Step& step, const Round& round, bool unordered) {
  auto made = std::make_unique<Pending>();
  Pending& pending = *made;
  pending.step = &step;
  apply(step, &pending);
  const int64_t words = step.shape.words;
  const Shape here = step.spread ? Shape{0, 1, 3, words} : Shape{0, words, words, words};
  pending.origin.assign(size_t(here.at(words - 1) + 1), 0);
  pending.result.assign(pending.origin.size(), -7);
  for (int64_t i = 0; i < words; ++i) pending.origin[size_t(here.at(i))] = value_of(step.seed, i);
  pending.compare = pending.expected[0] + (step.seed % 2 == 0 ? 0 : 1);
  Ref<Datatype> origin_type = type_of(here), target_type = type_of(step.shape);
  Operation operation{step.action};
  operation.op = step.op;
  if (step.action != WindowAction::get) {
    operation.origin = pending.origin.data();
    operation.origin_count = 1;
    operation.origin_type = origin_type.get();
  }
  if (step.action != WindowAction::put && step.action != WindowAction::accumulate) {
    operation.result = pending.result.data();
    operation.result_count = 1;
    operation.result_type = origin_type.get();
  }
  operation.compare = &pending.compare;
  operation.target = step.target;
  operation.displacement = step.part * program_.words + step.shape.start;
  if (program_.dynamic)
    operation.displacement = Aint(addresses_[size_t(step.target)] + uint64_t(operation.displacement) * 8);
  operation.target_count = 1;
  operation.target_type = target_type.get();
  if (step.action == WindowAction::compare_and_swap) {
    operation.origin_type = operation.result_type = operation.target_type = &word_;
  }
  const bool passive = round.style == Style::lock || round.style == Style::lock_all;
  const bool with_request = passive && step.request && step.action != WindowAction::compare_and_swap;
  right(window_->begin(operation, with_request ? &pending.request : nullptr), "operation");
  pending.known = !unordered;
  pending_.push_back(std::move(made));
}

void Player::check(Pending& pending) {
  if (pending.request) {
    process_.p2p().wait(*pending.request);
    right(pending.request->error, "request");
    pending.request->release();
    pending.request = nullptr;
  }
  const Step& step = *pending.step;
  if (step.action == WindowAction::put || step.action == WindowAction::accumulate || !pending.known) return;
  const Shape here = step.spread ? Shape{0, 1, 3, step.shape.words} : Shape{0, step.shape.words, 1, step.shape.words};
  for (int64_t i = 0; i < step.shape.words; ++i) {
    if (pending.result[size_t(here.at(i))] == pending.expected[size_t(i)]) continue;
    wrong("rank " + std::to_string(me_) + ": word " + std::to_string(i) + " of a result of rank " +
          std::to_string(step.target) + ", part " + std::to_string(step.part) + ", action " +
          std::to_string(int(step.action)));
  }
}

void Player::carry_out(const Round& round) {
  const bool passive = round.style == Style::lock || round.style == Style::lock_all;
  int locked = -1;
  for (const Step& step : round.steps) {
    if (step.origin != me_) {
      apply(step, nullptr);
      continue;
    }
    if (round.style == Style::lock && locked != step.target) {
      if (locked >= 0) right(window_->access().unlock(locked), "unlock");
      locked = step.target;
      right(window_->access().lock(round.exclusive ? rma::kLockExclusive : rma::kLockShared, locked, 0), "lock");
    }
    begin(step, round, step.use == Use::added);
    // Puts and gets of one origin are not ordered among its other operations.
    if (passive)
      right(step.seed % 3 == 0 ? window_->access().flush_all() : window_->access().flush(step.target), "flush");
  }
  if (locked >= 0) right(window_->access().unlock(locked), "unlock");
}

void Player::play() {
  make_window();
  barrier();
  for (const Round& round : program_.rounds) {
    open(round);
    carry_out(round);
    close(round);
    for (auto& pending : pending_) check(*pending);
    pending_.clear();
    barrier();
    right(window_->access().lock(rma::kLockShared, me_, 0), "own lock");
    const auto* now =
        program_.allocate && !program_.dynamic ? reinterpret_cast<int64_t*>(window_->memory().base()) : memory_.data();
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (now[i] == model_[size_t(me_)][i]) continue;
      wrong("rank " + std::to_string(me_) + ": word " + std::to_string(i) + " of its memory, style " +
            std::to_string(int(round.style)));
    }
    right(window_->access().unlock(me_), "own unlock");
    barrier();
  }
  right(window_->free(), "free");
}

WorldOptions options_for(uint64_t seed, int ranks) {
  Rng rng(seed);
  WorldOptions options;
  options.ranks = uint32_t(ranks);
  options.ranks_per_node = uint32_t(1 + rng.below(4));
  options.seed = seed;
  options.limits = {20'000'000'000, 60'000'000};
  options.faults = Faults::random(rng);
  options.network.eager_bytes = size_t(64) << rng.below(8);
  options.network.packet_bytes = std::max<size_t>(2048, options.network.eager_bytes);
  constexpr NetworkModel::Get kGets[] = {NetworkModel::Get::none, NetworkModel::Get::cpu, NetworkModel::Get::adapter};
  options.network.get = kGets[rng.below(3)];
  options.network.put = rng.chance(2, 3);
  options.network.ordered_writes = rng.chance(1, 2);
  constexpr const char* kLocks[] = {"auto", "event-thread", "test-and-set", "mcs", "polling-thread"};
  options.tunables.rma_lock = kLocks[rng.below(std::size(kLocks))];
  options.tunables.rma_transfer_bytes = int64_t(rng.below(2) * 4096);
  options.network.gathered_in_256 = uint32_t(rng.below(128));
  options.shm = rng.chance(1, 3);
  return options;
}

TEST(RmaRandom, MemoryIsAsTheModelSays) {
  for_seeds(200, [](uint64_t seed) {
    const int ranks = 1 + int(seed % 5);
    const Program program(seed, ranks);
    const Report report =
        World(options_for(seed, ranks)).run([&](Process& process) { Player(process, program).play(); });
    ASSERT_TRUE(report.ok()) << ranks << " ranks: " << report.failure;
  });
}

// Puts, gets, accumulates and the words of locks are the adapter's; few slots and credit, parts of messages,
// receiver-not-ready storms.
TEST(RmaRandom, OverAdapters) {
  uint64_t atomics = 0, lock_words = 0, messages = 0;
  for_seeds(40, [&](uint64_t seed) {
    const int ranks = 2 + int(seed % 4);
    const Program program(seed, ranks, 700);  // a word may be an atomic operation, some ten events
    Rng rng(seed * 31);
    WorldOptions options = options_for(seed, ranks);
    options.rdma = true;
    options.node_path = rng.chance(1, 2);
    Tunables& tunables = options.tunables;
    tunables.rdma_keepalive_ms = 0;
    tunables.rdma_eager_bytes = int64_t(256 + rng.below(uint64_t{1} << (4 + rng.below(10))));
    tunables.rdma_receives = int64_t(16 + rng.below(200));
    tunables.rdma_sends = int64_t(8 + rng.below(100));
    tunables.rdma_window = int64_t(2 + rng.below(40));
    tunables.rdma_registration_bytes = rng.chance(1, 2) ? 0 : 1 << 28;
    constexpr const char* kChannels[] = {"rc", "rc-rdma", "dc", "dc-rdma", "auto", "ud", "auto-rc"};
    tunables.rdma_channels = kChannels[rng.below(7)];
    options.adapter.ordered_writes = rng.chance(1, 2);
    options.adapter.max_message_bytes = uint32_t(20'000 + rng.below(100'000));
    options.adapter.max_reads = uint32_t(1 + rng.below(8));
    options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(50));
    options.adapter_faults.storm_ns = 1'000'000;
    options.adapter.atomics = rng.chance(3, 4);
    options.adapter.atomic_swap = rng.chance(1, 2);
    options.adapter.atomics_with_cpu = rng.chance(1, 3);
    if (options.adapter.atomics) options.faults.get_fail_in_1024 = 0;  // for lock words that is the end of the peer
    const Report report = World(options).run([&](Process& process) {
      Player(process, program).play();
      const Counters& counters = process.progress().counters();
      atomics += counters.rma_atomics;
      lock_words += counters.rma_lock_words;
      messages += counters.rma_messages;
      if (!options.adapter.atomics && counters.rma_atomics != 0) wrong("atomics of an adapter that has none");
    });
    ASSERT_TRUE(report.ok()) << ranks << " ranks, " << options.tunables.rma_lock << ": " << report.failure;
  });
  EXPECT_GT(atomics, 0u);
  EXPECT_GT(lock_words, 0u);
  EXPECT_GT(messages, 0u);
}

}  // namespace
}  // namespace tern::sim
