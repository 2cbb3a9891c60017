// The target: carries out what origins ask for, in the order in which it comes, and answers.
#include <algorithm>
#include <cstring>

#include "datatype/code.h"
#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;
using wire::WindowCode;
using wire::WindowOperationBody;
using wire::WindowRecord;

namespace {

constexpr int64_t kMost = int64_t{1} << 60;

}  // namespace

/// A result on its way, read from the window or from a copy.
struct ResultSend final : SendOperation {
  Ref<Datatype> type;
  std::vector<std::byte> copy;
  Window* window = nullptr;  ///< of a result that is read from there
  Source* source = nullptr;

  static void over(SendOperation& operation, Error) {
    auto* self = static_cast<ResultSend*>(&operation);
    if (self->window) self->window->result_left(*self->source);
    delete self;
  }
};

/// Gathers the answers to one message.
class Answers {
 public:
  /// `room`: for the last of them, if they fit.
  Answers(Window& window, Source& to, std::span<std::byte> room = {}) : window_(window), to_(to), room_(room) {
    out_.swap(window.spare_answers_);
  }
  ~Answers() {
    finish();
    out_.clear();
    out_.swap(window_.spare_answers_);
  }
  /// All have left, or lie in the room: returns how many bytes. A confirmation does not pass results on their way.
  size_t finish() {
    const size_t bytes = out_.size();
    if (bytes == 0 || bytes > room_.size() || by_message_) {
      send();
      return 0;
    }
    std::memcpy(room_.data(), out_.data(), bytes);
    out_.clear();
    return bytes;
  }

  void granted() { writer_.record({WindowCode::granted}); }
  void confirm(uint32_t number) { writer_.record({WindowCode::ack, 0, 0, number}); }
  void failed(uint32_t token, const Error& error) {
    writer_.text({WindowCode::failed, uint8_t(error.error_class()), 0, token}, error.text().data(),
                 error.text().size());
    send_if_long();
  }
  /// The next `bytes` at the cursor, as they are now (`copied`), or as they are when they leave.
  void result(uint32_t token, Cursor from, size_t bytes, const Datatype& type, bool copied) {
    if (bytes <= kMaxInside_bytes) {
      const uint64_t length = bytes;
      writer_.record({WindowCode::result, 0, 0, token});
      std::memcpy(writer_.room(sizeof length), &length, sizeof length);
      from.pack(writer_.room(bytes), bytes);
      return send_if_long();
    }
    send();
    by_message_ = true;
    auto* reply = new ResultSend;
    from.truncate(bytes);
    if (copied) {
      reply->copy.resize(bytes);
      from.pack(reply->copy.data(), bytes);
      reply->payload = Cursor::bytes(reply->copy.data(), bytes);
    } else {
      reply->payload = from;
      reply->type = Ref<Datatype>::share(const_cast<Datatype*>(&type));
      reply->window = &window_;
      reply->source = &to_;
      ++to_.replying;
    }
    reply->header = window_.header(wire::kWindowResult, token);
    reply->done = ResultSend::over;
    ++window_.environment_.counters().rma_answers;
    if (to_.endpoint.lost()) ResultSend::over(*reply, Error());
    else to_.endpoint.enqueue(*reply);
  }

 private:
  void send_if_long() {
    if (out_.size() > kMaxInside_bytes) send();
  }
  void send() {
    if (out_.empty()) return;
    by_message_ = true;
    std::vector<std::byte> message;
    message.swap(out_);
    ++window_.environment_.counters().rma_answers;
    window_.environment_.endpoints().post(to_.endpoint, window_.header(wire::kWindowAnswers), message.data(),
                                          message.size());
    message.clear();
    if (out_.empty()) out_.swap(message);
  }

  Window& window_;
  Source& to_;
  std::span<std::byte> room_;
  bool by_message_ = false;  ///< some have left as messages
  std::vector<std::byte> out_;
  wire::WindowWriter writer_{out_};
};

