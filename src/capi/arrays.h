// Arrays that users pass, read at their own width: int or MPI_Count, without copying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace tern::capi {

/// int[] or MPI_Count[]/MPI_Aint[] (both 64 bits here), read as int64.
class IntArray {
 public:
  IntArray() = default;
  explicit IntArray(const int* values) : values_(values), wide_(false) {}
  explicit IntArray(const int64_t* values) : values_(values), wide_(true) {}

  int64_t operator[](size_t i) const {
    return wide_ ? static_cast<const int64_t*>(values_)[i] : static_cast<const int*>(values_)[i];
  }
  bool null() const { return values_ == nullptr; }
  bool wide() const { return wide_; }
  const void* data() const { return values_; }
  std::vector<Count> copy(size_t n) const {
    std::vector<Count> out(n);
    for (size_t i = 0; i < n; ++i) out[i] = (*this)[i];
    return out;
  }

 private:
  const void* values_ = nullptr;
  bool wide_ = false;
};
static_assert(sizeof(long) == sizeof(int64_t), "Tern needs a 64-bit system: MPI_Aint and MPI_Count are one type");

/// An int64 result for a caller who asked for an int: MPI_UNDEFINED when it does not fit (MPI 5.0, 5.1.5 and
/// others).
template <typename T>
T narrowed(Count value) {
  if constexpr (sizeof(T) == sizeof(Count)) {
    return value;
  } else {
    return value > INT32_MAX || value < INT32_MIN ? kUndefined : static_cast<T>(value);
  }
}

}  // namespace tern::capi
