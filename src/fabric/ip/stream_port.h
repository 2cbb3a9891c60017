// StreamPort: moves byte streams between ranks; all that the TCP path needs from the operating system. There are two:
// the kernel's sockets (kernel_streams.h) and the simulated network (sim/streams.h).
//
// A stream (or listener, or watch of interfaces) is named by a number, valid until `close`. Only `wait` blocks. Results
// below zero are negated errno numbers: -EAGAIN (nothing there, or no room; also for a temporary lack of memory),
// -EMFILE (no descriptor left), and so on.
//
// Thread rule: under the rank's lock. Units: bytes, nanoseconds.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "fabric/ip/interfaces.h"
#include "fabric/ip/socket.h"
#include "wire/card.h"

namespace tern {

/// Conditions for which a stream is watched, and which have occurred (the values are epoll's).
inline constexpr uint32_t kReadable = 0x001, kWritable = 0x004, kFailed = 0x008 | 0x010;

class StreamPort {
 public:
  virtual ~StreamPort() = default;

  // --- The host.
  /// Its usable addresses (usable_interfaces).
  virtual Error addresses(std::string_view wanted, std::vector<LocalAddress>& out) = 0;
  virtual wire::HostIdentity host() = 0;
  /// 0 if a route to `address` is known, else a (positive) errno number; no packet is sent.
  virtual int find_route(const SocketAddress& address) = 0;
  /// Announces that `streams` streams will be open at the same time.
  virtual void reserve(uint64_t streams) = 0;
  /// Error: the host does not have such a congestion control, or does not allow it.
  virtual Error check_congestion(const std::string& name) = 0;

  // --- Making connections.
  /// Port 0: any free one. `congestion`: of accepted connections; empty: the host's.
  virtual int listen(const SocketAddress& address, std::string_view congestion) = 0;
  /// The next connection that waits; -EAGAIN: none.
  virtual int accept(int listener, SocketAddress& from) = 0;
  /// Begins to connect. Returns the stream, or below zero the error; a call in progress is a stream, too.
  virtual int connect(const SocketAddress& address, std::string_view congestion) = 0;
  /// Which of `wanted` is true now, and kFailed. A call is over when this is not 0 for kWritable: it is connected, or
  /// `error` says why not.
  virtual uint32_t ready(int stream, uint32_t wanted) = 0;
  /// The pending error of a call or stream: 0, or a (positive) errno number; cleared by this call.
  virtual int error(int stream) = 0;
  /// The stream's local address; or the listener's.
  virtual SocketAddress local_address(int stream) = 0;
  /// Sets the send buffer's size; without this call the system chooses.
  virtual void set_send_buffer(int stream, int bytes) = 0;
  /// See ask_if_alive (socket.h).
  virtual void ask_if_alive(int stream, bool often) = 0;

  // --- Data.
  /// Returns the bytes taken. `more`: the end may wait for what is sent next (for 200 ms, or until `push`).
  virtual ssize_t send(int stream, const void* data, size_t bytes, bool more) = 0;
  virtual ssize_t send_pieces(int stream, const iovec* pieces, size_t count, bool more) = 0;
  /// Sends what waits because of `more`.
  virtual void push(int stream) = 0;
  /// Returns the bytes received; 0: the peer has ended the stream. No stream (-1): -EBADF.
  virtual ssize_t receive(int stream, void* data, size_t bytes) = 0;
  virtual ssize_t receive_pieces(int stream, const iovec* pieces, int count) = 0;
  /// Receives up to `bytes` and drops them; returns as `receive`.
  virtual ssize_t discard(int stream, size_t bytes) = 0;
  /// Bytes handed over that the peer's host has not acknowledged; below zero: not known. Valid for broken streams, too.
  virtual int unacknowledged(int stream) = 0;
  /// Acknowledges what has arrived at once, not with the next data the other way.
  virtual void acknowledge_at_once(int stream) = 0;
  /// Ends sending; `both`: receiving, too (what is here already can still be read).
  virtual void shutdown(int stream, bool both) = 0;
  virtual void close(int stream) = 0;

  // --- Silence.
  struct Silence {
    uint32_t repetitions;  ///< of the same data in a row, unanswered
    uint32_t silent_ms;    ///< since the peer's host has acknowledged anything
  };
  /// False: not known.
  virtual bool silence(int stream, Silence& out) = 0;
  /// A number to be watched, readable when an interface has gone down; below zero: nothing is reported.
  virtual int watch_interfaces() = 0;
  /// Adds the interfaces (LocalAddress::index) that have gone down since the last call.
  virtual void read_interfaces(int watch, std::vector<uint32_t>& down) = 0;

  // --- Readiness.
  struct Event {
    void* owner;
    uint32_t what;
  };
  static constexpr int kMaxEvents = 64;  ///< of one call; more are shown by the next one
  /// From now on `events` shows when one of `wanted` is true of the stream (kFailed always); `before`: the last
  /// setting. 0: never. A closed stream is not shown either.
  virtual void watch(int stream, uint32_t before, uint32_t wanted, void* owner) = 0;
  /// Fills `out` (kMaxEvents) with what is true now; returns how many.
  virtual int events(Event* out) = 0;
  /// Arriving data wakes a sleeper when at least `bytes` bytes are there, or the stream has ended.
  virtual void set_wake_bytes(int stream, int bytes) = 0;
  /// A descriptor that is readable while `events` would show something; -1: there is none, `arm` does what it can.
  virtual int descriptor() const = 0;
  /// Before sleeping. False: `events` would show something.
  virtual bool arm() { return true; }
  struct Awaited {
    int stream;
    uint32_t what;
  };
  /// Blocks until one of these is true, at most for so long. For the orderly end only.
  virtual void wait(std::span<const Awaited> streams, uint64_t at_most_ns) = 0;
};

/// A stream of a port and its owner: closed with it. Thread rule: a value.
class StreamHandle {
 public:
  StreamHandle() = default;
  /// Takes over `stream`; below zero: none.
  StreamHandle(StreamPort& port, int stream) : port_(&port), stream_(stream) {}
  StreamHandle(StreamHandle&& other) noexcept : port_(other.port_), stream_(std::exchange(other.stream_, -1)) {}
  StreamHandle& operator=(StreamHandle&& other) noexcept {
    if (this != &other) {
      reset();
      port_ = other.port_;
      stream_ = std::exchange(other.stream_, -1);
    }
    return *this;
  }
  ~StreamHandle() { reset(); }

  int get() const { return stream_; }
  explicit operator bool() const { return stream_ >= 0; }
  void reset() {
    if (stream_ >= 0) port_->close(std::exchange(stream_, -1));
  }

 private:
  StreamPort* port_ = nullptr;
  int stream_ = -1;
};

}  // namespace tern
