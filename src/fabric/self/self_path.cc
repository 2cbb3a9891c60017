#include "fabric/self/self_path.h"

#include <cstring>
#include <span>

#include "base/assert.h"

namespace tern {
namespace {
/// Above this size a rendezvous saves the copy through the unexpected queue. Below, programs that send to themselves
/// before they post the receive are not blocked (MPI does not promise that; 64 KiB is more than common eager limits).
constexpr size_t kEagerBytes = 65536;
}  // namespace

SelfPath::SelfPath(PeerId me, Sink& sink) : lane_(me), sink_(sink) {
  properties_.name = "self";
  properties_.eager_bytes = kEagerBytes;
  properties_.needs_cpu = false;
  remote_properties_.get = true;
}

bool SelfPath::try_send(Lane&, const wire::Header& header, const void* payload, size_t bytes) {
  sink_.on_message(lane_, header, static_cast<const std::byte*>(payload), bytes);
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
    sink_.on_message(lane_, operation.header, data, total);
  } else {
    const wire::Header header = operation.header;
    Landing landing = sink_.on_header(lane_, header, total);
    iovec pieces[16];
    while (payload.remaining() != 0) {
      size_t covered = 0;
      const size_t count = payload.segments(std::span<iovec>(pieces), payload.remaining(), covered);
      TERN_ASSERT(covered != 0);
      for (size_t i = 0; i < count; ++i) {
        landing.target.unpack(static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
      }
    }
    sink_.on_landed(lane_, header, landing, total, Error());
  }
  finished_.push_back(&operation);
  hints_.dormant = false;
}

void SelfPath::get(TransferOperation& operation) {
  operation.local.unpack(reinterpret_cast<const std::byte*>(operation.remote_address), operation.bytes);
  operation.done(operation, Error());
}

// Not needed: a message to oneself never waits for the other side.
void SelfPath::put(TransferOperation& operation) {
  operation.done(operation, Error(ErrorClass::unsupported_operation, "the self path does not put"));
}

int SelfPath::poll() {
  int count = 0;
  // Only those that are here now: a done-function may enqueue the next one.
  for (SendOperation* last = finished_.back(); last;) {
    SendOperation* operation = finished_.pop_front();
    ++count;
    const bool end = operation == last;
    operation->done(*operation, Error());
    if (end) break;
  }
  hints_.dormant = finished_.empty();
  return count;
}

}  // namespace tern
