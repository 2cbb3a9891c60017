// Making and ending windows, info, attached memory.
//
// create: every rank says what it wants (size, displacement unit, or why it cannot), to all; rank 0 names the window.
// Then each registers it, and a barrier keeps the first message from coming before that.
#include <algorithm>
#include <cstdlib>
#include <cstring>

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
  SegmentKey key;          ///< of shared memory, by who has made it
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

void learn_memory(RemotePart& remote, const std::vector<Statement>& all) {
  std::vector<ExposedMemory> members;
  for (const Statement& one : all) members.push_back(one.memory);
  remote.set_members(std::move(members));
}

}  // namespace

void PerRank::set(std::vector<int64_t> values) {
  common_ = values.empty() ? 0 : values[0];
  const bool same = std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == common_; });
  values_ = same ? std::vector<int64_t>() : std::move(values);
}

Window::Window(Environment& environment, const Plan& plan)
    : environment_(environment),
      flavor_(plan.flavor),
      base_(static_cast<std::byte*>(plan.base)),
      size_(plan.size),
      disp_unit_(plan.disp_unit),
      owned_(nullptr, [](std::byte* memory) { std::free(memory); }) {
  hints_.lock = environment.p2p().tunables().rma_lock;
  if (plan.info) hints_.take(*plan.info, true);
}

Window::~Window() {
  if (comm_ && !freed_) end_under_way();
  TERN_ASSERT(nothing_under_way());
  if (design_) environment_.turns().remove(*design_);
  if (epochs_) environment_.turns().remove(*epochs_);
  if (cells_) environment_.turns().remove(*cells_);
  if (comm_) environment_.remove(*this);
}

Error Window::check_plan() {
  if (size_ < 0) {
    return Error(ErrorClass::size,
                 "argument 'size' is " + std::to_string(size_) + ". A window cannot be smaller than 0.");
  }
  if (disp_unit_ <= 0) {
    return Error(ErrorClass::disp, "argument 'disp_unit' is " + std::to_string(disp_unit_) +
                                       ". Pass the positive number of bytes that a displacement of 1 stands for.");
  }
  if (flavor_ == Flavor::create && !base_ && size_ > 0) {
    return Error(ErrorClass::buffer, "argument 'base' is a null pointer, but the size is " + std::to_string(size_) +
                                         ". Pass the address of the window's memory.");
  }
  if (!parse_lock_choice(hints_.lock, lock_choice_)) {
    return Error(ErrorClass::arg, "TERN_RMA_LOCK (or the info key tern_rma_lock) is '" + hints_.lock + "', but takes " +
                                      lock_choice_names());
  }
  return {};
}

Error Window::allocate_memory() {
  const size_t unit = hints_.alignment_bytes;
  const size_t bytes = (size_t(size_) + unit - 1) / unit * unit;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(unit, std::max(bytes, unit)));
  if (!memory) {
    return Error(ErrorClass::no_mem, "there is no memory for a window of " + std::to_string(size_) + " bytes");
  }
  owned_.reset(memory);
  base_ = memory;
  return {};
}

// The target keeps the queue of its lock, or those who want it change words.
bool Window::locks_by_words() const {
  return lock_choice_ != LockChoice::polling_thread && lock_choice_ != LockChoice::event_thread;
}

// Memory can be shared with the rank. Where TERN_PATH leaves the shared-memory path out, only windows that must share
// their memory do.
bool Window::shares_node_with(int rank) const {
  const RankEnvironment& environment = comm_->environment();
  const NodeSegments* segments = environment.node_segments;
  if (own(rank)) return true;
  return segments && (environment.segments_for_all || flavor_ == Flavor::shared) && segments->shares(comm_->peer(rank));
}