Source& Window::source(int rank) {
  if (sources_.empty()) sources_.resize(size_t(comm_->size()));
  std::unique_ptr<Source>& place = sources_[size_t(rank)];
  if (!place) place = std::make_unique<Source>(rank, environment_.endpoints().at(comm_->peer(rank)));
  return *place;
}

size_t Window::serve(int from, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room) {
  Source& origin = source(from);
  if (origin.waits) return 0;  // it was told to wait for the lock
  size_t answered = 0;
  const bool plain = confirm != 0 && !room.empty() && !origin.unlocks && !origin.completes && !origin.refused;
  if (plain && serve_short(records, confirm, room, answered)) return answered;
  end_access(origin);  // it has all results, else it would not have begun anew
  {
    Answers answers(*this, origin, room);
    carry_out(origin, records, answers);
    if (confirm != 0 && origin.waits) wire::WindowWriter(origin.held).record({WindowCode::flush, 0, 0, confirm});
    else if (confirm != 0) answers.confirm(confirm);
    answered = answers.finish();
  }
  grant_ready();
  environment_.progress().notify();
  return answered;
}

// Nobody else may touch the window before what the origin has asked for was read from it.
void Window::result_left(Source& from) {
  if (--from.replying != 0) return;
  end_access(from);
  grant_ready();
  environment_.progress().notify();
}

void Window::end_access(Source& from) {
  if (from.unlocks) {
    locks_.release(from.rank, granted_);
    if (!own(from.rank)) own_turns_.gave_back(from.returns);
  }
  if (from.completes) ++completed_;
  from.unlocks = from.completes = false;
}

// The records of the rank that got the lock are carried out, which may pass the lock on.
void Window::grant_ready() {
  if (granting_) return;
  granting_ = true;
  while (!granted_.empty()) {
    Source& next = source(granted_.front());
    granted_.erase(granted_.begin());
    next.waits = false;
    const std::vector<std::byte> records = std::move(next.held);
    next.held.clear();
    Answers answers(*this, next);
    if (!broken_.empty()) refuse_lock(next, answers);
    answers.granted();
    carry_out(next, records, answers);
  }
  granting_ = false;
}

void Window::refuse_lock(Source& from, Answers& answers) {
  from.refused = true;
  answers.failed(0, Error(ErrorClass::proc_aborted, broken_));
}

// False: the origin waits, and so does the rest of its records.
bool Window::ask_lock(Source& from, LockMode mode, std::span<const std::byte> rest, Answers& answers) {
  if (!broken_.empty()) {
    refuse_lock(from, answers);
    answers.granted();
    return true;
  }
  own_turns_.asked(from.returns);
  if (locks_.acquire(from.rank, mode) == LockQueue::Answer::granted) {
    answers.granted();
    return true;
  }
  ++environment_.counters().rma_lock_waits;
  from.waits = true;
  from.held.assign(rest.begin(), rest.end());
  return false;
}

void Window::carry_out(Source& from, std::span<const std::byte> records, Answers& answers) {
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
      case WindowCode::datatype: {
        std::span<const std::byte> code;
        if (!in.text(code) || head.slot >= wire::kTypeSlots) break;
        if (head.slot >= from.types.size()) from.types.resize(size_t(head.slot) + 1);
        from.types[head.slot].reset();
        if (Error error = datatype_code::decode(code, from.types[head.slot])) answers.failed(0, error);
        break;
      }
      case WindowCode::operate: {
        WindowOperationBody body;
        std::span<const std::byte> data;
        if (!in.operation(body)) break;
        const bool swap = WindowAction(head.flag) == WindowAction::compare_and_swap;
        if (body.inside && !in.data(swap ? 2 * body.bytes : body.bytes, data)) break;
        operate(from, head, body, data, answers);
        break;
      }
      case WindowCode::brief: operate_briefly(from, head, in, answers); break;
      default: break;
    }
  }
  if (from.replying == 0) end_access(from);
  if (!in.ok()) answers.failed(0, Error(ErrorClass::intern, "a damaged message of one-sided operations has come"));
}

// --- One operation.

