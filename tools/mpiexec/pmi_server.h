// PMI-1, the server: one inherited socket per rank, a key-value space, a barrier. The protocol is drawn in
// process/launch/pmi1.cc. Programs of other MPIs that speak PMI-1 (MPICH) are served as well.
//
// Thread rule: the event loop. Never blocks: what a rank does not read yet is kept here.
#pragma once

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
  /// `app_of` gives each rank's program by number.
  PmiServer(std::string job_id, std::vector<int> app_of, int universe_size);
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
  /// A rank that waits in a barrier which an ended rank will never enter; -1 when there is none.
  int stuck_rank() const;
  /// A rank that has ended, for the message about stuck_rank(); -1 when there is none.
  int first_ended() const;

 private:
  struct Peer {
    int descriptor = -1;
    PmiLines incoming;
    std::string unsent;
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
  void collect(Peer& peer, std::string_view text);
  std::string opening_answer(int rank, const PmiLine& line) const;
  std::string stored(const PmiLine& line);
  std::string found(const PmiLine& line) const;
  void enter_barrier(int rank);
  void answer(Peer& peer, std::string_view line) { (peer.unsent += line) += '\n'; }
  void close_peer(Peer& peer);

  std::string job_id_;
  std::vector<int> app_of_;
  int universe_size_;
  std::string mapping_;
  std::vector<Peer> peers_;
  std::map<std::string, std::string, std::less<>> values_;
  int in_barrier_ = 0;
  uint64_t process_numbers_;  ///< as RankReport::take wants it
};

}  // namespace tern::mpiexec
