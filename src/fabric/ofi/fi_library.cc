#if __has_include(<rdma/fi_endpoint.h>)
#include "fabric/ofi/fi_library.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/auxv.h>

#include <iterator>

namespace tern::ofi {
namespace {

template <typename Function>
void find_symbol(void* library, const char* name, const char* version, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlvsym(library, name, version));
  if (!function && missing.empty()) missing = std::string(name) + "@" + version;
}

// Libraries that libfabric brings along (libpsm2, libinfinipath) install handlers when they are loaded, which write
// files into the working directory. The handlers of the process, Tern's own report of a crash among them, come back.
class KeptHandlers {
 public:
  KeptHandlers() {
    for (size_t i = 0; i < std::size(kSignals); ++i) (void)sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~KeptHandlers() {
    for (size_t i = 0; i < std::size(kSignals); ++i) (void)sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};
  struct sigaction before_[std::size(kSignals)];
};

}  // namespace

std::shared_ptr<const FiLibrary> FiLibrary::load(std::string& why_not) {
  if (getauxval(AT_SECURE) != 0) {
    why_not =
        "libfabric loads plugins that the environment names (FI_PROVIDER_PATH), so programs with more rights than "
        "their user (set-user-ID, file capabilities) do not load it: they use TCP";
    return nullptr;
  }
  KeptHandlers handlers;
  // It stays loaded: providers leave threads and handlers behind that an unloading would pull away.
  void* handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    why_not = "there is no libfabric.so.1 (Debian: libfabric1)";
    return nullptr;
  }
  auto library = std::make_shared<FiLibrary>();
  std::string missing;
  find_symbol(handle, "fi_getinfo", "FABRIC_1.3", library->getinfo, missing);
  find_symbol(handle, "fi_freeinfo", "FABRIC_1.3", library->freeinfo, missing);
  find_symbol(handle, "fi_dupinfo", "FABRIC_1.3", library->dupinfo, missing);
  find_symbol(handle, "fi_fabric", "FABRIC_1.1", library->fabric, missing);
  find_symbol(handle, "fi_strerror", "FABRIC_1.0", library->strerror, missing);
  find_symbol(handle, "fi_version", "FABRIC_1.0", library->version, missing);
  if (!missing.empty()) {
    why_not = "libfabric.so.1 is too old: it has no " + missing;
    return nullptr;
  }
  if (const uint32_t version = library->version(); version < kOldestApi) {
    why_not = "libfabric.so.1 is too old: it is " + std::to_string(FI_MAJOR(version)) + "." +
              std::to_string(FI_MINOR(version)) + ", and Tern needs 1.11 or later";
    return nullptr;
  }
  return library;
}

}  // namespace tern::ofi
#endif
