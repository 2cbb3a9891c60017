#include "fabric/ofi/ofi_tuples.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/ofi/ofi_peer.h"
#include "fabric/ofi/ofi_streams.h"

namespace tern {
namespace {

// A tag that strangers could try out would protect nobody.
constexpr int kFewestTagBits = 32;
// The provider cancels receives by itself, or its adapter does; nothing of that takes longer than a round trip.
constexpr uint64_t kCancelPatience_ns = kSecond_ns;
// How long a sender that does not wait may be left without word. What it keeps until then are copies for a quarter of a
// queue's depth at most: the word is due sooner where more has come.
constexpr uint64_t kWordDelay_ns = kMillisecond_ns;

struct OfiTicket {
  uint64_t tag = 0;
  uint64_t longest_bytes = 0;
  uint32_t landed = 0;
  uint32_t number = 0;  ///< of the sender's queue; 0: it need not be told what has landed
};
static_assert(sizeof(OfiTicket) <= sizeof(TupleTicket::bytes));

void write_ticket(TupleTicket& ticket, const OfiTicket& its) {
  ticket = {};
  std::memcpy(ticket.bytes, &its, sizeof its);
}

OfiTicket read_ticket(const TupleTicket& ticket) {
  OfiTicket its;
  std::memcpy(&its, ticket.bytes, sizeof its);
  return its;
}

// Counts that begin anew after 2^32.
bool before(uint32_t a, uint32_t b) { return int32_t(a - b) < 0; }

}  // namespace

bool OfiTuples::possible(const ofi::Capabilities& able) {
  return able.tagged && able.send_after_send && __builtin_popcountll(able.tag_bits) >= kFewestTagBits;
}

OfiTuples::OfiTuples(OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers, const Tunables& tunables)
    : adapter_(adapter),
      streams_(streams),
      peers_(peers),
      copies_(size_t(tunables.tuple_copy_bytes)),
      most_out_(std::max<size_t>(size_t(tunables.unexpected_credit_bytes), size_t(tunables.tuple_bytes))) {
  tuple_properties_.longest_bytes = std::min(size_t(tunables.tuple_bytes), adapter.able().max_bytes);
  tuple_properties_.depth = kDepth;
}

std::unique_ptr<OfiTuples> OfiTuples::create(OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers,
                                             const Tunables& tunables) {
  std::unique_ptr<OfiTuples> tuples(new OfiTuples(adapter, streams, peers, tunables));
  if (!tuples->make_memory()) tuples.reset();
  return tuples;
}

bool OfiTuples::make_memory() {
  const size_t spare = tuple_properties_.longest_bytes;
  if (adapter_.able().receive_pieces > 1) spare_ = std::make_unique_for_overwrite<std::byte[]>(spare);
  if (!adapter_.able().needs_local) return true;
  int error = 0;
  if (copies_.memory())
    copies_region_ = adapter_.port->register_memory(copies_.memory(), copies_.all_bytes(), {}, error);
  if (error == 0 && spare_) spare_region_ = adapter_.port->register_memory(spare_.get(), spare, {}, error);
  return error == 0;
}

OfiTuples::~OfiTuples() {
  while (SendQueue* queue = send_queues_.pop_front()) {
    while (queue->out.pop_front()) {
    }
    delete queue;
  }
  while (ReceiveQueue* queue = receive_queues_.pop_front()) {
    while (queue->posted.pop_front()) {
    }
    delete queue;
  }
  for (auto* list : {&due_, &later_}) {
    while (list->pop_front()) {
    }
  }
}

// --- The sender.

TupleSendQueue* OfiTuples::ask(Lane& to, TupleTicket& ticket) {
  auto& peer = static_cast<OfiPeer&>(to);
  if (peer.lost || peer.doomed) return nullptr;
  auto* queue = new SendQueue;
  queue->peer = &peer;
  if (!adapter_.able().match_complete) {
    if (++last_number_ == 0) ++last_number_;
    queue->number = last_number_;
    numbered_[queue->number] = queue;
  }
  send_queues_.push_back(queue);
  write_ticket(ticket, {0, tuple_properties_.longest_bytes, 0, queue->number});
  return queue;
}

Error OfiTuples::join(TupleSendQueue& queue, const TupleTicket& answer) {
  auto& its = static_cast<SendQueue&>(queue);
  const OfiTicket ticket = read_ticket(answer);
  if ((ticket.tag & ~adapter_.able().tag_bits) != 0)
    return Error(ErrorClass::other, "the peer's tag has more bits than the provider matches");
  its.tag = ticket.tag;
  its.longest_bytes = std::min(tuple_properties_.longest_bytes, size_t(ticket.longest_bytes));
  return {};
}

bool OfiTuples::send(TupleSend& message) {
  auto& queue = static_cast<SendQueue&>(*message.queue);
  OfiPeer& peer = *queue.peer;
  if (!queue.repair.sound() || peer.lost || peer.doomed || message.bytes > queue.longest_bytes ||
      queue.count >= kDepth || (peer.tuple_bytes != 0 && peer.tuple_bytes + message.bytes > most_out_)) {
    return false;
  }
  if (!peer.met && !peers_.meet(peer)) return false;
  Sending& sending = *sendings_.create();
  sending.message = &message;
  sending.queue = &queue;
  sending.index = queue.sent;
  if (hand_over(queue, sending) != 0) {
    sendings_.destroy(&sending);
    return false;
  }
  queue.out.push_back(&sending);
  ++queue.count;
  ++queue.sent;
  peer.tuple_bytes += message.bytes;
  return true;
}

int OfiTuples::hand_over(SendQueue& queue, Sending& sending) {
  const TupleSend& message = *sending.message;
  ofi::Piece piece{const_cast<std::byte*>(message.data), message.bytes, nullptr};
  const bool lent = copies_.contains(message.data);
  if (adapter_.able().needs_local && message.bytes != 0) {
    if (lent) {
      piece.region = copies_region_.get();
    } else {
      if (!sending.registration) sending.registration = adapter_.hold(message.data, message.bytes, false);
      if (!sending.registration) return ofi::kNoMemory;
      piece.region = &OfiAdapter::region_of(*sending.registration);
    }
  }
  // Whose message was copied does not wait until it has arrived.
  const int result = adapter_.port->send_tagged(queue.peer->address, queue.tag, piece, !lent, sending);
  if (result != 0) return result;
  sending.state = Sending::State::in_port;
  ++queue.in_port;
  ++adapter_.outstanding;
  queue.peer->spoken = true;
  return 0;
}

// The last message of a queue that has stopped takes the queue along.
void OfiTuples::finish(Sending& sending, Error error) {
  SendQueue& queue = *sending.queue;
  TupleSend& message = *sending.message;
  queue.peer->tuple_bytes -= message.bytes;
  --queue.count;
  sending.unlink();
  sendings_.destroy(&sending);
  message.done(message, std::move(error));
}

// Those that the receiver has, and the port is through with.
void OfiTuples::finish_landed(SendQueue& queue) {
  IntrusiveList<Sending> over;
  for (Sending* sending = queue.out.front(); sending && before(sending->index, queue.landed);) {
    Sending* next = queue.out.next(sending);
    if (sending->state != Sending::State::in_port) {
      sending->unlink();
      over.push_back(sending);
    }
    sending = next;
  }
  while (Sending* sending = over.front()) finish(*sending, Error());
}

void OfiTuples::sent(Sending& sending, int error) {
  --adapter_.outstanding;
  if (!sending.queue) {
    sendings_.destroy(&sending);
    return;
  }
  SendQueue& queue = *sending.queue;
  --queue.in_port;
  if (error != 0) {
    sending.state = Sending::State::failed;
    if (!queue.repair.given_up()) (void)queue.repair.message_failed();
  } else {
    sending.state = Sending::State::sent;
    // Behind one that has failed it takes that one's receive.
    for (Sending* earlier = queue.out.previous(&sending); earlier; earlier = queue.out.previous(earlier)) {
      if (earlier->state == Sending::State::failed)
        give_up(queue, "a message to a tuple queue has failed before one that has not");
    }
  }
  const bool all_back = queue.repair.returning() && queue.in_port == 0;
  if (error == 0 && (queue.number == 0 || before(sending.index, queue.landed))) finish(sending, Error());
  if (all_back) when_all_are_back(queue);  // the one that has failed keeps it
}

void OfiTuples::on_landed(OfiPeer& peer, const wire::OfiLanded& landed) {
  const auto found = numbered_.find(landed.queue);
  if (found == numbered_.end()) return;
  SendQueue& queue = *found->second;
  // (What it tells to a queue that is being repaired, it tells again in its answer.)
  if (queue.peer != &peer || !queue.repair.sound() || !before(queue.landed, landed.landed) ||
      before(queue.sent, landed.landed))
    return;
  queue.landed = landed.landed;
  finish_landed(queue);
}

void OfiTuples::when_all_are_back(SendQueue& queue) {
  queue.repair.all_are_back();
  TupleTicket ticket;
  write_ticket(ticket, {0, tuple_properties_.longest_bytes, 0, queue.number});
  queue.broken(queue, ticket);
}

void OfiTuples::resume(TupleSendQueue& queue, const TupleTicket* answer) {
  auto& its = static_cast<SendQueue&>(queue);
  if (!its.repair.asking()) return;
  its.landed = its.sent;
  if (answer) {
    const OfiTicket ticket = read_ticket(*answer);
    its.landed = ticket.landed;
    its.tag = ticket.tag & adapter_.able().tag_bits;
  }
  its.repair.answered();
  bool rest = false;
  for (Sending* sending = its.out.front(); sending; sending = its.out.next(sending)) {
    if (before(sending->index, its.landed)) continue;
    sending->state = Sending::State::unsent;
    ++unsent_;
    rest = true;
  }
  finish_landed(its);
  if (rest) send_rest(its);
}

// What has not landed, in order.
void OfiTuples::send_rest(SendQueue& queue) {
  for (Sending* sending = queue.out.front(); sending; sending = queue.out.next(sending)) {
    if (sending->state != Sending::State::unsent) continue;
    const int result = hand_over(queue, *sending);
    if (result == 0) {
      --unsent_;
      continue;
    }
    if (result != ofi::kAgain) give_up(queue, adapter_.port->explain("fi_tsendmsg", result));
    return;
  }
}

bool OfiTuples::pump() {
  for (SendQueue* queue = unsent_ != 0 ? send_queues_.front() : nullptr; queue; queue = send_queues_.next(queue)) {
    if (queue->repair.sound() && !queue->peer->doomed) send_rest(*queue);
  }
  if (next_word_ns() <= adapter_.clock.now_ns()) {
    while (Acknowledgement* its = later_.front()) make_due(*its);
  }
  return (due_.empty() || send_acknowledgements()) && unsent_ == 0;
}

void OfiTuples::give_up(SendQueue& queue, std::string trouble) {
  queue.repair.give_up();
  peers_.doom(*queue.peer, std::move(trouble));
}

void OfiTuples::abandon(TupleSendQueue& queue) {
  give_up(static_cast<SendQueue&>(queue), "a tuple queue could not be repaired");
}

void OfiTuples::leave(TupleSendQueue& queue) {
  auto& its = static_cast<SendQueue&>(queue);
  TERN_ASSERT(its.out.empty() && its.in_port == 0);
  numbered_.erase(its.number);
  its.unlink();
  delete &its;
}

std::byte* OfiTuples::lend(size_t bytes) { return copies_.lend(bytes); }

void OfiTuples::give_back(std::byte* memory) { copies_.give_back(memory); }

// --- The receiver.

uint64_t OfiTuples::draw_tag() {
  uint64_t tag;
  do {
    randombytes_buf(&tag, sizeof tag);
    tag &= adapter_.able().tag_bits;
  } while (!tags_.insert(tag).second);
  return tag;
}

TupleReceiveQueue* OfiTuples::accept(Lane& from, const TupleTicket& ticket, TupleTicket& answer) {
  auto& peer = static_cast<OfiPeer&>(from);
  if (peer.lost || peer.doomed || (!peer.met && !peers_.meet(peer))) return nullptr;
  auto* queue = new ReceiveQueue;
  queue->peer = &peer;
  queue->tag = draw_tag();
  queue->number = read_ticket(ticket).number;
  receive_queues_.push_back(queue);
  write_ticket(answer, {queue->tag, tuple_properties_.longest_bytes, 0, 0});
  return queue;
}

int OfiTuples::hand_over(ReceiveQueue& queue, Posting& posting) {
  const TupleReceive& receive = *posting.receive;
  ofi::Piece pieces[2] = {{receive.buffer, receive.capacity, nullptr}, {}};
  size_t count = 1;
  if (const size_t longest = tuple_properties_.longest_bytes; spare_ && receive.capacity < longest)
    pieces[count++] = {spare_.get(), longest - receive.capacity, spare_region_.get()};
  if (adapter_.able().needs_local && receive.capacity != 0) {
    if (!posting.registration) posting.registration = adapter_.hold(receive.buffer, receive.capacity, true);
    if (!posting.registration) return ofi::kNoMemory;
    pieces[0].region = &OfiAdapter::region_of(*posting.registration);
  }
  const int result = adapter_.port->receive_tagged(queue.peer->address, queue.tag, pieces, count, posting);
  posting.in_port = result == 0;
  return result;
}

bool OfiTuples::post(TupleReceiveQueue& queue, TupleReceive& receive) {
  auto& its = static_cast<ReceiveQueue&>(queue);
  if (its.count >= kDepth || its.peer->lost) return false;
  Posting& posting = *postings_.create();
  posting.receive = &receive;
  posting.queue = &its;
  if (hand_over(its, posting) != 0) {
    postings_.destroy(&posting);
    return false;
  }
  its.posted.push_back(&posting);
  ++its.count;
  return true;
}

void OfiTuples::received(Posting& posting, const ofi::Completion& completion) {
  posting.in_port = false;
  ReceiveQueue* queue = posting.queue;
  if (!queue) {
    postings_.destroy(&posting);
    return;
  }
  // Its message has failed: its sender asks for a repair.
  if (completion.error != 0 && completion.error != ofi::kTruncated) return;
  TupleReceive& receive = *posting.receive;
  --queue->count;
  ++queue->landed;
  if (queue->number != 0) acknowledge(*queue, completion.marked);
  posting.unlink();
  postings_.destroy(&posting);
  // The length of what was cut off is not always there.
  const size_t bytes = completion.error == 0 ? completion.bytes : std::max(completion.bytes, receive.capacity + 1);
  receive.done(receive, bytes, Error());
}

// Once for all that have landed until it is sent: in the next pump if the sender waits, else later.
void OfiTuples::acknowledge(ReceiveQueue& queue, bool waits) {
  if (!queue.acknowledgement) {
    queue.acknowledgement = acknowledgement_pool_.create();
    queue.acknowledgement->peer = queue.peer;
    queue.acknowledgement->queue = &queue;
    if (later_.empty()) later_since_ns_ = adapter_.clock.now_ns();
    later_.push_back(queue.acknowledgement);
  }
  Acknowledgement& its = *queue.acknowledgement;
  its.landed = {queue.number, queue.landed};
  if (!its.due && (++its.messages >= kDepth / 4 || waits)) make_due(its);
}

void OfiTuples::make_due(Acknowledgement& acknowledgement) {
  TERN_ASSERT(!acknowledgement.due && acknowledgement.linked());
  acknowledgement.unlink();
  acknowledgement.due = true;
  due_.push_back(&acknowledgement);
}

uint64_t OfiTuples::next_word_ns() const { return later_.empty() ? ~uint64_t{0} : later_since_ns_ + kWordDelay_ns; }

// False: some are left, since there was no room.
bool OfiTuples::send_acknowledgements() {
  IntrusiveList<Acknowledgement> left;
  while (Acknowledgement* its = due_.pop_front()) {
    const bool gone = its->peer->lost || its->peer->doomed;
    if (!gone && !streams_.send_sign(*its->peer, wire::OfiFrameType::landed, &its->landed, sizeof its->landed)) {
      left.push_back(its);
      continue;
    }
    if (its->queue) its->queue->acknowledgement = nullptr;
    acknowledgement_pool_.destroy(its);
  }
  while (Acknowledgement* its = left.pop_front()) due_.push_back(its);
  return due_.empty();
}

// Whether the completion is of a receive of that queue; then the port does not have that one any more.
bool OfiTuples::is_of(ReceiveQueue& queue, const ofi::Completion& completion) {
  auto& operation = static_cast<OfiOperation&>(*completion.context);
  if (operation.kind != OfiOperation::Kind::tuple_receive) return false;
  auto& posting = static_cast<Posting&>(operation);
  if (posting.queue != &queue) return false;
  posting.in_port = false;
  // If it has landed it counts; its owner is told in the next poll.
  posting.landed = completion.error == 0 || completion.error == ofi::kTruncated;
  return true;
}

// All receives come back, filled or not. False: the provider keeps some.
bool OfiTuples::take_back(ReceiveQueue& queue) {
  auto comes_back = [&](const ofi::Completion& its) {
    return is_of(queue, its) && its.error != 0 && its.error != ofi::kTruncated;
  };
  adapter_.drop_stashed(comes_back);
  for (Posting* posting = queue.posted.front(); posting; posting = queue.posted.next(posting)) {
    if (posting->in_port) adapter_.port->cancel(*posting);
  }
  auto any = [&] {
    Posting* posting = queue.posted.front();
    while (posting && !posting->in_port) posting = queue.posted.next(posting);
    return posting != nullptr;
  };
  const uint64_t until = adapter_.clock.now_ns() + kCancelPatience_ns;
  while (any()) {
    ofi::Completion completion;
    const int count = adapter_.port->poll(&completion, 1);
    if (count < 0 || adapter_.clock.now_ns() > until) return false;
    if (count == 1 && !comes_back(completion)) adapter_.stash(completion);
  }
  return true;
}

Error OfiTuples::repair(TupleReceiveQueue& queue, const TupleTicket&, TupleTicket& answer) {
  auto& its = static_cast<ReceiveQueue&>(queue);
  if (!take_back(its)) return Error(ErrorClass::other, "the provider does not give back the receives of a queue");
  uint32_t landed = its.landed;
  tags_.erase(its.tag);
  its.tag = draw_tag();
  for (Posting* posting = its.posted.front(); posting; posting = its.posted.next(posting)) {
    if (posting->landed) {
      ++landed;
      continue;
    }
    int result;
    do {  // there was room for it before
      result = hand_over(its, *posting);
      if (result == ofi::kAgain) adapter_.make_room();
    } while (result == ofi::kAgain);
    if (result != 0) return Error(ErrorClass::other, adapter_.port->explain("fi_trecvmsg", result));
  }
  write_ticket(answer, {its.tag, tuple_properties_.longest_bytes, landed, 0});
  return {};
}

void OfiTuples::close(TupleReceiveQueue& queue) {
  auto& its = static_cast<ReceiveQueue&>(queue);
  tags_.erase(its.tag);
  while (Posting* posting = its.posted.pop_front()) {
    posting->queue = nullptr;
    posting->receive = nullptr;
    if (posting->in_port) adapter_.port->cancel(*posting);
    else if (!posting->landed) postings_.destroy(posting);
  }
  if (its.acknowledgement) its.acknowledgement->queue = nullptr;
  its.unlink();
  delete &its;
}

// --- The path's.

void OfiTuples::on_completion(const ofi::Completion& completion) {
  auto& operation = static_cast<OfiOperation&>(*completion.context);
  if (operation.kind == OfiOperation::Kind::tuple_send) sent(static_cast<Sending&>(operation), completion.error);
  else received(static_cast<Posting&>(operation), completion);
}

void OfiTuples::lose(OfiPeer& peer, const Error& reason) {
  IntrusiveList<Sending> ended;
  for (SendQueue* queue = send_queues_.front(); queue; queue = send_queues_.next(queue)) {
    if (queue->peer != &peer) continue;
    queue->repair.give_up();
    while (Sending* sending = queue->out.pop_front()) ended.push_back(sending);
  }
  while (Sending* sending = ended.pop_front()) {
    TupleSend& message = *sending->message;
    peer.tuple_bytes -= message.bytes;
    const bool in_port = sending->state == Sending::State::in_port;
    if (sending->state == Sending::State::unsent) --unsent_;
    --sending->queue->count;
    sending->queue->in_port -= in_port;
    sending->queue = nullptr;
    sending->message = nullptr;
    if (in_port) adapter_.port->cancel(*sending);
    else sendings_.destroy(sending);
    message.done(message, Error(reason.error_class(), std::string(reason.text())));
  }
}

}  // namespace tern
