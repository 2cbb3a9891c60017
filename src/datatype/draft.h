// A datatype under construction: bounds, layout and signature together, composed by repeating, placing and
// joining. The constructors are sums of these. Internal to datatype/. Thread rule: values; no sharing.
#pragma once

#include <vector>

#include "datatype/construct.h"

namespace tern::construct {

struct Draft {
  /// lower and upper count only with markers, the true ones only with data; `empty` is settled by finished().
  Bounds bounds;
  Layout layout;
  Signature signature;
  bool overflow = false;  ///< something does not fit 63 bits

  bool has_data() const { return layout.node != nullptr; }
};

Draft draft_of(const Datatype& type);
Draft repeat(Count count, Count stride_bytes, const Draft& draft);
Draft placed(Count offset_bytes, Draft draft);
Draft join(std::vector<Draft> parts);
/// Puts new markers in the place of any there are.
Draft marked(Count lower, Count upper, Draft draft);
/// The bounds of the standard (5.1.7): markers, or the data padded to its alignment.
Bounds finished(const Draft& draft);
/// a * b, setting `overflow` when it does not fit.
Count times(Count a, Count b, bool& overflow);
Count plus(Count a, Count b, bool& overflow);

/// Makes the datatype, or the error that it is too large.
Error make(Draft draft, Envelope envelope, Ref<Datatype>& made);

}  // namespace tern::construct