// The ranks of each node that share memory have theirs in one segment, which the first of them makes. Where that is not
// so memory is this rank's own, unless it must be shared. Windows whose memory is there already, all of whose ranks are
// on one node, share only words (`locks`: they may be locked), or have their locks kept by message where there is no
// memory for that.
Error Window::share_memory(bool locks) {
  Communicator& comm = *comm_;
  NodeSegments* segments = comm.environment().node_segments;
  const bool allocates = flavor_ == Flavor::shared || flavor_ == Flavor::allocate;
  Statement mine;
  std::vector<int> ranks;
  std::vector<PeerId> peers;
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (shares_node_with(rank)) {
      ranks.push_back(rank);
      peers.push_back(comm.peer(rank));
      sizes.push_back(allocates ? sizes_.of(rank) : 0);
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
  const bool machines = whole && locks_by_words();
  if (together) {
    part_.plan(ranks, peers, sizes, flavor_ == Flavor::allocate || hints_.noncontiguous, hints_.alignment_bytes,
               machines ? LockWord::count(uint32_t(ranks.size())) : 0,
               !allocates && ranks.size() <= NodeCells::kMaxMembers);
  }
  if (mine.error_class == 0 && together && maker == comm.rank()) mine.set(part_.allocate(*segments));
  if (mine.error_class == 0 && !together) mine.set(allocate_memory());
  mine.key = part_.key();
  std::vector<Statement> all;
  if (Error error = allgather(environment_.byte(), comm, mine, all)) return error;
  // All see the same.
  const auto without = [&](Error error) {
    part_.release();
    return allocates ? std::move(error) : Error();
  };
  if (Error error = error_of(all, comm.rank())) return without(std::move(error));
  Statement attached;
  if (together && maker != comm.rank()) attached.set(part_.attach(*segments, all[size_t(maker)].key));
  shares_data_ = together && allocates;
  shares_all_ = shares_data_ && whole;
  if (together && attached.error_class == 0) part_place_ = part_.place_of(comm.rank());
  if (shares_data_ && attached.error_class == 0) base_ = part_.data(part_.place_of(comm.rank()));
  if (allocates && !shares_all_ && attached.error_class == 0) remote_.expose(comm, base_, size_t(size_));
  attached.memory = remote_.mine();
  attached.shares_cores = environment_.progress().idle().pauses == 0;
  if (Error error = allgather(environment_.byte(), comm, attached, all)) return error;
  if (Error error = error_of(all, comm.rank())) return without(std::move(error));
  if (allocates) learn_memory(remote_, all);
  if (together) {
    epochs_ = std::make_unique<NodeEpochs>(part_, part_place_, nudge());
    environment_.turns().add(*epochs_);
    if (part_.has_cells()) make_cells();
  }
  if (together && whole)
    choose_design(std::any_of(all.begin(), all.end(), [](const Statement& one) { return one.shares_cores != 0; }));
  return {};
}

// Test-and-set and MCS over the atomics that reach all members. If some rank's words cannot be exposed, the targets
// keep the queues of their locks.
Error Window::share_lock_words() {
  const bool machines = lock_choice_ == LockChoice::test_and_set || lock_choice_ == LockChoice::mcs;
  if (design_ || !machines || !remote_.atomics() || uint32_t(comm_->size()) > TestAndSet::kMaxRanks) return {};
  const auto me = size_t(comm_->rank());
  RemoteMemory& memory = *remote_.atomics();
  auto words = std::make_unique<LockWords>(uint32_t(comm_->size()), memory);
  Statement mine;
  mine.memory.address = reinterpret_cast<uintptr_t>(words->data());
  mine.memory.keys[0].key = words->key();
  std::vector<Statement> all;
  if (Error error = allgather(environment_.byte(), *comm_, mine, all)) return error;
  std::vector<WordsOfRank> ranks;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WordsOfRank one{nullptr, all[rank].memory.address, all[rank].memory.keys[0].key};
    if (one.key.empty()) return {};
    if (rank != me || !remote_.atomics_with_cpu()) one.lane = &remote_.atomics_lane(comm_->peer(int(rank)), rank == me);
    ranks.push_back(one);
  }
  const auto kind = lock_choice_ == LockChoice::mcs ? WordDesign::mcs : WordDesign::test_and_set;
  design_ = std::make_unique<RemoteWordLocks>(kind, int(me), std::move(ranks), std::move(words),
                                              environment_.counters(), environment_.progress().clock(), id() + me,
                                              [this](int rank, Error error) { lock_told(rank, std::move(error)); });
  environment_.turns().add(*design_);
  return {};
}

std::function<void(int rank)> Window::nudge() {
  return [this](int rank) {
    environment_.endpoints().post(environment_.endpoints().at(comm_->peer(rank)), header(wire::kWindowNudge));
  };
}

