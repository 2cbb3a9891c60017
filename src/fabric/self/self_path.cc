#include "fabric/self/self_path.h"

#include <cstring>
#include <span>

#include "base/assert.h"

namespace tern {
namespace {
/// Beyond this a rendezvous saves the copy through the unexpected queue; below, programs that send to
/// themselves before they receive are not held up.
constexpr size_t kEagerBytes = 65536;
}  // namespace

SelfPath::SelfPath(PeerId me, Sink& sink) : me_(me), sink_(sink) {
  properties_.name = "self";
  properties_.eager_bytes = kEagerBytes;
  properties_.get = true;
  properties_.latency_ns = 30;
  properties_.bytes_per_us = 15000;
}

bool SelfPath::try_send(PeerId peer, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(peer == me_);
  sink_.on_message(me_, header, static_cast<const std::byte*>(payload), bytes);
  return true;
}

void SelfPath::enqueue(SendOperation& operation) {
  Cursor& payload = operation.payload;
  const size_t total = payload.remaining();
  operation.total_bytes = total;
  operation.header_sent = true;
  if (payload.is_contiguous()) {
    const std::byte* data = total ? payload.contiguous_data() : nullptr;
    payload.skip(total);
    sink_.on_message(me_, operation.header, data, total);
  } else {
    const wire::Header header = operation.header;
    Landing landing = sink_.on_header(me_, header, total);
    iovec pieces[16];
    while (payload.remaining() != 0) {
      size_t covered = 0;
      const size_t count = payload.segments(std::span<iovec>(pieces), payload.remaining(), covered);
      TERN_ASSERT(covered != 0);
      for (size_t i = 0; i < count; ++i) {
        landing.target.unpack(static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
      }
    }
    sink_.on_landed(me_, header, landing, total, Error());
  }
  finished_.push_back(&operation);
  dormant_ = false;
}

void SelfPath::get(TransferOperation& operation) {
  operation.local.unpack(reinterpret_cast<const std::byte*>(operation.remote_address), operation.bytes);
  operation.done(operation, Error());
}

int SelfPath::poll() {
  int count = 0;
  // At most those that are here now: a done-function may enqueue the next one.
  for (SendOperation* last = finished_.back(); last;) {
    SendOperation* operation = finished_.pop_front();
    ++count;
    const bool end = operation == last;
    operation->done(*operation, Error());
    if (end) break;
  }
  dormant_ = finished_.empty();
  return count;
}

}  // namespace tern
