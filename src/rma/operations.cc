// Put, get, accumulate and the like at the origin (MPI 5.0, 12.3): checks, and turning them into records.
#include <algorithm>

#include "datatype/code.h"
#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;
using wire::WindowOperationBody;
using wire::WindowWriter;

namespace {

// Operations that the target works on as a whole (it copies what they bring) come in pieces of so many bytes: a few
// times what fits the second-level cache serves nothing, and the target's memory stays bounded.
constexpr size_t kPiece_bytes = 256 * 1024;
// A parcel of records leaves when it is this long, or when the path takes no more at once.
constexpr size_t kParcel_bytes = 8192;

bool fetches(WindowAction action) {
  return action == WindowAction::get || action == WindowAction::get_accumulate ||
         action == WindowAction::compare_and_swap;
}
// It fits a brief record (wire/window.h).
bool is_brief(const Operation& operation, const WindowOperationBody& body) {
  const Datatype& type = *operation.target_type;
  return type.is_named() && type.is_contiguous() && body.bytes <= wire::WindowBriefBody::kMaxBytes &&
         body.bytes == bytes_of(operation.target_count, &type) && body.address < wire::WindowBriefBody::kAddressEnd;
}
bool brings(const Operation& operation) { return operation.action != WindowAction::get && operation.op != OpId::no_op; }

}  // namespace

size_t bytes_of(Count count, const Datatype* type) { return type ? size_t(count) * size_t(type->size()) : 0; }

bool touched(const Datatype& type, Count count, int64_t& low, int64_t& high) {
  int64_t span = 0;
  if (__builtin_mul_overflow(count - 1, type.extent(), &span)) return false;
  return !__builtin_add_overflow(type.true_lower_bound(), std::min<int64_t>(span, 0), &low) &&
         !__builtin_add_overflow(type.bounds().true_upper, std::max<int64_t>(span, 0), &high);
}

// --- Checks.

Error Window::range_error(const Operation& operation, const std::string& what) const {
  const int rank = operation.target;
  return Error(ErrorClass::rma_range, describe() + ", target " + std::to_string(rank) + ", displacement " +
                                          std::to_string(operation.displacement) + " (units of " +
                                          std::to_string(disp_units_.of(rank)) + " bytes), " +
                                          std::to_string(operation.target_count) + " elements: " + what +
                                          " (the target's size is " + std::to_string(sizes_.of(rank)) + " bytes)");
}

Error Window::check_range(const Operation& operation) const {
  if (operation.target_count == 0 || operation.target_type->size() == 0) return {};
  if (flavor_ == Flavor::dynamic) return {};  // the target knows what is attached
  if (operation.displacement < 0) {
    return Error(ErrorClass::disp,
                 "argument 'target_disp' is " + std::to_string(operation.displacement) + ". It cannot be negative.");
  }
  int64_t low = 0, high = 0, start = 0;
  const bool sane = touched(*operation.target_type, operation.target_count, low, high) &&
                    !__builtin_mul_overflow(operation.displacement, disp_units_.of(operation.target), &start) &&
                    !__builtin_add_overflow(low, start, &low) && !__builtin_add_overflow(high, start, &high);
  if (!sane || low < 0 || high > sizes_.of(operation.target)) {
    return range_error(operation, sane ? "bytes " + std::to_string(low) + " to " + std::to_string(high) +
                                             " are not inside the target's memory"
                                       : "the displacement is too large");
  }
  return {};
}

