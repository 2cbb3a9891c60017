#include "io/accesses.h"

namespace tern::io {

/// With a lock on the range in the file, where atomic mode or the file system asks for it.
Flow Accesses::move_guarded(Access& access, Lock kind) {
  Outcome turn = co_await Done(p2p(), order_.take(), access.blocking);
  FileSystem& files = at_.environment.files();
  const int64_t begin = access.begin(), length = access.end() - begin;
  int result = files.lock(at_.file.descriptor, kind, begin, length, false);
  Error error;
  if (result == -EAGAIN) {
    // Another thread has it, inside of its access. Waiting is left to a thread, so that messages continue.
    Request* request = at_.environment.call_elsewhere(
        at_.file.path, "locking",
        [&files, this, kind, begin, length] {
          return int64_t(files.lock(at_.file.descriptor, kind, begin, length, true));
        },
        false);
    Outcome locked = co_await Done(p2p(), request, access.blocking);
    error = std::move(locked.error);
  } else if (result < 0) {
    error = at_.environment.call_here(at_.file.path, "locking", [&] { return int64_t(result); });
  }
  if (!error) {
    error = co_await move_alone(access);
    files.lock(at_.file.descriptor, Lock::none, begin, length, false);
  }
  order_.pass();
  co_return std::move(error);
}

Flow Accesses::move(Access& access) {
  if (access.bytes == 0) co_return Error();
  if (access.write) dirty_ = true;
  const bool careful = atomic_ || (at_.file.facts.own_cache && team_.nodes > 1);
  if (!careful) co_return co_await move_alone(access);
  // Only a rank that may write can lock exclusively, only one that may read can share; both work against the other.
  const bool alone = access.write || !at_.file.readable;
  co_return co_await move_guarded(access, alone ? Lock::exclusive : Lock::shared);
}

/// A pipe: bytes come in the order in which they are asked for. Ranks take turns by a lock, or by rank.
Flow Accesses::move_stream(Access& access, bool together, int sequence) {
  std::byte token{};
  const uint64_t context = comm_.context(Communicator::Plane::internal);
  const int rank = comm_.rank();
  Outcome turn = co_await Done(p2p(), order_.take(), access.blocking);
  if (together && rank > 0) {
    Request* before =
        p2p().ireceive({&token, 1, &at_.environment.byte(), comm_.peer(rank - 1), rank - 1, sequence, context});
    Outcome came = co_await Done(p2p(), before, access.blocking);
    turn.error = std::move(came.error);
  }
  FileSystem& files = at_.environment.files();
  const Lock kind = at_.file.writable ? Lock::exclusive : Lock::shared;
  Request* locking = at_.environment.call_elsewhere(
      at_.file.path, "locking",
      [&files, this, kind] { return int64_t(files.lock(at_.file.descriptor, kind, 0, 0, true)); }, access.blocking);
  Outcome locked = co_await Done(p2p(), locking, access.blocking);
  Cursor memory = access.memory();
  Error error = std::move(turn.error);
  while (!error && memory.remaining() > 0) {
    iovec pieces[16];
    size_t length = 0;
    const auto count = int(memory.segments(pieces, SIZE_MAX, length));
    Request* request =
        at_.environment.transfer(at_.file, access.write, pieces, count, FileSystem::kStream, access.blocking);
    Outcome outcome = co_await Done(p2p(), request, access.blocking);
    access.moved += uint64_t(outcome.status.bytes);
    error = std::move(outcome.error);
    if (size_t(outcome.status.bytes) < length) break;
  }
  if (!locked.error) files.lock(at_.file.descriptor, Lock::none, 0, 0, false);
  order_.pass();
  if (together && rank + 1 < comm_.size()) {
    Request* after = p2p().isend({&token, 1, &at_.environment.byte(), comm_.peer(rank + 1), rank, sequence, context});
    Outcome gone = co_await Done(p2p(), after, access.blocking);
    if (!error) error = std::move(gone.error);
  }
  co_return std::move(error);
}

/// The place of an access by the shared pointer. `together`: in the order of the ranks.
Flow Accesses::take_shared(Access& access, bool together, int sequence) {
  const int64_t etype_bytes = access.view->etype_bytes(access.write);
  const int64_t etypes = etype_bytes == 0 ? 0 : int64_t(access.bytes) / etype_bytes;
  int64_t before = 0;
  if (!together || comm_.size() == 1) {
    Error error = co_await shared_pointer_.add(etypes, before, access.blocking);
    if (error) co_return std::move(error);
  } else {
    const Exchange exchange{at_.environment, comm_, access.blocking, sequence};
    create::Words all;
    uint64_t mine = uint64_t(etypes), base = 0;
    Error error = co_await exchange.gather(std::span<const uint64_t>(&mine, 1), all);
    if (error) co_return std::move(error);
    int64_t total = 0;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (int(rank) < comm_.rank()) before += int64_t(all[rank]);
      total += int64_t(all[rank]);
    }
    if (comm_.rank() == 0) {
      int64_t first = 0;
      error = co_await shared_pointer_.add(total, first, access.blocking);
      base = uint64_t(first);
    }
    Error told = co_await exchange.broadcast(std::span<uint64_t>(&base, 1), 0);
    if (error) co_return std::move(error);
    if (told) co_return std::move(told);
    before += int64_t(base);
  }
  access.position = uint64_t(before) * uint64_t(etype_bytes);
  if (!access.pattern().reaches(access.position + access.bytes))
    co_return Error(ErrorClass::arg, "the shared file pointer has left the range of file offsets");
  co_return Error();
}

Flow Accesses::perform(Access& access, Operation operation, int sequence, Error wrong) {
  const bool shared = operation.position == Operation::Position::shared;
  if (wrong) access.forget();
  if (shared && !at_.file.facts.seekable) {
    if (wrong && !operation.together) co_return std::move(wrong);
    Error error = co_await move_stream(access, operation.together, sequence);
    co_return wrong ? std::move(wrong) : std::move(error);
  }
  if (shared && !(wrong && !operation.together)) {
    Error error = co_await take_shared(access, operation.together, sequence);
    if (error) access.forget();
    if (!wrong) wrong = std::move(error);
  }
  if (operation.together && comm_.size() > 1) co_return co_await move_together(access, sequence, std::move(wrong));
  if (wrong) co_return std::move(wrong);
  co_return co_await move(access);
}

}  // namespace tern::io
