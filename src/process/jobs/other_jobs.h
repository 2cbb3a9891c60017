// OtherJobs: what this rank knows of the ranks of other jobs that it has met, and how its own job makes itself known to
// them (MPI 5.0, 11.9: accept, connect, spawn). Ranks of different jobs reach each other over TCP.
//
// Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/peer_table.h"
#include "wire/meeting.h"

namespace tern {

class OtherJobs {
 public:
  /// Opens this rank's TCP path, if that has not been done yet, and returns its card.
  using Opener = std::function<Error(std::string& card)>;

  OtherJobs(PeerTable& peers, const JobSecret& secret, Opener opener)
      : peers_(peers), secret_(secret), opener_(std::move(opener)) {}

  /// What others must know about this rank.
  Error describe(wire::Member& me);
  /// Makes the members of a group known to this rank. `ids`: their PeerIds, in the same order.
  Error meet(const std::vector<wire::Member>& members, std::vector<PeerId>& ids);
  /// For the job of `peer` and no other that does not hold the secrets of both jobs. Error: it is unknown; no words
  /// then.
  Error seal(PeerId peer, std::string_view text, std::vector<uint64_t>& words) const;
  /// The reverse. False: that job has not sealed it for this one.
  bool open(PeerId peer, const std::vector<uint64_t>& words, std::string& text) const;
  /// The card of a rank of another job, for the TCP path.
  Error card_of(PeerId peer, std::string& card) const;

 private:
  bool key_with(PeerId peer, JobSecret& key) const;

  PeerTable& peers_;
  const JobSecret secret_;
  Opener opener_;
  std::map<PeerId, std::string> cards_;
};

}  // namespace tern
