// The predefined datatypes of one rank: objects for the rows of datatype/kind.h (they carry names and
// attributes, so ranks cannot share them), and the unnamed ones that MPI_Type_create_f90_* and
// MPI_Type_get_value_index return. Made on first use, so that thousands of simulated ranks cost nothing.
// Thread rule: under the rank's lock.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "base/error.h"
#include "datatype/datatype.h"

namespace tern {

class PredefinedTypes {
 public:
  PredefinedTypes() = default;
  PredefinedTypes(const PredefinedTypes&) = delete;
  PredefinedTypes& operator=(const PredefinedTypes&) = delete;

  static constexpr int kFirst = 0x200, kLast = 0x2ff;  ///< their handles (MPI 5.0, Annex A)

  /// The datatype of an ABI handle value; null when there is none (MPI_DATATYPE_NULL included). Lives as long
  /// as this.
  Datatype* find(int id) {
    if (id < kFirst || id > kLast) return nullptr;
    Datatype* made = named_[size_t(id - kFirst)].get();
    return made ? made : make(id);
  }
  /// The type of an id that is known to exist (type_id::kInt …).
  Datatype& get(int id) {
    Datatype* type = find(id);
    TERN_ASSERT(type);
    return *type;
  }

  /// MPI_Type_get_value_index: null when the two make no predefined pair.
  Datatype* value_index(const Datatype& value, const Datatype& index);
  /// MPI_Type_create_f90_*: kUndefined leaves `precision` or `range` open. The same object for the same
  /// arguments.
  Error f90_real(int precision, int range, Datatype*& type);
  Error f90_complex(int precision, int range, Datatype*& type);
  Error f90_integer(int range, Datatype*& type);
  /// MPI_Type_match_size; null when there is none.
  Datatype* match_size(TypeClass type_class, Count size_bytes);

 private:
  Datatype* make(int id);
  Error f90_floating(Combiner combiner, int precision, int range, Datatype*& type);
  Datatype* unnamed(Combiner combiner, int first, int second, const Kind& kind);

  std::array<Ref<Datatype>, kLast - kFirst + 1> named_;
  std::map<std::tuple<Combiner, int, int>, Ref<Datatype>> unnamed_;
};

}  // namespace tern
