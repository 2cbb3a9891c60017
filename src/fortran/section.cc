// Copies and datatypes of array sections that are not contiguous. Source: MPI 5.0 section 19.1.12.
#include "fortran/section.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

namespace tern::fortran {

bool Descriptor::contiguous_slow() const {
  ptrdiff_t expected = 1, elements = 1;
  for (int d = 0; d < rank; ++d) elements *= dim[d].extent();
  if (elements <= 1) return true;
  if (bytes_apart() != element_bytes) return false;
  for (int d = 0; d < rank; ++d) {
    if (dim[d].extent() > 1 && dim[d].stride != expected) return false;
    expected *= dim[d].extent();
  }
  return true;
}

namespace {

/// Calls visit(address, bytes) for every contiguous run of a section, in Fortran's order.
template <typename Visit>
void for_each_run(const Descriptor& section, Visit visit) {
  size_t element = section.element_bytes;
  auto apart = static_cast<ptrdiff_t>(section.bytes_apart());
  bool joined = section.dim[0].stride * apart == static_cast<ptrdiff_t>(element);
  size_t run = joined ? element * static_cast<size_t>(section.dim[0].extent()) : element;
  ptrdiff_t index[15] = {};
  auto* at = static_cast<char*>(section.base);
  const int first = joined ? 1 : 0;
  for (;;) {
    visit(at, run);
    int d = first;
    for (; d < section.rank; ++d) {
      ptrdiff_t step = section.dim[d].stride * apart;
      at += step;
      if (++index[d] < section.dim[d].extent()) break;
      at -= step * index[d];
      index[d] = 0;
    }
    if (d >= section.rank) return;
  }
}

size_t bytes_of(const Descriptor& section) {
  size_t bytes = section.element_bytes;
  for (int d = 0; d < section.rank; ++d) bytes *= static_cast<size_t>(section.dim[d].extent());
  return bytes;
}

}  // namespace

namespace {

char* gathered(const Descriptor& section) {
  char* copy = new char[bytes_of(section)];
  char* to = copy;
  for_each_run(section, [&](char* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
  return copy;
}

void spread(const Descriptor& section, const char* from) {
  for_each_run(section, [&](char* to, size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  });
}

/// Copies of operations under way, by request. The descriptor is the caller's: copied.
struct Kept {
  Descriptor section;
  Copy copy;
  char* copied;
};
struct Operations {
  std::mutex mutex;
  std::unordered_multimap<int, Kept> kept;
};
Operations& operations() {
  static Operations* all = new Operations;  // never destroyed: MPI_Finalize may run at exit
  return *all;
}

}  // namespace

void Packed::gather() { data_ = copied_ = gathered(*section_); }
void Packed::spread() { fortran::spread(*section_, copied_); }

void Deferred::gather() { data_ = copied_ = gathered(*section_); }
void Deferred::keep_slow(int request) {
  std::lock_guard<std::mutex> guard(operations().mutex);
  operations().kept.emplace(request, Kept{*section_, copy_, copied_});
  copied_ = nullptr;
  deferred_operations.fetch_add(1, std::memory_order_release);
}

std::atomic<int> deferred_operations = 0;

void land_slow(int request) {
  std::lock_guard<std::mutex> guard(operations().mutex);
  auto [first, last] = operations().kept.equal_range(request);
  for (auto it = first; it != last; ++it) {
    if (it->second.copy == Copy::in_out) spread(it->second.section, it->second.copied);
    delete[] it->second.copied;
    deferred_operations.fetch_sub(1, std::memory_order_release);
  }
  operations().kept.erase(first, last);
}

namespace {

/// The first units of a nest of dimensions as a datatype. A nest of 3 x 4 columns, 7 units wanted:
///
///   x x x x     two columns of three whole, and one unit of the third:
///   x x . .     struct { hvector(2, column) at 0, take(1 of a column) at 2 strides }
///   x x . .
class Nest {
 public:
  explicit Nest(MPI_Datatype unit) : unit_(unit) {}
  void add(int64_t extent, int64_t stride_bytes) { dims_.push_back({extent, stride_bytes}); }
  int64_t units() const { return below(dims_.size()); }
  MPI_Datatype take(int64_t n) const { return take(dims_.size(), n); }

 private:
  struct Dim {
    int64_t extent, stride;
  };
  int64_t below(size_t level) const {
    int64_t n = 1;
    for (size_t d = 0; d < level; ++d) n *= dims_[d].extent;
    return n;
  }
  MPI_Datatype take(size_t level, int64_t n) const {
    MPI_Datatype made;
    if (level == 0) {
      PMPI_Type_dup(unit_, &made);
      return made;
    }
    const int64_t inner = below(level - 1), whole = n / inner, rest = n % inner, stride = dims_[level - 1].stride;
    MPI_Datatype parts[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    if (whole > 0) {
      MPI_Datatype one = take(level - 1, inner);
      PMPI_Type_create_hvector_c(whole, 1, stride, one, &parts[0]);
      PMPI_Type_free(&one);
      if (rest == 0) return parts[0];
    }
    parts[1] = take(level - 1, rest);
    if (whole == 0) return parts[1];
    const MPI_Count lengths[2] = {1, 1}, places[2] = {0, whole * stride};
    PMPI_Type_create_struct_c(2, lengths, places, parts, &made);
    for (MPI_Datatype& part : parts) PMPI_Type_free(&part);
    return made;
  }
  MPI_Datatype unit_;
  std::vector<Dim> dims_;
};

}  // namespace

void Section::describe(const Descriptor& section) {
  MPI_Count size = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  if (count_ <= 0) return;
  if ((error_ = PMPI_Type_size_c(type_, &size)) != MPI_SUCCESS || size <= 0) return;
  PMPI_Type_get_extent_c(type_, &lower, &extent);
  PMPI_Type_get_true_extent_c(type_, &true_lower, &true_extent);
  if (lower != 0 || extent != size || true_lower != 0 || true_extent != size) {
    error_ = MPI_ERR_TYPE;
    return;
  }
  // Units of the user's datatype where elements are whole numbers of them, else bytes.
  const auto element = static_cast<int64_t>(section.element_bytes);
  const bool whole = element % size == 0;
  const int64_t unit = whole ? size : 1, wanted = whole ? count_ : count_ * size;
  Nest nest(whole ? type_ : MPI_BYTE);
  if (element != unit) nest.add(element / unit, unit);
  for (int d = 0; d < section.rank; ++d)
    nest.add(section.dim[d].extent(), section.dim[d].stride * static_cast<int64_t>(section.bytes_apart()));
  if (wanted > nest.units()) {
    error_ = MPI_ERR_COUNT;
    return;
  }
  type_ = nest.take(wanted);
  count_ = 1;
  made_ = true;
  error_ = PMPI_Type_commit(&type_);
}

}  // namespace tern::fortran
