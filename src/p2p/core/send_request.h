// The requests of sends. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "base/intrusive_list.h"
#include "fabric/path.h"
#include "p2p/core/exposed_memory.h"
#include "p2p/core/heartbeat.h"
#include "p2p/core/library_buffers.h"
#include "p2p/point_to_point.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class DeferredCopies;
class RendezvousSender;
class SendRequest;
class Sends;
struct TupleMessage;

/// A copy that either side may make (deferred_copies.h, copy_out.h). Ends by leaving the list.
struct DeferredCopy : ListHook<DeferredCopy> {
  DeferredCopy() {}  // leaves `to` alone, which most sends do not have
  DeferredCopy(const DeferredCopy&) = delete;
  DeferredCopy& operator=(const DeferredCopy&) = delete;
  ~DeferredCopy() {
    if (owner) [[unlikely]]
      leave();
  }
  void leave();

  DeferredCopies* owner = nullptr;
  SendRequest* send = nullptr;
  uint32_t idle_polls = 0;  ///< so many polls have passed since it was looked at
  uint32_t looks = 0;       ///< so often the peer was in its library, and did not copy
  wire::ClearBody to;       ///< where this rank may put the data; address 0: its receive is not known yet
};

/// State of a send by sender-initiated rendezvous or hybrid (rendezvous_send.h). What it holds of others goes back when
/// it ends.
struct alignas(64) RendezvousSend {
  explicit RendezvousSend(RendezvousSender& by) : sender(by) {}
  RendezvousSender& sender;
  wire::RendezvousBody body{};  ///< of the rts
  ExposedMemory exposed;        ///< the program's memory, for the receiver to fetch from
  Heartbeat::Hold heartbeat;    ///< the receiver may ask whether this rank is there
  LibraryBuffers::Loan buffer;  ///< hybrid: the data lies there, this request is the library's own
  bool copy_lock = false;       ///< `exposed` has one: either side may copy
  bool clear_pending = false;   ///< it was cleared while the path still held the rts
  bool seen = false;            ///< cleared by an announcement whose receiver sees the data by itself: no FIN
  DeferredCopy deferred;
  wire::ClearBody clear;            ///< of that cts
  uint64_t clear_offset_bytes = 0;  ///< so much of it is with the receiver already

  /// So much lies in the program's memory, from where the receiver may fetch it.
  size_t fetchable_bytes() const { return body.address != 0 && !buffer ? size_t(body.bytes) : 0; }
};

/// A send in progress. Completes when nothing in `waits` is left.
class alignas(64) SendRequest final : public Request, public SendOperation {
 public:
  SendRequest(Sends& owner, Endpoint& to, const SendArguments& a)
      : Request(Kind::send),
        sends(owner),
        endpoint(to),
        // Member by member, as wire::make_header explains: a copy in larger pieces would wait for the caller's stores.
        arguments{a.buffer, a.count, a.type, a.peer, a.source, a.tag, a.context, a.mode, a.attended, a.requested} {
    from = &to;
  }
  Error start() override;
  void cancel() override;

  enum Wait : uint8_t {
    kPath = 1,    ///< the path still holds the operation
    kMatch = 2,   ///< synchronous: the receiver has not answered yet
    kData = 4,    ///< rendezvous: neither cts nor fin has come yet
    kAnswer = 8,  ///< a cancel was sent, its answer is out
    kPut = 16,    ///< a put is on its way
  };
  /// Eager: the message's name at the receiver (cancel.h), by which it can be taken back even when it has left.
  struct EagerName {
    uint32_t sequence;
  };
  /// Hybrid: the token of the request that carries the copy, for the same.
  struct HybridCopy {
    uint32_t token;
  };
  /// Rendezvous and tuple queues until completion, the others until the request is used again.
  using State = std::variant<std::monostate, EagerName, HybridCopy, RendezvousSend*, TupleMessage*>;

  Sends& sends;
  Endpoint& endpoint;  ///< of arguments.peer
  SendArguments arguments;
  Ref<Datatype> type;  ///< keeps a user's datatype alive; null for predefined ones
  State state;         ///< of its protocol
  uint32_t token = 0;  ///< 0: none given out
  uint8_t waits = 0;
  bool large = false;                   ///< not sent eagerly, as those who listen were told (base/events.h)
  Protocol protocol = Protocol::eager;  ///< what it took, or was asked last to take
  bool stream_faster = false;           ///< as CopySituation, from its beginning on

  size_t data_bytes() const { return size_t(arguments.count) * arguments.type->size(); }
  Cursor data() const { return Cursor(const_cast<void*>(arguments.buffer), arguments.count, *arguments.type); }
  RendezvousSend* rendezvous() const {
    auto* held = std::get_if<RendezvousSend*>(&state);
    return held ? *held : nullptr;
  }
  TupleMessage* tuple() const {
    auto* held = std::get_if<TupleMessage*>(&state);
    return held ? *held : nullptr;
  }
  uint32_t sequence() const {
    auto* held = std::get_if<EagerName>(&state);
    return held ? held->sequence : 0;
  }
  /// It carries the copy of a hybrid send.
  bool from_library() const { return rendezvous() && rendezvous()->buffer; }

 protected:
  friend class Sends;
  void destroy() override;
};

/// A send that was over when it began: the path took the whole eager message. What is left is the user's handle, and
/// MPI_Cancel, which may still take the message back (cancel.h). Recycled: between two uses only `handle` and what
/// names the message change.
class SentRequest final : public Request {
 public:
  explicit SentRequest(Sends& owner) : Request(Kind::send), sends(owner) { complete_ = true; }
  void cancel() override;
  /// A cancel asks for it: incomplete again; and back, if the receiver cannot be asked.
  void set_asking(bool asking) { complete_ = !asking; }

  Sends& sends;
  SentRequest* next_free = nullptr;
  Endpoint* receiver = nullptr;
  uint32_t sequence = 0;  ///< the message's name at the receiver
  uint64_t context = 0;

 protected:
  void destroy() override;
};

}  // namespace tern
