// All ranks of a communicator must call the same collectives in the same order with arguments that fit each other
// (MPI 5.0, 6.1). Rank 0 of the communicator is the judge:
//
//   rank 1                     judge (rank 0)                      rank 2
//     MPI_Bcast: record -------->  first call of this number  <------- record: MPI_Reduce
//     waits                        compares                            waits
//     <----------------- verdict: "rank 1 in MPI_Bcast at .., and rank 2 in MPI_Reduce at .." ----->
//     error of the call                                                error of the call
//
// A blocking collective begins after its verdict, so that one that does not match moves no data. A nonblocking one
// begins at once, as it must; if it does not match, the judge reports it. Verdicts come as early as possible: of a
// wrong operation when the second call arrives, of the arguments when all have arrived.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "check/findings.h"
#include "comm/communicator.h"
#include "p2p/core/endpoint.h"
#include "p2p/point_to_point.h"
#include "wire/check.h"

namespace tern::check {

class Collectives {
 public:
  Collectives(PointToPoint& p2p, const Findings& findings) : p2p_(p2p), findings_(findings) {}

  /// Before a collective begins. `call` has what it does; who and where is filled in. Error: the calls do not match.
  Error begin(Communicator& comm, wire::CheckedCollective call);

  void on_record(Endpoint& from, std::string_view bytes);
  void on_verdict(std::string_view bytes);
  void on_peer_lost() { some_peer_lost_ = true; }

 private:
  using Key = std::pair<uint64_t, uint32_t>;  ///< context and number
  struct Case {
    std::vector<wire::CheckedCollective> calls;  ///< in the order of arrival
    std::vector<PeerId> callers;
    size_t answered = 0;  ///< of the callers
    bool wrong = false;
    int error_class = 0;
    std::string text;
  };
  struct Judgement {
    int error_class;
    std::string text;
  };
  void judge(wire::CheckedCollective call, PeerId caller);
  void condemn(Case& judged, Error error);
  void answer(Case& judged);

  PointToPoint& p2p_;
  const Findings& findings_;
  std::map<uint64_t, uint32_t> sequences_;  ///< of the next collective, by context
  std::map<Key, Case> cases_;               ///< as judge
  std::map<Key, Judgement> judgements_;     ///< that this rank waits for
  PeerId self_ = kNoPeer;                   ///< known from the first collective on
  bool some_peer_lost_ = false;
};

}  // namespace tern::check
