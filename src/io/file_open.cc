// Opening and closing a file.
//
// open: every rank says how it was called; rank 0 looks at it, opens the file (creating it where that is wanted: only
// one rank may), and tells the others, who open it then. An error of any rank becomes that of all.
#include <algorithm>

#include "fabric/shm/node_memory.h"
#include "io/file.h"
#include "io/system_error.h"

namespace tern::io {

namespace {

// The window of aggregators if neither a hint nor the file system gives one. Local: two of them stay in a core's cache
// (bench/io: 10 to 20 % less time than with 1 MiB). Remote: a server is asked less often.
constexpr int64_t kWindowBytes = int64_t{512} << 10, kRemoteWindowBytes = int64_t{1} << 20;
// A sieved read: a block that stays in the cache of a core; a message to a server that is worth its way.
constexpr int64_t kReadBlockBytes = int64_t{256} << 10, kRemoteReadBlockBytes = int64_t{4} << 20;
// Layout of the memory that the ranks of a file share: the pointer in a cache line of its own, then the range locks.
constexpr size_t kLocksAt = 128;

// Words of the statements: the ranks', and rank 0's verdict.
constexpr int kAmode = 0, kNode = 1, kShares = 2;
constexpr int kContext = 0, kOffset = 1;
constexpr int64_t kNoOffset = -1;

Error check_amode(int amode) {
  constexpr int kAll = 511;  // the nine bits of MPI 5.0, 14.2.1
  const int ways = amode & (mode::kReadOnly | mode::kReadWrite | mode::kWriteOnly);
  const auto wrong = [&](const std::string& what) {
    return Error(ErrorClass::amode, "argument 'amode' is " + std::to_string(amode) + ": " + what);
  };
  if (amode & ~kAll) return wrong("it has bits that are no access mode of a file");
  if (ways != mode::kReadOnly && ways != mode::kReadWrite && ways != mode::kWriteOnly)
    return wrong("exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY must be given");
  if (ways == mode::kReadOnly && (amode & (mode::kCreate | mode::kExclusive)))
    return wrong("MPI_MODE_RDONLY does not go with MPI_MODE_CREATE or MPI_MODE_EXCL");
  if (ways == mode::kReadWrite && (amode & mode::kSequential))
    return wrong("MPI_MODE_RDWR does not go with MPI_MODE_SEQUENTIAL");
  return {};
}

/// Rank 0's statement about the team and the hints that must be equal; the aggregators follow.
struct TeamWords {
  int64_t aggregators, window, nodes;
  int64_t collective_buffer, block, stripe, stripes, per_node;
  uint8_t collective_read, collective_write, sieve_write, sieve_read, unused[4];
};

}  // namespace

File::File(Environment& environment, std::string path, int amode) : environment_(environment), amode_(amode) {
  file_.path = std::move(path);
}

File::~File() { static_cast<void>(file_.close(environment_.files())); }

Error File::open_here(bool create) {
  return file_.open(environment_, amode_, create, unsigned(hints_.permissions >= 0 ? hints_.permissions : 0666));
}

// The hints that must be the same at all ranks are rank 0's.
Error File::share_hints() {
  TeamWords words{};
  if (hints_.read_buffer == 0) hints_.read_buffer = file_.facts.remote ? kRemoteReadBlockBytes : kReadBlockBytes;
  if (comm_->rank() == 0) {
    if (hints_.stripe == 0) hints_.stripe = file_.facts.stripe_bytes;
    if (hints_.stripes == 0) hints_.stripes = file_.facts.stripes;
    const int64_t window = file_.facts.remote ? kRemoteWindowBytes : kWindowBytes;
    if (hints_.block == 0) hints_.block = hints_.stripe > 0 ? hints_.stripe : window;
    // Two windows at a time, one filling while the other is written.
    team_.window = std::max<int64_t>(std::min(hints_.block, hints_.collective_buffer / 2), 4096);
    words = {int64_t(team_.aggregators.size()),
             team_.window,
             team_.nodes,
             hints_.collective_buffer,
             hints_.block,
             hints_.stripe,
             hints_.stripes,
             hints_.aggregators_per_node,
             uint8_t(hints_.collective_read),
             uint8_t(hints_.collective_write),
             uint8_t(hints_.sieve_write),
             uint8_t(hints_.sieve_read),
             {}};
  }
  if (comm_->size() > 1) {
    if (Error error = broadcast(environment_, *comm_, &words, sizeof words)) return error;
    team_.aggregators.resize(size_t(words.aggregators));
    if (Error error = broadcast(environment_, *comm_, team_.aggregators.data(), team_.aggregators.size() * sizeof(int)))
      return error;
  }
  team_.window = words.window;
  team_.nodes = int(words.nodes);
  hints_.aggregators = words.aggregators;
  hints_.collective_buffer = words.collective_buffer;
  hints_.block = words.block;
  hints_.stripe = words.stripe;
  hints_.stripes = words.stripes;
  hints_.aggregators_per_node = words.per_node;
  hints_.collective_read = Wish(words.collective_read);
  hints_.collective_write = Wish(words.collective_write);
  hints_.sieve_write = Wish(words.sieve_write);
  hints_.sieve_read = Wish(words.sieve_read);
  return {};
}

// `memory`: of all ranks; null where they are not all on one node.
void File::set_up_shared(std::byte* memory) {
  shared_memory_ = memory;
  if (memory) {
    locks_ = RangeLocks(memory + kLocksAt, comm_->rank(), comm_->size());
  } else if (comm_->size() == 1 && (amode_ & mode::kUniqueOpen)) {
    locks_ = RangeLocks(nullptr, 0, 1);
  }
  shared_pointer_ =
      std::make_unique<SharedPointer>(environment_, *comm_, reinterpret_cast<std::atomic<int64_t>*>(memory));
}

Error File::open(Environment& environment, Communicator& comm, const char* path, int amode, const Info* info,
                 std::unique_ptr<File>& made) {
  std::unique_ptr<File> file(new File(environment, path, amode));
  if (info) file->hints_.take(*info, true);
  NodeMemory* memory = comm.environment().node_memory;
  Statement mine, verdict;
  mine.words[kAmode] = amode;
  mine.words[kNode] = int64_t(environment.node());
  mine.words[kShares] = comm.size() > 1 && memory && memory->shares(comm.peer(0));
  if (*path == '\0') mine.set(Error(ErrorClass::bad_file, "argument 'filename' is empty"));
  else mine.set(check_amode(amode));
  const auto judge = [&](std::span<const Statement> all, Statement& said) {
    if (said.error_class == 0) said.set(require_same(all, kAmode, "argument 'amode'"));
    if (said.error_class == 0) said.set(file->open_here(true));
    if (said.error_class != 0) return;
    std::vector<int64_t> nodes;
    for (const Statement& statement : all) nodes.push_back(statement.words[kNode]);
    file->team_.choose(nodes, file->hints_, file->file_.facts);
    said.words[kContext] = int64_t(environment.new_context());
    const bool one_node = comm.size() > 1 && std::all_of(all.begin(), all.end(), [](const Statement& statement) {
                            return statement.words[kShares] != 0;
                          });
    const bool some = one_node && memory->allocate(kLocksAt + RangeLocks::bytes_for(comm.size()), file->shared_offset_);
    said.words[kOffset] = some ? int64_t(file->shared_offset_) : kNoOffset;
  };
  if (Error error = agree(environment, comm, mine, judge, &verdict)) return error;
  file->comm_ = Ref<Communicator>::adopt(new Communicator(comm.environment(), uint64_t(verdict.words[kContext]),
                                                          Ref<Group>::share(&comm.group()), Ref<Group>()));
  file->set_up_shared(verdict.words[kOffset] == kNoOffset ? nullptr : memory->at(uint64_t(verdict.words[kOffset])));
  Error error = comm.rank() == 0 ? Error() : file->open_here(false);
  if (comm.size() > 1) error = agree(environment, *file->comm_, std::move(error));
  if (!error) error = file->share_hints();
  if (error) {
    // The others are past the agreement, so no rank needs the memory any more.
    if (file->shared_memory_ && comm.rank() == 0) memory->release(file->shared_offset_);
    return error;
  }
  // (A file system that cannot do it is no error: get_info tells.)
  Hints& hints = file->hints_;
  if ((hints.direct_read || hints.direct_write) && !file->file_.open_direct(environment.files()))
    hints.direct_read = hints.direct_write = false;
  file->accesses_ = std::make_unique<Accesses>(file->place(), *file->comm_, file->team_, *file->shared_pointer_);
  file->follow_hints();
  file->view_ = std::make_shared<View>(environment.representations().native(), environment.types().get(type_id::kByte));
  if (amode & mode::kAppend) {
    int64_t bytes = 0;
    error = file->size(bytes);
    file->pointer_ = bytes;
    if (comm.rank() == 0) file->shared_pointer_->set(bytes);
    error = agree(environment, *file->comm_, std::move(error));  // no rank adds before the pointer is there
    if (error) return error;
  }
  made = std::move(file);
  return {};
}

// What is not on its way to the disk gets there by the system's own rules, unless the tunable asks for more; all hosts
// see it (NFS: closing sends it to the server).
Error File::close() {
  Error error = not_busy();
  if (!error && environment_.tunables().io_sync_on_close != 0 && file_.writable && accesses_->dirty()) {
    error = environment_.call_here(file_.path, "sync", [&] { return environment_.files().sync(file_.descriptor); });
  }
  Error closing = file_.close(environment_.files());
  if (!error) error = std::move(closing);
  Statement mine;
  mine.set(error);
  Error agreed = agree(environment_, *comm_, mine, [&](std::span<const Statement>, Statement& said) {
    if (amode_ & mode::kDeleteOnClose) {
      Error removed = remove(environment_, file_.path.c_str());
      if (said.error_class == 0) said.set(removed);
    }
    accesses_.reset();
    shared_pointer_.reset();
    if (shared_memory_) comm_->environment().node_memory->release(shared_offset_);
  });
  return error ? std::move(error) : std::move(agreed);
}

Error File::remove(Environment& environment, const char* path) {
  const int result = environment.files().remove(path);
  return result < 0 ? system_error("deleting", path, -result) : Error();
}

}  // namespace tern::io
