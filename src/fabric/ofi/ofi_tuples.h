// OfiTuples: tuple queues by the provider's tag matching (fabric/tuple_queues.h). A queue is a tag that its receiver
// has drawn at random among those in use; receives name it and the one sender (FI_DIRECTED_RECV), so the adapter or the
// provider matches, without wildcards. Strangers cannot guess it.
//
// A message has arrived when a receive has taken it. Where sends complete just then (FI_MATCH_COMPLETE), the completion
// says so. Others complete when the provider has the message, perhaps in a buffer of its own on the other side: there
// the receiver counts its queue's messages, and tells the sender (OfiFrameType::landed): after the poll that found one
// whose sender waits for that (the message is marked), else once for many, so that short messages, of which the sender
// keeps copies, do not cost a frame each.
//
// A message without a receive waits where the provider keeps it, and delays no message of another queue; what is out to
// one peer is bounded instead.
//
// Length: a receive has spare room behind the user's buffer, which is never read, enough for the longest message that a
// queue takes; then no provider has to cut off anything, which some do not report to the sender or not with the length.
// Where receives have one piece of memory, the provider cuts off, and says so (FI_ETRUNC).
//
// Repair: when a message has failed, the sender waits until all that are out on the queue have come back. The receiver
// takes its receives back, after which the number of messages that have landed is exact, and posts those that are not
// filled under a new tag. The sender then sends again what has not landed. If a message has failed before one that has
// not, the order is lost, and so is the peer.
//
// Units: bytes. Thread rule: as Path.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/intrusive_list.h"
#include "base/pool.h"
#include "fabric/ofi/ofi_adapter.h"
#include "fabric/tuple_queues.h"
#include "fabric/tuple_repair.h"
#include "wire/ofi.h"

namespace tern {

class OfiPeers;
class OfiStreams;

class OfiTuples final : public TupleQueues {
 public:
  /// What a provider must state for it.
  static bool possible(const ofi::Capabilities& able);

  /// Null: memory was refused. All outlive it.
  static std::unique_ptr<OfiTuples> create(OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers,
                                           const Tunables& tunables);
  ~OfiTuples();

  TupleSendQueue* ask(Lane& to, TupleTicket& ticket) override;
  Error join(TupleSendQueue& queue, const TupleTicket& answer) override;
  bool send(TupleSend& message) override;
  void leave(TupleSendQueue& queue) override;
  void resume(TupleSendQueue& queue, const TupleTicket* answer) override;
  void abandon(TupleSendQueue& queue) override;
  std::byte* lend(size_t bytes) override;
  void give_back(std::byte* memory) override;
  TupleReceiveQueue* accept(Lane& from, const TupleTicket& ticket, TupleTicket& answer) override;
  bool post(TupleReceiveQueue& queue, TupleReceive& receive) override;
  Error repair(TupleReceiveQueue& queue, const TupleTicket& ticket, TupleTicket& answer) override;
  void close(TupleReceiveQueue& queue) override;

  // --- The path's.
  void on_completion(const ofi::Completion& completion);
  /// A peer says how many messages of a queue it has received.
  void on_landed(OfiPeer& peer, const wire::OfiLanded& landed);
  /// Sends what a repair has left, and tells senders what has landed. False: something is left.
  bool pump();
  /// Whether a sender waits to be told something.
  bool owes() const { return !due_.empty(); }
  /// Whether a sender is to be told something, now or later.
  bool owes_ever() const { return owes() || !later_.empty(); }
  /// When `pump` has something to tell that is not due yet; ~0: there is nothing.
  uint64_t next_word_ns() const;
  /// The lane is lost: its sends end with the error.
  void lose(OfiPeer& peer, const Error& reason);

