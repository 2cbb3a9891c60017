// Data representations: how values look in a file. native and internal: as in memory. external32: big-endian, fixed
// lengths, no padding. The user's: by callbacks (capi/datarep.cc).
//
// An etype or filetype describes the file. For a representation that converts, the type in the file is the user's type
// built again from predefined types of the file's lengths (file_type): displacements that count elements scale,
// displacements in bytes stay as they are. Source: MPI 5.0, 14.5. Units: bytes; items are values of predefined types, a
// value-index pair is one. Thread rule: under the rank's lock.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "datatype/predefined.h"

namespace tern::io {

class Representation {
 public:
  explicit Representation(std::string name) : name_(std::move(name)) {}
  virtual ~Representation() = default;
  const std::string& name() const { return name_; }

  /// Whether data differ between memory and file in this direction. False: the functions below are not called for it.
  virtual bool converts(bool write) const { return false; }
  /// Whether the conversion is the user's code: only in calls that the user has made.
  virtual bool calls_user() const { return false; }
  /// Length of a value in the file.
  virtual Error length_of(const Kind& kind, Count& bytes) const {
    bytes = kind.size;
    return {};
  }
  /// `items` values from `count` elements of `type` at `memory` to `file`, one after the other; and back.
  virtual Error to_file(const void* memory, Count count, Datatype& type, Count items, std::byte* file) const;
  virtual Error from_file(const std::byte* file, Count items, void* memory, Count count, Datatype& type) const;

 private:
  std::string name_;
};

/// Those of one rank, by name.
class Representations {
 public:
  Representations();
  /// Null: there is none of that name.
  const Representation* find(std::string_view name) const;
  void add(std::unique_ptr<Representation> representation);
  const Representation& native() const { return *native_; }

 private:
  std::map<std::string, std::unique_ptr<Representation>, std::less<>> all_;
  const Representation* native_;
};

/// Bytes in the file of `count` elements of `type`. Error: the user's callback, or more than 62 bits.
Error file_bytes(const Representation& representation, Count count, const Datatype& type, Count& bytes);

/// The content of the first `bytes` bytes of data in the file: whole values, and their length in memory and in the
/// file.
struct Prefix {
  Count items = 0, memory_bytes = 0, file_bytes = 0;
};
Error prefix_of(const Representation& representation, Count count, const Datatype& type, Count bytes, Prefix& prefix);

/// The prefix that holds the first `items` values.
Error prefix_of_items(const Representation& representation, Count count, const Datatype& type, Count items,
                      Prefix& prefix);

/// The type as it lies in the file. `types` gives MPI_BYTE.
Error file_type(const Representation& representation, PredefinedTypes& types, Datatype& type, Ref<Datatype>& made);

}  // namespace tern::io
