// What a job's launcher offers a rank: its rank and size, and a key-value space in which ranks find each
// other.
//
// Four clients: PMI-1 (our mpiexec, Hydra, Slurm's pmi2), PMIx (Open MPI's mpirun, PRRTE, Slurm's pmix), none
// (a world of one), and the simulator's own. Sources: the PMI-1 wire protocol as Hydra and Slurm serve it;
// PMIx standard 4. MPI 5.0 section 11 (initialisation), 11.11 (process creation).
//
// Thread rule: one caller at a time; abort() may come from any thread at any moment.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tern {

/// One program of MPI_Comm_spawn_multiple.
struct SpawnProgram {
  std::string command;
  std::vector<std::string> arguments;
  int ranks = 1;
  std::string directory;                 ///< info key wdir; empty: the launcher's
  std::string search_path;               ///< path; empty: the launcher's
  std::string host;                      ///< host; empty: the launcher chooses
  std::vector<std::string> environment;  ///< "NAME=VALUE", env
};

/// Processes to be started as a job of their own.
struct SpawnRequest {
  std::vector<SpawnProgram> programs;
  std::string parent_port;  ///< they get it as Launcher::parent_port
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// How many ranks the environment could hold (MPI_UNIVERSE_SIZE); -1 unknown.
  virtual int universe_size() const { return -1; }
  /// Which program of an MPMD command this rank runs, from 0 (MPI_APPNUM); -1 unknown.
  virtual int app_number() const { return -1; }
  /// A name that all ranks of the job have in common, different from all other jobs of this user on this machine at
  /// this time. Printable, without blanks or slashes. Not a secret and not random: a later job may get it again.
  virtual std::string_view job_id() const = 0;
  /// Ranks that the launcher says are on this node, ascending, this rank included. This is only the launcher's
  /// statement: memory may not be sharable (containers), which the paths find out by trying.
  virtual std::vector<int> local_ranks() const = 0;
  /// How many nodes the job is on, the same answer at all ranks; 0 unknown.
  virtual int nodes() const { return 0; }

  /// Publishes `value` under (this rank, `key`) from the next fence on. Values are any bytes of any length;
  /// keys are at most kMaxKeyLength characters of [A-Za-z0-9._-]. A key is put once.
  virtual Error put(std::string_view key, std::string_view value) = 0;
  /// Collective: returns when every rank has called it; what was put before is then visible everywhere.
  virtual Error fence() = 0;
  /// What `rank` has put under `key` before a fence that both have passed. Error when it did not.
  virtual Error get(int rank, std::string_view key, std::string& value) = 0;
  /// Collective, without exchange of data; used by finalize. Reports that this rank has arrived, and returns at once:
  /// it may still be needed by ranks that have not.
  virtual Error enter_barrier() = 0;
  /// After enter_barrier: whether every rank has arrived. Also true when that cannot be known any more, with `error`
  /// set. Not called again after that.
  virtual bool barrier_is_over(Error& error) = 0;

  /// Writes `message` to stderr (nothing when empty), lets the launcher end every rank of the job with exit code
  /// `code`, and ends this process.
  [[noreturn]] virtual void abort(int code, std::string_view message) = 0;
  /// A descriptor that is readable when barrier_is_over has news, or when the launcher has ended; -1: none. Owned by
  /// the launcher: never read, never closed by others.
  virtual int descriptor() const { return -1; }
  /// Where Tern's own mpiexec reads the lines of process/launch/rank_report.h; -1: another launcher. Owned by the
  /// launcher, open as long as it.
  virtual int report_descriptor() const { return -1; }
  /// Requests more processes, which are a job of their own, and returns at once. One request at a time.
  virtual Error begin_spawn(const SpawnRequest& request);
  /// After begin_spawn: whether the processes were started, or will not be: then with `error` set. Not called again
  /// after that.
  virtual bool spawn_is_over(Error& error) { return true; }
  /// As descriptor(), for spawn_is_over.
  virtual int spawn_descriptor() const { return descriptor(); }
  /// The port of the job that has spawned this one; empty: none.
  virtual std::string parent_port() const { return {}; }

  /// Leaves the job in order. Nothing may be called afterwards, except abort().
  virtual Error finalize() = 0;

  static constexpr size_t kMaxKeyLength = 32;  ///< PMI-1 allows 64, of which chunks take some
};

/// 32 random bytes that only the ranks of the job (and its user) know; connections prove them.
using JobKey = std::array<uint8_t, 32>;

/// Collective, once, before any other fence: the key from our mpiexec when that started us, else rank 0 makes
/// one and shares it through the key-value space (one fence).
Error get_job_key(Launcher& launcher, JobKey& key);
/// The job's number in names of ranks (RankName::job). Tells nothing of the key.
uint64_t job_number(const JobKey& key);

/// How many ranks the launcher's variables say it started; 1 without a launcher, 0 when it does not
/// say. Connects to nothing (MPI_Info_create_env may come before initialisation).
int announced_size();

/// MPI_Init fails at this rank: tells Tern's own mpiexec, which then does not speak of a missing MPI_Finalize. Does
/// nothing under other launchers. While the launcher's connection is open.
void report_failed_init();

/// Ranks and cores of this node, for the choice of how to wait.
struct NodeShare {
  int ranks = 1;    ///< ranks of this job on the node
  /// Processors they may use together (affinity masks, the cgroup's quota and other hosts of this machine considered);
  /// 0: less than one.
  int cores = 1;
  int threads = 0;  ///< of their paths, which poll as ranks do
  bool oversubscribed() const { return ranks + threads > cores; }
};
/// From our mpiexec's variable if there is one, else from the launcher's list of local ranks and this
/// process's mask.
NodeShare node_share(const Launcher& launcher);

/// Connects to the launcher that the environment shows. Without any: a world of one. A launcher that is
/// visible but cannot be talked to is an Error that names it and the remedy, never N silent worlds of one.
/// Reads the environment; sets no variable. Null exactly when `error` is set.
std::unique_ptr<Launcher> connect_launcher(Error& error);

}  // namespace tern
