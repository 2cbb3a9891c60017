#include "process/launcher.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "process/launch/clients.h"
#include "process/launch/cores.h"

namespace tern {
namespace {

constexpr std::string_view kJobKeyName = "job-key";

std::string_view environment(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

// True when our mpiexec started this very job (and not one around it, whose variables were inherited).
bool is_our_mpiexec(const Launcher& launcher) { return environment("TERN_JOB_ID") == launcher.job_id(); }

Error no_service(std::string_view who, std::string_view remedy) {
  return Error(ErrorClass::other,
               fmt::format("{} started this program as one of several ranks, but offers neither PMI-1 "
                           "nor PMIx to it. {}. If single programs are meant, set TERN_LAUNCHER=none",
                           who, remedy));
}

// Launchers that set variables but offer no interface. To run on would make N worlds of one.
Error mute_launcher() {
  if (environment_number("SLURM_STEP_NUM_TASKS", 1) > 1 && getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID")) {
    return no_service("Slurm's srun",
                      "Start it with srun --mpi=pmi2 or srun --mpi=pmix (srun --mpi=list shows which there are)");
  }
  if (environment_number("OMPI_COMM_WORLD_SIZE", 1) > 1) {
    return no_service("Open MPI's mpirun", "Use an mpirun with PMIx (Open MPI 4 or later) or Tern's mpiexec");
  }
  if (environment_number("PMI_SIZE", 1) > 1) {
    return no_service("A PMI launcher (PMI_SIZE is set, PMI_FD and PMI_PORT are not)",
                      "Choose PMI-1 or PMIx in the launcher, or use Tern's mpiexec");
  }
  if (environment_number("PALS_SIZE", 1) > 1) return no_service("PALS", "Use mpiexec --pmi=pmix");
  return {};
}

// libpmix loads plugins from wherever the environment says.
std::unique_ptr<Launcher> connect_by_pmix(Error& error) {
  if (getauxval(AT_SECURE) == 0) return connect_pmix(error);
  error = Error(ErrorClass::other,
                "a program with more rights than its user (set-user-ID, set-group-ID, file capabilities) cannot use a "
                "launcher with PMIx. Start it with Tern's mpiexec, or take those rights away");
  return nullptr;
}

}  // namespace

std::string own_prefix() {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<void*>(&own_prefix), &here) || !here.dli_fname || here.dli_fname[0] != '/') return {};
  std::string_view folder(here.dli_fname);
  folder = folder.substr(0, folder.rfind('/'));
  size_t lib = folder.rfind("/lib");
  return std::string(folder.substr(0, lib == std::string_view::npos ? folder.rfind('/') : lib));
}

Error Launcher::begin_spawn(const SpawnRequest&) {
  return Error(ErrorClass::spawn,
               "the launcher of this job starts no further processes. Tern's mpiexec, Hydra and a program that was "
               "started alone do");
}

std::unique_ptr<Launcher> connect_launcher(Error& error) {
  error = Error();
  std::string_view wish = environment("TERN_LAUNCHER");
  if (wish == "none") return make_singleton();
  if (wish == "pmi1") return connect_pmi1(error);
  if (wish == "pmix") return connect_by_pmix(error);
  if (!wish.empty()) {
    error = Error(ErrorClass::arg, fmt::format("TERN_LAUNCHER is '{}', but takes pmi1, pmix or none", wish));
    return nullptr;
  }
  // A live descriptor was passed to this program; mere variables may come from a launcher around it.
  if (is_socket(int(environment_number("PMI_FD", -1)))) return connect_pmi1(error);
  if (getenv("PMIX_NAMESPACE")) return connect_by_pmix(error);
  if (getenv("PMI_FD") || getenv("PMI_PORT")) return connect_pmi1(error);
  error = mute_launcher();
  if (error) return nullptr;
  return make_singleton();
}

void report_failed_init() {
  const int descriptor = int(environment_number("PMI_FD", -1));
  if (environment("TERN_JOB_ID").empty() || !is_socket(descriptor)) return;
  constexpr std::string_view kLine = "cmd=tern_init_failed\n";
  // Only a better message is lost where this fails.
  [[maybe_unused]] const ssize_t sent = send(descriptor, kLine.data(), kLine.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int announced_size() {
  if (environment("TERN_LAUNCHER") == "none") return 1;
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PALS_SIZE"}) {
    if (long size = environment_number(name, 0); size > 0 && size <= INT_MAX) return int(size);
  }
  return getenv("PMIX_NAMESPACE") || getenv("PMI_FD") || getenv("PMI_PORT") ? 0 : 1;
}

Error get_job_key(Launcher& launcher, JobKey& key) {
  if (sodium_init() < 0) return Error(ErrorClass::other, "libsodium cannot get random numbers from the system");
  if (launcher.size() == 1) {
    randombytes_buf(key.data(), key.size());
    return {};
  }
  if (is_our_mpiexec(launcher)) {
    std::string_view text = environment("TERN_JOB_KEY");
    size_t length = 0;
    if (sodium_hex2bin(key.data(), key.size(), text.data(), text.size(), nullptr, &length, nullptr) == 0 &&
        length == key.size()) {
      return {};
    }
    return Error(ErrorClass::other, "TERN_JOB_KEY, set by mpiexec, was changed on the way to this rank");
  }
  if (launcher.rank() == 0) {
    randombytes_buf(key.data(), key.size());
    Error error = launcher.put(kJobKeyName, {reinterpret_cast<const char*>(key.data()), key.size()});
    if (error) return error;
  }
  if (Error error = launcher.fence()) return error;
  if (launcher.rank() == 0) return {};
  std::string value;
  if (Error error = launcher.get(0, kJobKeyName, value)) return error;
  if (value.size() != key.size()) return Error(ErrorClass::other, "rank 0 shared a job key of the wrong length");
  memcpy(key.data(), value.data(), key.size());
  return {};
}

uint64_t job_number(const JobKey& key) {
  static constexpr std::string_view kPurpose = "tern job number";
  std::array<uint8_t, crypto_generichash_BYTES> digest;
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const uint8_t*>(kPurpose.data()), kPurpose.size(),
                     key.data(), key.size());
  uint64_t number;
  memcpy(&number, digest.data(), sizeof number);
  return number;
}

NodeShare node_share(const Launcher& launcher) {
  NodeShare share;
  share.ranks = int(launcher.local_ranks().size());
  if (is_our_mpiexec(launcher)) {
    share.ranks = std::max(1, int(environment_number("TERN_LOCAL_SIZE", share.ranks)));
    share.cores = std::max(0, int(environment_number("TERN_CORES", 1)));
    return share;
  }
  const int mask = cores_in_mask(), all = std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN))), quota = cores_in_quota();
  // A mask narrower than the machine is usually this rank's own share, cut by the launcher (binding): then
  // the ranks of the node have about as many such shares together.
  share.cores = mask < all ? std::min(all, mask * share.ranks) : all;
  if (quota > 0) share.cores = std::min(share.cores, quota);
  return share;
}

}  // namespace tern
