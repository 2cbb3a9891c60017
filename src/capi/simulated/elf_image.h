// One ELF file (x86-64, a shared object or a position-independent executable) as it stands in memory, read but not
// relocated. Source: System V ABI, chapters 4 and 5; its x86-64 supplement, section 4.4; ELF Handling For Thread-Local
// Storage (Drepper). Addresses are relative to the image. Thread rule: none, the object does not change once read.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace tern::sim {

struct ElfSegment {
  uint64_t begin, end;  ///< end: with what is zero
  bool write, execute;
};

struct ElfSymbol {
  uint64_t value, bytes;
  uint8_t type;  ///< STT_*
  bool weak;
};

/// A relocation, with its symbol looked up in the image's own tables.
struct ElfRelocation {
  uint64_t at;
  int64_t addend;
  uint32_t type;
  uint32_t symbol;  ///< index in the image; 0: none
};

struct ElfThreadData {
  uint64_t begin = 0, file_bytes = 0, bytes = 0, align = 1;  ///< bytes 0: the image has none
};

class ElfImage {
 public:
  /// Reads the file. An error says what is wrong with it, in words for the user.
  Error read(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& soname() const { return soname_; }
  const std::vector<std::string>& needed() const { return needed_; }
  /// Folders where its libraries are, separated by colons, with $ORIGIN replaced.
  const std::string& run_path() const { return run_path_; }
  /// It was linked as a program (-pie), not as a library.
  bool is_program() const { return interpreted_; }
  uint64_t entry() const { return entry_; }
  /// From its first byte to its last, whole pages.
  uint64_t span() const { return span_; }
  /// What the file has of it; the rest is zero.
  const std::vector<std::byte>& content() const { return content_; }
  const std::vector<ElfSegment>& segments() const { return segments_; }
  const ElfThreadData& thread_data() const { return thread_data_; }
  const std::vector<ElfRelocation>& relocations() const { return relocations_; }
  uint64_t unwind_header() const { return unwind_header_; }  ///< .eh_frame_hdr; 0: none

  /// Functions to be called before and after main, in the order of the calls, as places that hold their addresses.
  const std::vector<uint64_t>& init_places() const { return init_places_; }
  const std::vector<uint64_t>& fini_places() const { return fini_places_; }
  uint64_t init() const { return init_; }  ///< DT_INIT, called before the places; 0: none
  uint64_t fini() const { return fini_; }  ///< DT_FINI, called after them

  /// What the image defines for others; null: nothing of that name. `version` empty: the default one.
  const ElfSymbol* find(std::string_view name, std::string_view version) const;
  std::string_view symbol_name(uint32_t symbol) const;
  /// The version that an undefined symbol asks for; empty: any.
  std::string_view symbol_version(uint32_t symbol) const;
  /// The image's own entry.
  const Elf64_Sym& symbol(uint32_t symbol) const { return symbols_[symbol]; }
  size_t symbol_count() const { return symbol_count_; }

 private:
  Error read_segments(const std::vector<char>& file);
  Error read_dynamic(uint64_t at, uint64_t bytes);
  size_t count_hashed(uint64_t table) const;
  void read_versions(uint64_t versions, uint64_t needed, uint64_t needed_count, uint64_t defined,
                     uint64_t defined_count);
  void read_relocations(uint64_t at, uint64_t bytes);
  void read_packed_relocations(uint64_t at, uint64_t bytes);
  void index_symbols();
  template <typename T>
  const T* at(uint64_t address) const {
    return reinterpret_cast<const T*>(content_.data() + address);
  }
  std::string_view text(uint64_t offset) const { return strings_ + offset; }

  std::string path_, soname_, run_path_;
  std::vector<std::string> needed_;
  bool interpreted_ = false;
  uint64_t entry_ = 0, span_ = 0, unwind_header_ = 0, init_ = 0, fini_ = 0;
  std::vector<std::byte> content_;
  std::vector<ElfSegment> segments_;
  ElfThreadData thread_data_;
  std::vector<ElfRelocation> relocations_;
  std::vector<uint64_t> init_places_, fini_places_;
  const char* strings_ = nullptr;
  const Elf64_Sym* symbols_ = nullptr;
  size_t symbol_count_ = 0;
  const uint16_t* versions_ = nullptr;                            ///< by symbol; null: none
  std::unordered_map<uint16_t, std::string_view> version_names_;  ///< by version number
  std::unordered_map<std::string_view, ElfSymbol> definitions_;   ///< default versions, by name
  std::unordered_map<std::string, ElfSymbol> old_definitions_;    ///< the others, as NAME@VERSION
};

}  // namespace tern::sim
