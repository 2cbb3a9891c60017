// Eager messages: the data goes at once and waits at the receiver if it must, within the bounds of EagerCredit.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>

#include "base/copy.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/receives.h"
#include "p2p/core/sends.h"
#include "p2p/matching/unexpected.h"
#include "p2p/protocols/announcements.h"

namespace tern {

class EagerSender {
 public:
  explicit EagerSender(Sends& sends) : sends_(sends) {}

  /// A blocking send without a request. False: it has not left, nothing has changed.
  bool send(Endpoint& peer, const SendArguments& a);
  /// A nonblocking send whose message leaves at once; null: it does not, nothing has changed.
  Request* send_at_once(Endpoint& peer, const SendArguments& a);
  /// With a request; its credit has been asked for.
  void begin(SendRequest& send, bool blocking);

 private:
  Sends& sends_;
};

class EagerReceiver {
 public:
  EagerReceiver(ProgressEngine& progress, Receives& receives, Announcements& announcements, Unexpected& unexpected,
                ControlMessages& control, ProtocolCounters& counters)
      : progress_(progress),
        receives_(receives),
        announcements_(announcements),
        unexpected_(unexpected),
        control_(control),
        counters_(counters) {}

  /// A whole eager message has come. Written for the expected, contiguous, short one: what others need is out of line,
  /// so that it has no frame for them.
  void arrive(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
    from.eager_arrived(header);
    ReceiveRequest* receive = announcements_.receive_for(header);
    if (!receive) {
      keep(from, header, payload, bytes);
      return;
    }
    receives_.match(*receive, from, header, bytes);
    const auto stored = size_t(receive->status.bytes);
    if (receive->type->is_contiguous()) copy_small(receive->buffer, payload, stored);
    else Receives::unpack(*receive, payload, stored);
    if (header.kind == wire::Kind::eager_sync) control_.acknowledge(from, header);
    consumed(from, bytes);
    receives_.complete(*receive);
  }
  /// A message of kind eager, eager_sync, direct or data of which the header has come, or all of it.
  Landing landing_of(Endpoint& from, const wire::Header& header, size_t bytes);
  void landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error);
  /// Takes whole eager messages that are here from a peer, some at most. Returns how many. Sets `other` if a message of
  /// another kind is next, which only a poll may take.
  int take_waiting_shortly(Endpoint& from, bool& other);
  /// The short way of a blocking receive, for the next message of its sender; false: it takes the long way.
  bool receive_at_once(Endpoint& from, const ReceiveArguments& a, Status& status);
  /// Without a request: a whole message that fits into a contiguous buffer. False: it is another one.
  bool take_shortly(UnexpectedMessage& message, const ReceiveArguments& a, Status& status);
  /// A receive that is matched takes a message that was here before it.
  void take(ReceiveRequest& receive, UnexpectedMessage& message);
  /// So much of the peer's eager data has been taken out of the way.
  void consumed(Endpoint& from, size_t bytes) {
    if (from.credit.consume(bytes)) [[unlikely]]
      from.settle_credit();
  }

 private:
  enum LandingKind { kLandReceive, kLandUnexpected, kLandNowhere };
  [[gnu::noinline]] void keep(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes);
  void landed_unexpected(UnexpectedMessage& message, Error error);

  ProgressEngine& progress_;
  Receives& receives_;
  Announcements& announcements_;
  Unexpected& unexpected_;
  ControlMessages& control_;
  ProtocolCounters& counters_;
};

}  // namespace tern
