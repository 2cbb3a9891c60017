#include "partitioned/environment.h"

#include <algorithm>

#include "partitioned/receive.h"
#include "partitioned/send.h"

namespace tern::partitioned {

Environment::Environment(PointToPoint& p2p) : p2p_(p2p) {
  endpoints().register_kinds(wire::kFirstPartitionedKind, wire::kLastPartitionedKind, *this);
}

PartitionedSend* Environment::make_send(const Arguments& arguments) {
  auto* send = new PartitionedSend(*this, arguments);
  return send;
}

PartitionedReceive* Environment::make_receive(const Arguments& arguments) {
  auto* receive = new PartitionedReceive(*this, arguments);
  if (arguments.peer == kNoPeer) return receive;
  const Key key{arguments.peer, arguments.context, arguments.tag};
  const auto found = unmatched_.find(key);
  if (found == unmatched_.end() || found->second.offers.empty()) {
    unmatched_[key].receives.push_back(receive);
    return receive;
  }
  const Offer offer = found->second.offers.front();
  found->second.offers.pop_front();
  if (found->second.offers.empty()) unmatched_.erase(found);
  match(*receive, offer);
  return receive;
}

void Environment::on_offer(Endpoint& from, const wire::Header& header, uint64_t bytes) {
  const Key key{from.peer, header.context, header.tag};
  const Offer offer{header.token, bytes};
  const auto found = unmatched_.find(key);
  if (found == unmatched_.end() || found->second.receives.empty()) {
    unmatched_[key].offers.push_back(offer);
    return;
  }
  PartitionedReceive& receive = *found->second.receives.front();
  found->second.receives.pop_front();
  if (found->second.receives.empty()) unmatched_.erase(found);
  match(receive, offer);
}

void Environment::match(PartitionedReceive& receive, const Offer& offer) {
  receive.matched(offer.token, receives_.add(receive), offer.bytes);
}

void Environment::forget(PartitionedSend& send, uint32_t token) {
  if (token != 0) sends_.remove(token);
}

void Environment::forget(PartitionedReceive& receive, uint32_t token) {
  if (token != 0) {
    receives_.remove(token);
    return;
  }
  const Arguments& a = receive.arguments();
  const auto found = unmatched_.find(Key{a.peer, a.context, a.tag});
  if (found == unmatched_.end()) return;
  std::erase(found->second.receives, &receive);
  if (found->second.receives.empty() && found->second.offers.empty()) unmatched_.erase(found);
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
    if (!wire::parse_partitioned_body(payload, bytes, body)) return;
    if (PartitionedReceive* receive = receive_of(from, header, size_t(body.bytes)))
      receive->landed(header.context, size_t(body.bytes));
  } else if (header.kind == wire::kPartitionedOffer) {
    wire::PartitionedOfferBody body;
    if (wire::parse_partitioned_body(payload, bytes, body)) on_offer(from, header, body.bytes);
  } else if (header.kind == wire::kPartitionedAnswer) {
    wire::PartitionedAnswerBody body;
    PartitionedSend* send = send_of(from, header.token);
    if (send && wire::parse_partitioned_body(payload, bytes, body)) send->matched(body);
  } else if (header.kind == wire::kPartitionedOpen) {
    if (PartitionedSend* send = send_of(from, header.token)) send->opened();
  }
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
  for (auto& [key, unmatched] : unmatched_) {
    if (key.peer != peer.peer) continue;
    for (PartitionedReceive* receive : unmatched.receives) receive->fail(endpoints().loss_of(peer.peer));
  }
}

std::string Environment::report() const {
  std::string lines;
  sends_.for_each([&](const PartitionedSend& send) { lines += send.report(); });
  receives_.for_each([&](const PartitionedReceive& receive) { lines += receive.report(); });
  for (const auto& [key, unmatched] : unmatched_) {
    for (const PartitionedReceive* receive : unmatched.receives) lines += receive->report();
  }
  return lines;
}

}  // namespace tern::partitioned
