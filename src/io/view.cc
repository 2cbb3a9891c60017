#include "io/view.h"

#include <algorithm>

namespace tern::io {

namespace {
// Offsets stay below this, so that sums of two never overflow.
constexpr int64_t kMaxOffset = int64_t{1} << 62;

Ref<Datatype> bytes_laid_out(int64_t extent, const Layout& layout) {
  Datatype::Parts parts;
  parts.layout = layout;
  parts.signature = signature::repeat(layout.size(), signature::basic(*kind_of(type_id::kByte)));
  Bounds& bounds = parts.bounds;
  bounds.upper = extent;
  bounds.markers = true;
  bounds.empty = false;
  if (layout.node) {
    bounds.true_lower = layout.offset + first_offset(*layout.node);
    bounds.true_upper = layout.offset + end_offset(*layout.node);
  }
  return Ref<Datatype>::adopt(new Datatype(std::move(parts)));
}
}  // namespace

Pattern::Pattern(int64_t displacement, int64_t extent, const Layout& layout)
    : Pattern(displacement, bytes_laid_out(extent, layout)) {}

Pattern::Pattern(int64_t displacement, Ref<Datatype> type)
    : displacement_(displacement), type_(std::move(type)), tile_bytes_(uint64_t(type_->size())) {
  const Layout& layout = type_->layout();
  if (!layout.node) return;
  first_ = layout.offset + first_offset(*layout.node);
  contiguous_ = layout.node->kind == LayoutNode::Kind::block && type_->extent() == type_->size();
  course_ = course_of(layout, 0);
  const Course copies = course_of(layout, type_->extent());
  only_first_ = copies == Course::backward && course_ != Course::backward;
  if (!only_first_) course_ = copies;
}

int64_t Pattern::offset_of(uint64_t position) const {
  if (contiguous_) return begin() + int64_t(position);
  iovec piece;
  size_t bytes;
  Cursor at = cursor(nullptr, position, 1);
  at.segments(std::span(&piece, 1), 1, bytes);
  return reinterpret_cast<intptr_t>(piece.iov_base);
}

bool Pattern::reaches(uint64_t position) const {
  if (tile_bytes_ == 0 || position == 0) return true;
  if (only_first_ && position > tile_bytes_) return false;
  const uint64_t tiles = (position - 1) / tile_bytes_;
  const int64_t last = type_->bounds().true_upper;
  int64_t span = 0;
  if (tiles > uint64_t(kMaxOffset) || __builtin_mul_overflow(int64_t(tiles), type_->extent(), &span)) return false;
  return span < kMaxOffset && displacement_ < kMaxOffset - span && last < kMaxOffset - span - displacement_;
}

uint64_t Pattern::below(int64_t offset) const {
  const int64_t distance = offset - begin();
  if (distance <= 0 || tile_bytes_ == 0) return 0;
  if (contiguous_) return uint64_t(distance);
  const int64_t extent = type_->extent();
  const int64_t tile = extent > 0 && !only_first_ ? (distance - 1) / extent : 0;
  const int64_t inside = offset - displacement_ - type_->layout().offset - tile * extent;
  return uint64_t(tile) * tile_bytes_ + uint64_t(bytes_below(*type_->layout().node, inside));
}

double Pattern::pieces_in(uint64_t bytes) const {
  if (contiguous_ || tile_bytes_ == 0) return 1;
  return std::max(1.0, double(type_->segments()) * double(bytes) / double(tile_bytes_));
}

Cursor Pattern::cursor(std::byte* file, uint64_t position, uint64_t bytes) const {
  const uint64_t tiles = tile_bytes_ == 0 ? 0 : (position + bytes + tile_bytes_ - 1) / tile_bytes_;
  // An address that may lie outside of all memory: only differences of it are used.
  Cursor cursor(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(file) + uintptr_t(displacement_)),
                Count(tiles), *type_);
  cursor.seek(position);
  cursor.truncate(bytes);
  return cursor;
}