bool Window::contains(int64_t low, int64_t high) const {
  if (flavor_ != Flavor::dynamic) return low >= 0 && high <= size_;
  auto next = attached_.upper_bound(uintptr_t(low));
  if (next == attached_.begin()) return false;
  // Pieces that touch count as one.
  uintptr_t end = std::prev(next)->first + std::prev(next)->second;
  for (; end < uintptr_t(high) && next != attached_.end() && next->first == end; ++next) end += next->second;
  return low < high && end >= uintptr_t(high);
}

// Where the operation's part of the target's elements lies. Believes nothing of what the origin says.
Error Window::locate(Source& from, const WindowOperationBody& body, Cursor& cursor, const Datatype*& type) {
  if (body.type & wire::kTypeSlot) {
    const size_t slot = body.type & ~wire::kTypeSlot;
    type = slot < from.types.size() ? from.types[slot].get() : nullptr;
  } else {
    type = environment_.types().find(body.type);
  }
  if (!type) return Error(ErrorClass::type, "the target knows no such datatype");
  int64_t total = 0, low = 0, high = 0;
  const bool sane = body.count != 0 && body.count < uint64_t(kMost) && body.offset < uint64_t(kMost) &&
                    body.bytes < uint64_t(kMost) &&
                    !__builtin_mul_overflow(int64_t(body.count), type->size(), &total) &&
                    int64_t(body.offset + body.bytes) <= total && touched(*type, Count(body.count), low, high) &&
                    !__builtin_add_overflow(low, int64_t(body.address), &low) &&
                    !__builtin_add_overflow(high, int64_t(body.address), &high);
  if (!sane || !contains(low, high)) {
    const std::string where = "bytes " + std::to_string(low) + " to " + std::to_string(high) + " are not inside ";
    return Error(ErrorClass::rma_range,
                 where + (flavor_ == Flavor::dynamic ? "memory attached to the window" : "the target's memory"));
  }
  auto* start = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(flavor_ == Flavor::dynamic ? nullptr : base_) +
                                             uintptr_t(body.address));
  cursor = Cursor(start, Count(body.count), *type);
  cursor.seek(size_t(body.offset));
  cursor.truncate(size_t(body.bytes));
  return {};
}

void Window::accumulate(OpId id, std::span<const std::byte> data, Cursor cursor, const Kind* kind) {
  // The caller keeps ranks of this node out.
  if (id == OpId::replace) {
    cursor.unpack(data.data(), data.size());
  } else if (id != OpId::no_op) {
    Cursor from = Cursor::bytes(const_cast<std::byte*>(data.data()), data.size());
    combine(environment_.op(id), from, cursor, data.size(), *kind);
  }
}

// Null: the accumulate makes sense.
const char* Window::wrong_with(const WindowRecord& head, const WindowOperationBody& body, const Datatype& type) const {
  const auto action = WindowAction(head.flag);
  if (action < WindowAction::put || action > WindowAction::compare_and_swap) return "unknown operation";
  if (action == WindowAction::compare_and_swap && body.bytes != uint64_t(type.size()))
    return "compare-and-swap of parts";
  if (action != WindowAction::accumulate && action != WindowAction::get_accumulate) return nullptr;
  const auto id = OpId(body.op);
  if (id == OpId::replace || id == OpId::no_op) return nullptr;
  const Kind* kind = type.basic_kind();
  if (!kind || id == OpId::none || !op_takes(id, *kind) || !environment_.knows_op(id))
    return "the operator is not defined for the datatype";
  return body.bytes % kind->size != 0 || body.offset % kind->size != 0 ? "parts of elements" : nullptr;
}

void Window::operate_briefly(Source& from, const WindowRecord& head, wire::WindowReader& in, Answers& answers) {
  wire::WindowBriefBody brief;
  if (!in.brief(brief)) return;
  const auto action = WindowAction(head.flag);
  const bool brings = action != WindowAction::get && OpId(brief.op) != OpId::no_op;
  const size_t bytes = brief.bytes;
  std::span<const std::byte> data;
  if (brings && !in.data(action == WindowAction::compare_and_swap ? 2 * bytes : bytes, data)) return;
  const Datatype* type = environment_.types().find(head.slot);
  WindowOperationBody body;
  body.op = brief.op;
  body.inside = brings;
  body.type = head.slot;
  body.address = brief.address;
  body.count = type && type->size() > 0 ? bytes / size_t(type->size()) : 0;
  body.bytes = bytes;
  operate(from, head, body, data, answers);
}

