// Datatype: what MPI_Datatype stands for (MPI 5.0, chapter 5). Immutable after construction but for the
// committed flag, the name, and the attributes. Made by the functions of datatype/construct.h and by
// PredefinedTypes. Sizes, extents and displacements in bytes, 64 bits wide. Thread rule: as every Object of a
// rank, under the rank's lock; the layout and the signature may be read anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/object.h"
#include "base/types.h"
#include "datatype/layout.h"
#include "datatype/signature.h"

namespace tern {

class Datatype;
struct DebugLayout;

/// The constructor calls, by the numbers of the standard ABI.
enum class Combiner : int {
  named = 101,
  dup,
  contiguous,
  vector,
  hvector,
  indexed,
  hindexed,
  indexed_block,
  hindexed_block,
  structure,
  subarray,
  darray,
  f90_real,
  f90_complex,
  f90_integer,
  resized,
  value_index
};

/// The constructor call that made a datatype, for MPI_Type_get_envelope and MPI_Type_get_contents
/// (MPI 5.0, 5.1.13).
struct Envelope {
  Combiner combiner = Combiner::named;
  std::vector<int> integers;
  std::vector<Aint> addresses;
  std::vector<Count> large_counts;  ///< only after the large-count variant of a constructor
  std::vector<Ref<Datatype>> types;
};

/// Bounds as the standard's type map gives them.
struct Bounds {
  int64_t lower = 0, upper = 0;            ///< with markers and padding
  int64_t true_lower = 0, true_upper = 0;  ///< of the data alone
  int64_t alignment = 1;
  bool markers = false;  ///< MPI_Type_create_resized (or an array constructor) fixed lower and upper
  bool empty = true;     ///< an empty type map: no data, no markers
};

class Datatype final : public Object {
 public:
  struct Parts {
    Bounds bounds;
    Layout layout;
    Signature signature;
    Envelope envelope;
    std::string name;
    const Kind* kind = nullptr;  ///< the row of the predefined type it is (or duplicates); copied
    bool predefined = false;     ///< named, or unnamed but not to be freed
    bool committed = false;
  };
  explicit Datatype(Parts parts);
  ~Datatype() = default;

  Count size() const { return size_; }  ///< bytes of data in one element
  Count extent() const { return bounds_.upper - bounds_.lower; }
  Count lower_bound() const { return bounds_.lower; }
  Count upper_bound() const { return bounds_.upper; }
  Count true_extent() const { return bounds_.true_upper - bounds_.true_lower; }
  Count true_lower_bound() const { return bounds_.true_lower; }
  Count alignment() const { return bounds_.alignment; }
  const Bounds& bounds() const { return bounds_; }

  bool committed() const { return committed_; }
  void commit() { committed_ = true; }
  /// A value of MPI's tables: named, or an unnamed one (Fortran kinds, value-index pairs). Cannot be freed by
  /// the user.
  bool is_predefined() const { return predefined_; }
  bool is_named() const { return envelope_.combiner == Combiner::named; }
  /// `count` elements are one gapless block of size() * count bytes, in order, starting at the buffer's
  /// address.
  bool is_contiguous() const { return contiguous_; }
  /// Contiguous pieces in one element: few large ones suit scatter-gather, many small ones suit packing.
  Count segments() const { return layout_.node ? layout_.node->segments : 0; }

  /// The ABI value of the predefined type it is or duplicates; 0 when it is neither (derived types, unnamed
  /// pairs).
  int predefined_id() const { return has_kind_ ? kind_.id : 0; }
  /// The predefined type it is or duplicates; null when derived.
  const Kind* kind() const { return has_kind_ ? &kind_ : nullptr; }
  /// The one predefined type all its elements have, and how many there are; null when they differ or there
  /// are none.
  const Kind* basic_kind() const;
  Count basic_count() const;

  const Layout& layout() const { return layout_; }
  const Signature& signature() const { return signature_; }
  const Envelope& envelope() const { return envelope_; }

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  /// Cached attributes; the type and the deleter belong to comm/. Null until the first MPI_Type_set_attr.
  std::unique_ptr<void, void (*)(void*)> attributes{nullptr, nullptr};

 private:
  friend struct DebugLayout;  // capi/debug_view.h
  Count size_;
  bool contiguous_, committed_, predefined_, has_kind_;
  Bounds bounds_;
  Layout layout_;
  Kind kind_;
  Signature signature_;
  Envelope envelope_;
  std::string name_;
};

}  // namespace tern
