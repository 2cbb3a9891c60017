#include "fabric/rdma/verbs/ibv_library.h"

#include <dlfcn.h>

namespace tern::rdma {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function && missing.empty()) missing = name;
  return function != nullptr;
}

}  // namespace

std::shared_ptr<const IbvLibrary> IbvLibrary::load(std::string& why_not) {
  // They stay loaded: libibverbs keeps a list of its drivers for ever, which a dlclose() would leak.
  void* verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!verbs) {
    why_not = "there is no libibverbs.so.1 (Debian: libibverbs1 and ibverbs-providers)";
    return nullptr;
  }
  auto library = std::make_shared<IbvLibrary>();
  std::string missing;
#define TERN_VERBS_FIND(name) find(verbs, "ibv_" #name, library->name, missing);
  TERN_VERBS_FUNCTIONS(TERN_VERBS_FIND)
#undef TERN_VERBS_FIND
  find(verbs, "_ibv_query_gid_table", library->query_gid_table, missing);
  // Before memory is registered: a child of fork must not take its parent's pages away from the adapter. Needed only by
  // kernels before 5.12; on others it does nothing.
  int (*fork_init)() = nullptr;
  if (find(verbs, "ibv_fork_init", fork_init, missing)) (void)fork_init();
  if (!missing.empty()) {
    why_not = "libibverbs.so.1 is too old: it has no " + missing;
    return nullptr;
  }
  void* direct = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
  Mlx5 mlx5;
  if (!direct) {
    library->mlx5_why_not = "there is no libmlx5.so.1 (Debian: ibverbs-providers)";
  } else if (find(direct, "mlx5dv_is_supported", mlx5.is_supported, missing) &&
             find(direct, "mlx5dv_create_qp", mlx5.create_qp, missing) &&
             find(direct, "mlx5dv_qp_ex_from_ibv_qp_ex", mlx5.qp_ex_from_ibv_qp_ex, missing)) {
    library->mlx5 = mlx5;
  } else {
    library->mlx5_why_not = "libmlx5.so.1 is too old: it has no " + missing;
  }
  return library;
}

}  // namespace tern::rdma
