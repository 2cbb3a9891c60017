// Point-to-point messages of one rank: requests, matching, protocols. Knows contexts and peers, not communicators
// (comm/communicator.h translates ranks).
// Source: MPI 5.0 chapter 3. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/need.h"
#include "base/tunables.h"
#include "datatype/datatype.h"
#include "p2p/message_hints.h"
#include "p2p/report.h"
#include "p2p/request.h"
#include "progress/engine.h"

namespace tern {

class Endpoints;  // p2p/core/endpoint.h
class Engines;    // p2p/engines.h
class Path;       // fabric/path.h
class Sink;       // fabric/path.h

/// How a short call may end. `never`: it takes the ordinary way, however long it waits.
enum class Shortly : uint8_t { done, not_yet, never };

enum class SendMode : uint8_t { standard, synchronous, ready };

/// One message to send. `buffer` and `type` stay valid until completion (the type is referenced by the request).
struct SendArguments {
  const void* buffer;
  Count count;
  const Datatype* type;
  PeerId peer;
  int source;  ///< my rank in the communicator, as the receiver matches it
  int tag;
  uint64_t context;
  SendMode mode = SendMode::standard;
  bool attended =
      false;  ///< both ranks stay in the library until they have done their parts: a step of a blocking collective
  bool requested = false;  ///< the program gets the request, and will ask for it
};

/// Whether this rank stays in the library until a receive is complete.
enum class Stay : uint8_t {
  no,
  after_send,  ///< a send begins next (MPI_Sendrecv). Before its receiver knows of it nothing is copied for the
               ///< receive, so that each rank may make one of the two copies
  now,
};

/// One receive. `source` is a rank in the communicator or kAnySource; `peer` is that rank's, kNoPeer with kAnySource.
struct ReceiveArguments {
  void* buffer;
  Count count;
  const Datatype* type;
  PeerId peer;
  int source;
  int tag;
  uint64_t context;
  bool attended = false;  ///< as of the send
  Stay stay = Stay::no;
};

/// What is wrong with the tunables `rendezvous` and `sender_rendezvous`, if anything is.
Error check_rendezvous_tunables(const Tunables& tunables);

/// A message that was matched by MPI_Mprobe and is not yet received.
class MatchedMessage;

class PointToPoint {
 public:
  /// `counters`: where it counts; null: as the progress engine. Not owned.
  PointToPoint(ProgressEngine& progress, const Tunables& tunables, Counters* counters = nullptr);
  ~PointToPoint();

  /// A path that messages may take; best first, all before the first message. Not owned.
  void add_path(Path& path);
  /// The peers of this rank; other floors send and receive messages of their own through them.
  Endpoints& endpoints();

  /// What is known of a context's messages from now on (tuple queues use it). The peers' need not be the same.
  void set_hints(uint64_t context, const MessageHints& hints);
  /// Its communicator is freed.
  void forget_hints(uint64_t context);

  // --- Nonblocking. The request is the caller's: wait for complete(), then release().
  Request* isend(const SendArguments& arguments);
  Request* ireceive(const ReceiveArguments& arguments);
  // --- Persistent: made inactive; Request::start begins.
  Request* send_init(const SendArguments& arguments);
  Request* receive_init(const ReceiveArguments& arguments);
  // --- Blocking: the fast path makes no request.
  Error send(const SendArguments& arguments);
  Error receive(const ReceiveArguments& arguments, Status& status);

  // --- Short calls, inside of their engine's gate (p2p/engines.h). False: the call takes the ordinary way; nothing has
  // changed.
  /// A message that leaves at once.
  bool send_shortly(const SendArguments& arguments);
  /// A message that is here. `not_yet`: none is.
  Shortly receive_shortly(const ReceiveArguments& arguments, Status& status);
  /// They return the request, which is the caller's as that of isend; null: as false.
  Request* isend_shortly(const SendArguments& arguments);
  Request* ireceive_shortly(const ReceiveArguments& arguments);
  /// Handles short messages that have come from another rank; kNoPeer: from any. How many; -1: something else has come
  /// as well, which needs the rank.
  int poll_shortly(PeerId from);
  /// Whether short calls meet only what they know: receives that wait for their message, messages for their receive.
  bool is_plain() const;
  /// Of a request of this object's; 0: it is another's.
  uint64_t context_of(const Request& request) const;

  /// What this tells of the rank's messages is also of theirs: what is pending, counters, whether sends are complete.
  /// Not owned.
  void include(Engines& engines);

  /// Looks (and polls once) for an unmatched message; true: `status` describes it.
  bool iprobe(int source, int tag, uint64_t context, Status& status);
  /// Looks (and polls once) for an unmatched message and takes it out of matching; null: none there.
  MatchedMessage* improbe(int source, int tag, uint64_t context, Status& status);
  /// As iprobe and improbe, waiting until there is a message.
  Status probe(int source, int tag, uint64_t context);
  MatchedMessage* mprobe(int source, int tag, uint64_t context, Status& status);
  /// Receives a matched message; consumes it.
  Request* imreceive(MatchedMessage* message, void* buffer, Count count, const Datatype& type);
  Error mreceive(MatchedMessage* message, void* buffer, Count count, const Datatype& type, Status& status);

  /// Waits (driving progress) until the request is complete. Does not release it.
  void wait(Request& request);
  /// A request that is complete from the start (MPI_PROC_NULL, empty collectives).
  Request* completed(const Status& status = kEmptyStatus);

  /// What its messages are doing.
  const MessageReport& report() const { return report_; }
  MessageReport& report() { return report_; }
  /// How many peers have been lost so far, and whether this one has: for those that wait for a peer by other means
  /// than messages.
  uint32_t losses() const;
  bool lost(PeerId peer) const;
  /// Whether polls would have something to do.
  Need pending() const;
  /// Whether all that this rank has begun to send is complete. Gives back what is kept for a message to take it along.
  bool sends_complete() const;
  /// Whether all sends are complete and nothing of them is left that this rank might have to send again: it may leave
  /// the library for long.
  bool quiet() const;
  /// The reachable largest tag (MPI_TAG_UB).
  static constexpr int kTagUpperBound = 0x7fffffff;

  ProgressEngine& progress() { return progress_; }
  const Tunables& tunables() const { return tunables_; }
  /// Where paths deliver.
  Sink& sink();

  /// The inside (p2p/impl.h); named here for its own request types.
  struct Impl;
  /// For debuggers (capi/debug_view.h) and reports.
  Impl& inside() const { return *impl_; }
  /// Visits the messages of all engines, which are closed then. True: `fits` was true of all.
  bool each_engine(const std::function<bool(const PointToPoint&)>& fits) const;

 private:
  ProgressEngine& progress_;
  std::unique_ptr<Impl> impl_;
  Engines* engines_ = nullptr;  ///< null: none
  MessageReport report_{*this};
  const Tunables tunables_;
};

}  // namespace tern
