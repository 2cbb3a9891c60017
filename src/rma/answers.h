// Answers: what a target sends back for one message or cell of an origin: results, confirmations, failures.
// Thread rule: under the rank's lock.
#pragma once

#include <cstring>

#include "base/assert.h"
#include "rma/exposure.h"

namespace tern::rma {

/// A result on its way, read from the window or from a copy.
struct ResultSend final : SendOperation {
  Ref<Datatype> type;
  std::vector<std::byte> copy;
  Exposure* exposure = nullptr;  ///< of a result that is read from there
  Source* source = nullptr;

  static void over(SendOperation& operation, Error) {
    auto* self = static_cast<ResultSend*>(&operation);
    if (self->exposure) self->exposure->result_left(*self->source);
    delete self;
  }
};

/// Gathers the answers to one message.
class Answers {
 public:
  /// `room`: for the last of them, if they fit.
  Answers(Exposure& exposure, Source& to, std::span<std::byte> room = {}) : exposure_(exposure), to_(to), room_(room) {
    out_.swap(exposure_.spare_answers_);
  }
  ~Answers() {
    finish();
    out_.clear();
    out_.swap(exposure_.spare_answers_);
  }
  /// All have left, or lie in the room: returns how many bytes. A confirmation does not pass results on their way.
  size_t finish() {
    const size_t bytes = out_.size();
    if (bytes == 0 || bytes > room_.size() || by_message_) {
      send();
      return 0;
    }
    TERN_DEBUG_ASSERT(bytes <= room_.size());
    std::memcpy(room_.data(), out_.data(), bytes);
    out_.clear();
    return bytes;
  }

  void granted() { writer_.record({wire::WindowCode::granted}); }
  void confirm(uint32_t number) { writer_.record({wire::WindowCode::ack, 0, 0, number}); }
  void failed(uint32_t token, const Error& error) {
    writer_.text({wire::WindowCode::failed, uint8_t(error.error_class()), 0, token}, error.text().data(),
                 error.text().size());
    send_if_long();
  }
  /// The next `bytes` at the cursor, as they are now (`copied`), or as they are when they leave.
  void result(uint32_t token, Cursor from, size_t bytes, const Datatype& type, bool copied) {
    if (bytes <= kMaxInsideBytes) {
      const uint64_t length = bytes;
      writer_.record({wire::WindowCode::result, 0, 0, token});
      std::memcpy(writer_.room(sizeof length), &length, sizeof length);
      from.pack(writer_.room(bytes), bytes);
      return send_if_long();
    }
    send();
    by_message_ = true;
    auto* reply = new ResultSend;
    TERN_DEBUG_ASSERT(from.remaining() >= bytes);
    from.truncate(bytes);
    if (copied) {
      reply->copy.resize(bytes);
      from.pack(reply->copy.data(), bytes);
      reply->payload = Cursor::bytes(reply->copy.data(), bytes);
    } else {
      reply->payload = from;
      reply->type = Ref<Datatype>::share(const_cast<Datatype*>(&type));
      reply->exposure = &exposure_;
      reply->source = &to_;
      ++to_.replying;
    }
    reply->header = context().header(wire::kWindowResult, token);
    reply->done = ResultSend::over;
    ++context().counters().rma_answers;
    if (to_.endpoint.lost()) ResultSend::over(*reply, Error());
    else to_.endpoint.enqueue(*reply);
  }

 private:
  WindowContext& context() const { return exposure_.context_; }
  void send_if_long() {
    if (out_.size() > kMaxInsideBytes) send();
  }
  void send() {
    if (out_.empty()) return;
    by_message_ = true;
    std::vector<std::byte> message;
    message.swap(out_);
    ++context().counters().rma_answers;
    context().environment.endpoints().post(to_.endpoint, context().header(wire::kWindowAnswers), message.data(),
                                           message.size());
    message.clear();
    if (out_.empty()) out_.swap(message);
  }

  Exposure& exposure_;
  Source& to_;
  std::span<std::byte> room_;
  bool by_message_ = false;  ///< some have left as messages
  std::vector<std::byte> out_;
  wire::WindowWriter writer_{out_};
};

}  // namespace tern::rma
