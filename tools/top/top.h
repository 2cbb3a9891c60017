// mpiexec --top (a program of its own, which mpiexec becomes): what the ranks of a running job are doing, seen from
// outside, of a job that was not prepared for it.
//
// A job is an mpiexec of this user on this machine and the ranks below it. Each rank shows a page of memory
// (base/rank_page.h) with its counters; kSamples times between two looks it is asked where it is, by a signal, unless
// it sleeps: then the kernel says in what. Ranks of other users, and on other hosts, are not seen.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mpiexec/places.h"

namespace tern::top {

struct PageView;  // page_view.h

/// One rank between two looks.
struct TopRank {
  int rank = -1;
  pid_t process = 0;
  std::string host;
  int core = -1;                              ///< where it ran last; -1: unknown
  double in_mpi = 0;                          ///< part of the samples, 0..1; below 0: no sample yet
  double messages_s = 0, bytes_s = 0;         ///< sent, a second
  std::map<std::string, double> by_protocol;  ///< bytes a second
  uint64_t resident_bytes = 0, unexpected_bytes = 0;
  std::string waits;  ///< "MPI_Recv at main (heat.c:88)"; "computes"
};

class Top {
 public:
  /// `job`: the process number of its mpiexec; 0: there is one. An error says which there are.
  static std::unique_ptr<Top> attach(pid_t job, std::string& error);
  ~Top();
  Top(const Top&) = delete;
  Top& operator=(const Top&) = delete;

  /// A second of them costs a rank some 0.1 ms (a signal, a walk over its stack): 0.01 %.
  static constexpr int kSamples = 4;
  /// Looks, asking each rank kSamples times in `seconds`. By rank; empty: the job has ended.
  std::vector<TopRank> look(double seconds);
  pid_t job() const { return job_; }
  /// Asks the job's mpiexec for its page of what all ranks wait for, which it prints where it runs.
  void ask_for_page() const;

 private:
  struct Seen;
  explicit Top(pid_t job);
  void find_ranks();
  void sample();
  TopRank describe(Seen& seen, const PageView& page, double seconds);
  std::string place_of(Seen& seen, uint64_t address);

  pid_t job_;
  std::map<pid_t, std::unique_ptr<Seen>> ranks_;
  mpiexec::Places places_;
};

enum class TopOrder { rank, in_mpi, messages, bytes, memory };
/// A table, a line for each rank, the first line names the columns.
std::vector<std::string> top_lines(std::vector<TopRank> ranks, TopOrder order);
/// "12.3k".
std::string scaled(double value);
/// On a terminal until the user or the job ends; else one table. The exit code.
int show(Top& top);

}  // namespace tern::top
