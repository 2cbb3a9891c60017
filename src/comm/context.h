// Context ids. One rank of the new communicator's group (its lowest) makes the id and the creating collective carries
// it to the others. No id has to be searched that is free everywhere (as with MPICH's bit masks), since 64 bits hold
// the maker and a counter that is never reused. The two lowest bits are the kind of traffic (Communicator::Plane), the
// two highest tell how the id was made:
//
//   00  rank of the maker in its job (28 bits) | counter (32 bits): unique among the ranks of one job
//   01  60 bits mixed from the maker's name, job and rank, and the counter: once the maker knows other jobs
//   1x  62 bits mixed from a group and a string, before any communicator is there (coll/create/inter.h)
//
// Ids of the first kind never meet such ids of another job: a rank in a communicator with ranks of another job knows
// that job, and its ids are of the second kind.
#pragma once

#include <cstdint>

#include "base/peer_table.h"

namespace tern {

/// Ids of the predefined communicators (counters 1 and 2 of no rank), and the two highest bits, see above.
inline constexpr uint64_t kWorldContext = uint64_t{1} << 2;
inline constexpr uint64_t kSelfContext = uint64_t{2} << 2;
inline constexpr uint64_t kAmongJobs = uint64_t{1} << 62, kBootstrap = uint64_t{1} << 63;

inline uint64_t make_context(const PeerTable& peers, uint32_t counter) {
  const RankName& me = peers.my_name();
  if (peers.size() == peers.job_ranks()) return uint64_t{me.rank} << 34 | uint64_t{counter} << 2;
  return kAmongJobs | hash_of(me, counter) >> 4 << 2;
}

}  // namespace tern
