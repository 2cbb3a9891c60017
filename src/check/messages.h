// The datatype of every message is compared with that of its receive (MPI 5.0, 3.3.1), which a library cannot know
// otherwise: messages are bytes. A record follows each message to its receiver. Both count the messages between them
// (p2p/core/message_count.h), so the number tells which message a record is for, whatever wildcards took it and in
// whatever order receives complete. What comes second, the record or the end of the receive, compares.
//
// Not compared: a message that was put into an announced receive and is not counted, buffered sends, partitions.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "check/findings.h"
#include "p2p/core/endpoint.h"
#include "p2p/core/receive_request.h"
#include "p2p/point_to_point.h"
#include "wire/check.h"

namespace tern::check {

class Messages {
 public:
  Messages(PointToPoint& p2p, const Findings& findings) : p2p_(p2p), findings_(findings) {}

  /// As PointToPoint::isend, and the record. `count`, `type`: what the program sends, if it is not what `arguments`
  /// say (a packed copy).
  Request* isend(const SendArguments& arguments, Count count, const Datatype& type);
  /// A send that was begun: its message may be the one before which `before` messages had gone to that peer.
  void begun(const SendArguments& arguments, uint32_t before, Count count, const Datatype& type);
  uint32_t sent_so_far(PeerId peer) { return p2p_.endpoints().at(peer).messages.sent(); }

  /// A receive is complete, without an error. `place`: of its call.
  void received(const ReceiveRequest& receive, const std::string& place);

  /// This rank is in MPI_Finalize: those that wait for it in a send need not.
  void finalize();
  /// Whether the peer is in MPI_Finalize.
  bool finalizes(PeerId peer) const { return finalizing_.contains(peer); }

  void on_record(Endpoint& from, std::string_view bytes);
  void on_finalize(const Endpoint& from);

 private:
  using Key = std::pair<PeerId, uint32_t>;  ///< sender and number
  struct Sent {
    wire::CheckedMessage message;
    std::string place;
  };
  struct Received {
    uint64_t context;
    int source, tag;
    Count count;
    Ref<Datatype> type;
    std::string place;
  };
  void compare(const Sent& sent, const Received& received);

  PointToPoint& p2p_;
  const Findings& findings_;
  /// What waits for the other half; at most kKept of each.
  std::map<Key, Sent> sent_;
  std::map<Key, Received> received_;
  bool in_finalize_ = false;
  std::set<PeerId> finalizing_;
  static constexpr size_t kKept = 1 << 14;  ///< some 4 MiB with their places
};

}  // namespace tern::check
