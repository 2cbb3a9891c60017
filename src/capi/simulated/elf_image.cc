#include "capi/simulated/elf_image.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/limits.h"

namespace tern::sim {
namespace {

constexpr uint64_t kPage = 4096;             // of x86-64
constexpr uint16_t kHiddenVersion = 0x8000;  // of a symbol: for programs that were linked long ago

Error unfit(const std::string& path, const std::string& why) {
  return Error(ErrorClass::bad_file, path + " cannot be simulated: " + why);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

void replace_origin(std::string& text, const std::string& folder) {
  for (std::string_view word : {"$ORIGIN", "${ORIGIN}"}) {
    for (size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), folder);
  }
}

}  // namespace

Error ElfImage::read(const std::string& path) {
  path_ = path;
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return Error(ErrorClass::no_such_file, path + " cannot be read: " + errno_text(errno));
  if (file.size() > 2 && file[0] == '#' && file[1] == '!') {
    const std::string line(file.data() + 2, std::find(file.data(), file.data() + file.size(), '\n'));
    return unfit(path, "it is a script for the interpreter" + std::string(line[0] == ' ' ? "" : " ") + line +
                           ", which would run in every rank. Programs that are compiled can be simulated");
  }
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    return unfit(path, "it is no program (no ELF file)");
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(file.data());
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    return unfit(path, "it is not for x86-64, the only processor whose programs can be simulated");
  if (header.e_type == ET_EXEC) {
    return unfit(path,
                 "it can only stand at the address it was linked for, where there is room for one rank. Link it "
                 "with mpicc -simulate (or -pie)");
  }
  if (header.e_type != ET_DYN || header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr) > file.size())
    return unfit(path, "it is neither an executable nor a shared object");
  entry_ = header.e_entry;
  return read_segments(file);
}

Error ElfImage::read_segments(const std::vector<char>& file) {
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* program = reinterpret_cast<const Elf64_Phdr*>(file.data() + header.e_phoff);
  uint64_t dynamic = 0, dynamic_bytes = 0;
  for (const Elf64_Phdr* p = program; p != program + header.e_phnum; ++p) {
    if (p->p_offset + p->p_filesz > file.size()) return unfit(path_, "the file is cut off");
    switch (p->p_type) {
      case PT_LOAD:
        segments_.push_back({p->p_vaddr, p->p_vaddr + p->p_memsz, (p->p_flags & PF_W) != 0, (p->p_flags & PF_X) != 0});
        if (p->p_vaddr + p->p_filesz > content_.size()) content_.resize(p->p_vaddr + p->p_filesz);
        std::memcpy(content_.data() + p->p_vaddr, file.data() + p->p_offset, p->p_filesz);
        span_ = std::max(span_, (p->p_vaddr + p->p_memsz + kPage - 1) / kPage * kPage);
        break;
      case PT_DYNAMIC: dynamic = p->p_vaddr, dynamic_bytes = p->p_memsz; break;
      case PT_INTERP: interpreted_ = true; break;
      case PT_TLS: thread_data_ = {p->p_vaddr, p->p_filesz, p->p_memsz, std::max<uint64_t>(p->p_align, 1)}; break;
      case PT_GNU_EH_FRAME: unwind_header_ = p->p_vaddr; break;
      default: break;
    }
  }
  if (segments_.empty() || dynamic == 0 || dynamic + dynamic_bytes > content_.size()) {
    return unfit(path_,
                 "it is linked statically, so its MPI library cannot be replaced. Link it with mpicc -simulate "
                 "(without -static)");
  }
  return read_dynamic(dynamic, dynamic_bytes);
}

Error ElfImage::read_dynamic(uint64_t where, uint64_t bytes) {
  std::unordered_map<uint64_t, uint64_t> entries;
  std::vector<uint64_t> needed;
  const auto* entry = at<Elf64_Dyn>(where);
  for (size_t i = 0; i < bytes / sizeof *entry && entry[i].d_tag != DT_NULL; ++i) {
    if (entry[i].d_tag == DT_NEEDED) needed.push_back(entry[i].d_un.d_val);
    entries[uint64_t(entry[i].d_tag)] = entry[i].d_un.d_val;
  }
  auto value = [&](uint64_t tag) {
    auto found = entries.find(tag);
    return found == entries.end() ? 0 : found->second;
  };
  if (!value(DT_STRTAB) || !value(DT_SYMTAB)) return unfit(path_, "it has no table of symbols");
  strings_ = at<char>(value(DT_STRTAB));
  symbols_ = at<Elf64_Sym>(value(DT_SYMTAB));
  symbol_count_ = value(DT_HASH)       ? at<uint32_t>(value(DT_HASH))[1]
                  : value(DT_GNU_HASH) ? count_hashed(value(DT_GNU_HASH))
                                       : 0;
  for (uint64_t name : needed) needed_.emplace_back(text(name));
  if (value(DT_SONAME)) soname_ = text(value(DT_SONAME));
  const uint64_t run_path = entries.contains(DT_RUNPATH) ? value(DT_RUNPATH) : value(DT_RPATH);
  if (run_path) run_path_ = text(run_path);
  replace_origin(run_path_, folder_of(path_));
  init_ = value(DT_INIT);
  fini_ = value(DT_FINI);
  auto places = [&](uint64_t array, uint64_t size, std::vector<uint64_t>& list) {
    for (uint64_t i = 0; i < value(size) / 8; ++i) list.push_back(value(array) + 8 * i);
  };
  places(DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, init_places_);
  places(DT_INIT_ARRAY, DT_INIT_ARRAYSZ, init_places_);
  places(DT_FINI_ARRAY, DT_FINI_ARRAYSZ, fini_places_);
  std::reverse(fini_places_.begin(), fini_places_.end());
  read_versions(value(DT_VERSYM), value(DT_VERNEED), value(DT_VERNEEDNUM), value(DT_VERDEF), value(DT_VERDEFNUM));
  read_relocations(value(DT_RELA), value(DT_RELASZ));
  read_relocations(value(DT_JMPREL), value(DT_PLTRELSZ));
  read_packed_relocations(value(DT_RELR), value(DT_RELRSZ));
  index_symbols();
  return {};
}

