// Partitioned communication (MPI 5.0, chapter 4): persistent messages whose parts leave as they become ready. Sends and
// receives find each other once, in the order in which they were made:
//
//   sender                             receiver
//     Psend_init: offer ------------->   kept, or matched at once
//                                        Precv_init: matched with the oldest offer
//     <------------------------ answer   (where its buffer lies)
//     Start                              Start
//     <-------------------------- open   data may come, once for each start
//     Pready, Pready ...: data ------>   into the user's buffer; Parrived
//
// A request that is freed before the other side has made its own keeps its place in that order (4.2.1): an offer stays,
// and of a receive an empty place stays, which the next offer takes.
//
// Data leaves in groups of whole partitions, when all partitions of a group are ready: small partitions are aggregated
// to about what an eager message carries. A group goes as a message, or is put into the receiver's buffer where the
// path can and the receiver's processor is not needed for it.
//
// Thread rule: under the rank's lock.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "base/assert.h"
#include "base/object.h"
#include "datatype/datatype.h"
#include "p2p/core/message_handler.h"
#include "p2p/core/tokens.h"
#include "p2p/point_to_point.h"
#include "wire/partitioned.h"

namespace tern::partitioned {

class PartitionedSend;
class PartitionedReceive;

/// What MPI_Psend_init and MPI_Precv_init are given. `count` elements make one partition.
struct Arguments {
  void* buffer;
  int partitions;
  Count count;
  Datatype* type;
  PeerId peer;  ///< kNoPeer: MPI_PROC_NULL
  int source;   ///< rank of the sender in the communicator
  int tag;
  uint64_t context;
};

class Environment final : public MessageHandler {
 public:
  explicit Environment(PointToPoint& p2p);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// A persistent, inactive request; the caller's.
  PartitionedSend* make_send(const Arguments& arguments);
  PartitionedReceive* make_receive(const Arguments& arguments);

  /// Some request is started and not complete.
  bool active() const { return active_ != 0; }
  /// What started requests wait for, in words; lines.
  std::string report() const;

  // --- For the requests.
  Endpoints& endpoints() { return p2p_.endpoints(); }
  void began() { ++active_; }
  void ended() {
    TERN_ASSERT(active_ != 0);
    --active_;
    p2p_.progress().notify();  // another thread may wait for it
  }
  uint32_t name(PartitionedSend& send) { return sends_.add(send); }
  void forget_send(uint32_t token) { sends_.remove(token); }
  /// `token`: 0 of one that is not matched.
  void forget(PartitionedReceive& receive, uint32_t token);

  // --- MessageHandler.
  void on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) override;
  Landing on_header(Endpoint& from, const wire::Header& header, size_t bytes) override;
  void on_landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Endpoint& peer, const Error& error) override;

 private:
  struct Key {
    PeerId peer;
    uint64_t context;
    int tag;
    auto operator<=>(const Key&) const = default;
  };
  struct Offer {
    uint32_t token = 0;
    uint64_t bytes = 0;
  };
  /// Of one key, in the order in which they were made; at most one of the two has any. A null receive was freed.
  struct Unmatched {
    std::deque<Offer> offers;
    std::deque<PartitionedReceive*> receives;
  };

  /// The oldest of that key that waits for the other side; false: there is none.
  template <typename Waiting>
  bool take_oldest(const Key& key, std::deque<Waiting> Unmatched::*which, Waiting& oldest);
  void on_offer(Endpoint& from, const wire::Header& header, uint64_t bytes);
  void match(PartitionedReceive& receive, const Offer& offer);
  /// Answers a receive (its token, 0: none) whose send is gone.
  void tell_gone(Endpoint& to, uint32_t receiver);
  /// The receive of data that may come now; null: none.
  PartitionedReceive* receive_of(const Endpoint& from, const wire::Header& header, size_t bytes);
  PartitionedSend* send_of(const Endpoint& from, uint32_t token);

  PointToPoint& p2p_;
  Tokens<PartitionedSend> sends_;
  Tokens<PartitionedReceive> receives_;  ///< matched ones
  std::map<Key, Unmatched> unmatched_;
  uint32_t active_ = 0;
};

}  // namespace tern::partitioned
