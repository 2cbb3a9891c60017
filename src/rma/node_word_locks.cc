#include "rma/node_word_locks.h"
#include "base/assert.h"

#include <atomic>

namespace tern::rma {

namespace {

// An atomic on a line of the other core takes 0.1 to 0.3 us; a pause of more than a switch of tasks is for nothing.
constexpr LockManners kManners{.first_pause_ns = 500, .longest_pause_ns = 64'000};

uint64_t& word_at(uint64_t address) { return *reinterpret_cast<uint64_t*>(address); }

std::vector<WordsOfRank> all_words(SharedPart& memory, int me, Lane& lane) {
  std::vector<WordsOfRank> all;
  for (int place = 0; place < int(memory.ranks().size()); ++place) {
    WordsOfRank one;
    one.lane = place == me ? nullptr : &lane;
    one.address = reinterpret_cast<uintptr_t>(memory.words(place));
    one.key.words[0] = 1;
    one.key.words[1] = uint64_t(place);
    all.push_back(one);
  }
  return all;
}

}  // namespace

MappedWords::MappedWords(SharedPart& memory, std::function<void(int rank)> wake)
    : memory_(memory), wake_(std::move(wake)) {
  remote_properties_.get = remote_properties_.put = true;
  remote_properties_.atomics = remote_properties_.atomic_swap = true;
  remote_properties_.ordered_atomics = remote_properties_.atomics_with_cpu = true;
}

void MappedWords::get(TransferOperation& operation) {
  const uint64_t value = std::atomic_ref<uint64_t>(word_at(operation.remote_address)).load(std::memory_order_acquire);
  operation.local.unpack(reinterpret_cast<const std::byte*>(&value), sizeof value);
  operation.done(operation, Error());
}

// The word first, then a look whether its owner sleeps: the owner looks at the word after it has said that it does.
void MappedWords::put(TransferOperation& operation) {
  uint64_t value = 0;
  operation.local.pack(reinterpret_cast<std::byte*>(&value), sizeof value);
  TERN_DEBUG_ASSERT(operation.remote_address % sizeof value == 0 && operation.key.words[1] < memory_.ranks().size());
  std::atomic_ref<uint64_t>(word_at(operation.remote_address)).store(value, std::memory_order_seq_cst);
  const auto place = size_t(operation.key.words[1]);
  if (operation.wakes && memory_.takes_sleeper(int(place))) wake_(memory_.ranks()[place]);
  operation.done(operation, Error());
}

void MappedWords::atomic(AtomicOperation& operation) {
  TERN_DEBUG_ASSERT(operation.remote_address % sizeof(uint64_t) == 0);
  std::atomic_ref<uint64_t> word(word_at(operation.remote_address));
  switch (operation.kind) {
    case AtomicOperation::Kind::fetch_add: operation.result = word.fetch_add(operation.operand); break;
    case AtomicOperation::Kind::swap: operation.result = word.exchange(operation.operand); break;
    case AtomicOperation::Kind::compare_swap:
      operation.result = operation.compare;
      word.compare_exchange_strong(operation.result, operation.operand);
      break;
  }
  operation.done(operation, Error());
}

NodeWordLocks::NodeWordLocks(WordDesign kind, SharedPart& memory, int me, Counters& counters, Clock& clock,
                             uint64_t seed, bool shares_cores, std::function<void(int rank)> wake, Told told)
    : memory_(memory),
      me_(me),
      counters_(counters),
      words_(memory, std::move(wake)),
      locks_(kind, uint32_t(me), all_words(memory, me, words_.lane()), memory.words(me), words_, clock, seed,
             [told = std::move(told)](uint32_t target, Error error) { told(int(target), std::move(error)); },
             {kManners.first_pause_ns, kManners.longest_pause_ns, shares_cores}) {}

void NodeWordLocks::ask(int rank, LockMode mode) {
  TERN_DEBUG_ASSERT(!locks_.held(uint32_t(rank)));
  locks_.acquire(uint32_t(rank), mode);
  count();
}

void NodeWordLocks::release(int rank) {
  TERN_DEBUG_ASSERT(locks_.held(uint32_t(rank)));
  locks_.release(uint32_t(rank));
  count();
}

void NodeWordLocks::lost(int rank, const Error&) { locks_.on_lost(uint32_t(rank)); }

int NodeWordLocks::poll() {
  const int done = locks_.poll();
  count();
  return done;
}

bool NodeWordLocks::arm() {
  if (locks_.hints().dormant) return true;
  armed_ = true;
  memory_.control(me_).sleeps.store(1, std::memory_order_seq_cst);
  if (locks_.arm()) return true;
  disarm();
  return false;
}

void NodeWordLocks::disarm() {
  if (armed_) memory_.control(me_).sleeps.store(0, std::memory_order_relaxed);
  armed_ = false;
}

void NodeWordLocks::count() {
  counters_.rma_lock_words += locks_.counts().messages - counted_;
  TERN_DEBUG_ASSERT(locks_.counts().messages >= counted_);
  counted_ = locks_.counts().messages;
}

}  // namespace tern::rma
