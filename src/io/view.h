// View: which bytes of a file a rank sees, and in which order (MPI 5.0, 14.3). The filetype, repeated from the
// displacement on, makes a stream of bytes; an offset of the C API is a position in it, counted in etypes.
//
//   displacement  filetype      filetype      ...
//   ............  [ab.c.]       [de.f.]              stream: a b c d e f ...
//
// A View is immutable and shared by the accesses that go on. Lengths are those in the file (representation.h).
// Units: bytes, but for what is said to be etypes. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "datatype/cursor.h"
#include "datatype/datatype.h"
#include "io/layouts.h"
#include "io/representation.h"

namespace tern::io {

/// The layout that a filetype has in the file, repeated from a displacement on: what an access walks over.
class Pattern {
 public:
  /// Of a type in the file.
  Pattern(int64_t displacement, Ref<Datatype> type);
  /// Of bytes that lie so, as another rank tells it.
  Pattern(int64_t displacement, int64_t extent, const Layout& layout);

  int64_t displacement() const { return displacement_; }
  const Datatype& type() const { return *type_; }
  /// Bytes of the stream in one filetype; 0: the view shows nothing.
  uint64_t tile_bytes() const { return tile_bytes_; }
  /// The stream lies in the file in one piece, from `begin()` on.
  bool contiguous() const { return contiguous_; }
  int64_t begin() const { return displacement_ + first_; }
  Course course() const { return course_; }
  /// Only the first filetype runs forward, its copies begin before its end: a view of one filetype. (A structure's
  /// bounds are those of its resized members alone, MPI 5.0, 5.1.7. HDF5 makes such filetypes and uses their first
  /// copy.)
  bool only_first() const { return only_first_; }

  /// Where byte `position` of the stream lies in the file, and where the byte before it ends. Errors are impossible:
  /// the caller has asked `reaches`.
  int64_t offset_of(uint64_t position) const;
  int64_t end_of(uint64_t position) const { return offset_of(position - 1) + 1; }
  /// Whether offsets up to that position fit 63 bits.
  bool reaches(uint64_t position) const;
  /// Bytes of the stream that lie below a file offset. Only where the course is forward.
  uint64_t below(int64_t offset) const;
  /// Estimate of the pieces in so many bytes of the stream.
  double pieces_in(uint64_t bytes) const;

  /// Walks over the stream from `position` on, `bytes` of it. Byte 0 of the file is thought to lie at `file`: with null
  /// the addresses of its segments are file offsets.
  Cursor cursor(std::byte* file, uint64_t position, uint64_t bytes) const;

 private:
  int64_t displacement_;
  Ref<Datatype> type_;
  uint64_t tile_bytes_;
  int64_t first_ = 0;
  bool contiguous_ = false, only_first_ = false;
  Course course_ = Course::forward;
};

class View {
 public:
  /// The view of a file that was just opened: bytes. `byte` is MPI_BYTE.
  View(const Representation& native, Datatype& byte);
  /// Errors: types that no view may have. `writable`: the file may be written. What the user's representation says is
  /// asked for later (`prepare`). The representations and `types` outlive the view.
  static Error make(int64_t displacement, Datatype& etype, Datatype& filetype, const Representation& representation,
                    const Representation& native, bool writable, PredefinedTypes& types,
                    std::shared_ptr<const View>& made);

  const Datatype& etype() const { return *etype_; }
  const Datatype& filetype() const { return *filetype_; }
  const Representation& representation() const { return *representation_; }
  int64_t displacement() const { return displacement_; }

  /// Before the first of the functions below, inside of a call that may run the user's callbacks. Error: what they say.
  Error prepare() const;
  /// Length of an etype in the file in accesses of that direction; 0 for an empty one.
  int64_t etype_bytes(bool write) const { return side(write).etype_bytes; }
  const Pattern& pattern(bool write) const { return *side(write).pattern; }
  bool converts(bool write) const { return representation_->converts(write); }
  /// The first etype that begins at or after the file offset: the position from which MPI_SEEK_END counts.
  int64_t etypes_below(int64_t offset) const;

 private:
  struct Side {
    int64_t etype_bytes = 0;
    std::optional<Pattern> pattern;
  };
  View() = default;
  const Side& side(bool write) const { return sides_[write && !one_side_ ? 1 : 0]; }
  Error make_side(const Representation& representation, Side& side) const;
  static Error check(const Pattern& pattern, bool writable);

  int64_t displacement_ = 0;
  Ref<Datatype> etype_, filetype_;
  const Representation* representation_ = nullptr;
  const Representation* native_ = nullptr;
  PredefinedTypes* types_ = nullptr;
  bool writable_ = false;
  // Reading and writing differ only where the user converts in one direction.
  mutable bool one_side_ = true, prepared_ = false;
  mutable Side sides_[2];
};

}  // namespace tern::io
