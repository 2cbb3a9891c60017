#include "rma/routes/direct.h"
#include "base/assert.h"

namespace tern::rma {

using wire::WindowAction;

void DirectRoute::begin(const Operation& o, const Target& target) {
  ++context_.counters().rma_direct;
  TERN_DEBUG_ASSERT(target.memory.start);
  std::byte* start = target.memory.start + o.displacement * target.memory.disp_unit;
  const int place = target.memory.place;
  const Cursor there(start, o.target_count, *o.target_type);
  const auto into = [&] { return Cursor(o.result, o.result_count, *o.result_type); };
  const auto from = [&] {
    return o.brings() ? Cursor(const_cast<void*>(o.origin), o.origin_count, *o.origin_type) : Cursor();
  };
  const size_t brought = o.brings() ? bytes_of(o.origin_count, o.origin_type) : 0;
  switch (o.action) {
    case WindowAction::put: return Apply::copy(from(), there, brought);
    case WindowAction::get: return Apply::copy(there, into(), bytes_of(o.target_count, o.target_type));
    case WindowAction::accumulate:
      return apply_.accumulate(place, o.op, from(), there, brought, o.target_type->basic_kind());
    case WindowAction::get_accumulate:
      return apply_.get_accumulate(place, o.op, from(), there, brought, o.target_type->basic_kind(),
                                   [&] { Apply::copy(there, into(), o.worked_bytes()); });
    case WindowAction::compare_and_swap:
      return apply_.compare_and_swap(place, there, size_t(o.target_type->size()), o.origin, o.compare,
                                     [&] { Apply::copy(there, into(), size_t(o.target_type->size())); });
  }
}

}  // namespace tern::rma
