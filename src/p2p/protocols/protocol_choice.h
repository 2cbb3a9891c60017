// ProtocolChoice: finds out what the table of protocols (table.h) asks of a send.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>

#include "p2p/core/endpoint.h"
#include "p2p/core/library_buffers.h"
#include "p2p/core/receives.h"
#include "p2p/matching/sent_log.h"
#include "p2p/point_to_point.h"
#include "p2p/protocols/protocol.h"
#include "p2p/protocols/situation.h"

namespace tern {

class ProtocolChoice {
 public:
  ProtocolChoice(const RendezvousPolicy& policy, const LibraryBuffers& buffers, const Receives& receives,
                 ProtocolCounters& counters)
      : policy_(policy), buffers_(buffers), receives_(receives), counters_(counters) {}

  /// What the rows of small messages are asked with.
  static SendSituation begin(const Endpoint& peer, size_t bytes, bool blocking) {
    return {.bytes = bytes,
            .eager_limit = peer.eager_limit(),
            .credit = peer.credit.covers(bytes),
            .queues = peer.tuples != nullptr,
            .blocking = blocking};
  }
  /// What the other rows are. `ready`: the announced receive that the message will match; null: none is known.
  void complete(SendSituation& s, const Endpoint& peer, const SendArguments& a, const Ready* ready);

 private:
  const RendezvousPolicy policy_;
  const LibraryBuffers& buffers_;
  const Receives& receives_;
  ProtocolCounters& counters_;
};

}  // namespace tern
