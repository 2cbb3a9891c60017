// The request of a receive. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>

#include "base/intrusive_list.h"
#include "p2p/core/exposed_memory.h"
#include "p2p/core/heartbeat.h"
#include "p2p/matching/matching.h"
#include "p2p/point_to_point.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class Announcements;
class ReceiveRequest;
class Receives;

/// The announcement of a message, as its receiver keeps it.
struct ReceivedRts {
  uint32_t token;  ///< the sender's name for the send
  uint8_t flags;
  wire::RendezvousBody body;
  /// The data is in a library buffer of the sender's, which wants it back.
  bool from_library() const { return (flags & wire::kHybrid) != 0; }
};

/// The answer to the announcement of a matched receive's message, while it waits for its turn (RendezvousReceiver).
/// Gone when the receive ends in another way, since its sender had time first, say.
struct PendingAnswer final : ListHook<PendingAnswer> {
  PendingAnswer() {}  // leaves the announcement alone, which most receives do not have
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;
  ~PendingAnswer() {
    if (linked()) unlink();
  }

  ReceiveRequest* receive = nullptr;
  Arrival arrival;  ///< linked: valid, as `rts`
  ReceivedRts rts;
};

/// What the sender knows of a receive, because it was announced or cleared. What it holds of others goes back when it
/// ends.
/// Two cache lines that most offers use; the rest of the answer is behind them.
struct alignas(64) ReceiveOffer final : ListHook<ReceiveOffer> {
  ReceiveOffer(ReceiveRequest& of, Endpoint& to) : receive(of), peer(to) {}
  ReceiveOffer(const ReceiveOffer&) = delete;
  ReceiveOffer& operator=(const ReceiveOffer&) = delete;
  ~ReceiveOffer();

  ReceiveRequest& receive;
  Endpoint& peer;
  uint32_t token = 0;   ///< our name for it
  uint32_t serial = 0;  ///< of the announcement
  /// Announced: place among the posted receives of its key. Two of these differ by the receives from one to the other.
  uint32_t place = 0;
  bool announced = false;            ///< and still posted, or served by it: counted in Endpoint::announced
  bool binding = false;              ///< and not withdrawn: the sender may use it without asking
  bool crossed = false;              ///< and its message has crossed the announcement; watched: it comes by a put
  bool withdrawing = false;          ///< its withdrawal is not answered yet: counted in Endpoint::announced
  uint8_t last_byte = 0;             ///< watched: what it was
  Announcements* watcher = nullptr;  ///< its last byte tells that it is filled, this part looks; null: it does not
  Heartbeat::Hold heartbeat;         ///< the sender may ask whether this rank is there
  ExposedMemory exposed;             ///< its buffer, for the sender to put to
  PendingAnswer answer;
};

/// A receive: posted, or being filled. Recycled: between two uses it is as after construction, but for what
/// Receives::make and a match set.
class ReceiveRequest final : public Request, public PostedReceive {
 public:
  explicit ReceiveRequest(Receives& owner) : Request(Kind::receive), receives(owner) {}
  Error start() override;
  void cancel() override;
  Cursor target() const { return Cursor(buffer, count, *type); }

  Receives& receives;
  // What every receive uses at its end.
  Endpoint* sender = nullptr;     ///< set when matched
  ReceiveOffer* offer = nullptr;  ///< null: its sender knows nothing of it
  Ref<Datatype> held_type;        ///< keeps a user's datatype alive; null for predefined ones
  ReceiveRequest* next_free = nullptr;
  size_t capacity = 0;      ///< bytes that the buffer holds
  uint64_t matched_ns = 0;  ///< only when events are recorded
  uint32_t number = 0;      ///< of its message among its sender's (MessageCount); set when matched
  /// Whether it is in Matching. One value, so that a receive that meets its message is no longer being cancelled.
  enum class Place : uint8_t {
    outside,     ///< not yet posted, or matched
    posted,      ///< an arriving message may take it
    cancelling,  ///< the same until announcements are withdrawn, or a tuple queue has stopped; cancelled then
  };
  Place place = Place::outside;
  bool attended = false;
  Stay stay = Stay::no;
  bool unexpected = false;  ///< only when events are recorded
  // For the data.
  void* buffer = nullptr;
  Count count = 0;
  const Datatype* type = nullptr;

  bool posted() const { return place != Place::outside; }
  bool cancelling() const { return place == Place::cancelling; }
  bool announced() const { return offer && offer->announced; }
  bool watched() const { return offer && offer->watcher; }
  /// A copy for it may be made in the call that begins it.
  bool copies_at_once() const { return stay == Stay::now; }

 protected:
  friend class Receives;
  void destroy() override;
  [[gnu::cold, gnu::noinline]] void renew();
};

}  // namespace tern
