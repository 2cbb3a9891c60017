// The inside of PointToPoint: the parts, and the sink that hands arrivals to them. Calls go down this list, arrivals
// are dispatched by arrivals.cc; a part knows only those above it in the list.
//
//   endpoint.h            what belongs to a pair of ranks: the way, credit (eager_credit.h), counts (message_count.h)
//   control_messages.h    messages of the protocols' own
//   heartbeat.h           "this rank is in its library", while somebody may ask
//   sends.h, receives.h   requests, from creation to completion
//   unexpected.h          messages without their receive
//   library_buffers.h     memory for hybrid sends
//   transfers.h           puts and gets
//   receive_looks.h       which receives look before they are posted, and are announced
//   announcements.h       the receiver first: its receives are announced
//   eager.h               small messages
//   copy_out.h            copying to a library buffer after all
//   deferred_copies.h     copies that either side may make
//   rendezvous_send.h, rendezvous_receive.h   the sender first: rts, cts, data, fin
//   announced_send.h      what the sender does with announced receives
//   protocol_choice.h     which protocol a large message takes
//   hybrid.h              copied to a library buffer
//   cancel.h              taking back sends
//   tuples.h              queues of posted receives; null until they are asked for
//
// Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "p2p/core/control_messages.h"
#include "p2p/core/endpoint.h"
#include "p2p/core/heartbeat.h"
#include "p2p/core/library_buffers.h"
#include "p2p/core/receives.h"
#include "p2p/core/sends.h"
#include "p2p/core/transfers.h"
#include "p2p/matching/unexpected.h"
#include "p2p/point_to_point.h"
#include "p2p/protocols/announced_send.h"
#include "p2p/protocols/announcements.h"
#include "p2p/protocols/cancel.h"
#include "p2p/protocols/copy_out.h"
#include "p2p/protocols/deferred_copies.h"
#include "p2p/protocols/eager.h"
#include "p2p/protocols/hybrid.h"
#include "p2p/protocols/protocol.h"
#include "p2p/protocols/protocol_choice.h"
#include "p2p/protocols/receive_looks.h"
#include "p2p/protocols/rendezvous_receive.h"
#include "p2p/protocols/rendezvous_send.h"

namespace tern {

class Tuples;

struct PointToPoint::Impl final : Sink, RequestActions {
  Impl(ProgressEngine& p, const Tunables& t, Counters& counts);
  ~Impl();

  // --- Sends (send.cc).
  Endpoint* endpoint_for_short(const SendArguments& a);
  const Ready* look_for_receive(Endpoint& peer, const SendArguments& a);
  void begin(SendRequest& send, bool blocking);

  // --- Receives and probes (receive.cc).
  ReceiveRequest& make_receive(const ReceiveArguments& a) {
    return receives.make(a, a.peer == kNoPeer ? nullptr : &endpoints.at(a.peer));
  }
  bool take_or_post(ReceiveRequest& receive);
  void begin_now(ReceiveRequest& receive);
  void begin_large(ReceiveRequest& receive);
  [[gnu::noinline]] void begin_with_queues(ReceiveRequest& receive);
  void take(ReceiveRequest& receive, UnexpectedMessage& message);
  void use_tuple_queues(const Tunables& t);
  UnexpectedMessage* find_visible(int source, int tag, uint64_t context);
  UnexpectedMessage* look(int source, int tag, uint64_t context);
  UnexpectedMessage* await(int source, int tag, uint64_t context);
  MatchedMessage* take_waiting(UnexpectedMessage& message, Status& status);

  // --- RequestActions.
  void begin(SendRequest& send) override { begin(send, false); }
  void begin(ReceiveRequest& receive) override;
  void cancel(SendRequest& send) override;
  void cancel(SentRequest& sent) override { cancels.cancel(sent); }
  void cancel(ReceiveRequest& receive) override;

  // --- Sink (arrivals.cc).
  void on_message(Lane& lane, const wire::Header& header, const std::byte* payload, size_t bytes) override;
  Landing on_header(Lane& lane, const wire::Header& header, size_t bytes) override;
  void on_landed(Lane& lane, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Lane& lane, Error error) override;
  void on_queues_lost(Lane& lane) override;
  [[gnu::noinline]] void on_other(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes);
  [[gnu::noinline]] void on_data(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes);
  void on_control(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes);

  /// Handles what has come from a peer (null: from any), and perhaps more, since it may change what a call does (Small
  /// and Yuan 2009, Figure 6: "check outstanding remote messages"). Returns as a poll; returns
  /// 0 inside a poll.
  [[gnu::always_inline]] int look_at(Endpoint* peer) {
    if (progress.polling()) return 0;
    if (!peer || !peer->peeks()) [[unlikely]]
      return progress.poll();
    return progress.poll_part([&] { return peer->poll_lane(); });
  }

  ProgressEngine& progress;
  Recorder* const tracer;  ///< null: no events are recorded
  const RendezvousPolicy policy;
  ReceiveLooks looks;
  ProtocolCounters counters;

  Endpoints endpoints;
  ControlMessages control;
  Heartbeat heartbeat;
  Sends sends;
  Receives receives;
  Unexpected unexpected;
  LibraryBuffers buffers;
  Puts puts;
  Announcements announcements;
  EagerSender eager_sender;
  EagerReceiver eager_receiver;
  CopyOut copy_out;
  DeferredCopies deferred;
  RendezvousSender rendezvous_sender;
  RendezvousReceiver rendezvous_receiver;
  AnnouncedSender announced_sender;
  ProtocolChoice choice;
  HybridSender hybrid;
  SendCancels cancels;
  std::unique_ptr<Tuples> tuples;  ///< null: no mode or communicator wants them
};

}  // namespace tern
