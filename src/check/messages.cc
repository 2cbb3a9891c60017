#include "check/messages.h"

#include "check/type_summary.h"

namespace tern::check {

Request* Messages::isend(const SendArguments& arguments, Count count, const Datatype& type) {
  const uint32_t before = sent_so_far(arguments.peer);
  Request* request = p2p_.isend(arguments);
  begun(arguments, before, count, type);
  return request;
}

void Messages::begun(const SendArguments& arguments, uint32_t before, Count count, const Datatype& type) {
  Endpoint& peer = p2p_.endpoints().at(arguments.peer);
  if (peer.lost() || peer.messages.sent() == before) return;  // not a message that is counted
  const wire::CheckedMessage message = {.context = arguments.context,
                                        .tag = arguments.tag,
                                        .number = peer.messages.sent(),
                                        .type = summary_of(count, type)};
  const std::string record = wire::build_checked_message(message, findings_.place());
  const wire::Header header = wire::make_header(wire::kCheckMessage, 0, 0, 0, 0);
  p2p_.endpoints().post(peer, header, record.data(), record.size());
}

void Messages::received(const ReceiveRequest& receive, const std::string& place) {
  if (!receive.sender || receive.status.cancelled || receive.error || receive.number == 0) return;
  const Key key{receive.sender->peer, receive.number};
  Received entry{receive.context,
                 receive.status.source,
                 receive.status.tag,
                 receive.count,
                 Ref<Datatype>::share(const_cast<Datatype*>(receive.type)),
                 place};
  if (const auto found = sent_.find(key); found != sent_.end()) {
    compare(found->second, entry);
    sent_.erase(found);
    return;
  }
  if (received_.size() == kKept) received_.erase(received_.begin());
  received_.insert_or_assign(key, std::move(entry));
}

static void tell(PointToPoint& p2p, Endpoint& peer) {
  p2p.endpoints().post(peer, wire::make_header(wire::kCheckFinalize, 0, 0, 0, 0), nullptr, 0);
}

void Messages::finalize() {
  in_finalize_ = true;
  std::set<PeerId> senders;
  for (const auto& [key, sent] : sent_) senders.insert(key.first);
  for (const PeerId peer : senders) tell(p2p_, p2p_.endpoints().at(peer));
}

void Messages::on_finalize(const Endpoint& from) {
  finalizing_.insert(from.peer);
  p2p_.progress().notify();
}

void Messages::on_record(Endpoint& from, std::string_view bytes) {
  if (in_finalize_) tell(p2p_, from);
  Sent sent;
  std::string_view place;
  if (!wire::parse_checked_message(bytes, sent.message, place)) return;
  sent.place = place;
  const Key key{from.peer, sent.message.number};
  if (const auto found = received_.find(key); found != received_.end()) {
    compare(sent, found->second);
    received_.erase(found);
    return;
  }
  if (sent_.size() == kKept) sent_.erase(sent_.begin());
  sent_.insert_or_assign(key, std::move(sent));
}

void Messages::compare(const Sent& sent, const Received& received) {
  // Numbers begin anew where a send was cancelled.
  if (sent.message.context != received.context || sent.message.tag != received.tag) return;
  if (may_receive(sent.message.type, received.count, *received.type)) return;
  findings_.report("the datatypes of a message do not match: rank " + std::to_string(received.source) +
                   " of the communicator sends " + words(sent.message.type) + " with tag " +
                   std::to_string(received.tag) + " in " + sent.place + ", and this rank receives " +
                   words(summary_of(received.count, *received.type)) + " in " + received.place +
                   ". Name the same basic datatypes on both sides (MPI 5.0, 3.3.1).");
}

}  // namespace tern::check
