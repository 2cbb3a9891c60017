// Making a window: every rank says what it wants (size, displacement unit, or why it cannot), to all; rank 0 names the
// window. Then each registers it, and a barrier keeps the first message from coming before that.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "coll/collectives.h"
#include "fabric/node_segments.h"
#include "rma/locks/test_and_set.h"
#include "rma/node_locks.h"
#include "rma/node_word_locks.h"
#include "rma/remote_word_locks.h"
#include "rma/window.h"

namespace tern::rma {

namespace {

/// What a rank says when a window is made.
struct Statement {
  int64_t size = 0, disp_unit = 0;
  uint64_t context = 0;    ///< rank 0's
  PartKey key;             ///< of shared memory, by its maker
  uint64_t alignment = 0;  ///< in bytes
  int32_t noncontiguous = 0;
  // Rank 0's count.
  LockChoice lock = LockChoice::automatic;
  int32_t no_locks = 0;
  int32_t shares_cores = 0;
  int32_t error_class = 0;
  ExposedMemory memory;
  char text[200] = {};

  void set(const Error& error) {
    error_class = error.error_class();
    const size_t n = std::min(error.text().size(), sizeof text - 1);
    if (error) std::memcpy(text, error.text().data(), n);
    text[n] = '\0';
  }
};

Side bytes_side(const Datatype& byte, const void* data, size_t bytes) {
  Side side;
  side.buffer = static_cast<std::byte*>(const_cast<void*>(data));
  side.count = Count(bytes);
  side.type = &byte;
  return side;
}

Error allgather(const Datatype& byte, Communicator& comm, const Statement& mine, std::vector<Statement>& all) {
  all.resize(size_t(comm.size()));
  all[size_t(comm.rank())] = mine;
  TERN_DEBUG_ASSERT(all.size() == size_t(comm.size()));
  if (comm.size() == 1) return {};
  Operands operands;
  operands.send = bytes_side(byte, &mine, sizeof mine);
  operands.receive = bytes_side(byte, all.data(), sizeof mine);
  Request* none = nullptr;
  return collective(comm, tern::Operation::allgather, operands, Mode::blocking, none);
}

/// The first error among them; `mine` where this rank has one.
Error error_of(const std::vector<Statement>& all, int me) {
  const Statement& mine = all[size_t(me)];
  if (mine.error_class != 0) return Error(mine.error_class, mine.text);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].error_class == 0) continue;
    return Error(all[rank].error_class, "rank " + std::to_string(rank) + " of the communicator: " + all[rank].text);
  }
  return {};
}

}  // namespace

/// The steps of Window::create; it has access to the parts of the window that it makes.
class Making {
 public:
  explicit Making(Window& window)
      : window_(window),
        context_(window.context_),
        memory_(window.memory_),
        hints_(window.hints_),
        environment_(context_.environment),
        flavor_(context_.flavor) {}
  Error run(Communicator& comm, const Window::Plan& plan);

 private:
  Error check(const Window::Plan& plan);
  void settle(Communicator& comm, const std::vector<Statement>& all);
  Error share_memory(bool locks);
  Error gather(const Statement& mine, std::vector<Statement>& all) {
    return allgather(environment_.byte(), *context_.comm, mine, all);
  }
  void learn_memory(const std::vector<Statement>& all);
  void use_node(bool whole, const std::vector<Statement>& all);
  void choose_design(bool shares_cores);
  Error share_lock_words();
  bool locks_by_words() const;
  LockDesign::Told told() {
    return [this_window = &window_](int rank, Error error) { this_window->access_.lock_told(rank, std::move(error)); };
  }
  std::function<void(int rank)> nudge() {
    return [context = &context_](int rank) { context->nudge(rank); };
  }

  Window& window_;
  WindowContext& context_;
  MemoryMap& memory_;
  Hints& hints_;
  Environment& environment_;
  const Flavor flavor_;
};

Error Making::check(const Window::Plan& plan) {
  if (plan.size < 0) {
    return Error(ErrorClass::size,
                 "argument 'size' is " + std::to_string(plan.size) + ". A window cannot be smaller than 0.");
  }
  if (plan.disp_unit <= 0) {
    return Error(ErrorClass::disp, "argument 'disp_unit' is " + std::to_string(plan.disp_unit) +
                                       ". Pass the positive number of bytes that a displacement of 1 stands for.");
  }
  if (flavor_ == Flavor::create && !plan.base && plan.size > 0) {
    return Error(ErrorClass::buffer, "argument 'base' is a null pointer, but the size is " + std::to_string(plan.size) +
                                         ". Pass the address of the window's memory.");
  }
  if (!parse_lock_choice(hints_.lock, window_.lock_choice_)) {
    return Error(ErrorClass::arg, "TERN_RMA_LOCK (or the info key tern_rma_lock) is '" + hints_.lock + "', but takes " +
                                      lock_choice_names());
  }
  return {};
}

// The target keeps the queue of its lock, or those who want it change words.
bool Making::locks_by_words() const {
  return window_.lock_choice_ != LockChoice::polling_thread && window_.lock_choice_ != LockChoice::event_thread;
}

