#include "capi/simulated/program_template.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_set>

#include "base/assert.h"
#include "capi/simulated/library_search.h"
#include "capi/simulated/rank_libc.h"

// thread_room.cc, which not every executable has.
extern "C" {
extern __attribute__((weak)) __thread std::byte tern_thread_room[tern::sim::ProgramTemplate::kExchangeRoom];
}

namespace tern::sim {
namespace {

constexpr uint64_t kPage = 4096;  // of x86-64

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// They keep nothing of a rank (libm, the unwinder), or what they keep is handled (libc), or they are the simulator.
bool is_shared(std::string_view name) {
  for (std::string_view begin : {"libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libutil.so",
                                 "libgcc_s.so", "libresolv.so", "ld-linux", "libmpi_abi.so", "linux-vdso"}) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

constexpr std::string_view kHostVariableNames[kHostVariables] = {"stdout", "stderr", "stdin", "optarg",
                                                                 "optind", "opterr", "optopt"};

/// kHostVariables: none of them.
size_t find_host_variable(std::string_view name) {
  const auto* found = std::find(std::begin(kHostVariableNames), std::end(kHostVariableNames), name);
  return size_t(found - std::begin(kHostVariableNames));
}

uint64_t thread_pointer() {
#if defined(__x86_64__)
  uint64_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
#else
  return 0;
#endif
}

}  // namespace

std::byte* ProgramTemplate::thread_pointer_if_free() {
  std::byte* const end = tern_thread_room + kExchangeRoom;
  return reinterpret_cast<uint64_t>(end) == thread_pointer() ? end : nullptr;
}

Error ProgramTemplate::refuse(const std::string& why) const {
  return Error(ErrorClass::bad_file, parts_.front().image->path() + " cannot be simulated: " + why);
}

Error ProgramTemplate::load(const std::string& path) {
  parts_.push_back({std::make_unique<ElfImage>()});
  if (Error error = parts_[0].image->read(path)) return error;
  if (Error error = add_libraries()) return error;
  if (Error error = check_mpi()) return error;
  lay_out();
  if (!has_entry()) {
    const ElfSymbol* main = parts_[0].image->find("main", {});
    if (!main) return refuse("it is a shared object without a main function");
    main_at_ = main->value;
  }
  // Copied variables (R_X86_64_COPY) come last: what is copied must be relocated.
  for (size_t part = parts_.size(); part-- > 0;) {
    if (Error error = relocate(part)) return error;
  }
  for (const ElfRelocation& relocation : parts_[0].image->relocations()) {
    if (relocation.type != R_X86_64_COPY) continue;
    if (Error error = copy_variable(0, relocation)) return error;
  }
  std::sort(address_words_.begin(), address_words_.end());
  return {};
}

Error ProgramTemplate::add_libraries() {
  std::unordered_set<std::string> known;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const ElfImage& image = *parts_[i].image;
    for (const std::string& name : image.needed()) {
      if (name.starts_with("libasan") || name.starts_with("libtsan") || name.starts_with("libubsan"))
        return refuse("it was built with a sanitizer (" + name + "), which watches one process. Build it without");
      if (is_shared(name) || !known.insert(name).second) continue;
      uses_openmp_ |= name.starts_with("libgomp") || name.starts_with("libomp") || name.starts_with("libopenblas");
      std::string paths = image.run_path();
      if (i != 0) paths += ":" + parts_[0].image->run_path();
      const std::string file = find_library(name, paths);
      if (file.empty()) return refuse("the library " + name + ", which " + image.path() + " needs, is not found");
      auto library = std::make_unique<ElfImage>();
      if (Error error = library->read(file)) return error;
      parts_.push_back({std::move(library)});
    }
  }
  return {};
}

// Whatever it calls MPI_ must be ours.
Error ProgramTemplate::check_mpi() const {
  bool calls_mpi = false;
  for (const Part& part : parts_) {
    for (const std::string& name : part.image->needed()) {
      if (name.starts_with("libmpi.so") || name.starts_with("libmpich") || name.starts_with("libmpi_mpifh"))
        return refuse("it is linked with another MPI library (" + name + "). Build it with Tern's mpicc");
    }
    for (uint32_t i = 1; i < part.image->symbol_count(); ++i) {
      const bool undefined = part.image->symbol(i).st_shndx == SHN_UNDEF;
      calls_mpi |= undefined &&
                   (part.image->symbol_name(i).starts_with("MPI_") || part.image->symbol_name(i).starts_with("PMPI_"));
    }
  }
  if (!calls_mpi) {
    return refuse(
        "it calls no MPI function of a shared library. If MPI is in the program itself (-static-mpi), link it "
        "with mpicc -simulate; an interpreter (Python) cannot be simulated");
  }
  return {};
}

void ProgramTemplate::lay_out() {
  if (has_entry()) {
    const ElfThreadData& data = parts_[0].image->thread_data();
    exchanged_bytes_ = round_up(data.bytes, data.align);
  }
  uint64_t at = 0;
  for (Part& part : parts_) {
    part.at = at;
    at += part.image->span();
    content_.resize(part.at + part.image->content().size());
    std::copy(part.image->content().begin(), part.image->content().end(), content_.begin() + ptrdiff_t(part.at));
  }
  // As POSIX wants the variables of getopt(3) to be.
  constexpr uint64_t kFirst[kHostVariables] = {0, 0, 0, 0, 1, 1, '?'};
  for (size_t i = 0; i < kHostVariables; ++i, at += 8) {
    host_variables_at_[i] = at;
    put(at, kFirst[i], false);
  }
  for (Part& part : parts_) {
    const ElfThreadData& data = part.image->thread_data();
    if (data.bytes == 0) continue;
    at = round_up(at, std::max<uint64_t>(data.align, 16));
    // A program's data end at the thread pointer: the block is as long as the room that is exchanged.
    const uint64_t bytes = &part == &parts_[0] ? round_up(data.bytes, data.align) : data.bytes;
    part.thread_data_at = at;
    content_.resize(at + bytes);
    std::memcpy(content_.data() + at, part.image->content().data() + data.begin, data.file_bytes);
    at += bytes;
  }
  block_bytes_ = round_up(at, kPage);
}

Error ProgramTemplate::relocate(size_t part) {
  if (part == 0 && exchanged_bytes() != 0) {
    if (exchanged_bytes() > kExchangeRoom || !thread_pointer_if_free() || parts_[0].image->thread_data().align > 64) {
      return refuse("its thread-local variables take " + std::to_string(exchanged_bytes()) +
                    " bytes, for which there is no room. Make them smaller, or link it as a shared object (-shared)");
    }
  }
  for (const ElfRelocation& relocation : parts_[part].image->relocations()) {
    if (Error error = relocate_one(part, relocation)) return error;
  }
  return {};
}

void ProgramTemplate::put(uint64_t at, uint64_t value, bool is_address) {
  if (content_.size() < at + 8) content_.resize(at + 8);
  std::memcpy(content_.data() + at, &value, sizeof value);
  if (is_address) address_words_.push_back(at);
}

uint64_t ProgramTemplate::thread_base(size_t part, bool& fixed) const {
  fixed = part == 0 && has_entry();
  return fixed ? thread_pointer() - exchanged_bytes() : parts_[part].thread_data_at;
}

Error ProgramTemplate::undefined(size_t part, const ElfRelocation& relocation) const {
  const ElfImage& image = *parts_[part].image;
  return refuse(image.path() + " refers to '" + std::string(image.symbol_name(relocation.symbol)) +
                "', which is in none of its libraries");
}

Error ProgramTemplate::put_target(uint64_t at, const Target& target, int64_t addend, const ElfRelocation& relocation,
                                  size_t part) {
  switch (target.kind) {
    case Target::Kind::undefined: return undefined(part, relocation);
    case Target::Kind::thread: return refuse("it takes a thread-local variable for a plain one");
    case Target::Kind::host: put(at, target.value + uint64_t(addend), false); return {};
    case Target::Kind::block:
      put(at, target.value + uint64_t(addend), !target.resolver);
      if (target.resolver) resolved_.push_back({at, target.value});
      return {};
  }
  return {};
}

Error ProgramTemplate::relocate_one(size_t part, const ElfRelocation& relocation) {
  const Part& mine = parts_[part];
  const uint64_t at = mine.at + relocation.at;
  auto thread_target = [&]() -> Target {
    return relocation.symbol == 0 ? Target{Target::Kind::thread, 0, part} : look_up(part, relocation.symbol, false);
  };
  switch (relocation.type) {
    case R_X86_64_NONE:
    case R_X86_64_COPY: return {};
    case R_X86_64_RELATIVE: put(at, mine.at + uint64_t(relocation.addend), true); return {};
    case R_X86_64_IRELATIVE: resolved_.push_back({at, mine.at + uint64_t(relocation.addend)}); return {};
    case R_X86_64_64:
      return put_target(at, look_up(part, relocation.symbol, false), relocation.addend, relocation, part);
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT: return put_target(at, look_up(part, relocation.symbol, false), 0, relocation, part);
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64: {
      const Target target = thread_target();
      if (target.kind != Target::Kind::thread) return undefined(part, relocation);
      bool fixed = false;
      const uint64_t base = thread_base(target.part, fixed), offset = target.value + uint64_t(relocation.addend);
      // The "module" is the address of its data (rank_libc's __tls_get_addr).
      if (relocation.type == R_X86_64_DTPMOD64) put(at, base, !fixed);
      else if (relocation.type == R_X86_64_DTPOFF64) put(at, offset, false);
      else put(at, base + offset - thread_pointer(), !fixed);
      return {};
    }
    default:
      return refuse(mine.image->path() + " has a relocation of type " + std::to_string(relocation.type) +
                    (relocation.type == R_X86_64_TLSDESC ? ". Compile it without -mtls-dialect=gnu2" : ""));
  }
}

// A program that was not compiled for a library's variables has a copy of its own, which all of its libraries use.
Error ProgramTemplate::copy_variable(size_t part, const ElfRelocation& relocation) {
  const ElfImage& image = *parts_[part].image;
  const uint64_t at = parts_[part].at + relocation.at, bytes = image.symbol(relocation.symbol).st_size;
  const std::string_view name = image.symbol_name(relocation.symbol);
  const Target source = look_up(part, relocation.symbol, true);
  if (content_.size() < at + bytes) content_.resize(at + bytes);
  if (const size_t variable = find_host_variable(name); variable != kHostVariables) {
    host_variables_at_[variable] = at;
  }
  switch (source.kind) {
    case Target::Kind::host:
      std::memcpy(content_.data() + at, reinterpret_cast<const void*>(source.value), bytes);
      return {};
    case Target::Kind::block: {
      if (content_.size() < source.value + bytes) content_.resize(source.value + bytes);
      std::memcpy(content_.data() + at, content_.data() + source.value, bytes);
      const size_t count = address_words_.size();
      for (size_t i = 0; i < count; ++i) {
        const uint64_t word = address_words_[i];
        if (word >= source.value && word + 8 <= source.value + bytes)
          address_words_.push_back(word - source.value + at);
      }
      return {};
    }
    default: return undefined(part, relocation);
  }
}

ProgramTemplate::Target ProgramTemplate::look_up(size_t part, uint32_t symbol, bool skip_program) const {
  const ElfImage& image = *parts_[part].image;
  const std::string_view name = image.symbol_name(symbol), version = image.symbol_version(symbol);
  const Elf64_Sym& own = image.symbol(symbol);
  auto target = [&](size_t where, uint64_t value, uint8_t type, uint64_t bytes) {
    if (type == STT_TLS) return Target{Target::Kind::thread, value, where, bytes};
    return Target{Target::Kind::block, parts_[where].at + value, where, bytes, type == STT_GNU_IFUNC};
  };
  if (own.st_shndx != SHN_UNDEF &&
      (ELF64_ST_BIND(own.st_info) == STB_LOCAL || ELF64_ST_VISIBILITY(own.st_other) != STV_DEFAULT)) {
    return target(part, own.st_value, uint8_t(ELF64_ST_TYPE(own.st_info)), own.st_size);
  }
  for (size_t i = skip_program ? 1 : 0; i < parts_.size(); ++i) {
    const ElfSymbol* found = parts_[i].image->find(name, version);
    if (found) return target(i, found->value, found->type, found->bytes);
  }
  if (const size_t variable = find_host_variable(name); variable != kHostVariables)
    return {Target::Kind::block, host_variables_at_[variable]};
  Target host = look_up_host(name, version);
  // A weak symbol need not be there.
  if (host.kind == Target::Kind::undefined && ELF64_ST_BIND(own.st_info) == STB_WEAK) host.kind = Target::Kind::host;
  return host;
}

ProgramTemplate::Target ProgramTemplate::look_up_host(std::string_view name, std::string_view version) const {
  if (const void* replaced = find_replaced(name)) return {Target::Kind::host, reinterpret_cast<uint64_t>(replaced)};
  const std::string text(name);
  void* found = version.empty() ? nullptr : dlvsym(RTLD_DEFAULT, text.c_str(), std::string(version).c_str());
  if (!found) found = dlsym(RTLD_DEFAULT, text.c_str());
  if (!found) return {};
  return {Target::Kind::host, reinterpret_cast<uint64_t>(found)};
}

}  // namespace tern::sim