Error Window::check_types(const Operation& operation) const {
  const size_t there = bytes_of(operation.target_count, operation.target_type);
  const auto too_much = [&](const char* what, size_t has, size_t wants) {
    return Error(ErrorClass::truncate, std::string(what) + " are " + std::to_string(wants) +
                                           " bytes, but there is room "
                                           "for " +
                                           std::to_string(has));
  };
  if (operation.action == WindowAction::put) {
    const size_t here = bytes_of(operation.origin_count, operation.origin_type);
    return here > there ? too_much("the origin's data", there, here) : Error();
  }
  if (operation.action == WindowAction::get) {
    const size_t here = bytes_of(operation.result_count, operation.result_type);
    return there > here ? too_much("the target's data", here, there) : Error();
  }
  if (operation.action == WindowAction::compare_and_swap) {
    const Kind* kind = operation.target_type->kind();
    const TypeClass group = kind ? kind->type_class : TypeClass::pair;
    const bool allowed =
        kind && (group == TypeClass::c_integer || group == TypeClass::fortran_integer || group == TypeClass::logical ||
                 group == TypeClass::multi_language || group == TypeClass::byte || kind->id == type_id::kChar);
    if (allowed) return {};
    return Error(ErrorClass::type, "argument 'datatype' is " +
                                       (kind ? std::string(kind->name) : std::string("a derived datatype")) +
                                       ". MPI_Compare_and_swap takes integer, logical and byte types "
                                       "(MPI 5.0, 12.3.4).");
  }
  const Op& op = environment_.op(operation.op);
  const auto& type = *operation.target_type;
  if (operation.op != OpId::no_op && !operation.origin_type)
    return Error(ErrorClass::type, "argument 'origin_datatype' is MPI_DATATYPE_NULL, which goes with MPI_NO_OP only");
  if (there == 0) {
    const size_t here = operation.op == OpId::no_op ? 0 : bytes_of(operation.origin_count, operation.origin_type);
    return here == 0 ? Error() : too_much("the origin's data", 0, here);
  }
  if (!op.valid_for_accumulate(type)) {
    const Kind* kind = type.basic_kind();
    return Error(ErrorClass::op,
                 std::string("argument 'op' is ") + op.name() + ", which is not defined for " +
                     (kind ? std::string(kind->name) : std::string("a datatype of several basic types")));
  }
  if (operation.op != OpId::no_op) {
    if (type.size() != 0 && !type.basic_kind())
      return Error(ErrorClass::type, "the target's datatype consists of several basic types. Accumulates take one.");
    const size_t here = bytes_of(operation.origin_count, operation.origin_type);
    if (here > there) return too_much("the origin's data", there, here);
    const Kind *mine = operation.origin_type->basic_kind(), *its = type.basic_kind();
    if (here != 0 && its && (!mine || !(*mine == *its)))
      return Error(ErrorClass::type, "the origin's datatype consists of " +
                                         (mine ? std::string(mine->name) : std::string("several basic types")) +
                                         ", the target's of " + its->name + ". For accumulates they must be the same.");
  }
  if (operation.action == WindowAction::get_accumulate) {
    const size_t here = bytes_of(operation.result_count, operation.result_type);
    if (there > here) return too_much("the target's data", here, there);
  }
  return {};
}

Error Window::check(const Operation& operation) const {
  if (Error error = check_rank(operation.target)) return error;
  if (Error error = check_types(operation)) return error;
  return check_range(operation);
}

Error Window::not_in_epoch(int rank) const {
  if (started_) return sync_error("rank " + std::to_string(rank) + " is not in the group of MPI_Win_start");
  if (locked_ != 0) return sync_error("rank " + std::to_string(rank) + " is not locked. Call MPI_Win_lock first.");
  return sync_error(
      "there is no access epoch. Call MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all "
      "first.");
}

// Whether the epoch allows an operation to the target.
Error Window::allow(Target& target) {
  if (target.lost) return environment_.endpoints().loss_of(target.endpoint.peer);
  if (target.lock != LockState::none) return {};
  if (lock_all_) {
    target.lock = lock_all_unchecked_ ? LockState::held : LockState::wanted;
    target.unchecked = lock_all_unchecked_;
    target.exclusive = false;
    return {};
  }
  if (started_) {
    const std::vector<int>& ranks = started_group_.ranks;
    const bool member = std::binary_search(ranks.begin(), ranks.end(), target.rank);
    return member ? Error() : not_in_epoch(target.rank);
  }
  if (fence_ == Fence::none || locked_ != 0) return not_in_epoch(target.rank);
  fence_ = Fence::used;
  return {};
}

// --- Records.

// The name of the datatype at the target, which is told of it when it is used for the first time. The slots are used by
// turns.
uint16_t Window::name_type(Target& target, Datatype& type) {
  if (type.is_named()) return uint16_t(type.predefined_id());
  for (size_t slot = 0; slot < target.types.size(); ++slot) {
    if (target.types[slot].get() == &type) return uint16_t(wire::kTypeSlot | slot);
  }
  const uint16_t slot = target.next_slot;
  target.next_slot = uint16_t((slot + 1) % wire::kTypeSlots);
  if (slot == target.types.size()) target.types.emplace_back();
  target.types[slot] = Ref<Datatype>::share(&type);
  const std::vector<std::byte> code = datatype_code::encode(type);
  WindowWriter(target.open).text({wire::WindowCode::datatype, 0, slot}, code.data(), code.size());
  return uint16_t(wire::kTypeSlot | slot);
}

uint32_t Window::await_result(Target& target, size_t bytes, WindowRequest* request) {
  if (free_awaited_ == 0) {
    awaited_.emplace_back();
    free_awaited_ = uint32_t(awaited_.size());
  }
  const uint32_t token = free_awaited_;
  Awaited& awaited = awaited_[token - 1];
  free_awaited_ = awaited.next_free;
  awaited.target = &target;
  awaited.request = request;
  awaited.bytes = bytes;
  ++target.pending;
  if (request) request->begin_part();
  return token;
}

uint32_t Window::await_result(const Operation& operation, Target& target, size_t offset, size_t bytes,
                              WindowRequest* request) {
  const uint32_t token = await_result(target, bytes, request);
  Awaited& awaited = awaited_[token - 1];
  awaited.into = Cursor(operation.result, operation.result_count, *operation.result_type);
  awaited.into.seek(offset);
  awaited.into.truncate(bytes);
  awaited.type = Ref<Datatype>::share(operation.result_type);
  return token;
}

