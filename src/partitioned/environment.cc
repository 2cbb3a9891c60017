#include "partitioned/environment.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "partitioned/receive.h"
#include "partitioned/send.h"

namespace tern::partitioned {

Environment::Environment(PointToPoint& p2p) : p2p_(p2p) {
  endpoints().register_kinds(wire::kFirstPartitionedKind, wire::kLastPartitionedKind, *this);
}

PartitionedSend* Environment::make_send(const Arguments& arguments) { return new PartitionedSend(*this, arguments); }

template <typename Waiting>
bool Environment::take_oldest(const Key& key, std::deque<Waiting> Unmatched::*which, Waiting& oldest) {
  const auto found = unmatched_.find(key);
  if (found == unmatched_.end() || (found->second.*which).empty()) return false;
  oldest = (found->second.*which).front();
  TERN_DEBUG_ASSERT(!(found->second.*which).empty());
  (found->second.*which).pop_front();
  if ((found->second.*which).empty()) unmatched_.erase(found);
  return true;
}

PartitionedReceive* Environment::make_receive(const Arguments& arguments) {
  auto* receive = new PartitionedReceive(*this, arguments);
  if (arguments.peer == kNoPeer) return receive;
  const Key key{arguments.peer, arguments.context, arguments.tag};
  Offer offer;
  if (take_oldest(key, &Unmatched::offers, offer)) match(*receive, offer);
  else unmatched_[key].receives.push_back(receive);
  return receive;
}

void Environment::on_offer(Endpoint& from, const wire::Header& header, uint64_t bytes) {
  const Key key{from.peer, header.context, header.tag};
  const Offer offer{header.token, bytes};
  PartitionedReceive* receive = nullptr;
  if (!take_oldest(key, &Unmatched::receives, receive)) {
    unmatched_[key].offers.push_back(offer);
  } else if (receive) {
    match(*receive, offer);
  } else {
    const wire::PartitionedAnswerBody freed{};
    endpoints().post(from, wire::make_control_header(wire::kPartitionedAnswer, offer.token), &freed, sizeof freed);
  }
}

void Environment::match(PartitionedReceive& receive, const Offer& offer) {
  receive.matched(offer.token, receives_.add(receive), offer.bytes);
}

void Environment::forget(PartitionedReceive& receive, uint32_t token) {
  if (token != 0) {
    receives_.remove(token);
    return;
  }
  const Arguments& a = receive.arguments();
  const auto found = unmatched_.find(Key{a.peer, a.context, a.tag});
  if (found == unmatched_.end()) return;
  std::replace(found->second.receives.begin(), found->second.receives.end(), &receive,
               static_cast<PartitionedReceive*>(nullptr));
}

PartitionedSend* Environment::send_of(const Endpoint& from, uint32_t token) {
  PartitionedSend* send = sends_.find(token);
  return send && send->is_from(from) ? send : nullptr;
}

PartitionedReceive* Environment::receive_of(const Endpoint& from, const wire::Header& header, size_t bytes) {
  PartitionedReceive* receive = receives_.find(header.token);
  return receive && receive->is_from(from) && receive->expects(header.context, bytes) ? receive : nullptr;
}

void Environment::on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (header.kind == wire::kPartitionedData) {
    PartitionedReceive* receive = receive_of(from, header, bytes);
    if (!receive) return;
    receive->target(header.context, bytes).unpack(payload, bytes);
    receive->landed(header.context, bytes);
  } else if (header.kind == wire::kPartitionedLanded) {
    wire::PartitionedLandedBody body;
    if (!wire::parse_body(payload, bytes, body)) return;
    if (PartitionedReceive* receive = receive_of(from, header, size_t(body.bytes)))
      receive->landed(header.context, size_t(body.bytes));
  } else if (header.kind == wire::kPartitionedOffer) {
    wire::PartitionedOfferBody body;
    if (wire::parse_body(payload, bytes, body)) on_offer(from, header, body.bytes);
  } else if (header.kind == wire::kPartitionedAnswer) {
    wire::PartitionedAnswerBody body;
    if (!wire::parse_body(payload, bytes, body)) return;
    if (PartitionedSend* send = send_of(from, header.token)) send->matched(body);
    else tell_gone(from, body.token);
  } else if (header.kind == wire::kPartitionedOpen) {
    if (PartitionedSend* send = send_of(from, header.token)) send->opened();
    else tell_gone(from, uint32_t(header.context));
  } else if (header.kind == wire::kPartitionedGone) {
    PartitionedReceive* receive = receives_.find(header.token);
    if (receive && receive->is_from(from)) receive->sender_gone();
  }
}

void Environment::tell_gone(Endpoint& to, uint32_t receiver) {
  if (receiver != 0) endpoints().post(to, wire::make_control_header(wire::kPartitionedGone, receiver));
}

Landing Environment::on_header(Endpoint& from, const wire::Header& header, size_t bytes) {
  Landing landing;
  if (header.kind != wire::kPartitionedData) return landing;
  if (PartitionedReceive* receive = receive_of(from, header, bytes))
    landing.target = receive->target(header.context, bytes);
  return landing;
}

void Environment::on_landed(Endpoint& from, const wire::Header& header, Landing&, size_t bytes, Error error) {
  if (header.kind != wire::kPartitionedData) return;
  // Found again by its name: it may have ended since, its peer lost, and been freed.
  PartitionedReceive* receive = receive_of(from, header, bytes);
  if (!receive) return;
  if (error) receive->fail(std::move(error));
  else receive->landed(header.context, bytes);
}

void Environment::on_peer_lost(Endpoint& peer, const Error& error) {
  sends_.for_each([&](PartitionedSend& send) {
    if (send.is_from(peer)) send.lost();
  });
  receives_.for_each([&](PartitionedReceive& receive) {
    if (receive.is_from(peer)) receive.fail(endpoints().loss_of(peer.peer));
  });
  // Outside of the map: a receive that completes may be freed by who waits for it.
  std::vector<PartitionedReceive*> waiting;
  for (const auto& [key, unmatched] : unmatched_) {
    if (key.peer == peer.peer) waiting.insert(waiting.end(), unmatched.receives.begin(), unmatched.receives.end());
  }
  for (PartitionedReceive* receive : waiting) {
    if (receive) receive->fail(endpoints().loss_of(peer.peer));
  }
}

std::string Environment::report() const {
  std::string lines;
  sends_.for_each([&](const PartitionedSend& send) { lines += send.report(); });
  receives_.for_each([&](const PartitionedReceive& receive) { lines += receive.report(); });
  for (const auto& [key, unmatched] : unmatched_) {
    for (const PartitionedReceive* receive : unmatched.receives) {
      if (receive) lines += receive->report();
    }
  }
  return lines;
}

}  // namespace tern::partitioned
