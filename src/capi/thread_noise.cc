#include "capi/thread_noise.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

namespace tern::capi {
namespace {

using Body = void (*)(void*);

// libgomp's functions (its ABI: gcc/libgomp/libgomp_g.h), as the program would call them. The last argument of
// GOMP_task came with GCC 12; on the platforms here an argument more is not seen by an older one.
using Parallel = void (*)(Body, void*, unsigned, unsigned);
using Sections = void (*)(Body, void*, unsigned, unsigned, unsigned);
using Task = void (*)(Body, void*, void (*)(void*, void*), long, long, bool, unsigned, void**, int, void*);
using Single = bool (*)();
using Plain = void (*)();
using NamedEnd = void (*)(void**);

Parallel real_parallel;
Sections real_sections;
Task real_task;
Single real_single;
Plain real_critical_end;
NamedEnd real_named_end;
int (*thread_number)();
bool odd_rank;
std::thread::id main_thread;

/// As often as a call pauses at one place (Checks::pause), since what happens there mostly repeats.
constexpr int kTimesOfPlace = 10;
/// Short against the pause of a call (Checks::pause), which is to see what the delayed thread does.
constexpr auto kDelay = std::chrono::microseconds(1000);

/// Whether a place is still to be delayed. Places share a number now and then: they are delayed less often then.
bool wanted(const void* place) {
  static std::array<std::atomic<uint8_t>, 256> times;
  auto& mine = times[(reinterpret_cast<uintptr_t>(place) * 0x9e3779b97f4a7c15u) >> 56];
  return mine.load(std::memory_order_relaxed) < kTimesOfPlace && ++mine <= kTimesOfPlace;
}

/// Every other one, in the order of asking, on even and odd ranks different ones.
bool in_turn() {
  static std::atomic<unsigned> turns{0};
  return turns.fetch_add(1, std::memory_order_relaxed) % 2 == unsigned(odd_rank);
}

/// A parallel region, on the stack of the thread that starts it, which waits for the others.
struct Region {
  Body body;
  void* data;
  bool delayed;
};

void in_region(void* argument) {
  const Region region = *static_cast<Region*>(argument);
  const bool first = thread_number() == 0;
  if (region.delayed && first == odd_rank) std::this_thread::sleep_for(kDelay);
  region.body(region.data);
}

void parallel(Body body, void* data, unsigned threads, unsigned flags) {
  Region region{body, data, wanted(reinterpret_cast<void*>(body))};
  real_parallel(in_region, &region, threads, flags);
}

void sections(Body body, void* data, unsigned threads, unsigned count, unsigned flags) {
  Region region{body, data, wanted(reinterpret_cast<void*>(body))};
  real_sections(in_region, &region, threads, count, flags);
}

/// Stands before the task's own data, which libgomp copies.
struct TaskHead {
  Body body;
  size_t bytes;  ///< from here to the data
  bool delayed;
};

void in_task(void* argument) {
  const TaskHead head = *static_cast<TaskHead*>(argument);
  if (head.delayed) std::this_thread::sleep_for(kDelay);
  head.body(static_cast<char*>(argument) + head.bytes);
}

void task(Body body, void* data, void (*copy)(void*, void*), long bytes, long alignment, bool deferred, unsigned flags,
          void** depend, int priority, void* detach) {
  // A task with an own copy function has a layout that is not known here.
  if (copy || bytes < 0 || alignment < 0 || !wanted(reinterpret_cast<void*>(body)))
    return real_task(body, data, copy, bytes, alignment, deferred, flags, depend, priority, detach);
  const size_t align = std::max(size_t(alignment), alignof(TaskHead));
  const size_t before = (sizeof(TaskHead) + align - 1) / align * align;
  std::vector<std::byte> both(before + size_t(bytes) + align);
  std::byte* start = both.data() + (align - reinterpret_cast<uintptr_t>(both.data()) % align) % align;
  new (start) TaskHead{body, before, in_turn()};
  if (bytes > 0) std::memcpy(start + before, data, size_t(bytes));
  real_task(in_task, start, nullptr, long(before) + bytes, long(align), deferred, flags, depend, priority, detach);
}

// The main thread comes later, so that another one gets the work.
bool single() {
  if (std::this_thread::get_id() == main_thread && wanted(__builtin_return_address(0)))
    std::this_thread::sleep_for(kDelay);
  return real_single();
}

// A thread that waits gets in before this one comes again.
void pause_behind_critical(const void* place) {
  if (odd_rank && wanted(place)) std::this_thread::sleep_for(kDelay / 4);
}
void critical_end() {
  real_critical_end();
  pause_behind_critical(__builtin_return_address(0));
}
void named_end(void** lock) {
  real_named_end(lock);
  pause_behind_critical(__builtin_return_address(0));
}

struct Replacement {
  std::string_view name;
  void* real;
  void* ours;
};

template <typename Function>
Replacement replacement(const char* name, Function& real, Function ours) {
  void* found = dlsym(RTLD_DEFAULT, name);
  real = reinterpret_cast<Function>(found);
  return {name, found, reinterpret_cast<void*>(ours)};
}

/// What an object's dynamic section says, as far as it is needed.
struct Dynamic {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * relocations[2] = {};
  size_t bytes[2] = {};
};

Dynamic read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * entry) {
  Dynamic all;
  bool with_addends = true;
  for (; entry->d_tag != DT_NULL; ++entry) {
    // The loader has relocated the addresses, but not in every object.
    const uintptr_t at = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB: all.symbols = reinterpret_cast<const ElfW(Sym)*>(at); break;
      case DT_STRTAB: all.names = reinterpret_cast<const char*>(at); break;
      case DT_JMPREL: all.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_PLTRELSZ: all.bytes[0] = entry->d_un.d_val; break;
      case DT_RELA: all.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_RELASZ: all.bytes[1] = entry->d_un.d_val; break;
      case DT_PLTREL: with_addends = with_addends && entry->d_un.d_val == DT_RELA; break;
      default: break;
    }
  }
  return with_addends && all.symbols && all.names ? all : Dynamic();
}

