// Array descriptors: what mpi_f08 passes for a choice buffer, TYPE(*), DIMENSION(..), and how a section that is not
// contiguous reaches C. MPI sees the elements of the section as if they stood one after the other (19.1.12):
//
//   blocking calls     copy the section together, call, and spread it again (Packed)
//   nonblocking calls  describe the part that is meant by a datatype (Section), freed once the operation has started;
//                      where that cannot be (blocks, displacements, reductions), a copy that is spread when the program
//                      learns of the completion (Deferred, below)
//
// The procedures are ordinary Fortran procedures, not BIND(C): so that users may put a Fortran procedure of the same
// specific name in front of them (the profiling interface, 19.1.5). Therefore the descriptor is the compiler's own;
// here gfortran's (libgfortran's since GCC 9). Thread rule: objects belong to the call that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fortran/bridge.h"

namespace tern::fortran {

struct Dimension {
  ptrdiff_t stride;  ///< in elements of `span` bytes
  ptrdiff_t lower, upper;
  ptrdiff_t extent() const { return upper >= lower ? upper - lower + 1 : 0; }
};

struct Descriptor {
  void* base;  ///< the first element
  ptrdiff_t offset;
  size_t element_bytes;
  int version;
  signed char rank;
  signed char type;
  short attribute;
  ptrdiff_t span;  ///< bytes from one element of the parent array to the next
  Dimension dim[15];

  /// Also true for what has no known size (assumed size) and for what has no elements.
  bool contiguous() const {
    if (rank == 0) return true;
    if (rank == 1 && dim[0].stride == 1 && bytes_apart() == element_bytes) return true;
    return contiguous_slow();
  }
  size_t bytes_apart() const { return span > 0 ? static_cast<size_t>(span) : element_bytes; }

 private:
  bool contiguous_slow() const;
};

enum class Copy { in, in_out };

/// A contiguous copy of a section for the time of a blocking call.
class Packed {
 public:
  Packed(const Descriptor* section, Copy copy) : section_(section), copy_(copy) {
    if (section->contiguous()) {
      data_ = c_address(section->base);
    } else {
      gather();
    }
  }
  ~Packed() { delete[] copied_; }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  void* data() { return data_; }
  /// Writes back what the call may have changed.
  void give() {
    if (copied_ && copy_ == Copy::in_out) spread();
  }

 private:
  void gather();
  void spread();
  const Descriptor* section_;
  Copy copy_;
  void* data_ = nullptr;
  char* copied_ = nullptr;
};

/// The first `count` items of `type` in a section, as an address, a count and a datatype.
class Section {
 public:
  Section(const Descriptor* section, int64_t count, MPI_Datatype type)
      : data_(c_address(section->base)), count_(count), type_(type) {
    if (!section->contiguous()) describe(*section);
  }
  ~Section() {
    if (made_) PMPI_Type_free(&type_);
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  void* data() const { return data_; }
  int64_t count() const { return count_; }
  MPI_Datatype type() const { return type_; }
  /// MPI_ERR_COUNT: the section has fewer elements; MPI_ERR_TYPE: the datatype has gaps.
  int error() const { return error_; }

 private:
  void describe(const Descriptor& section);
  void* data_;
  int64_t count_;
  MPI_Datatype type_;
  bool made_ = false;
  int error_ = MPI_SUCCESS;
};

/// A contiguous copy of a section for a nonblocking collective. It belongs to the request until a call from Fortran
/// completes that; C cannot complete it for Fortran.
class Deferred {
 public:
  Deferred(const Descriptor* section, Copy copy) : section_(section), copy_(copy), data_(section->base) {
    if (section->contiguous()) {
      data_ = c_address(section->base);
    } else {
      gather();
    }
  }
  ~Deferred() { delete[] copied_; }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  void* data() const { return data_; }
  /// The operation has started: the copy is the request's.
  void keep(MPI_Request request) {
    if (copied_) keep_slow(to_int(request));
  }

 private:
  void gather();
  void keep_slow(int request);
  const Descriptor* section_;
  Copy copy_;
  void* data_;
  char* copied_ = nullptr;
};

/// For memory that MPI uses later and that no datatype describes (windows, attached buffers, persistent
/// collectives): only what is contiguous will do.
class Contiguous {
 public:
  explicit Contiguous(const Descriptor* section) : section_(section) {}
  void* data() const { return c_address(section_->base); }
  int error() const { return section_->contiguous() ? MPI_SUCCESS : MPI_ERR_BUFFER; }

 private:
  const Descriptor* section_;
};

}  // namespace tern::fortran
