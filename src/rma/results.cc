#include "rma/results.h"
#include "base/assert.h"

namespace tern::rma {

uint32_t Results::await(Target& target, size_t bytes, WindowRequest* request) {
  if (free_ == 0) {
    all_.emplace_back();
    free_ = uint32_t(all_.size());
  }
  const uint32_t token = free_;
  Awaited& awaited = at(token);
  TERN_ASSERT(!awaited.target);
  free_ = awaited.next_free;
  awaited.target = &target;
  awaited.request = request;
  awaited.bytes = bytes;
  TERN_DEBUG_ASSERT(bytes != 0);
  ++target.flight.pending;
  if (request) request->begin_part();
  return token;
}

Results::Awaited* Results::find(uint32_t token, int target) {
  if (token == 0 || token > all_.size()) return nullptr;
  Awaited& awaited = at(token);
  return awaited.target && awaited.target->rank == target ? &awaited : nullptr;
}

void Results::over(uint32_t token, Error error) {
  Awaited& awaited = at(token);
  TERN_ASSERT(awaited.target);
  awaited.target->flight.end_pending();
  WindowRequest* request = awaited.request;
  awaited.target = nullptr;
  awaited.request = nullptr;
  awaited.type.reset();
  awaited.next_free = free_;
  TERN_DEBUG_ASSERT(token != 0 && token <= all_.size());
  free_ = token;
  if (!request) return;
  if (error) request->fail(std::move(error));
  request->end_part();
}

}  // namespace tern::rma
