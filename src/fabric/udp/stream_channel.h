// The modern UDP protocol: both halves of a conversation.
// Thread rule: as UdpChannel.
#pragma once

#include <algorithm>

#include "fabric/udp/channel.h"
#include "fabric/udp/stream_receiver.h"
#include "fabric/udp/stream_sender.h"

namespace tern {

class StreamChannel final : public UdpChannel {
 public:
  StreamChannel(UdpLink& link, size_t datagram_bytes)
      : receiver_(link, std::max(link.shared.window_bytes, StreamSender::kFirstLimit)),
        sender_(link, receiver_, datagram_bytes) {}

  bool try_send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) override {
    return sender_.try_send(header, payload, bytes, now_ns);
  }
  /// See StreamSender.
  bool may_send(size_t bytes) const { return sender_.may_send(bytes); }
  void send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) {
    sender_.send(header, payload, bytes, now_ns);
  }
  void enqueue(SendOperation& operation, uint64_t now_ns) override {
    sender_.enqueue(operation);
    sender_.advance(now_ns);
  }
  bool withdraw(SendOperation& operation) override { return sender_.withdraw(operation); }
  void surrender(SendList& out) override { sender_.surrender(out); }
  void abandon(const Error& error) override { receiver_.abandon(error); }

  bool on_datagram(const wire::Datagram& datagram, uint64_t now_ns, int& handled) override {
    using wire::DatagramType;
    if (datagram.head.type != DatagramType::stream && datagram.head.type != DatagramType::acknowledge) return false;
    sender_.on_acknowledgement(datagram, now_ns);
    if (datagram.head.type == DatagramType::stream) return receiver_.take(datagram, now_ns, handled);
    receiver_.note(datagram.head.number);
    return true;
  }
  void advance(uint64_t now_ns, bool all) override {
    sender_.end_burst(now_ns);
    sender_.advance(now_ns);
    receiver_.acknowledge(now_ns, all);
  }
  uint64_t deadline_ns() const override { return std::min(sender_.deadline_ns(), receiver_.deadline_ns()); }
  void ask(uint64_t now_ns) override { sender_.ask(now_ns); }

  bool unsent() const override { return sender_.unsent() || receiver_.owes(); }
  bool unacknowledged() const override { return sender_.unacknowledged(); }
  uint32_t silence() const override { return sender_.silence(); }

 private:
  StreamReceiver receiver_;
  StreamSender sender_;
};

}  // namespace tern
