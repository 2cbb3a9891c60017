// MPI_MINLOC and MPI_MAXLOC (MPI 5.0, 6.9.4) for every value and index type a pair can have.
#include "datatype/op_loops.h"

namespace tern::op_loops {
namespace {

// Laid out as the C struct of the standard's example, as datatype/kind.cc describes every pair.
template <typename V, typename I>
struct Pair {
  V value;
  I index;
};

template <bool minimum, typename V, typename I>
void pair_reduce(const void* in, void* inout, Count n) {
  const auto* a = static_cast<const Pair<V, I>*>(in);
  auto* b = static_cast<Pair<V, I>*>(inout);
  for (Count i = 0; i < n; ++i) {
    bool better = minimum ? a[i].value < b[i].value : a[i].value > b[i].value;
    if (better) {
      b[i].value = a[i].value;
      b[i].index = a[i].index;
    } else if (a[i].value == b[i].value && a[i].index < b[i].index) {
      b[i].index = a[i].index;
    }
  }
}

template <typename V, typename I>
Loop pair_loop_for(OpId id) {
  if (id == OpId::minloc) return pair_reduce<true, V, I>;
  if (id == OpId::maxloc) return pair_reduce<false, V, I>;
  return nullptr;
}

}  // namespace

Loop pair_loop(OpId id, Rep value, Rep index) {
  // Fortran's pairs hold the index in the value's own type.
  if (value == Rep::f32 && index == Rep::f32) return pair_loop_for<float, float>(id);
  if (value == Rep::f64 && index == Rep::f64) return pair_loop_for<double, double>(id);
  auto pick_value = [id, index]<typename V>() {
    return with_integer(index, [id]<typename I>() { return pair_loop_for<V, I>(id); });
  };
  Loop found = with_integer(value, pick_value);
  return found ? found : with_floating(value, pick_value);
}

}  // namespace tern::op_loops
