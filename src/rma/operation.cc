#include "rma/operation.h"

#include <algorithm>

namespace tern::rma {

size_t bytes_of(Count count, const Datatype* type) { return type ? size_t(count) * size_t(type->size()) : 0; }

bool touched(const Datatype& type, Count count, int64_t& low, int64_t& high) {
  int64_t span = 0;
  if (__builtin_mul_overflow(count - 1, type.extent(), &span)) return false;
  return !__builtin_add_overflow(type.true_lower_bound(), std::min<int64_t>(span, 0), &low) &&
         !__builtin_add_overflow(type.bounds().true_upper, std::max<int64_t>(span, 0), &high);
}

}  // namespace tern::rma
