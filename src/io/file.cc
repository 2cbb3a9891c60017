// An open file: its size, its view, its pointers, its hints.
#include "io/file.h"

#include <cerrno>
#include <functional>

#include "io/system_error.h"

namespace tern::io {

namespace {

uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

Error File::not_sequential() const {
  if (!(amode_ & mode::kSequential)) return {};
  return Error(ErrorClass::unsupported_operation,
               "'" + file_.path + "' was opened with MPI_MODE_SEQUENTIAL, so only its shared file pointer may be used");
}

Error File::not_busy() const {
  if (pending_ == 0 && !split_) return {};
  return Error(ErrorClass::request, "accesses to '" + file_.path +
                                        "' are not complete. Complete all nonblocking and split collective accesses of "
                                        "the file first.");
}

Error File::size(int64_t& bytes) {
  bytes = environment_.files().size(file_.descriptor);
  if (bytes >= 0) return {};
  return system_error("asking for the size", file_.path, int(-bytes));
}

Error File::resize(int64_t bytes) {
  Statement mine;
  mine.words[0] = bytes;
  Error wrong = not_sequential();
  if (!wrong) wrong = not_busy();
  if (!wrong && bytes < 0)
    wrong = Error(ErrorClass::arg, "argument 'size' is " + std::to_string(bytes) + ". A size cannot be negative.");
  mine.set(wrong);
  return agree(environment_, *comm_, mine, [&](std::span<const Statement> all, Statement& said) {
    if (said.error_class == 0) said.set(require_same(all, 0, "argument 'size'"));
    if (said.error_class != 0) return;
    const int result = environment_.files().resize(file_.descriptor, bytes);
    if (result < 0) said.set(system_error("changing the size", file_.path, -result));
  });
}

Error File::preallocate(int64_t bytes) {
  Statement mine;
  mine.words[0] = bytes;
  Error wrong = not_sequential();
  if (!wrong) wrong = not_busy();
  if (!wrong && bytes < 0)
    wrong = Error(ErrorClass::arg, "argument 'size' is " + std::to_string(bytes) + ". A size cannot be negative.");
  mine.set(wrong);
  return agree(environment_, *comm_, mine, [&](std::span<const Statement> all, Statement& said) {
    if (said.error_class == 0) said.set(require_same(all, 0, "argument 'size'"));
    if (said.error_class != 0 || bytes == 0) return;
    Request* request = environment_.call_elsewhere(
        file_.path, "making room", [&] { return environment_.files().reserve(file_.descriptor, bytes); }, true);
    if (request->error) said.set(request->error);
    request->release();
  });
}

// The system's own caches are one for all ranks of a host, so only who has written has something to transfer.
Error File::sync() {
  Error error = not_busy();
  if (!error && accesses_->dirty()) {
    Request* request = environment_.call_elsewhere(
        file_.path, "sync", [&] { return environment_.files().sync(file_.descriptor); }, true);
    error = std::move(request->error);
    request->release();
    if (!error) accesses_->note_synced();
  }
  return agree(environment_, *comm_, std::move(error));
}

Error File::set_atomicity(bool atomic) {
  Statement mine;
  mine.words[0] = atomic;
  Error wrong;
  if (atomic && file_.facts.seekable) {
    // Whether the file system has locks is better known now than in the middle of an access.
    const Lock kind = file_.readable ? Lock::shared : Lock::exclusive;
    int result = environment_.files().lock(file_.descriptor, kind, INT64_MAX - 1, 1, false);
    if (result == 0) result = environment_.files().lock(file_.descriptor, Lock::none, INT64_MAX - 1, 1, false);
    if (result < 0 && result != -EAGAIN) wrong = system_error("locking", file_.path, -result);
  }
  mine.set(wrong);
  Error error = agree(environment_, *comm_, mine, [&](std::span<const Statement> all, Statement& said) {
    if (said.error_class == 0) said.set(require_same(all, 0, "argument 'flag'"));
  });
  if (!error) accesses_->set_atomic(atomic);
  return error;
}

Error File::set_view(int64_t displacement, Datatype& etype, Datatype& filetype, const char* representation,
                     const Info* info) {
  Error wrong = not_busy();
  const bool sequential = amode_ & mode::kSequential;
  if (!wrong && sequential != (displacement == kCurrentDisplacement)) {
    wrong =
        Error(ErrorClass::arg, sequential ? "argument 'disp' must be MPI_DISPLACEMENT_CURRENT, since the file was "
                                            "opened with MPI_MODE_SEQUENTIAL"
                                          : "argument 'disp' is MPI_DISPLACEMENT_CURRENT, which is for files opened "
                                            "with MPI_MODE_SEQUENTIAL");
  }
  if (!wrong && displacement < 0 && !sequential)
    wrong = Error(ErrorClass::arg,
                  "argument 'disp' is " + std::to_string(displacement) + ". A displacement cannot be negative.");
  if (sequential) {
    // Where the shared pointer is now; its value is rank 0's to tell.
    int64_t etypes = 0;
    Statement mine, verdict;
    mine.set(wrong);
    Error error = agree(
        environment_, *comm_, mine,
        [&](std::span<const Statement>, Statement& said) {
          const Error asking = create::run(environment_.p2p(), shared_pointer_->add(0, etypes, true));
          if (said.error_class == 0) said.set(asking);
          said.words[0] = etypes;
        },
        &verdict);
    if (error) return error;
    wrong = byte_offset(verdict.words[0], displacement);
  }
  const Representation* named = environment_.representations().find(representation);
  if (!wrong && !named)
    wrong = Error(ErrorClass::unsupported_datarep,
                  "argument 'datarep' is '" + std::string(representation) +
                      "'. Known are native, internal, external32, and what MPI_Register_datarep was called with.");
  std::shared_ptr<const View> fresh;
  if (!wrong)
    wrong = View::make(displacement, etype, filetype, *named, environment_.representations().native(), file_.writable,
                       environment_.types(), fresh);
  Statement mine;
  mine.words[0] = int64_t(hash_of(representation));
  mine.words[1] = fresh && !named->calls_user() ? fresh->etype_bytes(false) : 0;
  mine.words[2] = info && !info->empty();
  mine.set(wrong);
  const auto judge = [&](std::span<const Statement> all, Statement& said) {
    if (said.error_class == 0 && require_same(all, 0, ""))
      said.set(Error(ErrorClass::not_same, "argument 'datarep' is not the same at all ranks of the file"));
    if (said.error_class == 0) said.set(require_same(all, 1, "the etype's length in the file"));
    if (said.error_class == 0) shared_pointer_->set(0);
    for (const Statement& statement : all) said.words[2] |= statement.words[2];
  };
  Statement verdict;
  if (Error error = agree(environment_, *comm_, mine, judge, &verdict)) return error;
  view_ = std::move(fresh);
  accesses_->forget_patterns();
  pointer_ = 0;
  if (verdict.words[2] == 0) return {};
  if (info) hints_.take(*info, false);
  follow_hints();
  return share_hints();
}

// Hints that ranks must agree on take effect only when all give the same: rank 0's count.
Error File::set_hints(const Info& info) {
  hints_.take(info, false);
  follow_hints();
  return share_hints();
}

void File::follow_hints() {
  if (file_.facts.regular) environment_.files().advise(file_.descriptor, hints_.advice());
}

void File::tell_hints(Info& info) const {
  hints_.tell(info);
  info.set("filename", file_.path);
}

Error File::target(int64_t offset, Whence whence, int64_t current, int64_t& etypes) {
  int64_t base = 0;
  if (whence == Whence::current) base = current;
  if (whence == Whence::end) {
    int64_t bytes = 0;
    if (Error error = size(bytes)) return error;
    if (Error error = view_->prepare()) return error;
    base = view_->etypes_below(bytes);
  }
  if (__builtin_add_overflow(base, offset, &etypes) || etypes < 0)
    return Error(ErrorClass::arg, "argument 'offset' is " + std::to_string(offset) +
                                      ", which leads to a position before the begin of the view");
  return {};
}

Error File::seek(int64_t offset, Whence whence) {
  if (Error error = not_sequential()) return error;
  int64_t etypes = 0;
  if (Error error = target(offset, whence, pointer_, etypes)) return error;
  pointer_ = etypes;
  return {};
}

Error File::position(int64_t& etypes) const {
  if (Error error = not_sequential()) return error;
  etypes = pointer_;
  return {};
}

Error File::seek_shared(int64_t offset, Whence whence) {
  Statement mine;
  mine.words[0] = offset;
  mine.words[1] = int64_t(whence);
  mine.set(not_sequential());
  return agree(environment_, *comm_, mine, [&](std::span<const Statement> all, Statement& said) {
    if (said.error_class == 0) said.set(require_same(all, 0, "argument 'offset'"));
    if (said.error_class == 0 && require_same(all, 1, ""))
      said.set(Error(ErrorClass::not_same, "argument 'whence' is not the same at all ranks of the file"));
    if (said.error_class != 0) return;
    int64_t current = 0, etypes = 0;
    Error error = create::run(environment_.p2p(), shared_pointer_->add(0, current, true));
    if (!error) error = target(offset, whence, current, etypes);
    if (error) said.set(error);
    else shared_pointer_->set(etypes);
  });
}

Error File::position_shared(int64_t& etypes) {
  if (Error error = not_sequential()) return error;
  return create::run(environment_.p2p(), shared_pointer_->add(0, etypes, true));
}

Error File::byte_offset(int64_t offset, int64_t& bytes) const {
  if (offset < 0)
    return Error(ErrorClass::arg, "argument 'offset' is " + std::to_string(offset) + ". It cannot be negative.");
  if (Error error = view_->prepare()) return error;
  const Pattern& pattern = view_->pattern(false);
  const uint64_t position = uint64_t(offset) * uint64_t(view_->etype_bytes(false));
  if (pattern.tile_bytes() == 0) {
    bytes = view_->displacement();
    return {};
  }
  if (!pattern.reaches(position + 1))
    return Error(ErrorClass::value_too_large,
                 "argument 'offset' is " + std::to_string(offset) + ", which lies beyond the largest file offset");
  bytes = pattern.offset_of(position);
  return {};
}

Error File::type_extent(Datatype& type, Count& extent) const {
  const Representation& representation = view_->representation();
  if (!representation.converts(false) && !representation.converts(true)) {
    extent = type.extent();
    return {};
  }
  Ref<Datatype> in_file;
  if (Error error = file_type(representation, environment_.types(), type, in_file)) return error;
  extent = in_file->extent();
  return {};
}

}  // namespace tern::io
