// PeerTable: the ranks that this rank can name. Its own job comes first, so there the PeerId is the rank in
// MPI_COMM_WORLD; other jobs follow as they are met (MPI 5.0 chapter 11: spawn, connect and accept). A job takes a
// range of PeerIds and a few bytes here, however many ranks it has.
//
// Thread rule: under the rank's lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/rng.h"
#include "base/types.h"

namespace tern {

/// Mixes a name and `more` to 64 bits; different inputs give different results except for chance collisions.
inline uint64_t hash_of(const RankName& name, uint64_t more = 0) {
  uint64_t hash = 0;
  for (uint64_t part : {name.job, uint64_t{name.rank}, more}) hash = Rng(hash ^ part).next();
  return hash;
}

/// What a job gives to the jobs it meets. A process that holds the secrets of two jobs may connect their ranks.
using JobSecret = std::array<uint8_t, 32>;

class PeerTable {
 public:
  /// `me` is one of the `ranks` ranks of this rank's job.
  PeerTable(const RankName& me, uint32_t ranks) : me_(me), ranks_(ranks), size_(ranks) { TERN_ASSERT(me.rank < ranks); }

  PeerId me() const { return me_.rank; }
  const RankName& my_name() const { return me_; }
  /// Number of ranks in this rank's own job. Their PeerIds are below it.
  uint32_t job_ranks() const { return ranks_; }
  /// Number of PeerIds in use; all are below it.
  uint32_t size() const { return size_; }

  /// Makes the ranks of another job known. Returns the PeerId of its rank 0; the others follow. A job that is already
  /// known keeps its PeerIds.
  PeerId add_job(uint64_t job, uint32_t ranks, const JobSecret& secret = {}) {
    if (const Job* known = job_of(job)) return known->first;
    TERN_ASSERT(job != me_.job && ranks < kNoPeer - size_);
    others_.push_back({job, size_, ranks, secret});
    size_ += ranks;
    return others_.back().first;
  }

  /// kNoPeer: this rank does not know the name.
  PeerId find(const RankName& name) const {
    if (name.job == me_.job) return name.rank < ranks_ ? PeerId(name.rank) : kNoPeer;
    const Job* job = job_of(name.job);
    return job && name.rank < job->ranks ? job->first + name.rank : kNoPeer;
  }
  RankName name(PeerId peer) const {
    if (peer < ranks_) return {me_.job, peer};
    for (const Job& job : others_) {
      if (peer - job.first < job.ranks) return {job.id, peer - job.first};
    }
    return kNoRank;
  }
  bool in_my_job(PeerId peer) const { return peer < ranks_; }
  /// Null: this rank's own job, or an unknown one.
  const JobSecret* secret_of(uint64_t job) const {
    const Job* known = job_of(job);
    return known ? &known->secret : nullptr;
  }
  /// Total order of the two ranks of a pair, the same on both: if both connect at once, it decides which one yields.
  bool comes_before(PeerId peer) const { return me_ < name(peer); }

 private:
  struct Job {
    uint64_t id;
    PeerId first;
    uint32_t ranks;
    JobSecret secret;
  };
  const Job* job_of(uint64_t id) const {
    for (const Job& job : others_) {
      if (job.id == id) return &job;
    }
    return nullptr;
  }

  const RankName me_;
  const uint32_t ranks_;
  uint32_t size_;
  std::vector<Job> others_;  ///< sorted by `first`
};

}  // namespace tern
