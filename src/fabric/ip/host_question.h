// HostQuestion: whether a peer's host is there, when the peer's process does not answer. A call to a port where nobody
// listens is refused by the host's kernel; a host without power, or behind a cut cable, says nothing. So a process
// whose queue of connections strangers have filled (the kernel then drops calls without a word) is told from a lost
// host.
//
// Thread rule: as its owner.
#pragma once

#include "fabric/ip/socket.h"
#include "fabric/ip/stream_port.h"

namespace tern {

class HostQuestion {
 public:
  /// Begins to ask the host of `address`; forgets what was asked before. The port outlives the question.
  void ask(StreamPort& port, const SocketAddress& address);
  /// No answer is of interest any more.
  void forget() {
    call_.reset();
    refused_ = false;
  }
  bool asked() const { return refused_ || call_; }
  /// True once the host has answered: then the question is over.
  bool answered(StreamPort& port);

 private:
  StreamHandle call_;
  bool refused_ = false;  ///< at once
};

}  // namespace tern