// One piece, from body.offset on. Its data go into the parcel, or follow it.
void Window::put_piece(const Operation& operation, Target& target, WindowOperationBody& body, uint16_t slot,
                       WindowRequest* request) {
  const size_t bytes = size_t(body.bytes);
  const bool swap = operation.action == WindowAction::compare_and_swap;
  const size_t brought = !brings(operation) ? 0 : swap ? 2 * bytes : bytes;
  const bool inside = brought <= kMaxInside_bytes;
  const size_t room = std::max<size_t>(std::min(kParcel_bytes, target.endpoint.eager_limit()), 512);
  if (target.open.size() + brought + 64 > room && inside) {
    seal(target, nullptr);
    pump(target, false);
  }
  uint32_t token = 0;
  if (fetches(operation.action)) token = await_result(operation, target, size_t(body.offset), bytes, request);
  body.type = slot;
  body.op = uint8_t(operation.op);
  body.inside = inside && brought != 0;
  WindowWriter out(target.open);
  const size_t room_bytes = inside ? brought : 0;
  std::byte* data_room = nullptr;
  if (is_brief(operation, body)) {
    data_room = out.brief(operation.action, slot, token, {body.op, uint8_t(bytes), body.address}, room_bytes);
  } else {
    out.operation(operation.action, token, body);
    data_room = out.room(room_bytes);
  }
  target.unconfirmed = true;
  ++target.begun;
  if (brought == 0) return;
  Cursor from(const_cast<void*>(operation.origin), operation.origin_count, *operation.origin_type);
  from.seek(size_t(body.offset));
  if (inside) {
    from.pack(data_room, bytes);
    if (swap) Cursor(const_cast<void*>(operation.compare), 1, *operation.origin_type).pack(data_room + bytes, bytes);
    return;
  }
  auto* data = new DataSend;
  from.truncate(bytes);
  data->payload = from;
  data->target = &target;
  data->window = this;
  data->type = Ref<Datatype>::share(operation.origin_type);
  data->request = request;
  ++target.pending;
  if (request) request->begin_part();
  seal(target, data);
  pump(target, false);
}

void Window::put_out(const Operation& operation, Target& target, WindowRequest* request) {
  const bool whole = operation.action == WindowAction::put || operation.action == WindowAction::get;
  const size_t total = operation.action == WindowAction::get || operation.op == OpId::no_op
                           ? bytes_of(operation.target_count, operation.target_type)
                           : bytes_of(operation.origin_count, operation.origin_type);
  if (total == 0) return;
  // Pieces end between elements.
  const Kind* kind = operation.target_type->basic_kind();
  const size_t each = kind ? kind->size : 1;
  const size_t piece = whole ? total : kPiece_bytes / each * each;
  const uint16_t slot = name_type(target, *operation.target_type);
  for (size_t offset = 0; offset < total; offset += piece) {
    WindowOperationBody body;
    const int64_t unit = flavor_ == Flavor::dynamic ? 1 : disp_units_.of(operation.target);
    body.address = uint64_t(operation.displacement * unit);
    body.count = uint64_t(operation.target_count);
    body.offset = offset;
    body.bytes = std::min(piece, total - offset);
    put_piece(operation, target, body, slot, request);
  }
}

// By the path's atomics, or its put or get, or by message.
void Window::send_out(const Operation& operation, Target& target, bool by_words, WindowRequest* request) {
  if (by_words) return begin_words(operation, target, request);
  if (goes_by_memory(target, operation)) return begin_transfer(operation, target, request);
  put_out(operation, target, request);
  if (request) pump(target, true);
}

Error Window::begin(const Operation& operation, Request** request) {
  if (!request && perform_short(operation)) return {};
  if (operation.target == kProcNull) {
    if (request) *request = environment_.p2p().completed(kProcNullStatus);
    return {};
  }
  if (Error error = check(operation)) return error;
  Target& to = target(operation.target);
  if (request && !passive())
    return sync_error(
        "request-based operations are for passive-target epochs "
        "(MPI_Win_lock, MPI_Win_lock_all) only");
  if (Error error = allow(to)) return error;
  if (design_ && to.lock == LockState::wanted) ask_design(to);
  if (to.lock == LockState::refused) return why_dropped(to);
  Counters& counters = environment_.counters();
  ++(operation.action == WindowAction::put   ? counters.rma_puts
     : operation.action == WindowAction::get ? counters.rma_gets
                                             : counters.rma_accumulates);
  if (started_ && !gate_open(to)) await_post(to);
  const bool by_words = goes_by_words(operation);
  if (!by_words && goes_directly(to)) {
    if (to.lock == LockState::none) to.opened = epoch_;
    perform_directly(operation);
    if (request) *request = environment_.p2p().completed();
    return {};
  }
  if (!request) {
    send_out(operation, to, by_words, nullptr);
    return {};
  }
  auto* made = new WindowRequest;
  made->status = kEmptyStatus;
  *request = made;
  send_out(operation, to, by_words, made);
  made->end_part();
  return {};
}

}  // namespace tern::rma
