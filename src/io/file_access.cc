// The data access routines (MPI 5.0, 14.4): where an access begins, in which order accesses happen, and what they
// report.
#include <algorithm>

#include "io/file_request.h"

namespace tern::io {

namespace {
// Tags of messages between the ranks of a file, on Communicator::Plane::internal: collective accesses by turns.
constexpr int kSequenceMask = 0x3fffffff;
}  // namespace

Error File::check(const Operation& operation) const {
  const char* what = operation.write ? "written" : "read";
  if (operation.write && (amode_ & mode::kReadOnly))
    return Error(ErrorClass::read_only, "'" + file_.path + "' was opened with MPI_MODE_RDONLY and cannot be " + what);
  if (!operation.write && (amode_ & mode::kWriteOnly))
    return Error(ErrorClass::access, "'" + file_.path + "' was opened with MPI_MODE_WRONLY and cannot be " + what);
  if (operation.position != Operation::Position::shared) {
    if (Error error = not_sequential()) return error;
  }
  if (operation.position == Operation::Position::explicit_offset && operation.offset < 0)
    return Error(ErrorClass::arg,
                 "argument 'offset' is " + std::to_string(operation.offset) + ". It cannot be negative.");
  if (split_ && operation.together)
    return Error(ErrorClass::request, "a split collective access to '" + file_.path +
                                          "' has begun. End it before the next collective access.");
  return {};
}

// Where the access lies, unless the shared pointer says it. `access` has its bytes already. `pointer_moved_to`: where
// the individual pointer was put, -1 when it was not.
Error File::set_out(const Operation& operation, Access& access, int64_t& pointer_moved_to) {
  pointer_moved_to = -1;
  const int64_t etype_bytes = view_->etype_bytes(operation.write);
  if (etype_bytes == 0 ? access.bytes != 0 : access.bytes % uint64_t(etype_bytes) != 0) {
    return Error(ErrorClass::type, "the access has " + std::to_string(access.bytes) +
                                       " bytes in the file, but the etype of the view has " +
                                       std::to_string(etype_bytes) + ". Access whole etypes.");
  }
  if (access.bytes != 0 && access.pattern().tile_bytes() == 0)
    return Error(ErrorClass::type, "the view of this rank shows no bytes of the file: its filetype is empty");
  if (operation.position == Operation::Position::shared) return {};
  const int64_t etypes = operation.position == Operation::Position::individual ? pointer_ : operation.offset;
  uint64_t position = 0, last = 0;
  bool too_far = __builtin_mul_overflow(uint64_t(etypes), uint64_t(etype_bytes), &position);
  too_far |= __builtin_add_overflow(position, access.bytes, &last);
  if (!too_far && access.pattern().only_first() && last > access.pattern().tile_bytes()) {
    return Error(ErrorClass::arg, "the access begins at offset " + std::to_string(etypes) +
                                      " and ends after the first copy of the filetype, whose next copies begin before "
                                      "its end. Give the filetype a larger extent (MPI_Type_create_resized).");
  }
  if (too_far || !access.pattern().reaches(last))
    return Error(ErrorClass::arg, "the access begins at offset " + std::to_string(etypes) +
                                      ", and would end beyond the largest file offset");
  access.position = position;
  if (operation.position == Operation::Position::individual && etype_bytes != 0)
    pointer_ = pointer_moved_to = etypes + int64_t(access.bytes) / etype_bytes;
  return {};
}

// --- Moving.

/// With a lock on the range in the file, where atomic mode or the file system asks for it.
Flow File::move_guarded(Access& access, Lock kind) {
  Outcome turn = co_await Done(p2p(), order_.take(), access.blocking);
  FileSystem& files = environment_.files();
  const int64_t begin = access.begin(), length = access.end() - begin;
  int result = files.lock(file_.descriptor, kind, begin, length, false);
  Error error;
  if (result == -EAGAIN) {
    // Another thread has it, inside of its access. Waiting is left to a thread, so that messages continue.
    Request* request = environment_.call_elsewhere(
        file_.path, "locking",
        [&files, this, kind, begin, length] {
          return int64_t(files.lock(file_.descriptor, kind, begin, length, true));
        },
        false);
    Outcome locked = co_await Done(p2p(), request, access.blocking);
    error = std::move(locked.error);
  } else if (result < 0) {
    error = environment_.call_here(file_.path, "locking", [&] { return int64_t(result); });
  }
  if (!error) {
    error = co_await move_alone(access);
    files.lock(file_.descriptor, Lock::none, begin, length, false);
  }
  order_.pass();
  co_return std::move(error);
}

Flow File::move(Access& access) {
  if (access.bytes == 0) co_return Error();
  if (access.write) dirty_ = true;
  const bool careful = atomic_ || (file_.facts.own_cache && team_.nodes > 1);
  if (!careful) co_return co_await move_alone(access);
  // Only a rank that may write can lock exclusively, only one that may read can share; both work against the other.
  const bool alone = access.write || !file_.readable;
  co_return co_await move_guarded(access, alone ? Lock::exclusive : Lock::shared);
}

/// A pipe: bytes come in the order in which they are asked for. Ranks take turns by a lock, or by rank.
Flow File::move_stream(Access& access, bool together, int sequence) {
  Statement token;
  const uint64_t context = comm_->context(Communicator::Plane::internal);
  const int rank = comm_->rank();
  Outcome turn = co_await Done(p2p(), order_.take(), access.blocking);
  if (together && rank > 0) {
    Request* before =
        p2p().ireceive({&token, 1, &environment_.byte(), comm_->peer(rank - 1), rank - 1, sequence, context});
    Outcome came = co_await Done(p2p(), before, access.blocking);
    turn.error = std::move(came.error);
  }
  FileSystem& files = environment_.files();
  const Lock kind = file_.writable ? Lock::exclusive : Lock::shared;
  Request* locking = environment_.call_elsewhere(
      file_.path, "locking", [&files, this, kind] { return int64_t(files.lock(file_.descriptor, kind, 0, 0, true)); },
      access.blocking);
  Outcome locked = co_await Done(p2p(), locking, access.blocking);
  Cursor memory = access.memory();
  Error error = std::move(turn.error);
  while (!error && memory.remaining() > 0) {
    iovec pieces[16];
    size_t length = 0;
    const auto count = int(memory.segments(pieces, SIZE_MAX, length));
    Request* request = environment_.transfer(file_, access.write, pieces, count, FileSystem::kStream, access.blocking);
    Outcome outcome = co_await Done(p2p(), request, access.blocking);
    access.moved += uint64_t(outcome.status.bytes);
    error = std::move(outcome.error);
    if (size_t(outcome.status.bytes) < length) break;
  }
  if (!locked.error) files.lock(file_.descriptor, Lock::none, 0, 0, false);
  order_.pass();
  if (together && rank + 1 < comm_->size()) {
    Request* after = p2p().isend({&token, 1, &environment_.byte(), comm_->peer(rank + 1), rank, sequence, context});
    Outcome gone = co_await Done(p2p(), after, access.blocking);
    if (!error) error = std::move(gone.error);
  }
  co_return std::move(error);
}

/// The place of an access by the shared pointer. `together`: in the order of the ranks.
Flow File::take_shared(Access& access, bool together, int sequence) {
  const int64_t etype_bytes = view_->etype_bytes(access.write);
  const int64_t etypes = etype_bytes == 0 ? 0 : int64_t(access.bytes) / etype_bytes;
  int64_t before = 0;
  if (!together || comm_->size() == 1) {
    Error error = co_await shared_pointer_->add(etypes, before, access.blocking);
    if (error) co_return std::move(error);
  } else {
    create::Words all;
    uint64_t mine = uint64_t(etypes), base = 0;
    Error error = co_await gather_words(std::span<const uint64_t>(&mine, 1), all, access.blocking, sequence);
    if (error) co_return std::move(error);
    int64_t total = 0;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (int(rank) < comm_->rank()) before += int64_t(all[rank]);
      total += int64_t(all[rank]);
    }
    if (comm_->rank() == 0) {
      int64_t first = 0;
      error = co_await shared_pointer_->add(total, first, access.blocking);
      base = uint64_t(first);
    }
    Error told = co_await broadcast_words(std::span<uint64_t>(&base, 1), 0, access.blocking, sequence);
    if (error) co_return std::move(error);
    if (told) co_return std::move(told);
    before += int64_t(base);
  }
  access.position = uint64_t(before) * uint64_t(etype_bytes);
  if (!access.pattern().reaches(access.position + access.bytes))
    co_return Error(ErrorClass::arg, "the shared file pointer has left the range of file offsets");
  co_return Error();
}