// Of a window whose ranks are all on this node. Tickets are served strictly in order, so with more ranks than cores
// each turn costs a switch of tasks (4 ranks on 2 cores: 0.2 million locks a second, MCS 1.7 million).
void Window::choose_design(bool shares_cores) {
  if (!locks_by_words()) return;
  if (lock_choice_ == LockChoice::automatic && shares_cores) lock_choice_ = LockChoice::mcs;
  const int me = part_.place_of(comm_->rank());
  const auto told = [this](int rank, Error error) { lock_told(rank, std::move(error)); };
  if (lock_choice_ == LockChoice::automatic) {
    design_ = std::make_unique<NodeLocks>(part_, me, nudge(), told);
  } else {
    const auto kind = lock_choice_ == LockChoice::mcs ? WordDesign::mcs : WordDesign::test_and_set;
    design_ = std::make_unique<NodeWordLocks>(kind, part_, me, environment_.counters(), environment_.progress().clock(),
                                              id() + uint64_t(me), shares_cores, nudge(), told);
  }
  environment_.turns().add(*design_);
}

Error Window::create(Environment& environment, Communicator& comm, const Plan& plan, std::unique_ptr<Window>& made) {
  std::unique_ptr<Window> window(new Window(environment, plan));
  Statement mine;
  mine.size = plan.size;
  mine.disp_unit = plan.disp_unit;
  mine.noncontiguous = window->hints_.noncontiguous;
  mine.alignment = window->hints_.alignment_bytes;
  mine.set(window->check_plan());
  if (plan.flavor == Flavor::create && mine.error_class == 0) {
    window->remote_.expose(comm, window->base_, size_t(plan.size));
    mine.memory = window->remote_.mine();
  }
  mine.lock = window->lock_choice_;
  mine.no_locks = window->hints_.no_locks;
  if (comm.rank() == 0) mine.context = environment.new_context();
  std::vector<Statement> all;
  if (Error error = allgather(environment.byte(), comm, mine, all)) return error;
  if (Error error = error_of(all, comm.rank())) return error;
  std::vector<int64_t> sizes, units;
  for (const Statement& one : all) sizes.push_back(one.size), units.push_back(one.disp_unit);
  window->sizes_.set(std::move(sizes));
  window->disp_units_.set(std::move(units));
  window->hints_.noncontiguous = all[0].noncontiguous != 0;
  for (const Statement& one : all)
    window->hints_.alignment_bytes = std::max(window->hints_.alignment_bytes, size_t(one.alignment));
  window->lock_choice_ = all[0].lock;
  // What is never locked needs no thread that polls for locks.
  if (all[0].no_locks != 0 && all[0].lock == LockChoice::polling_thread)
    window->lock_choice_ = LockChoice::event_thread;
  window->comm_ = Ref<Communicator>::adopt(
      new Communicator(comm.environment(), all[0].context, Ref<Group>::share(&comm.group()), Ref<Group>()));
  if (plan.flavor == Flavor::create) learn_memory(window->remote_, all);
  if (Error error = window->share_memory(all[0].no_locks == 0)) return error;
  if (all[0].no_locks == 0) {
    if (Error error = window->share_lock_words()) return error;
  }
  environment.add(*window);
  if (Error error = window->barrier()) return error;
  made = std::move(window);
  return {};
}

// All ranks have ended their epochs, and wait for each other: then nothing is on its way, lock words included. But what
// the target has confirmed, a path may still have to tell of: with several paths to a peer it does so later.
Error Window::free() {
  Error error = finish_all();
  if (design_) wait_until([&] { return design_->quiet(); });
  if (Error late = barrier(); late && !error) error = std::move(late);
  wait_until([&] { return nothing_under_way(); });
  if (design_) {
    environment_.turns().remove(*design_);
    design_.reset();
  }
  if (epochs_) {
    environment_.turns().remove(*epochs_);
    epochs_.reset();
  }
  if (cells_) {
    environment_.turns().remove(*cells_);
    cells_.reset();
  }
  environment_.remove(*this);
  remote_.conceal();
  freed_ = true;
  part_.release();
  return error;
}

