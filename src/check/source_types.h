// The types of the program's source as its debug information has them: what lies at an offset in an object of a type.
// Thread rule: used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "base/dwarf.h"

namespace tern::check {

/// What lies at an offset: a basic object and where in it. `raw`: characters, of which any data may be made;
/// `character`: only one of them, among other members.
struct Leaf {
  enum class Kind : uint8_t {
    unknown,
    raw,
    character,
    padding,
    boolean,
    signed_integer,
    unsigned_integer,
    floating,
    complex,
    pointer,
    enumeration
  };
  Kind kind = Kind::unknown;
  uint64_t bytes = 0;   ///< of the basic object
  uint64_t offset = 0;  ///< in it
  std::string type;     ///< "unsigned int"
};

/// `type`: the offset of its entry; 0: unknown, or void.
class SourceTypes {
 public:
  explicit SourceTypes(const dwarf::File& file) : file_(file) {}

  /// 0: not known when the program is compiled.
  uint64_t size(uint64_t type) const { return size(type, 0); }
  Leaf leaf(uint64_t type, uint64_t offset) const { return leaf(type, offset, 0); }
  /// What a pointer or reference refers to; 0: no pointer, or to something unknown.
  uint64_t target(uint64_t type) const;
  /// "int[1000]", "struct S".
  std::string name(uint64_t type) const { return name(type, 0); }

 private:
  /// Types may refer to themselves in a damaged file.
  static constexpr int kMaxDepth = 40;
  struct Found {
    const dwarf::Unit* unit = nullptr;
    dwarf::Entry entry;
  };
  Found find(uint64_t type) const;
  /// Without typedef, const, and the like.
  Found plain(uint64_t type) const;
  uint64_t size(uint64_t type, int depth) const;
  Leaf leaf(uint64_t type, uint64_t offset, int depth) const;
  Leaf member(const Found& structure, uint64_t offset, int depth) const;
  std::string name(uint64_t type, int depth) const;
  /// Calls on_dimension(elements) for each, the outermost first; 0: unknown.
  template <typename Function>
  void dimensions(const Found& array, Function on_dimension) const;

  const dwarf::File& file_;
};

}  // namespace tern::check