/// All of an access. `wrong`: what is wrong with this rank's call already; the others of a collective access hear of
/// it.
Flow File::perform(Access& access, Operation operation, int sequence, Error wrong) {
  const bool shared = operation.position == Operation::Position::shared;
  if (wrong) access.forget();
  if (shared && !file_.facts.seekable) {
    if (wrong && !operation.together) co_return std::move(wrong);
    Error error = co_await move_stream(access, operation.together, sequence);
    co_return wrong ? std::move(wrong) : std::move(error);
  }
  if (shared && !(wrong && !operation.together)) {
    Error error = co_await take_shared(access, operation.together, sequence);
    if (error) access.forget();
    if (!wrong) wrong = std::move(error);
  }
  if (operation.together && comm_->size() > 1) co_return co_await move_together(access, sequence, std::move(wrong));
  if (wrong) co_return std::move(wrong);
  co_return co_await move(access);
}

Error File::run(const Operation& operation, Status& status) {
  status = kEmptyStatus;
  Error wrong = check(operation);
  if (wrong && !operation.together) return wrong;
  Access access(place(), operation.write, true, view_);
  int64_t moved_to = -1;
  if (!wrong) wrong = view_->prepare();
  if (!wrong) wrong = access.set_memory(operation.buffer, operation.count, *operation.type);
  if (!wrong) wrong = set_out(operation, access, moved_to);
  const int sequence = operation.together ? sequence_++ & kSequenceMask : 0;
  const int64_t etype_bytes = wrong ? 0 : view_->etype_bytes(operation.write);
  Error error = create::run(p2p(), perform(access, operation, sequence, std::move(wrong)));
  // The pointer moves by the data accessed, unless another rank has moved it meanwhile.
  if (moved_to >= 0 && pointer_ == moved_to && access.moved < access.bytes)
    pointer_ -= int64_t(access.bytes) / etype_bytes - int64_t(access.moved) / etype_bytes;
  Error finishing = access.finish(status.bytes);
  return error ? std::move(error) : std::move(finishing);
}

