#include "linked_mpi.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tern::mpiexec {
namespace {

// False: it does not lie in the file.
template <typename T>
bool read_at(std::string_view content, uint64_t offset, T& value) {
  if (offset > content.size() || content.size() - offset < sizeof value) return false;
  std::memcpy(&value, content.data() + offset, sizeof value);
  return true;
}

/// The dynamic section and its strings, as addresses in the program's memory.
struct Dynamic {
  uint64_t strings = 0;
  std::vector<uint64_t> needed;  ///< offsets in the strings
  std::vector<uint64_t> runpath;
};

class Elf {
 public:
  explicit Elf(std::string_view content) : content_(content) {}
  /// The texts at those offsets that `list` of the dynamic section has.
  std::vector<std::string> texts(std::vector<uint64_t> Dynamic::*list) const {
    std::vector<std::string> found;
    Elf64_Ehdr head;
    if (!read_at(content_, 0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return found;
    if (head.e_ident[EI_CLASS] != ELFCLASS64) return found;
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head.e_phnum; ++i) {
      if (!read_at(content_, head.e_phoff + uint64_t(i) * sizeof segment, segment)) return found;
      if (segment.p_type != PT_DYNAMIC) continue;
      const Dynamic dynamic = read_dynamic(segment);
      add_texts(head, dynamic.strings, dynamic.*list, found);
    }
    return found;
  }

 private:
  Dynamic read_dynamic(const Elf64_Phdr& segment) const {
    Dynamic dynamic;
    Elf64_Dyn entry;
    for (uint64_t at = 0; at + sizeof entry <= segment.p_filesz && read_at(content_, segment.p_offset + at, entry);
         at += sizeof entry) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB) dynamic.strings = entry.d_un.d_ptr;
      if (entry.d_tag == DT_NEEDED) dynamic.needed.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_RUNPATH) dynamic.runpath.push_back(entry.d_un.d_val);
    }
    return dynamic;
  }

  void add_texts(const Elf64_Ehdr& head, uint64_t address, const std::vector<uint64_t>& offsets,
                 std::vector<std::string>& texts) const {
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head.e_phnum; ++i) {
      if (!read_at(content_, head.e_phoff + uint64_t(i) * sizeof segment, segment)) return;
      const bool holds =
          segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz;
      if (!holds) continue;
      const uint64_t strings = segment.p_offset + (address - segment.p_vaddr);
      for (uint64_t offset : offsets) {
        const uint64_t at = strings + offset;
        if (at >= content_.size()) continue;
        const std::string_view rest = content_.substr(at);
        texts.emplace_back(rest.substr(0, std::min(rest.find('\0'), rest.size())));
      }
      return;
    }
  }

  std::string_view content_;
};

}  // namespace

std::vector<std::string> needed_libraries(std::string_view content) { return Elf(content).texts(&Dynamic::needed); }

std::string run_path(std::string_view content) {
  const std::vector<std::string> found = Elf(content).texts(&Dynamic::runpath);
  return found.empty() ? std::string() : found.front();
}

std::string mpi_library(const std::vector<std::string>& libraries) {
  constexpr std::string_view kKnown[][2] = {{"libmpi_abi.so", "the standard ABI"},
                                            {"libmpi.so.40", "Open MPI"},
                                            {"libmpi.so.20", "Open MPI"},
                                            {"libmpi.so.12", "MPICH or Intel MPI"},
                                            {"libmpich.so", "MPICH"},
                                            {"libmpi.so", "another MPI"},
                                            {"libmpi_mpifh.so", "Open MPI"},
                                            {"libmpi_usempif08.so", "Open MPI"},
                                            {"libmpichfort.so", "MPICH"}};
  for (const auto& [prefix, name] : kKnown) {
    for (const std::string& library : libraries) {
      if (library.starts_with(prefix)) return library + ": " + std::string(name);
    }
  }
  return {};
}

Linkage linkage_of(const std::string& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  Linkage found;
  if (descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto bytes = size_t(status.st_size);
    void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory != MAP_FAILED) {
      const std::string_view content(static_cast<const char*>(memory), bytes);
      found = {mpi_library(needed_libraries(content)), run_path(content)};
      munmap(memory, bytes);
    }
  }
  if (descriptor >= 0) close(descriptor);
  return found;
}

}  // namespace tern::mpiexec
