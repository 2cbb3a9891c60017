// ControlMessages: messages of the protocols' own, which no request waits for. Each takes along what its receiver waits
// for anyway: the release of a library buffer that was read (hybrid.h). Releases that no message takes along go by one
// of their own, when several are owed to one peer, when a rank is about to sleep, or after some empty polls.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/core/chore.h"
#include "p2p/core/endpoint.h"

namespace tern {

class alignas(64) ControlMessages final : Chore {
 public:
  using Chore::is_idle;
  ControlMessages(ProgressEngine& progress, Endpoints& endpoints) : Chore(progress), endpoints_(endpoints) {}

  /// Sent at once, or when there is room, from a copy of the payload. To a lost peer: nothing.
  void post(Endpoint& to, const wire::Header& header, const void* payload = nullptr, size_t bytes = 0);
  /// Tells the sender of a synchronous message that it is matched, if it wants to know.
  void acknowledge(Endpoint& to, const wire::Header& message);

  // --- Releases. `name`: of a buffer, the peer's; not 0.
  void owe_release(Endpoint& to, uint16_t name);
  /// One for a message that goes to that peer anyway; 0: none is owed.
  uint16_t carry_release(Endpoint& to);
  void flush_releases(Endpoint& to);
  /// True: some were owed.
  bool flush_all_releases();
  /// The peer is lost.
  void forget(Endpoint& peer);

 private:
  int advance() override;

  Endpoints& endpoints_;
  std::vector<Endpoint*> owing_;  ///< those whose Endpoint::owed_releases is not empty
  uint32_t rounds_ = 0;           ///< polls since the last release became due
};

}  // namespace tern
