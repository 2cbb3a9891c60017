// ProtocolChoice: asks the table (protocol.h) which protocol a large message takes, and knows what the table asks for.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>

#include "p2p/core/endpoint.h"
#include "p2p/core/library_buffers.h"
#include "p2p/matching/sent_log.h"
#include "p2p/point_to_point.h"
#include "p2p/protocols/protocol.h"

namespace tern {

class ProtocolChoice {
 public:
  ProtocolChoice(const RendezvousPolicy& policy, const LibraryBuffers& buffers, ProtocolCounters& counters)
      : policy_(policy), buffers_(buffers), counters_(counters) {}

  /// `ready`: the announced receive that it will match; null: none is known. `blocking`: its sender waits for it.
  Protocol choose(Endpoint& peer, const SendArguments& a, size_t bytes, const Ready* ready, bool blocking) {
    return choose_protocol(situation(peer, a, bytes, ready, blocking));
  }

 private:
  SendSituation situation(Endpoint& peer, const SendArguments& a, size_t bytes, const Ready* ready, bool blocking);

  const RendezvousPolicy policy_;
  const LibraryBuffers& buffers_;
  ProtocolCounters& counters_;
};

}  // namespace tern
