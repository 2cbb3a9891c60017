#include "check/variables.h"

#include <link.h>

#include <algorithm>
#include <cstring>

namespace tern::check {

using dwarf::Entry;
using dwarf::Unit;
using dwarf::Value;

namespace {

constexpr int kMaxDepth = 60;  // of scopes in each other; a damaged file might have more

// The operations that are understood (DWARF 5, 7.7.1).
constexpr uint8_t kAddress = 0x03, kRegister = 0x50, kBaseRegister = 0x70, kFrameOffset = 0x91, kFrameEnd = 0x9c,
                  kAddressIndex = 0xa1;
#if defined(__aarch64__)
constexpr uint8_t kFramePointer = 29, kStackPointer = 31;  // DWARF for the Arm 64-bit architecture, 4.1
#else
constexpr uint8_t kFramePointer = 6, kStackPointer = 7;  // System V ABI, AMD64 supplement, figure 3.36
#endif

// LEB128; what follows it must be nothing.
bool last_number(std::string_view bytes, bool is_signed, int64_t& number) {
  uint64_t result = 0;
  unsigned shift = 0;
  for (size_t i = 0; i < bytes.size() && shift < 64; ++i, shift += 7) {
    const auto byte = uint8_t(bytes[i]);
    result |= uint64_t(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    if (is_signed && (byte & 0x40) && shift + 7 < 64) result |= ~uint64_t{0} << (shift + 7);
    number = int64_t(result);
    return i + 1 == bytes.size();
  }
  return false;
}

// DWARF 5, 7.12. Fortran's arrays have descriptors and bounds of their own.
bool is_c(uint64_t language) {
  switch (language) {
    case 0x01:
    case 0x02:
    case 0x04:
    case 0x0c:
    case 0x19:
    case 0x1a:
    case 0x1d:
    case 0x21:
    case 0x2a:
    case 0x2b:
    case 0x2c: return true;
    default: return false;
  }
}

bool is_scope(uint16_t tag) {
  return tag == dwarf::kSubprogram || tag == dwarf::kLexicalBlock || tag == dwarf::kInlinedSubroutine;
}

}  // namespace

std::vector<Variable> VariablesOfFile::visible(const Frame& frame, uintptr_t end_of_frame) {
  const Scope& found =
      scope(frame.pc - 1 - where_.loaded);  // into the call, which may be the last instruction of its block
  uintptr_t base = 0;
  switch (found.base) {
    case Scope::FrameBase::unknown: break;
    case Scope::FrameBase::end: base = end_of_frame; break;
    case Scope::FrameBase::stack_pointer: base = frame.sp; break;
    case Scope::FrameBase::frame_pointer: base = frame.fp; break;
  }
  std::vector<Variable> variables;
  for (const Known& known : found.variables) {
    const bool absolute = known.place.base == Place::Base::absolute;
    if (!absolute && base == 0) continue;
    const uintptr_t begin = absolute ? where_.loaded + uintptr_t(known.place.offset)
                                     : base + uintptr_t(found.base_offset + known.place.offset);
    const uint64_t bytes = types_.size(known.type);
    // A variable lies in its frame, or in its file's memory, or its description is not understood.
    const uintptr_t from = absolute ? where_.begin : frame.sp, to = absolute ? where_.end : end_of_frame;
    if (begin < from || begin >= to || bytes > to - begin) continue;
    variables.push_back({known.name, known.type, begin, bytes});
  }
  return variables;
}

const VariablesOfFile::Scope& VariablesOfFile::scope(uint64_t pc) {
  const auto [known, added] = scopes_.try_emplace(pc);
  if (!added) return known->second;
  for (const Unit& unit : file_->units()) {
    const Entry root = file_->entry(unit, unit.first);
    if (root.tag != dwarf::kCompileUnit || !is_c(root.language.number)) continue;
    if (!file_->contains(unit, root, pc)) continue;
    collect(unit, root.next, pc, 0, known->second);
    break;
  }
  return known->second;
}

// The entries from `at` to the end of their list.
void VariablesOfFile::collect(const Unit& unit, uint64_t at, uint64_t pc, int depth, Scope& scope) const {
  while (at != 0 && depth < kMaxDepth) {
    const Entry entry = file_->entry(unit, at);
    if (!entry || entry.tag == 0) return;
    if (entry.tag == dwarf::kVariable || entry.tag == dwarf::kFormalParameter) {
      add(unit, entry, scope);
    } else if (entry.has_children) {
      const bool inside = is_scope(entry.tag) && file_->contains(unit, entry, pc);
      // A block without code of its own keeps variables together (GCC has such).
      if (inside && entry.tag == dwarf::kSubprogram) set_frame_base(entry, scope);
      if (inside || entry.tag == dwarf::kNamespace || entry.tag == dwarf::kModule)
        collect(unit, entry.next, pc, depth + 1, scope);
    }
    at = file_->behind(unit, entry);
  }
}

void VariablesOfFile::set_frame_base(const Entry& function, Scope& scope) {
  using Base = Scope::FrameBase;
  const std::string_view expression = function.frame_base.bytes;
  scope.base = Base::unknown;
  scope.base_offset = 0;
  if (function.frame_base.kind != Value::Kind::block || expression.empty()) return;
  const auto operation = uint8_t(expression[0]);
  const std::string_view rest = expression.substr(1);
  if (operation == kFrameEnd && rest.empty()) scope.base = Base::end;
  else if (operation == kRegister + kFramePointer && rest.empty()) scope.base = Base::frame_pointer;
  else if (operation == kRegister + kStackPointer && rest.empty()) scope.base = Base::stack_pointer;
  else if (operation == kBaseRegister + kFramePointer && last_number(rest, true, scope.base_offset))
    scope.base = Base::frame_pointer;
  else if (operation == kBaseRegister + kStackPointer && last_number(rest, true, scope.base_offset))
    scope.base = Base::stack_pointer;
}

bool VariablesOfFile::place_of(const Unit& unit, const Entry& entry, Place& place) const {
  const std::string_view expression = entry.location.bytes;
  if (entry.location.kind != Value::Kind::block || expression.empty()) return false;
  const std::string_view rest = expression.substr(1);
  switch (uint8_t(expression[0])) {
    case kFrameOffset: place.base = Place::Base::frame; return last_number(rest, true, place.offset);
    case kAddress:
      place.base = Place::Base::absolute;
      if (rest.size() != sizeof place.offset) return false;
      std::memcpy(&place.offset, rest.data(), sizeof place.offset);
      return true;
    case kAddressIndex: {
      int64_t index = 0;
      if (!last_number(rest, false, index)) return false;
      place.base = Place::Base::absolute;
      place.offset = int64_t(file_->address(unit, uint64_t(index)));
      return place.offset != 0;
    }
    default: return false;
  }
}

void VariablesOfFile::add(const Unit& unit, const Entry& entry, Scope& scope) const {
  Known known{std::string(entry.name), entry.type.number, {}};
  if (!place_of(unit, entry, known.place)) return;
  // What is compiled several times, or defined elsewhere than declared, is named there.
  if (entry.origin.kind == Value::Kind::reference) {
    if (const Unit* other = file_->unit_of(entry.origin.number)) {
      const Entry origin = file_->entry(*other, entry.origin.number);
      if (known.name.empty()) known.name = origin.name;
      if (known.type == 0) known.type = origin.type.number;
    }
  }
  if (known.type != 0 && !known.name.empty()) scope.variables.push_back(std::move(known));
}

namespace {

struct Question {
  uintptr_t pc;
  LoadedFile where;
  std::string path;
};

int on_file(dl_phdr_info* file, size_t, void* to) {
  auto& question = *static_cast<Question*>(to);
  LoadedFile where{file->dlpi_addr, UINTPTR_MAX, 0};
  bool found = false;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const auto& segment = file->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t begin = file->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
    where.begin = std::min(where.begin, begin);
    where.end = std::max(where.end, end);
    found = found || (question.pc >= begin && question.pc < end);
  }
  if (!found) return 0;
  question.where = where;
  question.path = file->dlpi_name && *file->dlpi_name ? file->dlpi_name : "/proc/self/exe";
  return 1;
}

}  // namespace

VariablesOfFile* Variables::of(uintptr_t pc) {
  Question question{pc, {}, {}};
  if (dl_iterate_phdr(on_file, &question) == 0) return nullptr;
  const auto [known, added] = files_.try_emplace(question.where.loaded);
  if (added) {
    if (auto file = dwarf::File::open(question.path))
      known->second = std::make_unique<VariablesOfFile>(std::move(file), question.where);
  }
  return known->second.get();
}

}  // namespace tern::check
