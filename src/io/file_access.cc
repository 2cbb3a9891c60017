// The data access routines (MPI 5.0, 14.4): where an access begins, in which order accesses happen, and what they
// report.
#include <utility>

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
  Error error = create::run(environment_.p2p(), accesses_->perform(access, operation, sequence, std::move(wrong)));
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
  --pending_;
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
  --pending_;
  set_complete();
}

Error File::begin(const Operation& operation, Request*& request) {
  Error wrong = check(operation);
  if (wrong && !operation.together) return wrong;
  auto* made = new FileRequest(pending_, place(), operation.write, view_, operation.together);
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
  made->go(environment_.progress(), accesses_->perform(made->access, operation, sequence, std::move(wrong)));
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
  environment_.p2p().wait(*request);
  static_cast<FileRequest*>(request)->settle();
  status = request->status;
  Error error = std::move(request->error);
  request->release();
  return error;
}

}  // namespace tern::io
