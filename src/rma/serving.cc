// Exposure, continued: carrying out what origins ask for. Validates every number: they come from another rank.
#include <cstring>

#include "base/assert.h"
#include "datatype/code.h"
#include "rma/answers.h"
#include "rma/short.h"

namespace tern::rma {

using wire::WindowAction;
using wire::WindowCode;
using wire::WindowOperationBody;
using wire::WindowRecord;

namespace {

/// Of what comes as a brief record.
bool is_served_short(WindowAction action, OpId op, const Kind& kind, size_t bytes) {
  switch (action) {
    case WindowAction::put: return op != OpId::no_op;
    case WindowAction::get: return true;
    case WindowAction::accumulate:
    case WindowAction::get_accumulate: return is_integer(kind) && bytes == kind.size && Apply::is_sum_or_exchange(op);
    case WindowAction::compare_and_swap: return is_integer(kind) && bytes == kind.size && op != OpId::no_op;
  }
  return false;
}

}  // namespace

// The other side of Operations::record_short: one brief record that came alone in a cell. `room` is the same memory as
// `records`. False: nothing has happened.
bool Exposure::serve_short(std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room,
                           size_t& answered) {
  wire::WindowReader in(records);
  WindowRecord head;
  wire::WindowBriefBody body;
  if (context_.flavor == Flavor::dynamic || !in.next(head) || head.code != WindowCode::brief || !in.brief(body))
    return false;
  const Datatype* type = context_.environment.types().find(head.slot);
  const Kind* kind = type ? type->kind() : nullptr;
  const size_t bytes = body.bytes;
  // Nearly always one element: no division.
  if (!kind || kind->size != kind->extent || bytes == 0 || (bytes != kind->size && bytes % kind->size != 0))
    return false;
  if (int64_t(body.address + bytes) > memory_.size()) return false;
  const auto action = WindowAction(head.flag);
  const auto op = OpId(body.op);
  if (!is_served_short(action, op, *kind, bytes)) return false;
  const bool compares = action == WindowAction::compare_and_swap;
  const bool brings = action != WindowAction::get && op != OpId::no_op;
  std::span<const std::byte> data;
  if (brings && !in.data(compares ? 2 * bytes : bytes, data)) return false;
  const bool fetches = action != WindowAction::put && action != WindowAction::accumulate;
  const size_t result_bytes = fetches ? wire::kWindowResultHeadBytes + wire::WindowWriter::padded(bytes) : 0;
  if (!in.rest().empty() || result_bytes + sizeof head > room.size()) return false;

  std::byte* there = memory_.base() + body.address;
  std::byte* result = room.data() + wire::kWindowResultHeadBytes;
  const int place = memory_.place();
  if (action == WindowAction::put) Apply::copy_bytes(there, data.data(), bytes);
  else if (action == WindowAction::get) Apply::copy_bytes(result, there, bytes);
  else if (compares) apply_.integer_compare_and_swap(place, there, bytes, data.data(), result);
  else apply_.integer(place, there, bytes, op, data.data(), fetches ? result : nullptr);
  if (fetches) wire::write_window_result_head(room.data(), head.number, bytes);
  const WindowRecord ack{WindowCode::ack, 0, 0, confirm};
  std::memcpy(room.data() + result_bytes, &ack, sizeof ack);
  answered = result_bytes + sizeof ack;
  TERN_DEBUG_ASSERT(answered <= room.size());
  return true;
}

void Exposure::carry_out(Source& from, std::span<const std::byte> records, Answers& answers) {
  wire::WindowReader in(records);
  WindowRecord head;
  while (in.next(head)) {
    switch (head.code) {
      case WindowCode::lock:
        if (!ask_lock(from, LockMode(head.flag), in.rest(), answers)) return;
        break;
      case WindowCode::unlock:
        from.refused = false;
        from.unlocks = true;
        break;
      case WindowCode::flush: answers.confirm(head.number); break;
      case WindowCode::complete: from.completes = true; break;
      case WindowCode::datatype: learn_type(from, head, in, answers); break;
      case WindowCode::operate: read_operation(from, head, in, answers); break;
      case WindowCode::brief: read_brief(from, head, in, answers); break;
      default: break;
    }
  }
  if (from.replying == 0) end_access(from);
  if (!in.ok()) answers.failed(0, Error(ErrorClass::intern, "a damaged message of one-sided operations has come"));
}

void Exposure::learn_type(Source& from, const WindowRecord& head, wire::WindowReader& in, Answers& answers) {
  std::span<const std::byte> code;
  if (!in.text(code) || head.slot >= wire::kTypeSlots) return;
  if (head.slot >= from.types.size()) from.types.resize(size_t(head.slot) + 1);
  from.types[head.slot].reset();
  TERN_DEBUG_ASSERT(head.slot < wire::kTypeSlots);
  if (Error error = datatype_code::decode(code, from.types[head.slot])) answers.failed(0, error);
}

void Exposure::read_operation(Source& from, const WindowRecord& head, wire::WindowReader& in, Answers& answers) {
  WindowOperationBody body;
  std::span<const std::byte> data;
  if (!in.operation(body)) return;
  const bool swap = WindowAction(head.flag) == WindowAction::compare_and_swap;
  if (body.inside && !in.data(swap ? 2 * body.bytes : body.bytes, data)) return;
  operate(from, head, body, data, answers);
}

void Exposure::read_brief(Source& from, const WindowRecord& head, wire::WindowReader& in, Answers& answers) {
  wire::WindowBriefBody brief;
  if (!in.brief(brief)) return;
  const auto action = WindowAction(head.flag);
  const bool brings = action != WindowAction::get && OpId(brief.op) != OpId::no_op;
  const size_t bytes = brief.bytes;
  std::span<const std::byte> data;
  if (brings && !in.data(action == WindowAction::compare_and_swap ? 2 * bytes : bytes, data)) return;
  const Datatype* type = context_.environment.types().find(head.slot);
  WindowOperationBody body;
  body.op = brief.op;
  body.inside = brings;
  body.type = head.slot;
  body.address = brief.address;
  body.count = type && type->size() > 0 ? bytes / size_t(type->size()) : 0;
  body.bytes = bytes;
  operate(from, head, body, data, answers);
}

// --- One operation.

// Where the operation's part of the target's elements lies.
Error Exposure::locate(Source& from, const WindowOperationBody& body, Cursor& cursor, const Datatype*& type) const {
  if (body.type & wire::kTypeSlot) {
    const size_t slot = body.type & ~wire::kTypeSlot;
    type = slot < from.types.size() ? from.types[slot].get() : nullptr;
  } else {
    type = context_.environment.types().find(body.type);
  }
  if (!type) return Error(ErrorClass::type, "the target knows no such datatype");
  return memory_.locate(*type, {body.address, body.count, body.offset, body.bytes}, cursor);
}

// Null: the accumulate makes sense.
const char* Exposure::wrong_with(const WindowRecord& head, const WindowOperationBody& body,
                                 const Datatype& type) const {
  const auto action = WindowAction(head.flag);
  if (action < WindowAction::put || action > WindowAction::compare_and_swap) return "unknown operation";
  if (action == WindowAction::compare_and_swap && body.bytes != uint64_t(type.size()))
    return "compare-and-swap of parts";
  if (action != WindowAction::accumulate && action != WindowAction::get_accumulate) return nullptr;
  const auto id = OpId(body.op);
  if (id == OpId::replace || id == OpId::no_op) return nullptr;
  const Kind* kind = type.basic_kind();
  if (!kind || id == OpId::none || !op_takes(id, *kind) || !context_.environment.knows_op(id))
    return "the operator is not defined for the datatype";
  return body.bytes % kind->size != 0 || body.offset % kind->size != 0 ? "parts of elements" : nullptr;
}

void Exposure::operate(Source& from, const WindowRecord& head, const WindowOperationBody& body,
                       std::span<const std::byte> data, Answers& answers) {
  Cursor cursor;
  const Datatype* type = nullptr;
  Error error = from.refused ? Error(ErrorClass::proc_aborted, broken_) : locate(from, body, cursor, type);
  if (!error) {
    if (const char* wrong = wrong_with(head, body, *type)) error = Error(ErrorClass::intern, wrong);
  }
  const bool brings = WindowAction(head.flag) != WindowAction::get && OpId(body.op) != OpId::no_op;
  if (brings && !body.inside) {
    // The data come next, wherever they go.
    from.expected = error ? Source::Expected::nothing_of_it : Source::Expected::operation;
    from.head = head;
    from.body = body;
  }
  if (error) return answers.failed(head.number, error);
  if (from.expected == Source::Expected::operation) return;
  perform(head, body, data, cursor, *type, answers);
}

void Exposure::perform(const WindowRecord& head, const WindowOperationBody& body, std::span<const std::byte> data,
                       const Cursor& cursor, const Datatype& type, Answers& answers) {
  const size_t bytes = size_t(body.bytes);
  TERN_DEBUG_ASSERT(cursor.remaining() == bytes);
  const int place = memory_.part().empty() ? -1 : memory_.place();
  const auto from = [&] { return Cursor::bytes(const_cast<std::byte*>(data.data()), data.size()); };
  const auto fetch = [&] { answers.result(head.number, cursor, bytes, type, true); };
  switch (WindowAction(head.flag)) {
    case WindowAction::put: return Apply::copy(from(), cursor, bytes);
    case WindowAction::get: return answers.result(head.number, cursor, bytes, type, false);
    case WindowAction::accumulate:
      return apply_.accumulate(place, OpId(body.op), from(), cursor, data.size(), type.basic_kind());
    case WindowAction::get_accumulate:
      return apply_.get_accumulate(place, OpId(body.op), from(), cursor, data.size(), type.basic_kind(), fetch);
    case WindowAction::compare_and_swap:
      if (bytes > Apply::kMaxComparedBytes || data.size() != 2 * bytes)
        return answers.failed(head.number, Error(ErrorClass::intern, "compare-and-swap of too many bytes"));
      return apply_.compare_and_swap(place, cursor, bytes, data.data(), data.data() + bytes, fetch);
  }
}

}  // namespace tern::rma
