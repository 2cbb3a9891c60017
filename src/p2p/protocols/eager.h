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

  /// A blocking send without a request. False: it has not left, nothing has changed. Inline in both of its callers.
  [[gnu::always_inline]] bool send(Endpoint& peer, const SendArguments& a) {
    const size_t bytes = size_t(a.count) * a.type->size();
    if (int64_t(bytes) > peer.blocking_limit() || a.mode == SendMode::synchronous || !peer.credit.take(bytes))
      return false;
    const uint64_t began_ns = sends_.trace_time_ns();
    if (!leave_with_credit(peer, a, bytes, 0, 0)) return false;
    sends_.note(Protocol::eager, peer, a, bytes, began_ns);
    return true;
  }
  /// A nonblocking send whose message leaves at once; null: it does not, nothing has changed.
  Request* send_at_once(Endpoint& peer, const SendArguments& a);
  /// With a request; its credit has been asked for.
  void begin(SendRequest& send, bool blocking);

 private:
  /// Noncontiguous messages up to this size are packed on the stack and leave at once; larger ones are packed by the
  /// path piece by piece from the user's memory.
  static constexpr size_t kPackBytes = 4096;

  /// Packs on the stack; out of line so that contiguous sends have no large frame.
  [[gnu::noinline]] static bool leave_packed(Endpoint& to, const SendArguments& a, const wire::Header& header,
                                             size_t bytes);
  /// The whole eager message, at once or not at all.
  static bool leave_now(Endpoint& to, const SendArguments& a, const wire::Header& header, size_t bytes) {
    if (a.type->is_contiguous()) return to.try_send_message(header, a.buffer, bytes);
    return bytes <= kPackBytes && leave_packed(to, a, header, bytes);
  }
  /// With credit that was taken for it, and with what is owed to the peer.
  [[gnu::always_inline]] static bool leave_with_credit(Endpoint& to, const SendArguments& a, size_t bytes,
                                                       uint32_t sequence, uint8_t flags) {
    const uint16_t carried = to.credit.carry();
    const wire::Header header =
        wire::make_header(wire::Kind::eager, a.source, a.context, a.tag, sequence, flags, carried);
    if (leave_now(to, a, header, bytes)) return true;
    to.credit.untake(bytes);  // it is taken again where the message waits
    to.credit.uncarry(carried);
    return false;
  }

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
