#include "io/access.h"

#include <algorithm>
#include <new>

namespace tern::io {

namespace {

// Pieces in memory that are longer on average are gathered by the kernel, shorter ones are copied together first.
constexpr double kGatherBytes = 2048;
// Data on their way between pieces of memory and the file: what stays in the cache of a core.
constexpr size_t kStageBytes = 256 * 1024;
constexpr int kBatch = 64;  ///< pieces of a list on their way at a time
// As kSieveSpanBytes, for reads: of pieces of 4 KiB in 8 KiB each takes 0.7 us, a third of their part of a block
// (bench/io). While other ranks read, too, a call of 4 KiB takes 1.5 to 1.9 us, and kSieveSpanBytes it is.
constexpr int64_t kReadSieveSpanBytes = 3072;

// Pieces that are loaded into the core's cache before they are written. Shorter ones cost less than the call.
constexpr size_t kMinLoadBytes = 4096, kMaxLoadBytes = 1 << 20;

/// The system lets one rank at a time write a file. Those that wait load their next piece meanwhile, so that each holds
/// the file for a shorter time: two ranks, pieces of 64 KiB by turns, 3.7 ms for 4 MiB each without MPI, so 2.4.
void load(const iovec& piece) {
  if (piece.iov_len < kMinLoadBytes || piece.iov_len > kMaxLoadBytes) return;
  constexpr size_t kLineBytes = 64;  // of the cache
  const auto* data = static_cast<const volatile unsigned char*>(piece.iov_base);
  for (size_t i = 0; i < piece.iov_len; i += kLineBytes) static_cast<void>(data[i]);
}

double pieces_in_memory(const Datatype& type, Count count) {
  return std::max(1.0, double(type.segments()) * double(count));
}

Error no_memory(size_t bytes) {
  return Error(ErrorClass::no_mem, "no memory for " + std::to_string(bytes) + " bytes of file data on their way");
}

}  // namespace

void copy(Cursor& from, Cursor& to) {
  if (to.is_contiguous()) {
    const size_t n = from.pack(to.contiguous_data(), std::min(from.remaining(), to.remaining()));
    to.skip(n);
    return;
  }
  if (from.is_contiguous()) {
    const size_t n = to.unpack(from.contiguous_data(), std::min(from.remaining(), to.remaining()));
    from.skip(n);
    return;
  }
  std::byte stage[16 * 1024];
  while (from.remaining() > 0 && to.remaining() > 0) {
    const size_t n = from.pack(stage, std::min(sizeof stage, to.remaining()));
    to.unpack(stage, n);
  }
}

Error Access::set_memory(void* buffer, Count count, Datatype& type) {
  buffer_ = buffer;
  count_ = count;
  type_ = Ref<Datatype>::share(&type);
  bytes = 0;
  if (!view->converts(write)) {
    stream_ = Cursor(buffer, count, type);
    bytes = stream_.remaining();
    return {};
  }
  Count length = 0;
  if (Error error = file_bytes(view->representation(), count, type, length)) return error;
  converted_.reset(new (std::nothrow) std::byte[size_t(std::max<Count>(length, 1))]);
  if (!converted_) return no_memory(size_t(length));
  if (write) {
    Prefix all;
    if (Error error = prefix_of(view->representation(), count, type, length, all)) return error;
    if (Error error = view->representation().to_file(buffer, count, type, all.items, converted_.get())) return error;
  }
  stream_ = Cursor::bytes(converted_.get(), size_t(length));
  bytes = uint64_t(length);
  return {};
}

Error Access::finish(Count& memory_bytes) {
  memory_bytes = Count(moved);
  if (!converted_) return {};
  Prefix done;
  if (Error error = prefix_of(view->representation(), count_, *type_, Count(moved), done)) return error;
  memory_bytes = done.memory_bytes;
  if (write || done.items == 0) return {};
  return view->representation().from_file(converted_.get(), done.items, buffer_, count_, *type_);
}

// --- The methods. Each moves what is left of the access, from `access.moved` on, and records there how far it came.

namespace {

struct OneTransfer {
  Request* request;
  int lock;
};

/// Begins one transfer; a write says where it writes.
OneTransfer begin_transfer(Access& access, iovec* pieces, int count, int64_t offset, uint64_t bytes) {
  const Place& at = access.at;
  const int lock = access.write ? at.locks.enter(offset, offset + int64_t(bytes)) : -1;
  return {at.environment.transfer(at.file, access.write, pieces, count, offset, access.blocking), lock};
}

/// The stream lies in the file in one piece.
Flow move_one_piece(Access& access) {
  const Place& at = access.at;
  Cursor memory = access.memory();
  memory.seek(access.moved);
  const bool gather = memory.is_contiguous() || double(access.bytes) / access.pieces_in_memory() >= kGatherBytes;
  Buffer stage;
  if (!gather) stage = at.environment.buffer(size_t(std::min<uint64_t>(access.bytes, kStageBytes)));
  if (!gather && !stage) co_return no_memory(kStageBytes);
  while (access.moved < access.bytes) {
    iovec pieces[kBatch];
    size_t length = 0;
    int count = 1;
    if (gather) {
      count = int(memory.segments(pieces, SIZE_MAX, length));
    } else {
      length = std::min(stage.size(), memory.remaining());
      if (access.write) length = memory.pack(stage.data(), length);
      pieces[0] = {stage.data(), length};
    }
    const int64_t offset = access.pattern().offset_of(access.position + access.moved);
    if (access.write && access.crowded && count == 1) load(pieces[0]);
    const OneTransfer transfer = begin_transfer(access, pieces, count, offset, length);
    at.environment.flush();
    Outcome outcome = co_await Done(at.environment.p2p(), transfer.request, access.blocking);
    at.locks.leave(transfer.lock);
    if (!gather && !access.write) memory.unpack(stage.data(), size_t(outcome.status.bytes));
    access.moved += uint64_t(outcome.status.bytes);
    if (outcome.error) co_return std::move(outcome.error);
    if (size_t(outcome.status.bytes) < length) break;
  }
  co_return Error();
}

/// A transfer for each piece, up to the end of the stream or to `stop`.
Flow move_list(Access& access, uint64_t stop) {
  const Place& at = access.at;
  Cursor memory = access.memory();
  memory.seek(access.moved);
  Cursor in_file = access.pattern().cursor(nullptr, access.position + access.moved, stop - access.moved);
  Buffer stage;
  if (!memory.is_contiguous()) stage = at.environment.buffer(size_t(std::min<uint64_t>(access.bytes, kStageBytes)));
  if (!memory.is_contiguous() && !stage) co_return no_memory(kStageBytes);
  iovec offsets[kBatch], pieces[kBatch];
  OneTransfer transfers[kBatch];
  while (in_file.remaining() > 0) {
    size_t length = 0;
    const size_t most = stage ? stage.size() : SIZE_MAX;
    const size_t n = in_file.segments(std::span(offsets, access.blocking ? 1 : kBatch), most, length);
    std::byte* next = stage ? stage.data() : memory.contiguous_data();
    if (stage && access.write) memory.pack(next, length);
    for (size_t i = 0; i < n; ++i) {
      pieces[i] = {next, offsets[i].iov_len};
      next += offsets[i].iov_len;
      if (access.write && access.crowded && !stage) load(pieces[i]);
      transfers[i] =
          begin_transfer(access, &pieces[i], 1, reinterpret_cast<intptr_t>(offsets[i].iov_base), offsets[i].iov_len);
    }
    at.environment.flush();
    size_t moved = 0;
    bool whole = true;  // so far
    Error first;
    for (size_t i = 0; i < n; ++i) {
      Outcome outcome = co_await Done(at.environment.p2p(), transfers[i].request, access.blocking);
      at.locks.leave(transfers[i].lock);
      if (whole) moved += size_t(outcome.status.bytes);
      whole = whole && size_t(outcome.status.bytes) == offsets[i].iov_len;
      if (outcome.error && !first) first = std::move(outcome.error);
    }
    if (!stage) memory.skip(moved);
    else if (!access.write) memory.unpack(stage.data(), moved);
    access.moved += moved;
    if (first) co_return std::move(first);
    if (!whole) break;
  }
  co_return Error();
}

/// The stretch of the stream from `access.moved` on that a block of so many bytes of the file holds.
struct Window {
  int64_t begin, end;
  uint64_t stop;  ///< as access.moved
};
Window window_of(const Access& access, size_t block_bytes) {
  const Pattern& pattern = access.pattern();
  const uint64_t from = access.position + access.moved, last = access.position + access.bytes;
  Window window;
  window.begin = pattern.offset_of(from);
  const uint64_t stop = std::min(last, pattern.below(window.begin + int64_t(block_bytes)));
  window.end = pattern.end_of(stop);
  window.stop = stop - access.position;
  return window;
}

Flow sieve_read(Access& access) {
  const Place& at = access.at;
  const auto whole = uint64_t(access.end() - access.pattern().offset_of(access.position + access.moved));
  const auto most = uint64_t(at.hints.read_buffer);
  Buffer block = at.environment.buffer(size_t(std::min(whole, most)));
  if (!block) co_return no_memory(size_t(most));
  Cursor memory = access.memory();
  memory.seek(access.moved);
  while (access.moved < access.bytes) {
    const Window window = window_of(access, block.size());
    const auto length = size_t(window.end - window.begin);
    iovec piece{block.data(), length};
    Request* request = at.environment.transfer(at.file, false, &piece, 1, window.begin, access.blocking);
    at.environment.flush();
    Outcome outcome = co_await Done(at.environment.p2p(), request, access.blocking);
    uint64_t stop = window.stop;
    const bool ended = size_t(outcome.status.bytes) < length;
    if (ended) {
      const uint64_t below = access.pattern().below(window.begin + outcome.status.bytes);
      stop = std::max(access.moved, below - std::min(below, access.position));
    }
    ++at.environment.counters().io_sieved;
    Cursor in_block =
        access.pattern().cursor(block.data() - window.begin, access.position + access.moved, stop - access.moved);
    copy(in_block, memory);
    access.moved = stop;
    if (outcome.error) co_return std::move(outcome.error);
    if (ended) break;
  }
  co_return Error();
}

/// Reads a block, changes it, writes it back. Without giving up the rank's lock, since others wait for the range.
/// `done`: false when the range could not be had.
Error change_block(Access& access, const Window& window, Buffer& block, Cursor& memory, bool& done) {
  const Place& at = access.at;
  FileSystem& files = at.environment.files();
  const int64_t length = window.end - window.begin;
  done = false;
  const int lock = at.locks.enter_alone(window.begin, window.end);
  // Ranks of several hosts: a lock on the file would not keep out those who write plainly into the holes.
  if (lock < 0) return {};
  // Keeps out those who sieve through another open of the file.
  const int told = files.lock(at.file.descriptor, Lock::exclusive, window.begin, length, false);
  if (told == -EAGAIN) {
    at.locks.leave(lock);
    return {};
  }
  iovec piece{block.data(), size_t(length)};
  Job read(Job::Work::read, files, at.file.descriptor, at.file.path);
  read.pieces = &piece;
  read.count = 1;
  read.offset = window.begin;
  read.carry_out();
  read.settle();
  Error error = std::move(read.error);
  if (!error) {
    std::fill(block.data() + read.status.bytes, block.data() + length, std::byte{0});  // past the end of the file
    Cursor in_block = access.pattern().cursor(block.data() - window.begin, access.position + access.moved,
                                              window.stop - access.moved);
    copy(memory, in_block);
    piece = {block.data(), size_t(length)};
    Job write(Job::Work::write, files, at.file.descriptor, at.file.path);
    write.pieces = &piece;
    write.count = 1;
    write.offset = window.begin;
    write.carry_out();
    write.settle();
    error = std::move(write.error);
    ++at.environment.counters().io_sieved;
  }
  if (told == 0) files.lock(at.file.descriptor, Lock::none, window.begin, length, false);
  at.locks.leave(lock);
  done = true;
  if (!error) access.moved = window.stop;
  return error;
}

Flow sieve_write(Access& access) {
  const Place& at = access.at;
  const auto whole = uint64_t(access.end() - access.pattern().offset_of(access.position + access.moved));
  Buffer block = at.environment.buffer(size_t(std::min<uint64_t>(whole, uint64_t(at.hints.write_buffer))));
  if (!block) co_return no_memory(size_t(at.hints.write_buffer));
  Cursor memory = access.memory();
  while (access.moved < access.bytes) {
    const Window window = window_of(access, block.size());
    memory.seek(access.moved);
    bool done = false;
    Error error = change_block(access, window, block, memory, done);
    if (!error && !done) error = co_await move_list(access, window.stop);
    if (error) co_return std::move(error);
  }
  co_return Error();
}

bool sieving_pays(const Access& access) {
  const Place& at = access.at;
  const Wish wish = access.write ? at.hints.sieve_write : at.hints.sieve_read;
  if (wish == Wish::disable || access.pattern().course() != Course::forward) return false;
  if (access.write && (!at.file.readable || !at.file.facts.regular)) return false;
  if (access.write && !at.locks.has_exclusive()) return false;
  if (wish == Wish::enable) return true;
  const double pieces = access.pattern().pieces_in(access.bytes);
  const double span = double(access.end() - access.begin()) / pieces;
  const bool short_reads = access.crowded && !at.file.facts.in_memory;
  const int64_t local = access.write || short_reads ? kSieveSpanBytes : kReadSieveSpanBytes;
  return pieces > 1 && span <= double(at.file.facts.remote ? kRemoteSieveSpanBytes : local);
}

}  // namespace

double Access::pieces_in_memory() const { return converted_ ? 1.0 : io::pieces_in_memory(*type_, count_); }

Flow move_alone(Access& access) {
  if (access.bytes == access.moved) co_return Error();
  if (access.pattern().contiguous()) co_return co_await move_one_piece(access);
  if (!sieving_pays(access)) co_return co_await move_list(access, access.bytes);
  if (access.write) co_return co_await sieve_write(access);
  co_return co_await sieve_read(access);
}

}  // namespace tern::io
