// The variables of the program that a place in its code sees: from the debug information of the file that the code is
// of. Those of functions in the frames of the stack, and those of a whole compilation. Only where a variable lies in
// memory for as long as it lives: what is in registers is not found. Only of C and C++.
// Thread rule: used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backtrace.h"
#include "base/dwarf.h"
#include "check/source_types.h"

namespace tern::check {

/// A variable, now.
struct Variable {
  std::string name;
  uint64_t type = 0;  ///< of SourceTypes
  uintptr_t begin = 0;
  uint64_t bytes = 0;
};

/// Where a program or shared library is in memory. `loaded`: what its addresses are relative to.
struct LoadedFile {
  uintptr_t loaded = 0, begin = 0, end = 0;
};

/// Of one program or shared library.
class VariablesOfFile {
 public:
  VariablesOfFile(std::unique_ptr<dwarf::File> file, const LoadedFile& where)
      : file_(std::move(file)), types_(*file_), where_(where) {}

  const SourceTypes& types() const { return types_; }
  /// What the code in a frame sees: the variables of the function's blocks, and those of its compilation.
  std::vector<Variable> visible(const Frame& frame, uintptr_t end_of_frame);

 private:
  struct Place {
    enum class Base : uint8_t { absolute, frame } base = Base::absolute;
    int64_t offset = 0;
  };
  struct Known {
    std::string name;
    uint64_t type;
    Place place;
  };
  /// What is visible at one place in the code.
  struct Scope {
    std::vector<Known> variables;
    enum class FrameBase : uint8_t { unknown, end, stack_pointer, frame_pointer } base = FrameBase::unknown;
    int64_t base_offset = 0;
  };
  const Scope& scope(uint64_t pc);
  void collect(const dwarf::Unit& unit, uint64_t at, uint64_t pc, int depth, Scope& scope) const;
  void add(const dwarf::Unit& unit, const dwarf::Entry& entry, Scope& scope) const;
  static void set_frame_base(const dwarf::Entry& function, Scope& scope);
  bool place_of(const dwarf::Unit& unit, const dwarf::Entry& entry, Place& place) const;

  std::unique_ptr<dwarf::File> file_;
  SourceTypes types_;
  const LoadedFile where_;
  std::map<uint64_t, Scope> scopes_;  ///< by address in the file
};

/// Of all files of this process.
class Variables {
 public:
  /// Null: nothing is known of the code there.
  VariablesOfFile* of(uintptr_t pc);

 private:
  std::map<uintptr_t, std::unique_ptr<VariablesOfFile>> files_;  ///< by where they are loaded
};

}  // namespace tern::check
