#include "fabric/rdma/tuples/rdma_tuples.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "fabric/rdma/tuples/rdma_tuple_tickets.h"

namespace tern::rdma {
namespace {

constexpr uint32_t kDepth = 128;  // receives in a queue; sends of an initiator: as cells of shared memory (segment.h)
constexpr uint32_t kMaxSends = 4096;      // of a rank: 32 full initiators; sizes the completion queue
constexpr uint32_t kMaxReceives = 16384;  // of a rank: 128 full queues; sizes the completion queue
constexpr size_t kUnit = kTicketUnitBytes;

}  // namespace

std::unique_ptr<RdmaTuples> RdmaTuples::create(RdmaAdapter& adapter, RegistrationCache& registrations,
                                               const Tunables& tunables, Broken broken, Error& error) {
  std::unique_ptr<RdmaTuples> tuples(new RdmaTuples(adapter, registrations, tunables, std::move(broken)));
  error = tuples->start();
  if (error) tuples.reset();
  return tuples;
}

RdmaTuples::RdmaTuples(RdmaAdapter& adapter, RegistrationCache& registrations, const Tunables& tunables, Broken broken)
    : adapter_(adapter),
      hca_(*adapter.hca),
      registrations_(registrations),
      broken_(std::move(broken)),
      ways_(uint32_t(tunables.tuple_ways)),
      memory_((size_t(tunables.tuple_copy_bytes) + kUnit - 1) / kUnit * kUnit,
              std::min<size_t>(size_t(tunables.tuple_bytes), hca_.capabilities().max_message_bytes) / kUnit * kUnit,
              hca_.capabilities().max_pieces - 1) {
  tuple_properties_.longest_bytes = memory_.longest_bytes();
  tuple_properties_.ends_with_lane = true;
  tuple_properties_.depth = std::min(kDepth, hca_.capabilities().max_srq_depth);
}

Error RdmaTuples::start() {
  const Capabilities& able = hca_.capabilities();
  if (!able.xrc || able.max_pieces < 2) {
    return Error(ErrorClass::unsupported_operation, "the adapter " + able.device + " lacks XRC");
  }
  const uint32_t entries = std::min(kMaxSends + kMaxReceives, able.max_completions);
  if (Error error = stash_.start(hca_, {entries, &adapter_.channel()})) return error;
  return memory_.start(hca_);
}

RdmaTuples::~RdmaTuples() {
  // What is left in the adapter is dropped with the queue pairs.
  for (auto& [id, peer] : peers_) {
    peer.initiators.clear();
    peer.targets.clear();
  }
  while (ReceiveQueue* queue = receive_queues_.pop_front()) delete queue;
}

RdmaTuples::Peer& RdmaTuples::peer_at(PeerId id) {
  Peer& peer = peers_[id];
  TERN_DEBUG_ASSERT(peer.id == id || peer.queues == 0);
  peer.id = id;
  return peer;
}

Error RdmaTuples::make_pair(QueuePairKind kind, std::unique_ptr<QueuePair>& result) {
  const QueuePairOptions common = adapter_.connected_options();
  QueuePairOptions options;
  options.rnr_wait_ns = common.rnr_wait_ns;
  options.timeout_ns = common.timeout_ns;
  options.retries = common.retries;
  options.kind = kind;
  options.rnr_retries = 7;
  if (kind == QueuePairKind::xrc_initiator) {
    options.sends = stash_.queue();
    options.send_depth = std::min(kDepth, hca_.capabilities().max_queue_depth);
    options.inline_bytes = uint32_t(adapter_.inline_bytes);
  }
  return hca_.make_queue_pair(options, result);
}

// --- The sender

TupleSendQueue* RdmaTuples::ask(Lane& to, TupleTicket& ticket) {
  Peer& peer = peer_at(to.id);
  if (peer.lost) return nullptr;
  SendQueue* queue = send_queues_.create();
  queue->peer = &peer;
  ++peer.queues;
  TicketBody body;
  const auto make = [this](auto& pair) { return make_pair(QueuePairKind::xrc_initiator, pair); };
  // (No more of them than queues.)
  if (Initiator* offered = peer.initiators.offer(*queue, std::min(ways_, peer.queues), make)) {
    body.has_address = 1;
    body.address = offered->pair->address();
  }
  ticket = std::bit_cast<TupleTicket>(body);
  return queue;
}

Error RdmaTuples::join(TupleSendQueue& asked, const TupleTicket& answer) {
  auto& queue = static_cast<SendQueue&>(asked);
  const auto body = std::bit_cast<TicketBody>(answer);
  queue.srq = body.number;
  queue.longest_bytes = std::min(tuple_properties_.longest_bytes, size_t(body.longest_units) * kUnit);
  Initiator* offered = queue.peer->initiators.take_offered(queue);
  if (!offered || !body.has_address) return {};
  if (Error error = offered->pair->connect(body.address)) return error;
  offered->connected = true;
  return {};
}

void RdmaTuples::free_initiator(SendQueue& queue) {
  TERN_DEBUG_ASSERT(queue.on && queue.on->user == &queue && queue.out == 0);
  queue.on->user = nullptr;
  queue.on = nullptr;
}

bool RdmaTuples::send(TupleSend& message) {
  auto& queue = static_cast<SendQueue&>(*message.queue);
  if (queue.peer->lost || !queue.repair.sound()) return false;
  if (message.bytes > queue.longest_bytes || outstanding_ >= kMaxSends) return false;
  if (!queue.on) queue.on = queue.peer->initiators.occupy(queue);
  if (!queue.on) return false;
  Sending* sending = sendings_.create();
  sending->message = &message;
  bool ready = true;
  if (message.bytes > adapter_.inline_bytes && !memory_.copies.contains(message.data)) {
    sending->registration = registrations_.acquire(message.data, message.bytes, MemoryRights{.local_write = false});
    ready = sending->registration != nullptr;
  }
  if (!ready || !hand_over(queue, *sending)) {
    end(*sending);
    if (queue.out == 0) free_initiator(queue);
    return false;
  }
  queue.peer->out.push_back(sending);
  ++queue.out;
  ++outstanding_;
  TERN_DEBUG_ASSERT(queue.on && queue.on->user == &queue && outstanding_ <= kMaxSends);
  return true;
}

// To the adapter, the first time or again. False: its send queue is full.
bool RdmaTuples::hand_over(SendQueue& queue, Sending& sending) {
  TERN_ASSERT(queue.repair.sound());
  const TupleSend& message = *sending.message;
  Piece piece{reinterpret_cast<uint64_t>(message.data), uint32_t(message.bytes), 0};
  if (sending.registration) piece.local_key = region_of(*sending.registration).local_key();
  else if (memory_.copies.contains(message.data)) piece.local_key = memory_.copies_key();
  WorkRequest work;
  work.id = reinterpret_cast<uint64_t>(&sending) | kSendBit;
  work.remote_srq = queue.srq;
  work.pieces = &piece;
  work.piece_count = message.bytes != 0 ? 1 : 0;
  work.inlined = message.bytes <= adapter_.inline_bytes;
  return queue.on->pair->post({&work, 1}) == 1;
}

void RdmaTuples::leave(TupleSendQueue& left) {
  auto& queue = static_cast<SendQueue&>(left);
  TERN_ASSERT(queue.out == 0);
  (void)queue.peer->initiators.take_offered(queue);
  TERN_DEBUG_ASSERT(queue.peer->queues != 0);
  --queue.peer->queues;
  send_queues_.destroy(&queue);
}

std::byte* RdmaTuples::lend(size_t bytes) {
  std::byte* memory = memory_.copies.lend(bytes);
  if (memory) adapter_.clock.charge_copy(bytes);
  return memory;
}

void RdmaTuples::give_back(std::byte* memory) { memory_.copies.give_back(memory); }

// --- The receiver

TupleReceiveQueue* RdmaTuples::accept(Lane& from, const TupleTicket& ticket, TupleTicket& answer) {
  Peer& peer = peer_at(from.id);
  if (peer.lost) return nullptr;
  const auto asked = std::bit_cast<TicketBody>(ticket);
  TicketBody body;
  std::unique_ptr<SharedReceiveQueue> srq;
  if (make_receive_queue(srq)) return nullptr;
  if (asked.has_address) {
    if (make_target(peer, asked.address, body.address)) return nullptr;
    body.has_address = 1;
  }
  auto* queue = new ReceiveQueue;
  receive_queues_.push_back(queue);
  queue->peer = &peer;
  queue->srq = std::move(srq);
  TERN_DEBUG_ASSERT(queue->srq && queue->count == 0);
  body.number = queue->srq->number();
  body.longest_units = uint32_t(tuple_properties_.longest_bytes / kUnit);
  answer = std::bit_cast<TupleTicket>(body);
  return queue;
}

Error RdmaTuples::make_receive_queue(std::unique_ptr<SharedReceiveQueue>& result) {
  return hca_.make_srq({tuple_properties_.depth, 1 + memory_.spare_pieces(), true, stash_.queue()}, result);
}

// For that initiator, in place of an earlier one: the initiator was reset, so nothing comes by that any more.
Error RdmaTuples::make_target(Peer& peer, const QueuePairAddress& initiator, QueuePairAddress& address) {
  std::erase_if(peer.targets, [&](const Target& target) { return target.initiator == initiator.number; });
  std::unique_ptr<QueuePair> made;
  if (Error error = make_pair(QueuePairKind::xrc_target, made)) return error;
  if (Error error = made->connect(initiator)) return error;
  address = made->address();
  peer.targets.push_back({std::move(made), initiator.number});
  return {};
}

bool RdmaTuples::post(TupleReceiveQueue& to, TupleReceive& receive) {
  auto& queue = static_cast<ReceiveQueue&>(to);
  if (queue.count >= tuple_properties_.depth || receives_posted_ >= kMaxReceives) return false;
  Posting* posting = postings_.create();
  posting->receive = &receive;
  posting->queue = &queue;
  posting->spare = !receive.exact && receive.capacity < tuple_properties_.longest_bytes;
  bool ready = true;
  if (receive.capacity != 0) {
    posting->registration = registrations_.acquire(receive.buffer, receive.capacity, MemoryRights{});
    ready = posting->registration != nullptr;
  }
  if (!ready || !hand_over(queue, *posting)) {
    drop(*posting);
    return false;
  }
  TERN_DEBUG_ASSERT(queue.count < tuple_properties_.depth);
  queue.posted.push_back(posting);
  ++queue.count;
  ++receives_posted_;
  TERN_DEBUG_ASSERT(receives_posted_ <= kMaxReceives && queue.count <= tuple_properties_.depth);
  return true;
}

// To the adapter, the first time or again. False: its queue is full.
bool RdmaTuples::hand_over(ReceiveQueue& queue, Posting& posting) {
  const TupleReceive& receive = *posting.receive;
  Piece pieces[1 + TupleMemory::kMaxSparePieces];
  uint32_t count = 0;
  if (receive.capacity != 0) {
    // A queue takes no message that is longer than longest_bytes: the adapter need not see more of the buffer.
    const size_t bytes = std::min(receive.capacity, tuple_properties_.longest_bytes);
    pieces[count++] = {reinterpret_cast<uint64_t>(receive.buffer), uint32_t(bytes),
                       region_of(*posting.registration).local_key()};
  }
  if (posting.spare) count += memory_.add_spare(pieces + count);
  const ReceiveRequest request{reinterpret_cast<uint64_t>(&posting), pieces, count};
  return queue.srq->post({&request, 1}) == 1;
}

void RdmaTuples::drop(Posting& posting) {
  if (posting.registration) registrations_.release(*posting.registration);
  postings_.destroy(&posting);
}

// Its receive queue is destroyed first: nothing completes in it any more, and earlier completions are dropped.
void RdmaTuples::close(TupleReceiveQueue& closed) {
  auto& queue = static_cast<ReceiveQueue&>(closed);
  queue.srq.reset();
  if (queue.count != 0) stash_.fill();
  while (Posting* posting = queue.posted.pop_front()) {
    stash_.forget(reinterpret_cast<uint64_t>(posting));
    --receives_posted_;
    drop(*posting);
  }
  IntrusiveList<ReceiveQueue>::remove(&queue);
  delete &queue;
}

// --- The path's

int RdmaTuples::poll() {
  if (stash_.empty()) {
    if (outstanding_ == 0 && receives_posted_ == 0) return 0;
    stash_.fill();
  }
  int handled = 0;
  for (; !stash_.empty(); ++handled) {
    const Completion completion = stash_.pop();
    if (completion.id & kSendBit) sent(*reinterpret_cast<Sending*>(completion.id & ~kSendBit), completion);
    else received(*reinterpret_cast<Posting*>(completion.id), completion);
  }
  return handled;
}

void RdmaTuples::sent(Sending& sending, const Completion& completion) {
  TupleSend& message = *sending.message;
  auto& queue = static_cast<SendQueue&>(*message.queue);
  if (completion.status != Status::success) {
    returned(queue, completion.status);
    return;
  }
  IntrusiveList<Sending>::remove(&sending);
  end(sending);
  --outstanding_;
  ++queue.arrived;
  queue.on->failures = 0;
  if (--queue.out == 0) free_initiator(queue);
  message.done(message, Error());
}

void RdmaTuples::end(Sending& sending) {
  if (sending.registration) registrations_.release(*sending.registration);
  sendings_.destroy(&sending);
}

void RdmaTuples::received(Posting& posting, const Completion& completion) {
  // A receive that was taken when its queue pair failed: it waits for the repair, or for the loss of the peer.
  if (completion.status != Status::success) {
    posting.spare |= completion.status == Status::local_length;
    return;
  }
  ReceiveQueue& queue = *posting.queue;
  ++queue.landed;
  TupleReceive& receive = *posting.receive;
  IntrusiveList<Posting>::remove(&posting);
  --queue.count;
  --receives_posted_;
  drop(posting);
  receive.done(receive, completion.bytes, Error());
}

// What the peer's messages have filled; its other completions are over.
void RdmaTuples::deliver_stashed(const Peer& peer) {
  std::vector<Completion> its;
  stash_.erase_if([&](const Completion& completion) {
    if (completion.id & kSendBit) return false;
    if (reinterpret_cast<Posting*>(completion.id)->queue->peer != &peer) return false;
    its.push_back(completion);
    return true;
  });
  for (const Completion& completion : its) received(*reinterpret_cast<Posting*>(completion.id), completion);
}

void RdmaTuples::reopen(PeerId id) {
  if (auto found = peers_.find(id); found != peers_.end()) found->second.lost = false;
}

// Queue pairs are destroyed first: work in the adapter is dropped with them, and touches no memory any more.
void RdmaTuples::lose(PeerId id, const Error& reason) {
  auto found = peers_.find(id);
  if (found == peers_.end() || found->second.lost) return;
  Peer& peer = found->second;
  peer.lost = true;
  peer.initiators.clear();
  peer.targets.clear();
  stash_.fill();
  deliver_stashed(peer);
  for (Sending* sending = peer.out.front(); sending; sending = peer.out.next(sending))
    stash_.forget(reinterpret_cast<uint64_t>(sending) | kSendBit);
  while (Sending* sending = peer.out.pop_front()) {
    TupleSend& message = *sending->message;
    auto& queue = static_cast<SendQueue&>(*message.queue);
    end(*sending);
    --outstanding_;
    --queue.out;
    queue.on = nullptr;
    message.done(message, Error(reason.error_class(), std::string(reason.text())));
  }
}

}  // namespace tern::rdma
