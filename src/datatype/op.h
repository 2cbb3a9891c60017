// Reduction operators (MPI 5.0, 6.9): the predefined ones with loops per arithmetic type, and the user's.
// Thread rule: as every Object of a rank, under the rank's lock; apply() of a predefined operator may run
// anywhere.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "base/object.h"
#include "base/types.h"
#include "datatype/cursor.h"
#include "datatype/datatype.h"

namespace tern {

/// Predefined operators by the values of the standard ABI.
enum class OpId : int {
  none = 0,  ///< the user's
  sum = 0x21,
  min = 0x22,
  max = 0x23,
  prod = 0x24,
  band = 0x28,
  bor = 0x29,
  bxor = 0x2a,
  land = 0x30,
  lor = 0x31,
  lxor = 0x32,
  minloc = 0x38,
  maxloc = 0x39,
  replace = 0x3c,
  no_op = 0x3d
};

class Op final : public Object {
 public:
  /// inout[i] = in[i] op inout[i] for n elements of the type. Supplied by capi/, which knows the user's
  /// signature.
  using UserFunction = std::function<void(const void* in, void* inout, Count n, const Datatype& type)>;

  explicit Op(OpId id) : id_(id), commutative_(id != OpId::replace && id != OpId::no_op) { handle = int32_t(id); }
  Op(UserFunction function, bool commutative)
      : id_(OpId::none), commutative_(commutative), function_(std::move(function)) {}
  ~Op() = default;

  bool is_predefined() const { return id_ != OpId::none; }
  OpId id() const { return id_; }
  /// "MPI_SUM" …; "user-defined operator" for the user's.
  const char* name() const;
  bool commutative() const { return commutative_; }
  /// MPI_Reduce's table (6.9.2, 6.9.4): predefined operators take predefined types of their classes (and
  /// duplicates of them), the logical ones MPI_AINT, MPI_COUNT and MPI_OFFSET besides; user functions take
  /// anything. REPLACE and NO_OP are for accumulates only (12.3.4).
  bool valid_for(const Datatype& type) const;
  /// The table for accumulates (12.3.4), where a derived type of one basic type will also do.
  bool valid_for_accumulate(const Datatype& type) const;

  /// inout[i] = in[i] op inout[i], in the order the standard gives a user function. The buffers do not
  /// overlap, and are n elements of `type` in memory. Only when valid_for(type) or, for accumulates, when the
  /// type is contiguous.
  void apply(const void* in, void* inout, Count n, const Datatype& type) const;
  /// inout[i] = in[i] op inout[i] for `n` elements of a basic type in an array, both aligned for it. Predefined
  /// arithmetic operators only.
  void apply_basic(const void* in, void* inout, Count n, const Kind& kind) const;
  /// For accumulates: `n` basic elements arrive packed (any alignment) and meet the next ones at `target`,
  /// which advances. Predefined operators only; any REPLACE or NO_OP.
  void apply_packed(const std::byte* in, Cursor& target, Count n, const Kind& kind) const;

 private:
  OpId id_;
  bool commutative_;
  UserFunction function_;
};

/// True if the predefined operator takes the basic type.
bool op_takes(OpId id, const Kind& kind);
/// True if it does, though the table of the standard (6.9.2) has no such pair.
bool op_goes_beyond(OpId id, const Kind& kind);

/// The predefined operators of one rank; made on first use. Thread rule: under the rank's lock.
class PredefinedOps {
 public:
  static constexpr int kFirst = 0x20, kLast = 0x3f;  ///< handles of predefined operators (MPI 5.0, Annex A)
  /// The operator of an ABI handle value; null when there is none (MPI_OP_NULL included).
  Op* find(int id);
  Op& get(OpId id) { return *find(int(id)); }

 private:
  std::array<Ref<Op>, kLast - kFirst + 1> ops_;
};

}  // namespace tern