void Window::operate(Source& from, const WindowRecord& head, const WindowOperationBody& body,
                     std::span<const std::byte> data, Answers& answers) {
  const auto action = WindowAction(head.flag);
  const auto id = OpId(body.op);
  Cursor cursor;
  const Datatype* type = nullptr;
  Error error = from.refused ? Error(ErrorClass::proc_aborted, broken_) : locate(from, body, cursor, type);
  if (!error) {
    if (const char* wrong = wrong_with(head, body, *type)) error = Error(ErrorClass::intern, wrong);
  }
  const bool brings = action != WindowAction::get && id != OpId::no_op;
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

void Window::perform(const WindowRecord& head, const WindowOperationBody& body, std::span<const std::byte> data,
                     Cursor cursor, const Datatype& type, Answers& answers) {
  const size_t bytes = size_t(body.bytes);
  switch (WindowAction(head.flag)) {
    case WindowAction::put: cursor.unpack(data.data(), bytes); return;
    case WindowAction::get: return answers.result(head.number, cursor, bytes, type, false);
    case WindowAction::accumulate: {
      const AccumulateGuard alone = alone_with(comm_->rank());
      return accumulate(OpId(body.op), data, cursor, type.basic_kind());
    }
    case WindowAction::get_accumulate: {
      const AccumulateGuard alone = alone_with(comm_->rank());
      answers.result(head.number, cursor, bytes, type, true);
      return accumulate(OpId(body.op), data, cursor, type.basic_kind());
    }
    case WindowAction::compare_and_swap: {
      const AccumulateGuard alone = alone_with(comm_->rank());
      std::byte now[32];
      Cursor reader = cursor;
      if (bytes > sizeof now || data.size() != 2 * bytes)
        return answers.failed(head.number, Error(ErrorClass::intern, "compare-and-swap of too many bytes"));
      answers.result(head.number, cursor, bytes, type, true);
      reader.pack(now, bytes);
      if (std::memcmp(now, data.data() + bytes, bytes) == 0) cursor.unpack(data.data(), bytes);
      return;
    }
  }
}

// --- Data that come as messages of their own.

bool Window::land(const wire::Header& header, size_t bytes, Landing& landing) {
  if (header.kind == wire::kWindowResult) {
    if (header.token == 0 || header.token > awaited_.size()) return false;
    Awaited& awaited = awaited_[header.token - 1];
    if (!awaited.target || awaited.target->rank != header.source || awaited.bytes != bytes) return false;
    landing.target = awaited.into;
    return true;
  }
  Source& from = source(header.source);
  const bool wanted = from.expected == Source::Expected::operation && bytes == from.body.bytes;
  if (!wanted) {
    from.expected = Source::Expected::nothing;
    return false;
  }
  if (WindowAction(from.head.flag) == WindowAction::put) {
    const Datatype* type = nullptr;
    return !locate(from, from.body, landing.target, type);
  }
  from.arriving.resize(bytes);
  landing.target = Cursor::bytes(from.arriving.data(), bytes);
  return true;
}

void Window::landed(const wire::Header& header, Landing&, size_t, Error error) {
  if (header.kind == wire::kWindowResult) {
    const bool known = header.token != 0 && header.token <= awaited_.size();
    if (known && awaited_[header.token - 1].target) result_over(header.token, std::move(error));
    environment_.progress().notify();
    return;
  }
  Source& from = source(header.source);
  from.expected = Source::Expected::nothing;
  if (error || WindowAction(from.head.flag) == WindowAction::put) return;
  Answers answers(*this, from);
  Cursor cursor;
  const Datatype* type = nullptr;
  if (Error wrong = locate(from, from.body, cursor, type)) return answers.failed(from.head.number, wrong);
  perform(from.head, from.body, from.arriving, cursor, *type, answers);
}

}  // namespace tern::rma
