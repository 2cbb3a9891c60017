// The debug information of a program or shared library (DWARF 2 to 5, .debug_info of ELF files) as entries with
// attributes, each read when it is asked for. Only what TERN_CHECK needs of it: variables, their types and scopes.
// The file is not trusted: every read is bounded, and what cannot be read is as if it were not there. Compressed
// sections, 64-bit DWARF and split files are not read. Source: DWARF 5, chapters 2, 3 and 7.
// Thread rule: used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tern::dwarf {

enum Tag : uint16_t {
  kArrayType = 0x01,
  kClassType = 0x02,
  kEnumerationType = 0x04,
  kFormalParameter = 0x05,
  kLexicalBlock = 0x0b,
  kMember = 0x0d,
  kPointerType = 0x0f,
  kReferenceType = 0x10,
  kCompileUnit = 0x11,
  kStructureType = 0x13,
  kTypedef = 0x16,
  kUnionType = 0x17,
  kInheritance = 0x1c,
  kInlinedSubroutine = 0x1d,
  kModule = 0x1e,
  kSubrangeType = 0x21,
  kBaseType = 0x24,
  kConstType = 0x26,
  kSubprogram = 0x2e,
  kVariable = 0x34,
  kVolatileType = 0x35,
  kRestrictType = 0x37,
  kNamespace = 0x39,
  kRvalueReferenceType = 0x42,
  kAtomicType = 0x47,
};

/// The value of an attribute.
struct Value {
  enum class Kind : uint8_t { none, number, address, block, text, reference };
  Kind kind = Kind::none;
  uint64_t number = 0;     ///< also addresses, and offsets of entries in .debug_info
  std::string_view bytes;  ///< of blocks and text
  bool is_number() const { return kind == Kind::number; }
};

/// One entry.
struct Entry {
  uint64_t offset = 0;  ///< in .debug_info; 0: there is none
  uint64_t next = 0;    ///< what follows its attributes
  uint16_t tag = 0;
  bool has_children = false;
  std::string_view name;
  Value low_pc, high_pc, ranges, type, origin, byte_size, encoding, upper_bound, count, member_offset, location,
      frame_base, sibling, language;
  bool bit_field = false, declaration = false, dynamic = false;
  explicit operator bool() const { return offset != 0; }
};

/// One compilation.
struct Unit {
  uint64_t begin = 0, end = 0, first = 0;  ///< in .debug_info; `first`: of its root
  uint64_t abbreviations = 0;
  uint16_t version = 0;
  uint8_t address_bytes = 8;
  uint64_t base = 0;  ///< address to which its ranges are relative
  uint64_t addresses_base = 0, strings_base = 0, ranges_base = 0;
};

class File {
 public:
  /// Null: no such file, or none with debug information. Errors are not told apart.
  static std::unique_ptr<File> open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// A file's content in memory that outlives this.
  explicit File(std::string_view content);

  const std::vector<Unit>& units() const { return units_; }
  /// The unit that contains the entry; null: none.
  const Unit* unit_of(uint64_t entry) const;
  Entry entry(const Unit& unit, uint64_t offset) const;
  /// What follows the entry and all its children; 0: the file is damaged.
  uint64_t behind(const Unit& unit, const Entry& entry) const;
  /// Whether the entry has code, and `pc` (an address in the file) is in it.
  bool contains(const Unit& unit, const Entry& entry, uint64_t pc) const;
  uint64_t address(const Unit& unit, uint64_t index) const;

 private:
  struct Attribute {
    uint16_t name, form;
    int64_t implicit;
  };
  struct Abbreviation {
    uint16_t tag = 0;
    bool has_children = false;
    std::vector<Attribute> attributes;
  };
  using Abbreviations = std::map<uint64_t, Abbreviation>;
  class Reader;

  void find_sections();
  void find_units();
  const Abbreviations& abbreviations(uint64_t offset) const;
  Value value(Reader& reader, const Unit& unit, uint16_t form, int64_t implicit) const;
  std::string_view text(std::string_view section, uint64_t offset) const;
  bool in_ranges(const Unit& unit, const Value& ranges, uint64_t pc) const;
  bool in_old_ranges(const Unit& unit, uint64_t offset, uint64_t pc) const;

  std::string_view content_;
  void* mapped_ = nullptr;
  std::string_view info_, abbrev_, strings_, line_strings_, string_offsets_, addresses_, ranges_, range_lists_;
  std::vector<Unit> units_;
  mutable std::map<uint64_t, Abbreviations> abbreviations_;
};

}  // namespace tern::dwarf