void Making::learn_memory(const std::vector<Statement>& all) {
  std::vector<ExposedMemory> members;
  for (const Statement& one : all) members.push_back(one.memory);
  memory_.remote().set_members(std::move(members));
}

// The ranks of each node that share memory have theirs in one segment, which the first of them makes. Where that is not
// so memory is this rank's own, unless it must be shared. Windows whose memory is there already, all of whose ranks are
// on one node, share only words (`locks`: they may be locked), or have their locks kept by message where there is no
// memory for that.
Error Making::share_memory(bool locks) {
  Communicator& comm = *context_.comm;
  NodeSegments* segments = comm.environment().node_segments;
  NodeMemory* node = comm.environment().node_memory;
  SharedPart& part = memory_.part();
  const bool allocates = flavor_ == Flavor::shared || flavor_ == Flavor::allocate;
  Statement mine;
  std::vector<int> ranks;
  std::vector<PeerId> peers;
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (memory_.shares_node_with(rank)) {
      ranks.push_back(rank);
      peers.push_back(comm.peer(rank));
      sizes.push_back(allocates ? memory_.size_of(rank) : 0);
    } else if (flavor_ == Flavor::shared && mine.error_class == 0) {
      mine.set(Error(ErrorClass::rma_shared, "this rank shares no memory with rank " + std::to_string(rank) +
                                                 ". Use a communicator of MPI_Comm_split_type with "
                                                 "MPI_COMM_TYPE_SHARED."));
    }
  }
  const bool whole = int(ranks.size()) == comm.size();
  const bool together = ranks.size() > 1 && ranks.size() <= SharedPart::kMaxMembers;
  if (!allocates && !(together && whole && locks && locks_by_words())) return {};
  const int maker = ranks[0];
  TERN_DEBUG_ASSERT(std::is_sorted(ranks.begin(), ranks.end()) && ranks.size() == sizes.size());
  const bool machines = whole && locks_by_words();
  if (together) {
    part.plan(ranks, peers, sizes, flavor_ == Flavor::allocate || hints_.noncontiguous, hints_.alignment_bytes,
              machines ? LockWord::count(uint32_t(ranks.size())) : 0,
              !allocates && ranks.size() <= NodeCells::kMaxMembers);
  }
  if (mine.error_class == 0 && together && maker == comm.rank()) mine.set(part.allocate(*segments, node));
  if (mine.error_class == 0 && !together) mine.set(memory_.allocate(hints_.alignment_bytes));
  mine.key = part.key();
  std::vector<Statement> all;
  if (Error error = gather(mine, all)) return error;
  // All see the same.
  const auto without = [&](Error error) {
    part.release();
    return allocates ? std::move(error) : Error();
  };
  if (Error error = error_of(all, comm.rank())) return without(std::move(error));
  Statement attached;
  if (together && maker == comm.rank()) part.note_given();
  if (together && maker != comm.rank()) attached.set(part.attach(*segments, node, all[size_t(maker)].key));
  if (together && attached.error_class == 0) memory_.set_place(part.place_of(comm.rank()));
  if (together && allocates) memory_.lies_in_part(whole);
  if (allocates && !memory_.shares_all() && attached.error_class == 0) memory_.expose();
  attached.memory = memory_.remote().mine();
  attached.shares_cores = !environment_.progress().polls_closely();
  if (Error error = gather(attached, all)) return error;
  if (Error error = error_of(all, comm.rank())) return without(std::move(error));
  if (allocates) learn_memory(all);
  if (together) use_node(whole, all);
  return {};
}

void Making::use_node(bool whole, const std::vector<Statement>& all) {
  SharedPart& part = memory_.part();
  TERN_DEBUG_ASSERT(!window_.counts_ && memory_.place() >= 0);
  window_.counts_ = std::make_unique<NodeEpochs>(part, memory_.place(), nudge());
  NodeEpochs* counts = window_.counts_.get();
  environment_.word_poller().add(*counts);
  window_.operations_.epoch().counts = counts;
  window_.exposure_.set_counts(counts);
  window_.waiting_.set_counts(counts);
  if (part.has_cells()) {
    CellRoute& cell = window_.operations_.cell();
    cell.make(
        part, memory_.place(),
        [window = &window_](int rank, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room) {
          return window->exposure_.serve(rank, records, confirm, room);
        },
        [window = &window_](int rank, std::span<const std::byte> answers) { window->take_cell(rank, answers); });
    window_.waiting_.set_cells(cell.cells());
  }
  if (whole)
    choose_design(std::any_of(all.begin(), all.end(), [](const Statement& one) { return one.shares_cores != 0; }));
}

