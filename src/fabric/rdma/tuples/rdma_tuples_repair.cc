// Tuple queues over RDMA: what happens when a queue pair fails. See rdma_tuples.h.
#include <algorithm>
#include <bit>
#include <string>

#include "base/assert.h"
#include "fabric/rdma/tuples/rdma_tuple_tickets.h"
#include "fabric/rdma/tuples/rdma_tuples.h"

namespace tern::rdma {
namespace {

// Repairs of an initiator in succession after which no message arrives though its receive is posted. Each takes as long
// as the adapter tries (TERN_RDMA_TIMEOUT_MS, 8 times), so a peer that lives but cannot be reached so is given up in
// seconds.
constexpr uint32_t kMaxFailures = 16;
constexpr char kNoRepair[] = "the connection of a tuple queue cannot be repaired";

}  // namespace

// A message has come back that is not known to have arrived. All behind it come back, too: the adapter has stopped.
void RdmaTuples::returned(SendQueue& queue, Status status) {
  if (queue.repair.given_up()) return;
  if (queue.repair.message_failed()) {
    queue.returned = 0;
    queue.on->trouble = status_name(status);  // those behind it are only flushed
  }
  if (++queue.returned < queue.out) return;
  if (queue.on->failures > kMaxFailures) give_up(queue, queue.on->trouble);
  else ask_for_repair(queue);
}

void RdmaTuples::ask_for_repair(SendQueue& queue) {
  Initiator& initiator = *queue.on;
  queue.repair.all_are_back();
  initiator.connected = false;
  initiator.asker = &queue;
  if (initiator.pair->reset()) {
    give_up(queue, "a queue pair cannot be reset after an error");
    return;
  }
  TicketBody body;
  body.has_address = 1;
  body.address = initiator.pair->address();
  queue.broken(queue, std::bit_cast<TupleTicket>(body));
}

// What is out stays so until `lose`.
void RdmaTuples::give_up(SendQueue& queue, const char* trouble) {
  queue.repair.give_up();
  if (queue.on->connected) queue.on->pair->fail();
  broken_(queue.peer->id, trouble);
}

void RdmaTuples::abandon(TupleSendQueue& abandoned) {
  auto& queue = static_cast<SendQueue&>(abandoned);
  if (queue.repair.asking() && !queue.peer->lost) give_up(queue, kNoRepair);
}

void RdmaTuples::resume(TupleSendQueue& repaired, const TupleTicket* answer) {
  auto& queue = static_cast<SendQueue&>(repaired);
  if (!queue.repair.asking() || queue.peer->lost) return;
  Initiator& initiator = *queue.on;
  uint32_t landed = queue.out;  // of those that are out
  if (answer) {
    const auto body = std::bit_cast<RepairedBody>(*answer);
    landed = (body.landed - queue.arrived) & RepairedBody::kLandedMask;
    initiator.failures += landed == 0 && body.posted;
    if (landed > queue.out || initiator.pair->connect(body.address)) {
      give_up(queue, kNoRepair);
      return;
    }
    queue.srq = body.number;
    initiator.connected = true;
  }
  queue.repair.answered();
  initiator.asker = nullptr;
  IntrusiveList<Sending> over;
  take_landed(queue, landed, over);
  if (queue.out == 0) free_initiator(queue);
  else send_again(queue);
  // Last: the queue's user may leave it.
  while (Sending* sending = over.pop_front()) {
    TupleSend& message = *sending->message;
    end(*sending);
    message.done(message, Error());
  }
}

// The oldest `landed` of those that are out are not out any more.
void RdmaTuples::take_landed(SendQueue& queue, uint32_t landed, IntrusiveList<Sending>& over) {
  if (landed != 0) queue.on->failures = 0;
  queue.arrived += landed;
  queue.out -= landed;
  outstanding_ -= landed;
  for (Sending* sending = queue.peer->out.front(); landed != 0;) {
    TERN_ASSERT(sending);
    Sending* next = queue.peer->out.next(sending);
    if (sending->message->queue == &queue) {
      IntrusiveList<Sending>::remove(sending);
      over.push_back(sending);
      --landed;
    }
    sending = next;
  }
}

// All that are out, in order, up to the first that the adapter refuses.
void RdmaTuples::send_again(SendQueue& queue) {
  IntrusiveList<Sending>& out = queue.peer->out;
  for (Sending* sending = out.front(); sending; sending = out.next(sending)) {
    if (sending->message->queue != &queue || hand_over(queue, *sending)) continue;
    give_up(queue, "the adapter refuses a message after a repair");
    return;
  }
}

Error RdmaTuples::repair(TupleReceiveQueue& broken, const TupleTicket& ticket, TupleTicket& answer) {
  auto& queue = static_cast<ReceiveQueue&>(broken);
  const auto asked = std::bit_cast<TicketBody>(ticket);
  RepairedBody body;
  if (Error error = make_target(*queue.peer, asked.address, body.address)) return error;
  std::unique_ptr<SharedReceiveQueue> fresh;
  if (Error error = make_receive_queue(fresh)) return error;
  queue.srq = std::move(fresh);
  stash_.fill();
  const uint32_t filled = settle_stash(queue);
  Posting* posting = queue.posted.front();
  for (uint32_t i = 0; i < filled; ++i) posting = queue.posted.next(posting);
  for (; posting; posting = queue.posted.next(posting)) {
    if (!hand_over(queue, *posting)) return Error(ErrorClass::other, "a tuple queue's receives cannot be posted again");
  }
  body.number = queue.srq->number();
  body.landed = (queue.landed + filled) & RepairedBody::kLandedMask;
  body.posted = queue.count > filled;
  answer = std::bit_cast<TupleTicket>(body);
  return {};
}

// Of the completions not handled yet, those of this queue's receives that failed are over; how many succeeded.
uint32_t RdmaTuples::settle_stash(ReceiveQueue& queue) {
  uint32_t filled = 0;
  stash_.erase_if([&](const Completion& completion) {
    if (completion.id & kSendBit) return false;
    auto& posting = *reinterpret_cast<Posting*>(completion.id);
    if (posting.queue != &queue) return false;
    filled += completion.status == Status::success;
    if (completion.status == Status::success) return false;
    received(posting, completion);
    return true;
  });
  return filled;
}

// An initiator without messages is connected again for the next queue that asks. A target's error is its initiator's
// to see: by the next message.
void RdmaTuples::on_pair_error(uint32_t number) {
  for (auto& [id, peer] : peers_) {
    Initiator* initiator = peer.initiators.unused_of(number);
    if (!initiator) continue;
    initiator->connected = false;
    if (initiator->pair->reset()) broken_(id, "a queue pair cannot be reset after an error");
  }
}

}  // namespace tern::rdma