bool is_address_of_function(uint64_t info) {
#if defined(__x86_64__)
  return ELF64_R_TYPE(info) == R_X86_64_JUMP_SLOT || ELF64_R_TYPE(info) == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return ELF64_R_TYPE(info) == R_AARCH64_JUMP_SLOT || ELF64_R_TYPE(info) == R_AARCH64_GLOB_DAT;
#else
  (void)info;
  return false;
#endif
}

// `sealed`: the loader has made it read-only.
void replace(uintptr_t slot, void* function, bool sealed) {
  const uintptr_t page_bytes = uintptr_t(sysconf(_SC_PAGESIZE)), page = slot / page_bytes * page_bytes;
  void* const start = reinterpret_cast<void*>(page);
  if (mprotect(start, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
  *reinterpret_cast<void* volatile*>(slot) = function;
  if (sealed) mprotect(start, page_bytes, PROT_READ);
}

int replace_in_object(dl_phdr_info* object, size_t, void* argument) {
  const auto& all = *static_cast<const std::vector<Replacement>*>(argument);
  if (std::string_view(object->dlpi_name).find("libgomp") != std::string_view::npos) return 0;
  Dynamic dynamic;
  uintptr_t sealed_from = 0, sealed_to = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_DYNAMIC)
      dynamic = read_dynamic(object->dlpi_addr, reinterpret_cast<const ElfW(Dyn)*>(at));
    if (part.p_type == PT_GNU_RELRO) {
      sealed_from = at;
      sealed_to = at + part.p_memsz;
    }
  }
  for (int table = 0; table < 2; ++table) {
    const ElfW(Rela)* const first = dynamic.relocations[table];
    for (size_t i = 0; first && i < dynamic.bytes[table] / sizeof *first; ++i) {
      if (!is_address_of_function(first[i].r_info)) continue;
      const std::string_view name = dynamic.names + dynamic.symbols[ELF64_R_SYM(first[i].r_info)].st_name;
      const auto found = std::find_if(all.begin(), all.end(), [&](const Replacement& r) { return r.name == name; });
      if (found == all.end() || !found->real) continue;
      const uintptr_t slot = object->dlpi_addr + first[i].r_offset;
      replace(slot, found->ours, slot >= sealed_from && slot < sealed_to);
    }
  }
  return 0;
}

}  // namespace

void disturb_openmp(int rank) {
  static_assert(sizeof(ElfW(Addr)) == 8, "ELF64_R_* below");
  if (thread_number) return;  // sessions start the library anew
  thread_number = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
  if (!thread_number || !dlsym(RTLD_DEFAULT, "GOMP_parallel")) return;
  odd_rank = rank % 2 != 0;
  main_thread = std::this_thread::get_id();
  std::vector<Replacement> all = {replacement("GOMP_parallel", real_parallel, parallel),
                                  replacement("GOMP_parallel_sections", real_sections, sections),
                                  replacement("GOMP_task", real_task, task),
                                  replacement("GOMP_single_start", real_single, single),
                                  replacement("GOMP_critical_end", real_critical_end, critical_end),
                                  replacement("GOMP_critical_name_end", real_named_end, named_end)};
  dl_iterate_phdr(replace_in_object, &all);
}

}  // namespace tern::capi
