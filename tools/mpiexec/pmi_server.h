// PMI-1, the server: one inherited socket per rank, a key-value space, a barrier. The protocol is drawn in
// process/launch/pmi1.cc. Programs of other MPIs that speak PMI-1 (MPICH) are served as well.
//
// With several hosts (agents.h) each has a server for its own ranks, which answers most questions there. Lines that
// concern others go up to the first mpiexec, whose server has the whole job: take(). What comes down again is what was
// put before a barrier, and the barrier's end.
//
// Thread rule: the event loop. Never blocks: what a rank does not read yet is kept here.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "process/launch/pmi_text.h"
#include "process/launch/rank_report.h"
#include "process/launcher.h"

namespace tern::mpiexec {

class PmiServer {
 public:
  /// `app_of` gives each rank's program by number; `mapping` is PMI_process_mapping.
  PmiServer(std::string job_id, std::vector<int> app_of, int universe_size, std::string mapping);
  ~PmiServer();
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  /// A socket pair for `rank`; the server keeps one end and returns the other (close-on-exec), which the
  /// caller closes once the rank has it. -1: errno says why.
  int open(int rank);
  /// The server's end, to watch for reading; -1 when closed.
  int descriptor(int rank) const { return peers_[size_t(rank)].descriptor; }

  /// Reads and answers everything that is there. Returns the exit code when the rank asks to abort the job.
  std::optional<int> serve(int rank);
  /// An answer waits for the rank to read: watch its descriptor for writing, then call flush().
  bool has_unsent(int rank) const { return !peers_[size_t(rank)].unsent.empty(); }
  void flush(int rank);

  /// What the rank has asked to be started since the last call; it waits for answer_spawn.
  std::optional<SpawnRequest> take_spawn(int rank) { return std::exchange(peers_[size_t(rank)].spawn, std::nullopt); }
  /// `failure` empty: the processes run.
  void answer_spawn(int rank, std::string_view failure);
  /// The line of that answer, for a rank on another host.
  static std::string spawn_answer(std::string_view failure);

  /// The rank's process has ended: its last commands are served, its socket closed.
  std::optional<int> rank_ended(int rank);

  /// Between init and finalize: the end of such a rank leaves the others hanging.
  bool is_inside(int rank) const { return peers_[size_t(rank)].initialised && !peers_[size_t(rank)].finalised; }
  bool was_inside(int rank) const { return peers_[size_t(rank)].initialised; }
  /// The rank has said that its MPI_Init has failed.
  bool init_failed(int rank) const { return peers_[size_t(rank)].init_failed; }
  bool all_were_inside() const;
  bool some_inside() const;
  bool some_called_init() const;
  /// It waits in a barrier for the other ranks: in MPI_Init or MPI_Finalize.
  bool is_meeting(int rank) const { return peers_[size_t(rank)].in_barrier; }
  /// What the rank has told about what it waits for.
  RankReport& report(int rank) { return peers_[size_t(rank)].report; }

  // Of the first mpiexec, for ranks on other hosts.
  /// The rank is on another host: it gets no answers from here.
  void set_remote(int rank);
  /// A line of it. Returns the exit code when the rank asks to abort the job.
  std::optional<int> take(int rank, std::string_view line);
  /// Once for each barrier that all ranks have entered: what has been put since the last one, as "key value".
  std::optional<std::vector<std::string>> take_release() { return std::exchange(release_, std::nullopt); }

  // Of an agent.
  /// Gets the lines that concern other hosts, too.
  using Upstream = std::function<void(int rank, std::string_view line)>;
  void set_upstream(Upstream upstream) { upstream_ = std::move(upstream); }
  /// A value that was put on any host: "key value".
  void store(std::string_view entry);
  /// All ranks of the job have entered the barrier.
  void release();
  /// Passes an answer on to the rank.
  void pass_on(int rank, std::string_view line);

  void set_universe_size(int size) { universe_size_ = size; }
  /// A rank that waits in a barrier which an ended rank will never enter; -1 when there is none.
  int stuck_rank() const;
  /// A rank that has ended, for the message about stuck_rank(); -1 when there is none.
  int first_ended() const;

 private:
  struct Peer {
    int descriptor = -1;
    PmiLines incoming;
    std::string unsent;
    bool remote = false;
    bool initialised = false, init_failed = false, finalised = false, in_barrier = false, ended = false;
    std::optional<int> abort_code{};        ///< it has ended the job
    std::optional<SpawnProgram> program{};  ///< of a command that is not complete
    SpawnRequest spawning{};                ///< whose programs are not complete
    std::optional<SpawnRequest> spawn{};    ///< complete
    int programs_wanted = 1;
    std::string info_key{};  ///< the next line is its value
    RankReport report{};
  };
  std::optional<int> handle(int rank, std::string_view text);
  void pass_up(int rank, std::string_view text, std::string_view command);
  void collect(Peer& peer, std::string_view text);
  std::string opening_answer(int rank, const PmiLine& line) const;
  std::string stored(const PmiLine& line);
  std::string found(const PmiLine& line) const;
  void enter_barrier(int rank);
  void answer(Peer& peer, std::string_view line) {
    if (!peer.remote) (peer.unsent += line) += '\n';
  }
  void close_peer(Peer& peer);

  std::string job_id_;
  std::vector<int> app_of_;
  int universe_size_;
  std::string mapping_;
  std::vector<Peer> peers_;
  std::map<std::string, std::string, std::less<>> values_;
  int in_barrier_ = 0;
  bool some_remote_ = false;
  std::vector<std::string> fresh_;  ///< put since the last barrier, where some rank is remote
  std::optional<std::vector<std::string>> release_{};
  Upstream upstream_{};
  uint64_t process_numbers_;  ///< as RankReport::take wants it
};

}  // namespace tern::mpiexec