// The last symbol of the longest chain. Undefined symbols are not hashed: relocations name those that matter.
size_t ElfImage::count_hashed(uint64_t table) const {
  struct Head {
    uint32_t buckets, first, bloom_words, bloom_shift;
  };
  const auto& head = *at<Head>(table);
  const auto* buckets = at<uint32_t>(table + sizeof head + 8 * uint64_t{head.bloom_words});
  const uint32_t* chains = buckets + head.buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < head.buckets; ++i) last = std::max(last, buckets[i]);
  if (last < head.first) return head.first;
  while ((chains[last - head.first] & 1) == 0) ++last;
  return last + 1;
}

void ElfImage::read_versions(uint64_t versions, uint64_t needed, uint64_t needed_count, uint64_t defined,
                             uint64_t defined_count) {
  if (!versions) return;
  versions_ = at<uint16_t>(versions);
  for (uint64_t file = needed, i = 0; i < needed_count; ++i) {
    const auto* of_file = at<Elf64_Verneed>(file);
    for (uint64_t each = file + of_file->vn_aux, j = 0; j < of_file->vn_cnt; ++j) {
      const auto* version = at<Elf64_Vernaux>(each);
      version_names_[version->vna_other] = text(version->vna_name);
      each += version->vna_next;
    }
    file += of_file->vn_next;
  }
  for (uint64_t each = defined, i = 0; i < defined_count; ++i) {
    const auto* version = at<Elf64_Verdef>(each);
    version_names_[version->vd_ndx] = text(at<Elf64_Verdaux>(each + version->vd_aux)->vda_name);
    each += version->vd_next;
  }
}

void ElfImage::read_relocations(uint64_t where, uint64_t bytes) {
  const auto* list = at<Elf64_Rela>(where);
  for (size_t i = 0; i < bytes / sizeof *list; ++i) {
    relocations_.push_back({list[i].r_offset, list[i].r_addend, uint32_t(ELF64_R_TYPE(list[i].r_info)),
                            uint32_t(ELF64_R_SYM(list[i].r_info))});
    symbol_count_ = std::max<size_t>(symbol_count_, relocations_.back().symbol + 1);
  }
}

// DT_RELR: an address, then maps of the 63 words behind it.
void ElfImage::read_packed_relocations(uint64_t where, uint64_t bytes) {
  const auto* list = at<uint64_t>(where);
  uint64_t next = 0;
  auto add = [&](uint64_t place) {
    relocations_.push_back({place, int64_t(*at<uint64_t>(place)), R_X86_64_RELATIVE, 0});
  };
  for (size_t i = 0; i < bytes / 8; ++i) {
    if ((list[i] & 1) == 0) {
      add(list[i]);
      next = list[i] + 8;
      continue;
    }
    for (int bit = 0; bit < 63; ++bit) {
      if (list[i] >> (bit + 1) & 1) add(next + 8 * uint64_t(bit));
    }
    next += 63 * 8;
  }
}

void ElfImage::index_symbols() {
  for (uint32_t i = 1; i < symbol_count_; ++i) {
    const Elf64_Sym& symbol = symbols_[i];
    const unsigned bind = ELF64_ST_BIND(symbol.st_info), visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    if (symbol.st_shndx == SHN_UNDEF || (bind != STB_GLOBAL && bind != STB_WEAK && bind != STB_GNU_UNIQUE)) continue;
    if (visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
    const ElfSymbol found{symbol.st_value, symbol.st_size, uint8_t(ELF64_ST_TYPE(symbol.st_info)), bind == STB_WEAK};
    if (versions_ && versions_[i] & kHiddenVersion) {
      auto version = version_names_.find(versions_[i] & ~kHiddenVersion);
      if (version == version_names_.end()) continue;
      old_definitions_.emplace(std::string(text(symbol.st_name)) + "@" + std::string(version->second), found);
    } else {
      definitions_.emplace(text(symbol.st_name), found);
    }
  }
}

const ElfSymbol* ElfImage::find(std::string_view name, std::string_view version) const {
  if (!version.empty() && !old_definitions_.empty()) {
    auto old = old_definitions_.find(std::string(name) + "@" + std::string(version));
    if (old != old_definitions_.end()) return &old->second;
  }
  auto found = definitions_.find(name);
  return found == definitions_.end() ? nullptr : &found->second;
}

std::string_view ElfImage::symbol_name(uint32_t symbol) const { return text(symbols_[symbol].st_name); }

std::string_view ElfImage::symbol_version(uint32_t symbol) const {
  if (!versions_) return {};
  auto found = version_names_.find(versions_[symbol] & ~kHiddenVersion);
  return found == version_names_.end() ? std::string_view() : found->second;
}

}  // namespace tern::sim