void FileRequest::finish(Request& flow) {
  error = std::move(flow.error);
  status = kEmptyStatus;
  unsettled_ = true;
  // The user's functions run in calls of the user's only, not where messages are handled.
  if (access.write || !access.view->representation().calls_user()) settle();
  --file_.pending_;
}

void FileRequest::settle() {
  if (!std::exchange(unsettled_, false)) return;
  Error finishing = access.finish(status.bytes);
  if (!error) error = std::move(finishing);
}

void FileRequest::go(ProgressEngine& progress, Flow flow) {
  Request* running = create::FlowRequest::begin(progress, std::move(flow));
  if (running->complete()) {
    finish(*running);
    running->release();
    set_complete();
    return;
  }
  running->watcher = this;
  running->on_complete = [](Request& over) {
    auto* request = static_cast<FileRequest*>(over.watcher);
    request->finish(over);
    request->set_complete();
  };
  running->release();
}

void FileRequest::fail(Error why) {
  error = std::move(why);
  --file_.pending_;
  set_complete();
}

Error File::begin(const Operation& operation, Request*& request) {
  Error wrong = check(operation);
  if (wrong && !operation.together) return wrong;
  auto* made = new FileRequest(*this, place(), operation.write, view_, operation.together);
  int64_t moved_to = -1;
  if (!wrong) wrong = view_->prepare();
  if (!wrong) wrong = made->access.set_memory(operation.buffer, operation.count, *operation.type);
  if (!wrong) wrong = set_out(operation, made->access, moved_to);
  if (wrong && !operation.together) {
    made->fail({});
    made->release();
    return wrong;
  }
  const int sequence = operation.together ? sequence_++ & kSequenceMask : 0;
  made->go(environment_.progress(), perform(made->access, operation, sequence, std::move(wrong)));
  request = made;
  return {};
}

Error File::begin_split(const Operation& operation, int kind) {
  if (split_)
    return Error(ErrorClass::request, "a split collective access to '" + file_.path +
                                          "' has begun already. Only one can be active on a file.");
  if (Error error = begin(operation, split_)) return error;
  split_kind_ = kind;
  return {};
}

Error File::end_split(int kind, Status& status) {
  status = kEmptyStatus;
  if (!split_ || split_kind_ != kind)
    return Error(ErrorClass::request, split_ ? "another split collective access to '" + file_.path + "' is active"
                                             : "no split collective access to '" + file_.path + "' has begun");
  Request* request = std::exchange(split_, nullptr);
  p2p().wait(*request);
  static_cast<FileRequest*>(request)->settle();
  status = request->status;
  Error error = std::move(request->error);
  request->release();
  return error;
}

}  // namespace tern::io
