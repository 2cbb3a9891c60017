// Exceptions of simulated programs: the unwinder finds the tables of the code in ranks' copies, of which the dynamic
// linker knows nothing. It asks _dl_find_object (GNU C library 2.35 and later); the executable's own comes before the
// linker's. Thread rule: any; the copies do not change while ranks run.
#include "capi/simulated/unwind.h"

#include <dlfcn.h>

namespace tern::sim {
namespace {

// The unwinder has no argument of ours.
const std::vector<std::unique_ptr<ProgramCopies>>* searched = nullptr;

}  // namespace

void unwind_through(const std::vector<std::unique_ptr<ProgramCopies>>* copies) { searched = copies; }

}  // namespace tern::sim

#ifdef DLFO_STRUCT_HAS_EH_DBASE
#ifdef TERN_OLDER_GLIBC
extern "C" int tern_find_object(void* address, struct dl_find_object* result);
#endif
extern "C" __attribute__((visibility("default"))) int _dl_find_object(void* address,
                                                                      struct dl_find_object* result) noexcept {
  using Function = int (*)(void*, struct dl_find_object*);
  static const auto of_linker = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "_dl_find_object"));
  if (tern::sim::searched) {
    for (const auto& copies : *tern::sim::searched) {
      const std::byte* block = nullptr;
      const auto* part = copies->find(address, block);
      if (!part) continue;
      if (part->image->unwind_header() == 0) return -1;
      auto* const image = const_cast<std::byte*>(block) + part->at;
      *result = {};
      result->dlfo_map_start = image;
      result->dlfo_map_end = image + part->image->span();
      result->dlfo_eh_frame = image + part->image->unwind_header();
      return 0;
    }
  }
  if (of_linker) return of_linker(address, result);
#ifdef TERN_OLDER_GLIBC
  return tern_find_object(address, result);
#else
  return -1;
#endif
}
#endif