 private:
  struct SendQueue;
  struct ReceiveQueue;
  /// Hook: in its queue's `out`.
  struct Sending final : OfiOperation, ListHook<Sending> {
    Sending() : OfiOperation(Kind::tuple_send) {}
    TupleSend* message = nullptr;
    SendQueue* queue = nullptr;  ///< null: given up
    enum class State : uint8_t {
      unsent,   ///< a repair has left it, and the port has not taken it again
      in_port,  ///< its memory is the port's
      sent,     ///< the port is through with it; the receiver has not told of it
      failed,
    };
    State state = State::unsent;
    uint32_t index = 0;             ///< in its queue
    HeldRegistration registration;  ///< null: it needs none
  };
  /// For a sender that is to be told what has landed. Hook: in `due_` or `later_`. It outlives its queue.
  struct Acknowledgement final : ListHook<Acknowledgement> {
    OfiPeer* peer = nullptr;
    ReceiveQueue* queue = nullptr;  ///< null: closed
    wire::OfiLanded landed;
    uint32_t messages = 0;  ///< of which the sender does not know
    bool due = false;       ///< in `due_`
  };
  /// Hook: in its queue's `posted`.
  struct Posting final : OfiOperation, ListHook<Posting> {
    Posting() : OfiOperation(Kind::tuple_receive) {}
    TupleReceive* receive = nullptr;
    ReceiveQueue* queue = nullptr;  ///< null: dropped
    HeldRegistration registration;  ///< null: it needs none
    bool in_port = false;
    bool landed = false;  ///< filled, found by a repair; its completion is still to be handled
  };
  struct SendQueue final : TupleSendQueue, ListHook<SendQueue> {
    TupleRepair repair;
    OfiPeer* peer = nullptr;
    uint32_t number = 0;  ///< by which the receiver tells what has landed
    uint64_t tag = 0;
    size_t longest_bytes = 0;    ///< that both ends take
    IntrusiveList<Sending> out;  ///< oldest first
    uint32_t count = 0;          ///< of `out`
    uint32_t in_port = 0;        ///< of them
    uint32_t sent = 0;           ///< messages, ever
    uint32_t landed = 0;         ///< messages that the receiver has acknowledged
  };
  struct ReceiveQueue final : TupleReceiveQueue, ListHook<ReceiveQueue> {
    OfiPeer* peer = nullptr;
    uint64_t tag = 0;
    uint32_t number = 0;            ///< the sender's; 0: it learns from its completions what has landed
    IntrusiveList<Posting> posted;  ///< oldest first
    uint32_t count = 0, landed = 0;
    Acknowledgement* acknowledgement = nullptr;  ///< null: the sender knows all
  };

  OfiTuples(OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers, const Tunables& tunables);
  bool make_memory();
  uint64_t draw_tag();
  int hand_over(SendQueue& queue, Sending& sending);
  int hand_over(ReceiveQueue& queue, Posting& posting);
  void sent(Sending& sending, int error);
  void received(Posting& posting, const ofi::Completion& completion);
  void when_all_are_back(SendQueue& queue);
  void finish(Sending& sending, Error error);
  void finish_landed(SendQueue& queue);
  void send_rest(SendQueue& queue);
  void give_up(SendQueue& queue, std::string trouble);
  bool take_back(ReceiveQueue& queue);
  static bool is_of(ReceiveQueue& queue, const ofi::Completion& completion);
  void acknowledge(ReceiveQueue& queue, bool waits);
  void make_due(Acknowledgement& acknowledgement);
  bool send_acknowledgements();

  static constexpr uint32_t kDepth = 128;  ///< receives in a queue, messages out on one: as cells of shared memory

  OfiAdapter& adapter_;
  OfiStreams& streams_;
  OfiPeers& peers_;
  LentCopies copies_;
  const size_t most_out_;               ///< bytes out to one peer
  std::unique_ptr<std::byte[]> spare_;  ///< null: there is no spare room
  std::unique_ptr<ofi::Region> copies_region_, spare_region_;
  std::unordered_set<uint64_t> tags_;  ///< of this rank's receive queues
  Pool<Sending> sendings_;
  Pool<Posting> postings_;
  Pool<Acknowledgement> acknowledgement_pool_;
  IntrusiveList<Acknowledgement> due_, later_;
  uint64_t later_since_ns_ = 0;                 ///< the first of `later_`
  IntrusiveList<SendQueue> send_queues_;        ///< owned
  IntrusiveList<ReceiveQueue> receive_queues_;  ///< owned
  std::unordered_map<uint32_t, SendQueue*> numbered_;
  uint32_t last_number_ = 0;
  uint32_t unsent_ = 0;  ///< messages in State::unsent
};

}  // namespace tern
