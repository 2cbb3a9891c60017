// StreamPort over the kernel's TCP sockets: a number is a descriptor, a call one system call.
//
// Thread rule: as StreamPort.
#pragma once

#include <memory>

#include "base/descriptor.h"
#include "fabric/ip/stream_port.h"

namespace tern {

class KernelStreams final : public StreamPort {
 public:
  /// A port that can watch streams. Null exactly when `error` is set.
  static std::unique_ptr<StreamPort> create(Error& error);
  /// A port that cannot, and holds no descriptor of its own.
  KernelStreams() = default;

  Error addresses(std::string_view wanted, std::vector<LocalAddress>& out) override;
  wire::HostIdentity host() override { return host_identity(); }
  int find_route(const SocketAddress& address) override { return tern::find_route(address); }
  void reserve(uint64_t streams) override;
  Error check_congestion(const std::string& name) override;

  int listen(const SocketAddress& address, std::string_view congestion) override;
  int accept(int listener, SocketAddress& from) override;
  int connect(const SocketAddress& address, std::string_view congestion) override;
  uint32_t ready(int stream, uint32_t wanted) override;
  int error(int stream) override;
  SocketAddress local_address(int stream) override { return tern::local_address(stream); }
  void set_send_buffer(int stream, int bytes) override;
  void ask_if_alive(int stream, bool often) override { tern::ask_if_alive(stream, often); }

  ssize_t send(int stream, const void* data, size_t bytes, bool more) override;
  ssize_t send_pieces(int stream, const iovec* pieces, size_t count, bool more) override;
  void push(int stream) override;
  ssize_t receive(int stream, void* data, size_t bytes) override;
  ssize_t receive_pieces(int stream, const iovec* pieces, int count) override;
  ssize_t discard(int stream, size_t bytes) override;
  int unacknowledged(int stream) override;
  void acknowledge_at_once(int stream) override;
  void shutdown(int stream, bool both) override;
  void close(int stream) override;

  bool silence(int stream, Silence& out) override;
  int watch_interfaces() override;
  void read_interfaces(int watch, std::vector<uint32_t>& down) override;

  void watch(int stream, uint32_t before, uint32_t wanted, void* owner) override;
  int events(Event* out) override;
  void set_wake_bytes(int stream, int bytes) override;
  int descriptor() const override { return epoll_.get(); }
  void wait(std::span<const Awaited> streams, uint64_t at_most_ns) override;

 private:
  Descriptor epoll_;
};

}  // namespace tern
