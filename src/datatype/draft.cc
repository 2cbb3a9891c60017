#include "datatype/draft.h"

#include <algorithm>

namespace tern::construct {
namespace {

// Widens `bounds` by those of a part whose copies lie between the displacements `low` and `high`.
void include(Bounds& bounds, bool& has_data, const Bounds& part, bool part_has_data, Count low, Count high,
             bool& overflow) {
  if (part_has_data) {
    Count lower = plus(part.true_lower, low, overflow), upper = plus(part.true_upper, high, overflow);
    bounds.true_lower = has_data ? std::min(bounds.true_lower, lower) : lower;
    bounds.true_upper = has_data ? std::max(bounds.true_upper, upper) : upper;
    bounds.alignment = std::max(bounds.alignment, part.alignment);
    has_data = true;
  }
  if (part.markers) {
    // The upper marker of each copy lies at the same place in it, also when it lies below the lower one.
    Count lower = plus(part.lower, low, overflow), upper = plus(part.upper, high, overflow);
    bounds.lower = bounds.markers ? std::min(bounds.lower, lower) : lower;
    bounds.upper = bounds.markers ? std::max(bounds.upper, upper) : upper;
    bounds.markers = true;
  }
}

}  // namespace

Count times(Count a, Count b, bool& overflow) {
  Count product = 0;
  overflow |= __builtin_mul_overflow(a, b, &product);
  return product;
}

Count plus(Count a, Count b, bool& overflow) {
  Count sum = 0;
  overflow |= __builtin_add_overflow(a, b, &sum);
  return sum;
}

Draft draft_of(const Datatype& type) {
  Draft draft;
  draft.bounds = type.bounds();
  draft.layout = type.layout();
  draft.signature = type.signature();
  return draft;
}

Draft repeat(Count count, Count stride, const Draft& draft) {
  if (count == 1) return draft;
  Draft all;
  if (count == 0) return all;
  all.overflow = draft.overflow;
  Count last = times(count - 1, stride, all.overflow);
  bool has_data = false;
  include(all.bounds, has_data, draft.bounds, draft.has_data(), std::min<Count>(0, last), std::max<Count>(0, last),
          all.overflow);
  times(draft.layout.size(), count, all.overflow);
  if (draft.signature) times(draft.signature->external_bytes, count, all.overflow);
  if (all.overflow) return all;
  all.layout = layout::repeat(count, stride, draft.layout);
  all.signature = signature::repeat(count, draft.signature);
  return all;
}

Draft placed(Count offset, Draft draft) {
  Draft moved;
  bool has_data = false;
  moved.overflow = draft.overflow;
  include(moved.bounds, has_data, draft.bounds, draft.has_data(), offset, offset, moved.overflow);
  moved.layout = std::move(draft.layout);
  moved.layout.offset = plus(moved.layout.offset, offset, moved.overflow);
  moved.signature = std::move(draft.signature);
  return moved;
}

Draft join(std::vector<Draft> parts) {
  Draft all;
  bool has_data = false;
  Count size = 0;
  std::vector<Layout> layouts;
  std::vector<Signature> signatures;
  layouts.reserve(parts.size());
  signatures.reserve(parts.size());
  for (Draft& part : parts) {
    all.overflow |= part.overflow;
    include(all.bounds, has_data, part.bounds, part.has_data(), 0, 0, all.overflow);
    size = plus(size, part.layout.size(), all.overflow);
    layouts.push_back(std::move(part.layout));
    signatures.push_back(std::move(part.signature));
  }
  if (all.overflow) return all;
  all.layout = layout::sequence(std::move(layouts));
  all.signature = signature::sequence(std::move(signatures));
  return all;
}

Draft marked(Count lower, Count upper, Draft draft) {
  draft.bounds.lower = lower;
  draft.bounds.upper = upper;
  draft.bounds.markers = true;
  return draft;
}

Bounds finished(const Draft& draft) {
  Bounds bounds = draft.bounds;
  bounds.empty = !draft.has_data() && !bounds.markers;
  if (!draft.has_data()) {
    bounds.true_lower = bounds.true_upper = 0;
    bounds.alignment = 1;
  }
  if (!bounds.markers) {
    Count extent = bounds.true_upper - bounds.true_lower;
    extent += (bounds.alignment - extent % bounds.alignment) % bounds.alignment;
    bounds.lower = bounds.true_lower;
    bounds.upper = bounds.true_lower + extent;
  }
  return bounds;
}

Error make(Draft draft, Envelope envelope, Ref<Datatype>& made) {
  // Half the range is kept free, so that sums of two such values never overflow.
  constexpr Count kLimit = Count{1} << 62;
  Bounds bounds = draft.bounds;
  bool fits = !draft.overflow && draft.layout.size() < kLimit && bounds.true_lower > -kLimit &&
              bounds.true_upper < kLimit && bounds.lower > -kLimit && bounds.upper < kLimit;
  if (!fits) return Error(ErrorClass::value_too_large, "the datatype's size or bounds do not fit into 62 bits");
  Datatype::Parts parts;
  parts.bounds = finished(draft);
  parts.layout = std::move(draft.layout);
  parts.signature = std::move(draft.signature);
  parts.envelope = std::move(envelope);
  made = Ref<Datatype>::adopt(new Datatype(std::move(parts)));
  return {};
}

}  // namespace tern::construct
