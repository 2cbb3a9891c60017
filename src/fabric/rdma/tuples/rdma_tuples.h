// Tuple queues over an RDMA adapter (Koop et al. 2009, section 7): one addressed shared receive queue (XRC) for each
// queue, whose number the sender names in each message. Receives lie in user memory; a message without a receive is
// tried again by the sender's adapter (receiver not ready, for ever), without either CPU.
//
// By which queue pair a queue sends: initiators.h. Receives have spare room for longer messages (tuple_memory.h). Those
// whose user has asserted exact lengths have none; a longer message then puts the queue pair into the error state, and
// comes again after the repair, for which that receive gets its spare room after all.
//
// Repair (rdma_tuples_repair.cc): an initiator in error belongs to one queue, so only that queue's messages are out on
// it. When all have come back, the sender resets the initiator and sends its address. The receiver destroys the old
// target, after which no message lands any more and the number of those that have is exact. It puts the receives that
// are not filled into a new receive queue, since the adapter may have taken the oldest out of the old one, and makes a
// new target. The sender then posts again what has not landed. A repair that fails ends in the loss of the peer; until
// that is told nothing more leaves, since a message behind one that is missing would take its place.
//
// Units: bytes, nanoseconds. Thread rule: as Path.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "base/pool.h"
#include "base/tunables.h"
#include "fabric/rdma/memory/hca_registrar.h"
#include "fabric/rdma/rdma_adapter.h"
#include "fabric/rdma/tuples/completion_stash.h"
#include "fabric/rdma/tuples/initiators.h"
#include "fabric/rdma/tuples/tuple_memory.h"
#include "fabric/tuple_queues.h"
#include "fabric/tuple_repair.h"

namespace tern::rdma {

class RdmaTuples final : public TupleQueues {
 public:
  /// A request to that peer has failed.
  using Broken = std::function<void(PeerId peer, const char* trouble)>;

  /// Null exactly when `error` is set. Adapter and cache outlive it.
  static std::unique_ptr<RdmaTuples> create(RdmaAdapter& adapter, RegistrationCache& registrations,
                                            const Tunables& tunables, Broken broken, Error& error);
  ~RdmaTuples();

  TupleSendQueue* ask(Lane& to, TupleTicket& ticket) override;
  Error join(TupleSendQueue& queue, const TupleTicket& answer) override;
  bool send(TupleSend& message) override;
  void leave(TupleSendQueue& queue) override;
  std::byte* lend(size_t bytes) override;
  void give_back(std::byte* memory) override;
  TupleReceiveQueue* accept(Lane& from, const TupleTicket& ticket, TupleTicket& answer) override;
  bool post(TupleReceiveQueue& queue, TupleReceive& receive) override;
  void resume(TupleSendQueue& queue, const TupleTicket* answer) override;
  void abandon(TupleSendQueue& queue) override;
  Error repair(TupleReceiveQueue& queue, const TupleTicket& ticket, TupleTicket& answer) override;
  void close(TupleReceiveQueue& queue) override;

  // --- The path's.
  int poll();
  /// False: something is here already.
  bool arm() { return stash_.arm(); }
  bool has_unsent() const { return outstanding_ != 0; }
  /// The lane is lost: its queue pairs go, its sends end with the error.
  void lose(PeerId peer, const Error& reason);
  /// The lane begins anew. Earlier queues carry nothing more.
  void reopen(PeerId peer);
  /// The adapter reports an error of that queue pair. One that carries messages is repaired when those come back.
  void on_pair_error(uint32_t number);

 private:
  struct SendQueue;
  struct ReceiveQueue;
  struct Target {
    std::unique_ptr<QueuePair> pair;
    uint32_t initiator = 0;  ///< the number of the peer's queue pair
  };
  /// A message in the adapter. Hook: in its peer's `out`.
  struct Sending : ListHook<Sending> {
    TupleSend* message = nullptr;
    Registration* registration = nullptr;  ///< null: inlined, empty, or lent memory
  };
  /// A receive in the adapter. Hook: in its queue's `posted`.
  struct Posting : ListHook<Posting> {
    TupleReceive* receive = nullptr;
    ReceiveQueue* queue = nullptr;
    Registration* registration = nullptr;  ///< null: no memory
    bool spare = true;                     ///< has room for a longer message
  };
  struct Peer {
    PeerId id = kNoPeer;
    bool lost = false;
    Initiators initiators;
    std::vector<Target> targets;
    IntrusiveList<Sending> out;
    uint32_t queues = 0;  ///< to it
  };
  struct SendQueue final : TupleSendQueue {
    TupleRepair repair;  ///< while it asks, the initiator is reset
    Peer* peer = nullptr;
    Initiator* on = nullptr;  ///< while messages are out
    uint32_t out = 0;
    uint32_t arrived = 0;   ///< messages that have arrived, ever
    uint32_t returned = 0;  ///< of `out`, how many have returned
    uint32_t srq = 0;
    size_t longest_bytes = 0;  ///< that both ends take
  };
  struct ReceiveQueue final : TupleReceiveQueue, ListHook<ReceiveQueue> {
    Peer* peer = nullptr;
    std::unique_ptr<SharedReceiveQueue> srq;
    IntrusiveList<Posting> posted;
    uint32_t count = 0;   ///< of `posted`
    uint32_t landed = 0;  ///< messages that have, ever
  };

  RdmaTuples(RdmaAdapter& adapter, RegistrationCache& registrations, const Tunables& tunables, Broken broken);
  Error start();
  Peer& peer_at(PeerId id);
  Error make_pair(QueuePairKind kind, std::unique_ptr<QueuePair>& result);
  static void free_initiator(SendQueue& queue);
  bool hand_over(SendQueue& queue, Sending& sending);
  bool hand_over(ReceiveQueue& queue, Posting& posting);
  Error make_receive_queue(std::unique_ptr<SharedReceiveQueue>& result);
  Error make_target(Peer& peer, const QueuePairAddress& initiator, QueuePairAddress& address);
  void returned(SendQueue& queue, Status status);
  void ask_for_repair(SendQueue& queue);
  void give_up(SendQueue& queue, const char* trouble);
  void take_landed(SendQueue& queue, uint32_t landed, IntrusiveList<Sending>& over);
  void send_again(SendQueue& queue);
  uint32_t settle_stash(ReceiveQueue& queue);
  void deliver_stashed(const Peer& peer);
  void sent(Sending& sending, const Completion& completion);
  void received(Posting& posting, const Completion& completion);
  void drop(Posting& posting);
  void end(Sending& sending);

  static constexpr uint64_t kSendBit = 1;  ///< of a completion's id: a send; the rest is an address

  RdmaAdapter& adapter_;
  Hca& hca_;
  RegistrationCache& registrations_;
  const Broken broken_;
  const uint32_t ways_;  ///< initiators to one peer
  // The order matters: queues and queue pairs go before the completion queue and the memory.
  TupleMemory memory_;
  CompletionStash stash_;
  Pool<SendQueue> send_queues_;
  Pool<Sending> sendings_;
  Pool<Posting> postings_;
  IntrusiveList<ReceiveQueue> receive_queues_;  ///< owned
  std::map<PeerId, Peer> peers_;                ///< elements stay where they are
  uint32_t outstanding_ = 0;                    ///< sends in the adapter
  uint32_t receives_posted_ = 0;                ///< in all queues
};

}  // namespace tern::rdma
