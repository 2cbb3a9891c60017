// What a rank says when it is asked what it waits for.
#include <algorithm>
#include <string>

#include "p2p/impl.h"

namespace tern {

namespace {

constexpr int kMaxLines = 10;  // of each kind: a page, not a flood

std::string name_of(int value, int any) { return value == any ? "any" : std::to_string(value); }

// The predefined communicators by name, the others by their context id.
std::string communicator(uint64_t context) {
  uint64_t id = context >> 2;
  const char* plane = (context & 3) == 0 ? "" : (context & 3) == 1 ? " (collective)" : " (being created)";
  std::string name = id == 1 ? "MPI_COMM_WORLD" : id == 2 ? "MPI_COMM_SELF" : "context " + std::to_string(id);
  return name + plane;
}

// Adds a line, or counts it when there are too many.
class Lines {
 public:
  explicit Lines(std::string& out) : out_(out) {}
  ~Lines() {
    if (count_ > kMaxLines) out_ += "    and " + std::to_string(count_ - kMaxLines) + " more\n";
  }
  void add(const std::string& line) {
    if (++count_ <= kMaxLines) out_ += "    " + line + "\n";
  }

 private:
  std::string& out_;
  int count_ = 0;
};

}  // namespace

ProtocolCounters PointToPoint::counters() const {
  ProtocolCounters all = impl_->counters;
  for (size_t i = 0; i < kProtocolCount; ++i) {
    for (uint64_t messages : impl_->sends.counts().*kSentCounters[i].messages) all.sent[i] += messages;
  }
  return all;
}

uint32_t PointToPoint::open_announcements() const {
  uint32_t open = 0;
  impl_->endpoints.for_each([&](const Endpoint& peer) { open += peer.announced.open; });
  return open;
}

std::string PointToPoint::statistics() const {
  const ProtocolCounters c = counters();
  std::string out;
  auto add = [&](const char* name, uint64_t value) {
    if (value != 0) out += (out.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(value);
  };
  for (const ProtocolRecord& record : kProtocols) {
    if (record.protocol != Protocol::eager) add(record.name, c.sent[size_t(record.protocol)]);
  }
  for (const ProtocolRecord& record : kProtocols) {
    std::string orders;
    for (size_t i = 0; i < kArrivalCount; ++i) {
      uint64_t times = c.received[size_t(record.protocol)][i];
      if (times != 0)
        orders += (orders.empty() ? "" : "; ") + std::string(kArrivalNames[i]) + " " + std::to_string(times);
    }
    if (!orders.empty())
      out += (out.empty() ? "" : ", ") + ("received by " + std::string(record.name)) + " (" + orders + ")";
  }
  add("FINs saved", c.fins_saved);
  add("no library buffer", c.no_buffer);
  add("announced", c.announced);
  add("announcements held", c.held);
  add("useless", c.useless);
  add("unknown", c.unknown);
  add("withdrawn", c.withdrawn);
  return out.empty() ? out : "  large messages: " + out + "\n";
}

std::string PointToPoint::report() const {
  Impl& impl = *impl_;
  std::string out;
  if (impl.receives.matching.posted_count() != 0) {
    out += "  receives that nothing has matched:\n";
    Lines lines(out);
    impl.receives.matching.for_each_posted([&](PostedReceive& posted) {
      auto& receive = static_cast<ReceiveRequest&>(posted);
      lines.add(communicator(receive.context) + ", source " + name_of(receive.source, kAnySource) + ", tag " +
                name_of(receive.tag, kAnyTag) + ", up to " + std::to_string(receive.capacity()) + " bytes");
    });
  }
  if (impl.receives.matching.waiting_count() != 0) {
    out += "  messages here that no receive has asked for:\n";
    Lines lines(out);
    impl.receives.matching.for_each_waiting([&](WaitingMessage& waiting) {
      auto& message = static_cast<UnexpectedMessage&>(waiting);
      lines.add(communicator(message.context) + ", source " + std::to_string(message.source) + ", tag " +
                std::to_string(message.tag) + ", " + std::to_string(message.bytes) + " bytes");
    });
  }
  if (impl.sends.named() != 0) {
    out += "  sends that their receivers have not taken:\n";
    Lines lines(out);
    impl.sends.for_each_named([&](SendRequest& send) {
      const SendArguments& a = send.arguments;
      lines.add(communicator(a.context) + ", to rank " + std::to_string(a.peer) + " of MPI_COMM_WORLD, tag " +
                std::to_string(a.tag) + ", " + std::to_string(a.type ? size_t(a.count) * a.type->size() : 0) +
                " bytes");
    });
  }
  uint32_t queued = impl.sends.open() - std::min(impl.sends.open(), impl.sends.named());
  if (queued != 0) out += "  eager sends waiting for room on the way: " + std::to_string(queued) + "\n";
  out += statistics();
  return out.empty() ? "  nothing is pending in point-to-point\n" : out;
}

}  // namespace tern