// Test-and-set and MCS over the atomics that reach all members. If some rank's words cannot be exposed, the targets
// keep the queues of their locks.
Error Making::share_lock_words() {
  const LockChoice choice = window_.lock_choice_;
  const bool machines = choice == LockChoice::test_and_set || choice == LockChoice::mcs;
  const RemotePart& remote = memory_.remote();
  Communicator& comm = *context_.comm;
  if (window_.locks_.by_words() || !machines || !remote.atomics() || uint32_t(comm.size()) > TestAndSet::kMaxRanks)
    return {};
  const auto me = size_t(comm.rank());
  RemoteMemory& memory = *remote.atomics();
  auto words = std::make_unique<LockWords>(uint32_t(comm.size()), memory);
  Statement mine;
  mine.memory.address = reinterpret_cast<uintptr_t>(words->data());
  mine.memory.keys[0].key = words->key();
  std::vector<Statement> all;
  if (Error error = gather(mine, all)) return error;
  std::vector<WordsOfRank> ranks;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WordsOfRank one{nullptr, all[rank].memory.address, all[rank].memory.keys[0].key};
    if (one.key.empty()) return {};
    if (rank != me || !remote.atomics_with_cpu()) one.lane = &remote.atomics_lane(comm.peer(int(rank)), rank == me);
    ranks.push_back(one);
  }
  const auto kind = choice == LockChoice::mcs ? WordDesign::mcs : WordDesign::test_and_set;
  window_.locks_.set_design(std::make_unique<RemoteWordLocks>(kind, int(me), std::move(ranks), std::move(words),
                                                              environment_.counters(), environment_.progress().clock(),
                                                              context_.id() + me, told()));
  return {};
}

// Of a window whose ranks are all on this node. Tickets are served strictly in order, so with more ranks than cores
// each turn costs a switch of tasks (4 ranks on 2 cores: 0.2 million locks a second, MCS 1.7 million).
void Making::choose_design(bool shares_cores) {
  if (!locks_by_words()) return;
  LockChoice& choice = window_.lock_choice_;
  if (choice == LockChoice::automatic && shares_cores) choice = LockChoice::mcs;
  SharedPart& part = memory_.part();
  const int me = memory_.place();
  if (choice == LockChoice::automatic) {
    window_.locks_.set_design(std::make_unique<NodeLocks>(part, me, nudge(), told()));
    return;
  }
  const auto kind = choice == LockChoice::mcs ? WordDesign::mcs : WordDesign::test_and_set;
  window_.locks_.set_design(
      std::make_unique<NodeWordLocks>(kind, part, me, environment_.counters(), environment_.progress().clock(),
                                      context_.id() + uint64_t(me), shares_cores, nudge(), told()));
}

// What all ranks have said: the window's communicator, shapes, and what rank 0's choice counts for.
void Making::settle(Communicator& comm, const std::vector<Statement>& all) {
  std::vector<int64_t> sizes, units;
  for (const Statement& one : all) {
    sizes.push_back(one.size), units.push_back(one.disp_unit);
    TERN_DEBUG_ASSERT(one.size >= 0 && one.disp_unit > 0);
    hints_.alignment_bytes = std::max(hints_.alignment_bytes, size_t(one.alignment));
  }
  memory_.set_shapes(std::move(sizes), std::move(units));
  hints_.noncontiguous = all[0].noncontiguous != 0;
  window_.lock_choice_ = all[0].lock;
  // What is never locked needs no thread that polls for locks.
  if (all[0].no_locks != 0 && all[0].lock == LockChoice::polling_thread)
    window_.lock_choice_ = LockChoice::event_thread;
  context_.comm = Ref<Communicator>::adopt(
      new Communicator(comm.environment(), all[0].context, Ref<Group>::share(&comm.group()), Ref<Group>()));
  if (flavor_ == Flavor::create) learn_memory(all);
}

Error Making::run(Communicator& comm, const Window::Plan& plan) {
  Statement mine;
  mine.size = plan.size;
  mine.disp_unit = plan.disp_unit;
  mine.noncontiguous = hints_.noncontiguous;
  mine.alignment = hints_.alignment_bytes;
  mine.set(check(plan));
  if (plan.flavor == Flavor::create && mine.error_class == 0) {
    memory_.remote().expose(comm, memory_.base(), size_t(plan.size));
    mine.memory = memory_.remote().mine();
  }
  mine.lock = window_.lock_choice_;
  mine.no_locks = hints_.no_locks;
  if (comm.rank() == 0) mine.context = environment_.new_context();
  std::vector<Statement> all;
  if (Error error = allgather(environment_.byte(), comm, mine, all)) return error;
  if (Error error = error_of(all, comm.rank())) return error;
  settle(comm, all);
  const bool locks = all[0].no_locks == 0;
  if (Error error = share_memory(locks)) return error;
  if (locks) {
    if (Error error = share_lock_words()) return error;
  }
  context_.serves = !memory_.shares_all() || !window_.locks_.by_words();
  environment_.add(window_);
  return window_.access_.barrier();
}

Error Window::create(Environment& environment, Communicator& comm, const Plan& plan, std::unique_ptr<Window>& made) {
  std::unique_ptr<Window> window(new Window(environment, plan));
  if (Error error = Making(*window).run(comm, plan)) return error;
  made = std::move(window);
  return {};
}

}  // namespace tern::rma
