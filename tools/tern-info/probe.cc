#include "probe.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "fabric/ofi/ofi.h"
#include "fabric/rdma/verbs/ibv.h"
#include "process/launch/cores.h"

namespace tern::info {

std::string prefix() {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return {};
  std::string text(path, size_t(n));
  for (int i = 0; i < 2; ++i) text.erase(text.rfind('/'));
  return text;
}

namespace {

std::string existing(const std::string& path) { return access(path.c_str(), R_OK) == 0 ? path : std::string(); }

std::string probe_shared_memory() {
  int descriptor = memfd_create("tern-info", MFD_CLOEXEC);
  if (descriptor < 0) return fmt::format("no ({})", strerror(errno));
  int failure = posix_fallocate(descriptor, 0, 4096);
  close(descriptor);
  return failure == 0 ? "yes" : fmt::format("no ({})", strerror(failure));
}

// Between a parent and its child, by really copying. Ranks find out for each pair of themselves.
std::string probe_cross_memory_attach() {
  // The same address in both processes, before and after fork; only the child's holds the word.
  static char word[16] = "here";
  int ready[2], done[2];
  if (pipe(ready) != 0 || pipe(done) != 0) return fmt::format("unknown ({})", strerror(errno));
  pid_t child = fork();
  if (child < 0) return fmt::format("unknown ({})", strerror(errno));
  if (child == 0) {
    close(done[1]);
    memcpy(word, "child's", 8);
    char byte = 0;
    if (write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) >= 0) _exit(0);
    _exit(1);
  }
  close(done[0]);
  char byte, copy[16] = "";
  std::string answer = "yes";
  if (read(ready[0], &byte, 1) != 1) answer = "unknown";
  iovec local{copy, 8}, remote{word, 8};
  if (process_vm_readv(child, &local, 1, &remote, 1, 0) != 8 || memcmp(copy, "child's", 8) != 0) {
    answer = fmt::format("no ({}); large messages are copied twice", strerror(errno));
  }
  close(done[1]);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  return answer;
}

std::string probe_pmix() {
  void* library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return "no libpmix.so.2 (Debian: libpmix2); needed under Open MPI's mpirun, PRRTE, srun --mpi=pmix only";
  using Version = const char* (*)();
  auto version = reinterpret_cast<Version>(dlsym(library, "PMIx_Get_version"));
  return version ? std::string(version()) : "libpmix.so.2 of unknown version";
}

std::vector<std::string> probe_interfaces() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (i->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr, text, sizeof text);
    } else {
      continue;
    }
    found.push_back(fmt::format("{} {}", i->ifa_name, text));
  }
  freeifaddrs(list);
  return found;
}

// One line for each port: "mlx5_0:1 yes: InfiniBand 0x17, 12500 MB/s, RC UD SRQ XRC DC atomics" or why it is not used.
std::vector<std::string> probe_adapters(const Tunables& tunables) {
  std::string why_none;
  std::vector<std::string> found;
  for (const rdma::IbvPort& port : rdma::find_ibv_ports(tunables, why_none)) {
    const std::string name = fmt::format("{}:{}", port.device, port.port);
    if (!port.why_not.empty()) {
      found.push_back(fmt::format("{} no: {}", name, port.why_not));
      continue;
    }
    // What only an open adapter knows: inlining, whether XRC and DC can really be made.
    std::unique_ptr<rdma::Hca> hca;
    if (Error error = rdma::open_ibv({name, 0, 1}, tunables, hca)) {
      found.push_back(fmt::format("{} no: {}", name, error.text()));
      continue;
    }
    const rdma::Capabilities& can = hca->capabilities();
    std::string line = fmt::format("{} yes: {} {}{}, {} MB/s, MTU {}, ", name, can.roce ? "RoCE" : "InfiniBand",
                                   can.roce ? port.gid.text() : fmt::format("LID {}", port.lid),
                                   port.software ? " in software" : "", can.bytes_per_us, can.mtu_bytes);
    line += fmt::format("{} bytes inlined, RC{}{}{}{}{}", can.max_inline_bytes, can.ud ? " UD" : "",
                        can.shared_receive ? " SRQ" : "", can.xrc ? " XRC" : "", can.dc ? " DC" : "",
                        can.atomics ? " atomics" : "");
    if (!can.xrc) line += ", no XRC";
    if (!can.dc)
      line += fmt::format(", no DC ({})", port.why_no_dc.empty() ? "the adapter refuses it" : port.why_no_dc);
    found.push_back(line);
  }
  if (found.empty()) found.push_back("no: " + why_none);
  return found;
}

// One line for each provider and device of libfabric: what it can do, or why it is not used.
std::vector<std::string> probe_providers(const Tunables& tunables) {
  std::string why_none;
  std::vector<std::string> found;
  for (const ofi::Choice& choice : ofi::find_choices(tunables, why_none)) {
    const ofi::Capabilities& can = choice.capabilities;
    const std::string name = fmt::format("{} on {}", can.provider, can.domain);
    // What works in software does so on each interface and with each kind of address: the best is enough.
    const bool known = std::any_of(found.begin(), found.end(), [&](const std::string& line) {
      return line.starts_with(choice.pci.empty() ? can.provider + " on " : name + " ");
    });
    if (known) continue;
    if (!choice.why_not.empty()) {
      found.push_back(fmt::format("{} no: {}", name, choice.why_not));
      continue;
    }
    std::string line = fmt::format(
        "{} {}: messages{}{}{}{}, {} progress", name, choice.why_last.empty() ? "yes" : "can",
        can.rma ? ", reads and writes" : "", can.atomics ? ", atomics" : "", can.tagged ? ", tags" : "",
        can.delivery_complete ? "" : ", no delivery complete", can.automatic_progress ? "automatic" : "manual");
    if (!choice.why_last.empty() && tunables.ofi_provider.empty())
      line += fmt::format("; only if TERN_OFI_PROVIDER names it: {}", choice.why_last);
    found.push_back(line);
  }
  if (found.empty()) found.push_back("no: " + why_none);
  return found;
}

}  // namespace

Findings probe(const Tunables& tunables) {
  Findings found;
  const std::string above = prefix();
  found.library = existing(above + "/" TERN_LIBDIR "/libmpi_abi.so.1");
  if (found.library.empty()) found.library = existing(above + "/lib/libmpi_abi.so.1");
  found.mpiexec = existing(above + "/bin/mpiexec");
  found.pmix = probe_pmix();
  found.shared_memory = probe_shared_memory();
  found.cross_memory_attach = probe_cross_memory_attach();
  found.interfaces = probe_interfaces();
  found.adapters = probe_adapters(tunables);
  found.providers = probe_providers(tunables);
  found.cores = cores_in_mask();
  found.cores_quota = cores_in_quota();
  return found;
}

}  // namespace tern::info