View::View(const Representation& native, Datatype& byte)
    : etype_(Ref<Datatype>::share(&byte)),
      filetype_(Ref<Datatype>::share(&byte)),
      representation_(&native),
      native_(&native),
      prepared_(true) {
  sides_[0].etype_bytes = 1;
  sides_[0].pattern.emplace(0, filetype_);
}

Error View::make(int64_t displacement, Datatype& etype, Datatype& filetype, const Representation& representation,
                 const Representation& native, bool writable, PredefinedTypes& types,
                 std::shared_ptr<const View>& made) {
  std::shared_ptr<View> view(new View);
  view->displacement_ = displacement;
  view->etype_ = Ref<Datatype>::share(&etype);
  view->filetype_ = Ref<Datatype>::share(&filetype);
  view->representation_ = &representation;
  view->native_ = &native;
  view->types_ = &types;
  view->writable_ = writable;
  if (etype.size() == 0 ? filetype.size() != 0 : filetype.size() % etype.size() != 0) {
    return Error(ErrorClass::arg, "argument 'filetype' has " + std::to_string(filetype.size()) +
                                      " bytes of data, which is no multiple of the etype's " +
                                      std::to_string(etype.size()) + ". Build the filetype from copies of the etype.");
  }
  if (!representation.calls_user()) {
    if (Error error = view->prepare()) return error;
  }
  made = std::move(view);
  return {};
}

Error View::check(const Pattern& pattern, bool writable) {
  const Bounds& bounds = pattern.type().bounds();
  if (pattern.tile_bytes() == 0) return {};
  if (bounds.true_lower < 0)
    return Error(ErrorClass::io, "argument 'filetype' has data at the displacement " +
                                     std::to_string(bounds.true_lower) +
                                     ". Displacements in a filetype must not be negative.");
  if (pattern.course() == Course::backward)
    return Error(ErrorClass::io,
                 "argument 'filetype' has displacements that decrease. Displacements in a view must not decrease (MPI "
                 "5.0, 14.3).");
  if (writable && pattern.course() == Course::overlaps)
    return Error(ErrorClass::io,
                 "argument 'filetype' shows some bytes twice, which is allowed for files opened with MPI_MODE_RDONLY "
                 "only");
  return {};
}

Error View::make_side(const Representation& representation, Side& side) const {
  const bool same = !representation.converts(false) && !representation.converts(true);
  if (same) {
    side.etype_bytes = etype_->size();
    side.pattern.emplace(displacement_, filetype_);
    return check(*side.pattern, writable_);
  }
  Ref<Datatype> etype, filetype;
  if (Error error = file_type(representation, *types_, *etype_, etype)) return error;
  if (Error error = file_type(representation, *types_, *filetype_, filetype)) return error;
  side.etype_bytes = etype->size();
  side.pattern.emplace(displacement_, std::move(filetype));
  return check(*side.pattern, writable_);
}

Error View::prepare() const {
  if (prepared_) return {};
  const bool reads = representation_->converts(false), writes = representation_->converts(true);
  // A direction without a conversion is native (MPI 5.0, 14.5.3.2: MPI_CONVERSION_FN_NULL).
  if (Error error = make_side(reads ? *representation_ : *native_, sides_[0])) return error;
  one_side_ = reads == writes;
  if (!one_side_) {
    if (Error error = make_side(writes ? *representation_ : *native_, sides_[1])) return error;
  }
  prepared_ = true;
  return {};
}

int64_t View::etypes_below(int64_t offset) const {
  const Side& side = sides_[0];
  if (side.etype_bytes == 0) return 0;
  if (side.pattern->course() == Course::forward) {
    const auto below = int64_t(side.pattern->below(offset));
    return (below + side.etype_bytes - 1) / side.etype_bytes;
  }
  // Bytes that the view shows twice: the first etype whose first byte lies there, found by bisection.
  int64_t low = 0, high = 1;
  const auto begins = [&](int64_t etypes) {
    const uint64_t position = uint64_t(etypes) * uint64_t(side.etype_bytes);
    return !side.pattern->reaches(position + 1) || side.pattern->offset_of(position) >= offset;
  };
  while (high < kMaxOffset / side.etype_bytes && !begins(high)) high *= 2;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (begins(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

}  // namespace tern::io
