#include "rma/routes/record.h"

#include <algorithm>

#include "base/assert.h"
#include "datatype/code.h"
#include "rma/routes/cell.h"

namespace tern::rma {

using wire::WindowAction;
using wire::WindowOperationBody;
using wire::WindowWriter;

namespace {

// Length of the pieces of operations that the target works on as a whole (it copies what they bring): longer ones than
// the second-level cache holds gain nothing, and the target's memory stays bounded.
constexpr size_t kPieceBytes = 256 * 1024;
// A parcel of records leaves when it is this long, or when the path takes no more at once.
constexpr size_t kParcelBytes = 8192;
// With this many posted messages that wait for room on their way, the caller helps them along before it adds more.
constexpr uint32_t kManyQueued = 64;

// It fits a brief record (wire/window.h).
bool is_brief(const Operation& operation, const WindowOperationBody& body) {
  const Datatype& type = *operation.target_type;
  return type.is_named() && type.is_contiguous() && body.bytes <= wire::WindowBriefBody::kMaxBytes &&
         body.bytes == bytes_of(operation.target_count, &type) && body.address < wire::WindowBriefBody::kAddressEnd;
}

}  // namespace

// --- Writing records.

// The name of the datatype at the target, which is told of it when it is used for the first time. The slots are used by
// turns.
uint16_t RecordRoute::name_type(Target& target, Datatype& type) {
  if (type.is_named()) return uint16_t(type.predefined_id());
  Outbox& out = target.out;
  for (size_t slot = 0; slot < out.types.size(); ++slot) {
    if (out.types[slot].get() == &type) return uint16_t(wire::kTypeSlot | slot);
  }
  const uint16_t slot = out.next_slot;
  TERN_DEBUG_ASSERT(slot < wire::kTypeSlots && slot <= out.types.size());
  out.next_slot = uint16_t((slot + 1) % wire::kTypeSlots);
  if (slot == out.types.size()) out.types.emplace_back();
  out.types[slot] = Ref<Datatype>::share(&type);
  const std::vector<std::byte> code = datatype_code::encode(type);
  WindowWriter(out.open).text({wire::WindowCode::datatype, 0, slot}, code.data(), code.size());
  return uint16_t(wire::kTypeSlot | slot);
}

uint32_t RecordRoute::await_result(const Operation& operation, Target& target, size_t offset, size_t bytes,
                                   WindowRequest* request) {
  const uint32_t token = results_.await(target, bytes, request);
  Results::Awaited& awaited = results_.at(token);
  awaited.into = Cursor(operation.result, operation.result_count, *operation.result_type);
  awaited.into.seek(offset);
  awaited.into.truncate(bytes);
  TERN_DEBUG_ASSERT(awaited.into.remaining() == bytes);
  awaited.type = Ref<Datatype>::share(operation.result_type);
  return token;
}

// One piece, from body.offset on. Its data go into the parcel, or follow it.
void RecordRoute::put_piece(const Operation& operation, Target& target, WindowOperationBody& body, uint16_t slot,
                            WindowRequest* request) {
  const size_t bytes = size_t(body.bytes);
  const bool swap = operation.action == WindowAction::compare_and_swap;
  const size_t brought = !operation.brings() ? 0 : swap ? 2 * bytes : bytes;
  const bool inside = brought <= kMaxInsideBytes;
  TERN_DEBUG_ASSERT(bytes != 0);
  const size_t room = std::max<size_t>(std::min(kParcelBytes, target.endpoint.eager_limit()), 512);
  if (target.out.open.size() + brought + 64 > room && inside) {
    target.out.seal();
    pump(target, false);
  }
  uint32_t token = 0;
  if (operation.fetches()) token = await_result(operation, target, size_t(body.offset), bytes, request);
  body.type = slot;
  body.op = uint8_t(operation.op);
  body.inside = inside && brought != 0;
  WindowWriter out(target.out.open);
  const size_t room_bytes = inside ? brought : 0;
  std::byte* data_room = nullptr;
  if (is_brief(operation, body)) {
    data_room = out.brief(operation.action, slot, token, {body.op, uint8_t(bytes), body.address}, room_bytes);
  } else {
    out.operation(operation.action, token, body);
    data_room = out.room(room_bytes);
  }
  target.flight.unconfirmed = true;
  ++target.flight.begun;
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
  TERN_DEBUG_ASSERT(from.remaining() == bytes);
  data->target = &target;
  data->progress = &context_.progress();
  data->type = Ref<Datatype>::share(operation.origin_type);
  data->request = request;
  target.flight.begin_send(*data);
  if (request) request->begin_part();
  target.out.seal(data);
  pump(target, false);
}

void RecordRoute::begin(const Operation& operation, Target& target, WindowRequest* request) {
  const bool whole = operation.is_put() || operation.is_get();
  const size_t total = operation.worked_bytes();
  if (total != 0) {
    // Pieces end between elements.
    const Kind* kind = operation.target_type->basic_kind();
    const size_t each = kind ? kind->size : 1;
    const size_t piece = whole ? total : kPieceBytes / each * each;
    TERN_DEBUG_ASSERT(piece != 0);
    const uint16_t slot = name_type(target, *operation.target_type);
    for (size_t offset = 0; offset < total; offset += piece) {
      WindowOperationBody body;
      const int64_t unit = context_.flavor == Flavor::dynamic ? 1 : memory_.disp_unit_of(operation.target);
      body.address = uint64_t(operation.displacement * unit);
      body.count = uint64_t(operation.target_count);
      body.offset = offset;
      body.bytes = std::min(piece, total - offset);
      put_piece(operation, target, body, slot, request);
    }
  }
  if (request) pump(target, true);
}

// --- Confirmations.

void RecordRoute::conclude(Target& target) {
  InFlight& flight = target.flight;
  flight.alone = flight.begun == 1;
  flight.begun = 0;
  if (flight.unconfirmed || (flight.pending != 0 && flight.is_confirmed())) ask_confirmation(target);
}

void RecordRoute::ask_confirmation(Target& target) {
  target.out.confirm = begin_confirmation(target);
  pump(target, true);
}

uint32_t RecordRoute::begin_confirmation(Target& target) {
  ++context_.counters().rma_flushes;
  return target.flight.ask();
}

// --- Leaving.

bool RecordRoute::may_leave(const Target& target) const {
  return !target.is_dropped() && target.lock.state != LockState::wanted && epoch_.is_open_to(target);
}

bool RecordRoute::hold(Target& target, HeldOperation& operation) {
  if (epoch_.is_open_to(target)) return false;
  target.out.hold(operation);
  pump(target, false);
  return true;
}

void RecordRoute::pump(Target& target, bool everything) {
  Outbox& out = target.out;
  if (out.pumping || target.flight.in_cell) return;  // an answer that came while sending, of this rank itself
  const bool at_once = everything && out.fills_parcel() && out.sealed.empty() && may_leave(target);
  if (at_once && cell_.takes_open(target)) return cell_.ask_open(target);
  out.pumping = true;
  if (at_once) send_open(target);
  if (everything) out.seal();
  while (!out.sealed.empty()) {
    if (target.is_dropped()) drop_parcels(target);
    else if (target.lock.state == LockState::wanted && locks_.by_words()) locks_.ask(target);
    else if (target.lock.state == LockState::wanted) send_with_lock(target);
    else if (epoch_.is_open_to(target)) pump_first(target);
    else break;
  }
  out.pumping = false;
}

void RecordRoute::pump_first(Target& target) {
  TERN_DEBUG_ASSERT(!target.out.sealed.empty() && !target.is_dropped());
  Parcel parcel = std::move(target.out.sealed.front());
  target.out.sealed.pop_front();
  if (parcel.held) parcel.held->leave();
  else send(target, parcel);
}

// The request for the lock takes the first parcel along, if that is all that there is.
void RecordRoute::send_with_lock(Target& target) {
  Outbox& out = target.out;
  TERN_DEBUG_ASSERT(!locks_.by_words() && target.lock.state == LockState::wanted);
  Parcel& first = out.sealed.front();
  const bool together = out.sealed.size() == 1 && !out.fills_parcel() && !first.data && !first.held;
  if (!together) return send_lock(target);
  Parcel parcel;
  WindowWriter(parcel.records).record({wire::WindowCode::lock, uint8_t(locks_.begin(target))});
  parcel.records.insert(parcel.records.end(), first.records.begin(), first.records.end());
  parcel.confirm = first.confirm;
  out.sealed.pop_front();
  send(target, parcel);
}

void RecordRoute::send_lock(Target& target) {
  Parcel parcel;
  WindowWriter(parcel.records).record({wire::WindowCode::lock, uint8_t(locks_.begin(target))});
  send(target, parcel);
}

// The commonest case, without the way through the parcels; the vector's memory is used again.
void RecordRoute::send_open(Target& target) {
  Parcel parcel;
  parcel.records.swap(target.out.open);
  TERN_DEBUG_ASSERT(target.out.sealed.empty() && may_leave(target));
  std::swap(parcel.confirm, target.out.confirm);
  post_records(target, parcel);
  parcel.records.clear();
  if (target.out.open.empty()) target.out.open.swap(parcel.records);
}

void RecordRoute::post_records(Target& target, const Parcel& parcel) {
  Endpoints& endpoints = context_.environment.endpoints();
  ++context_.counters().rma_messages;
  target.flight.unasked = parcel.confirm == 0;
  endpoints.post(target.endpoint, context_.header(wire::kWindowBatch, parcel.confirm), parcel.records.data(),
                 parcel.records.size());
  if (endpoints.posts_queued() > kManyQueued && !context_.progress().polling()) context_.progress().poll();
}

void RecordRoute::send(Target& target, const Parcel& parcel) {
  post_records(target, parcel);
  DataSend* data = parcel.data;
  if (!data) return;
  ++context_.counters().rma_messages;
  data->header = context_.header(wire::kWindowData);
  TERN_DEBUG_ASSERT(data->target == &target);
  data->done = [](SendOperation& operation, Error error) { static_cast<DataSend&>(operation).over(std::move(error)); };
  Endpoint& endpoint = target.endpoint;
  if (endpoint.lost()) data->over(context_.environment.endpoints().loss_of(endpoint.peer));
  else endpoint.enqueue(*data);
}

// --- Dropping.

Error RecordRoute::why_dropped(const Target& target) const {
  if (target.lost) return context_.environment.endpoints().loss_of(target.endpoint.peer);
  return Error(target.lock.refusal.error_class(), std::string(target.lock.refusal.text()));
}

void RecordRoute::drop_operations(Target& target) {
  target.out.seal();
  drop_parcels(target);
  results_.drop(target, [&] { return why_dropped(target); });
  TERN_DEBUG_ASSERT(!target.out.has_records());
}

void RecordRoute::drop_parcels(Target& target) {
  std::deque<Parcel>& sealed = target.out.sealed;
  while (!sealed.empty()) {
    HeldOperation* held = sealed.front().held;
    DataSend* data = sealed.front().data;
    sealed.pop_front();
    if (held) held->drop(why_dropped(target));
    if (data) data->over(why_dropped(target));
  }
}

// --- What comes back.

void RecordRoute::take_answers(Target& about, std::span<const std::byte> records) {
  wire::WindowReader in(records);
  wire::WindowRecord head;
  while (in.next(head)) {
    std::span<const std::byte> text;
    switch (head.code) {
      case wire::WindowCode::granted:
        if (about.lock.state == LockState::asked) about.lock.state = LockState::held;
        pump(about, true);
        break;
      case wire::WindowCode::ack: about.flight.confirmed = head.number; break;
      case wire::WindowCode::result:
        if (in.text(text)) take_result(about, head.number, text);
        break;
      case wire::WindowCode::failed:
        if (in.text(text)) take_failure(about, head, text);
        break;
      default: break;
    }
  }
  context_.progress().notify();
}

void RecordRoute::take_result(Target& about, uint32_t token, std::span<const std::byte> bytes) {
  Results::Awaited* awaited = results_.find(token, about.rank);
  if (!awaited || awaited->bytes != bytes.size()) return;
  awaited->into.unpack(bytes.data(), bytes.size());
  results_.over(token, Error());
}

void RecordRoute::take_failure(Target& about, const wire::WindowRecord& head, std::span<const std::byte> text) {
  const std::string why(reinterpret_cast<const char*>(text.data()), text.size());
  Error error(int(head.flag), context_.describe() + ", target " + std::to_string(about.rank) + ": " + why);
  about.fail(error);
  if (results_.find(head.number, about.rank)) results_.over(head.number, std::move(error));
}

}  // namespace tern::rma
