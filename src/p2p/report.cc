#include "p2p/report.h"

#include <algorithm>
#include <string>
#include <vector>

#include "p2p/engines.h"
#include "p2p/impl.h"
#include "p2p/protocols/table.h"

namespace tern {

namespace {

constexpr size_t kMaxOfAKind = 10;  // a page, not a flood

bool of_user(uint64_t context) { return (context & 3) == 0; }

}  // namespace

ProtocolCounters MessageReport::counters() const {
  ProtocolCounters all = p2p_.inside().counters;
  for (size_t i = 0; i < kProtocolCount; ++i) {
    for (uint64_t messages : p2p_.inside().sends.counts().*kSentCounters[i].messages) all.sent[i] += messages;
  }
  p2p_.each_engine([&](const PointToPoint& p2p) {
    all += p2p.report().counters();
    return true;
  });
  return all;
}

uint32_t MessageReport::open_announcements() const {
  uint32_t open = 0;
  p2p_.inside().endpoints.for_each([&](const Endpoint& peer) { open += peer.announced.open; });
  p2p_.each_engine([&](const PointToPoint& p2p) {
    open += p2p.report().open_announcements();
    return true;
  });
  return open;
}

std::string MessageReport::statistics() const {
  const ProtocolCounters c = counters();
  std::string out;
  auto add = [&](const char* name, uint64_t value) {
    if (value != 0) out += (out.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(value);
  };
  for (const ProtocolRecord& record : kProtocols) {
    if (record.protocol != Protocol::eager) add(record.name(), c.sent[size_t(record.protocol)]);
  }
  for (const ProtocolRecord& record : kProtocols) {
    std::string orders;
    for (size_t i = 0; i < kArrivalCount; ++i) {
      uint64_t times = c.received[size_t(record.protocol)][i];
      if (times != 0)
        orders += (orders.empty() ? "" : "; ") + std::string(kArrivalNames[i]) + " " + std::to_string(times);
    }
    if (!orders.empty())
      out += (out.empty() ? "" : ", ") + ("received by " + std::string(record.name())) + " (" + orders + ")";
  }
  add("crossed", c.crossed);
  add("FINs saved", c.fins_saved);
  add("copied out", c.copied_out);
  add("no library buffer", c.no_buffer);
  add("announced", c.announced);
  add("announcements held", c.held);
  add("useless", c.useless);
  add("unknown", c.unknown);
  add("withdrawn", c.withdrawn);
  return out.empty() ? out : "  large messages: " + out + "\n";
}

std::vector<PendingMessage> MessageReport::pending() const {
  PointToPoint::Impl& impl = p2p_.inside();
  std::vector<PendingMessage> all;
  const auto communicator = [&](uint64_t context) {
    const char* plane = of_user(context) ? "" : (context & 3) == 1 ? " (collective)" : " (being created)";
    const uint64_t id = context >> 2;
    std::string name = id == 1 ? "MPI_COMM_WORLD" : id == 2 ? "MPI_COMM_SELF" : "";
    if (name.empty()) name = name_of(context);
    return (name.empty() ? "a communicator that this rank has freed, or not made yet" : name) + plane;
  };
  impl.receives.matching.for_each_posted([&](PostedReceive& posted) {
    auto& receive = static_cast<ReceiveRequest&>(posted);
    all.push_back({PendingMessage::Kind::receive, receive.context, communicator(receive.context),
                   of_user(receive.context), receive.from ? int(receive.from->peer) : PendingMessage::kAnyPeer,
                   receive.source, receive.tag == kAnyTag ? PendingMessage::kAnyTagAtAll : receive.tag,
                   receive.capacity});
  });
  impl.receives.matching.for_each_waiting([&](WaitingMessage& waiting) {
    auto& message = static_cast<UnexpectedMessage&>(waiting);
    const int peer = message.from ? int(message.from->peer) : PendingMessage::kAnyPeer;
    all.push_back({PendingMessage::Kind::message, message.context, communicator(message.context),
                   of_user(message.context), peer, message.source, message.tag, message.bytes});
  });
  impl.sends.for_each_named([&](SendRequest& send) {
    const SendArguments& a = send.arguments;
    all.push_back({record_of(send.protocol).report(send), a.context, communicator(a.context), of_user(a.context),
                   int(a.peer), int(a.peer), a.tag, a.type ? uint64_t(a.count) * a.type->size() : 0});
  });
  p2p_.each_engine([&](const PointToPoint& p2p) {
    std::vector<PendingMessage> more = p2p.report().pending();
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return true;
  });
  return all;
}

std::string MessageReport::text() const {
  std::string out;
  const std::vector<PendingMessage> all = pending();
  const auto add = [&](PendingMessage::Kind kind, const char* title) {
    size_t count = 0;
    for (const PendingMessage& pending : all) {
      if (pending.kind != kind) continue;
      if (++count == 1) out += std::string("  ") + title + ":\n";
      if (count <= kMaxOfAKind) out += "    " + pending.text() + "\n";
    }
    if (count > kMaxOfAKind) out += "    and " + std::to_string(count - kMaxOfAKind) + " more\n";
  };
  add(PendingMessage::Kind::receive, "receives that no message has matched");
  add(PendingMessage::Kind::message, "messages here that no receive has asked for");
  add(PendingMessage::Kind::send, "sends that their receivers have not taken");
  add(PendingMessage::Kind::moving, "sends whose data is on its way");
  uint32_t queued = 0;
  const auto add_queued = [&queued](const PointToPoint& p2p) {
    const Sends& sends = p2p.inside().sends;
    queued += sends.open() - std::min(sends.open(), sends.named());
    return true;
  };
  add_queued(p2p_);
  p2p_.each_engine(add_queued);
  if (queued != 0) out += "  small sends that wait for room on the way: " + std::to_string(queued) + "\n";
  return out.empty() ? "  no message is pending\n" : out;
}

}  // namespace tern
