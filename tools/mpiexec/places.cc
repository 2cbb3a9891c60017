#include "places.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#ifdef TERN_HAVE_BACKTRACE
#include <backtrace.h>
#endif
#ifdef TERN_HAVE_DEMANGLER
#define HAVE_DECL_BASENAME 1  // its header declares it differently from the C library
#include <libiberty/demangle.h>
#endif

namespace tern::mpiexec {
namespace {

std::string name_of_file(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// libbacktrace reads the file that it is given as if it were this program: at this program's address. So what is asked
// for is shifted there.
[[maybe_unused]] int first_file(dl_phdr_info* file, size_t, void* to) {
  *static_cast<uint64_t*>(to) = file->dlpi_addr;
  return 1;
}

/// What to add to an offset in the file; false: it is no ELF file of this kind of machine.
[[maybe_unused]] bool read_shift(const std::string& path, uint64_t& shift) {
  std::ifstream in(path, std::ios::binary);
  ElfW(Ehdr) header;
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  uint64_t first = ~uint64_t{0};
  in.seekg(std::streamoff(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment)) return false;
    if (segment.p_type == PT_LOAD) first = std::min<uint64_t>(first, segment.p_vaddr & ~uint64_t{0xfff});
  }
  if (first == ~uint64_t{0}) return false;
  shift = first;
  if (header.e_type == ET_DYN) {
    uint64_t own = 0;
    dl_iterate_phdr(first_file, &own);
    shift += own;
  }
  return true;
}

[[maybe_unused]] std::string plain_name(const char* name) {
#ifdef TERN_HAVE_DEMANGLER
  if (name[0] == '_' && name[1] == 'Z') {
    if (char* whole = cplus_demangle_v3(name, DMGL_NO_OPTS)) {
      std::string text = whole;
      std::free(whole);
      return text;
    }
  }
#endif
  return name;
}

}  // namespace

struct Places::File {
  void* symbols = nullptr;  ///< libbacktrace's, never freed, by its design; null: nothing is known of the file
  uint64_t shift = 0;
};

std::string SourcePlace::text() const {
  const std::string place = file.empty() ? fallback : fmt::format("{}:{}", file, line);
  return function.empty() ? place : fmt::format("{} ({})", function, place);
}

std::string SourcePlace::where() const { return file.empty() ? text() : fmt::format("{}:{}", file, line); }

Places::Places() = default;
Places::~Places() = default;

#ifdef TERN_HAVE_BACKTRACE
namespace {

void on_error(void*, const char*, int) {}  // less is known, which is no reason to say nothing

// Inlined functions are reported first: the innermost is the place.
int on_line(void* to, uintptr_t, const char* file, int line, const char* function) {
  auto& place = *static_cast<SourcePlace*>(to);
  if (file && place.file.empty()) {
    place.file = name_of_file(file);
    place.line = line;
  }
  if (function && place.function.empty()) place.function = plain_name(function);
  return 0;
}

void on_symbol(void* to, uintptr_t, const char* name, uintptr_t, uintptr_t) {
  auto& place = *static_cast<SourcePlace*>(to);
  if (name && place.function.empty()) place.function = plain_name(name);
}

}  // namespace

SourcePlace Places::find(const std::string& path, uint64_t offset) {
  SourcePlace place;
  place.fallback = fmt::format("{}+{:#x}", name_of_file(path), offset);
  const auto at = files_.try_emplace(path).first;
  auto& file = at->second;
  if (!file) {
    file = std::make_unique<File>();
    // libbacktrace keeps the pointer to the name.
    if (read_shift(path, file->shift))
      file->symbols = backtrace_create_state(at->first.c_str(), 0, on_error, nullptr);
  }
  if (!file->symbols) return place;
  auto* symbols = static_cast<backtrace_state*>(file->symbols);
  const uintptr_t call = file->shift + offset - 1;  // the call, which may be the last instruction of its line
  backtrace_pcinfo(symbols, call, on_line, on_error, &place);
  if (place.function.empty()) backtrace_syminfo(symbols, call, on_symbol, on_error, &place);
  return place;
}
#else
SourcePlace Places::find(const std::string& path, uint64_t offset) {
  SourcePlace place;
  place.fallback = fmt::format("{}+{:#x}", name_of_file(path), offset);
  return place;
}
#endif

}  // namespace tern::mpiexec
