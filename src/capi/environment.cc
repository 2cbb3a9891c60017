// Versions, names, time, memory. Source: MPI 5.0 sections 9.1, 9.2, 9.6, 15.2.
#include "capi/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "capi/comm_hardware.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

constexpr size_t kAlignment = 64;  // a cache line; more than any predefined datatype asks for

double now_seconds() {
  World& world = current();
  if (world.process) return static_cast<double>(world.process->clock().now_ns()) * 1e-9;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void copy_text(const std::string& text, size_t room, char* to, int& length) {
  size_t n = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
  length = static_cast<int>(n);
}

}  // namespace

namespace raw {

double Wtime(void) { return now_seconds(); }
double Wtick(void) { return 1e-9; }
int Pcontrol(const int level, ...) { return MPI_SUCCESS; }  // for tools that put their own in its place

}  // namespace raw

namespace body {

Error Get_version(Call& call, int& version, int& subversion) {
  version = MPI_VERSION;
  subversion = MPI_SUBVERSION;
  return {};
}

Error Get_library_version(Call& call, char* version, int& resultlen) {
  copy_text("Tern " TERN_VERSION ", MPI 5.0, standard ABI 1.0", MPI_MAX_LIBRARY_VERSION_STRING, version, resultlen);
  return {};
}

Error Get_processor_name(Call& call, char* name, int& resultlen) {
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  if (const std::string& simulated = call.world().host.node_name; !simulated.empty()) {
    copy_text(simulated, MPI_MAX_PROCESSOR_NAME, name, resultlen);
    return {};
  }
  if (gethostname(host, sizeof host - 1) != 0) return Error(ErrorClass::other, "the host name cannot be had");
  copy_text(host, MPI_MAX_PROCESSOR_NAME, name, resultlen);
  return {};
}

Error Get_hw_resource_info(Call& call, Info*& hw_info) {
  hw_info = new Info;
  for (const HardwareLevel& level : hardware_levels()) hw_info->set(level.name, level.instance >= 0 ? "true" : "false");
  return {};
}

Error Alloc_mem(Call& call, Aint size, Info* info, void* baseptr) {
  if (size < 0) return Error(ErrorClass::arg, fmt::format("argument 'size' is {}", size));
  const size_t alignment = std::max(kAlignment, info ? info->minimum_alignment() : 0);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size == 0 ? 1 : static_cast<size_t>(size)) != 0) {
    return Error(ErrorClass::no_mem, fmt::format("{} bytes cannot be had", size));
  }
  call.world().allocations[memory] = static_cast<size_t>(size);
  *static_cast<void**>(baseptr) = memory;
  return {};
}

Error Free_mem(Call& call, void* base) {
  if (call.world().allocations.erase(base) == 0) {
    return Error(24, fmt::format("argument 'base' is {}, which MPI_Alloc_mem did not give, or which was freed", base));
  }
  std::free(base);
  return {};
}

}  // namespace body
}  // namespace tern::capi
