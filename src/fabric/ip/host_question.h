// HostQuestion: whether a peer's host is alive, when the peer's process does not answer. The host's kernel refuses a
// connection to a port on which nothing listens; a host without power, or behind a cut cable, does not answer. This
// tells a lost host from a process whose queue of connections is full of strangers' (the kernel then drops calls
// without an answer).
//
// Thread rule: as its owner.
#pragma once

#include "fabric/ip/socket.h"
#include "fabric/ip/stream_port.h"

namespace tern {

class HostQuestion {
 public:
  /// Begins to ask the host of `address`; forgets the last question. The port outlives the question.
  void ask(StreamPort& port, const SocketAddress& address);
  /// Ends the question without an answer.
  void forget() {
    call_.reset();
    refused_ = false;
  }
  bool asked() const { return refused_ || call_; }
  /// True once the host has answered; the question is then over.
  bool answered(StreamPort& port);

 private:
  StreamHandle call_;
  bool refused_ = false;  ///< the connection was refused at once
};

}  // namespace tern
