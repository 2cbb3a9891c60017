// Which protocol a message takes: one function of what is known when it is sent, a table (DESIGN.md 4). Each protocol's
// messages and states are in the file named beside it. The customised rendezvous of paper 000 become further rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

enum class Protocol : uint8_t {
  eager,            ///< eager.cc: the data goes at once and waits at the receiver if it must
  rendezvous_get,   ///< rendezvous.cc: the receiver fetches the data from the sender's memory
  rendezvous_data,  ///< rendezvous.cc: the receiver clears, the sender sends
};

/// What the choice depends on.
struct Situation {
  size_t bytes;
  size_t eager_limit;  ///< of the path to the peer
  bool credit;         ///< the receiver still has room for that much unread data from us
  bool can_get;        ///< the path gets from this memory: contiguous, and the peer may read it
};

struct ProtocolRecord {
  Protocol protocol;
  const char* name;
  bool (*applies)(const Situation&);
};

/// In order of preference; the last always applies.
inline constexpr ProtocolRecord kProtocols[] = {
    {Protocol::eager, "eager", [](const Situation& s) { return s.bytes <= s.eager_limit && s.credit; }},
    {Protocol::rendezvous_get, "rendezvous-get", [](const Situation& s) { return s.can_get && s.bytes != 0; }},
    {Protocol::rendezvous_data, "rendezvous-data", [](const Situation&) { return true; }},
};

constexpr Protocol choose_protocol(const Situation& situation) {
  for (const ProtocolRecord& record : kProtocols) {
    if (record.applies(situation)) return record.protocol;
  }
  return Protocol::rendezvous_data;
}

}  // namespace tern
