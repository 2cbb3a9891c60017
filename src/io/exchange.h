// Exchange: what the ranks of a file tell each other within one collective access, as flows.
//
// A blocking access uses the blocking collectives of coll/, a nonblocking one a channel of its own
// (coll/create/channel.h): its steps begin whenever the ones before are over, at each rank in another order among the
// accesses on their way, so that they cannot take part in the communicator's sequence of collectives.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <span>

#include "coll/create/channel.h"
#include "io/environment.h"

namespace tern::io {

using create::Flow;

/// A value of its access; what it refers to outlives it.
struct Exchange {
  Environment& environment;
  Communicator& comm;  ///< the file's own
  bool blocking;
  int sequence;  ///< of the access, the same at all ranks

  /// All ranks' words, in the order of the ranks; each has as many.
  Flow gather(std::span<const uint64_t> mine, create::Words& all) const;
  Flow broadcast(std::span<uint64_t> words, int root) const;
  /// The error of the first rank that has one, to all; a rank's own error is its own.
  Flow share_error(Error mine) const;
};

}  // namespace tern::io