// Paths and adapters tell of what they do for this rank at objects of the window.
bool Window::nothing_under_way() const {
  const auto idle = [](auto& target) { return !target || (target->transfers == 0 && target->pending == 0); };
  const auto silent = [](auto& source) { return !source || source->replying == 0; };
  return std::all_of(targets_.begin(), targets_.end(), idle) && std::all_of(sources_.begin(), sources_.end(), silent);
}

// Answers of others are not waited for: without the window they are thrown away.
void Window::end_under_way() {
  environment_.remove(*this);
  if (design_) environment_.turns().remove(*design_);
  if (cells_) environment_.turns().remove(*cells_);
  for (auto& target : targets_) {
    if (!target) continue;
    forget_cell(*target);
    target->lock = LockState::refused;
    target->refusal = Error(ErrorClass::win, describe() + " has ended");
    drop_operations(*target);
  }
  wait_until([&] { return nothing_under_way() && !(design_ && design_->under_way()); });
  design_.reset();
}

std::string Window::describe() const {
  return name.empty() ? "window " + std::to_string(id() >> 2) : "window '" + name + "'";
}

// --- Attached memory.

Error Window::attach(void* base, Aint size) {
  const auto wrong = [&](ErrorClass error_class, const std::string& what) {
    return Error(error_class, describe() + ": " + what);
  };
  if (flavor_ != Flavor::dynamic)
    return wrong(ErrorClass::rma_flavor, "memory can only be attached to windows of MPI_Win_create_dynamic");
  if (size < 0) return wrong(ErrorClass::size, "argument 'size' is " + std::to_string(size));
  if (size == 0) return {};
  if (!base) return wrong(ErrorClass::rma_attach, "argument 'base' is a null pointer");
  const auto low = reinterpret_cast<uintptr_t>(base);
  auto next = attached_.lower_bound(low);
  const bool overlaps_next = next != attached_.end() && next->first - low < size_t(size);
  const bool overlaps_previous = next != attached_.begin() && low - std::prev(next)->first < std::prev(next)->second;
  if (overlaps_next || overlaps_previous)
    return wrong(ErrorClass::rma_attach, "the " + std::to_string(size) + " bytes overlap memory that is attached");
  attached_[low] = size_t(size);
  return {};
}

Error Window::detach(const void* base) {
  if (flavor_ != Flavor::dynamic)
    return Error(ErrorClass::rma_flavor, describe() + ": memory is only attached to windows of MPI_Win_create_dynamic");
  if (attached_.erase(reinterpret_cast<uintptr_t>(base)) == 0)
    return Error(ErrorClass::rma_attach, describe() + ": argument 'base' is no address that was attached");
  return {};
}

// MPI 5.0, 12.2.3: what cannot be reached is said to be empty.
Error Window::shared_query(int rank, Aint& size, Aint& disp_unit, void*& base) const {
  if (flavor_ == Flavor::dynamic)
    return Error(ErrorClass::rma_flavor, describe() +
                                             " was made by MPI_Win_create_dynamic, so that its memory is not "
                                             "one piece that can be asked for");
  size = 0, base = nullptr;
  if (rank == kProcNull) {
    // All ranks of a node mean the same one, also where its memory cannot be reached.
    const auto is_it = [&](int one) { return shares_node_with(one) && sizes_.of(one) > 0; };
    for (rank = 0; rank < comm_->size() && !is_it(rank);) ++rank;
    if (rank == comm_->size()) rank = comm_->rank();
  } else if (Error error = check_rank(rank)) {
    return error;
  }
  disp_unit = disp_units_.of(rank);
  if (!reachable(rank)) return {};
  base = reachable(rank);
  size = sizes_.of(rank);
  return {};
}

// --- Info (MPI 5.0, 12.2.1 and 12.2.7).

void Window::tell_info(Info& info) const {
  hints_.tell(info, flavor_ == Flavor::shared, flavor_ == Flavor::shared || flavor_ == Flavor::allocate);
  const LockChoice used = design_ || wants_polls() ? lock_choice_ : LockChoice::event_thread;
  info.set("tern_rma_lock", used == LockChoice::automatic ? "tickets" : name_of(used));
}

}  // namespace tern::rma
