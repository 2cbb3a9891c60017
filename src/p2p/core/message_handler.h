// MessageHandler: how other floors receive messages of kinds of their own (Endpoints::register_kinds).
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "fabric/path.h"
#include "wire/header.h"

namespace tern {

class Endpoint;

/// Takes the messages of the kinds it is registered for. Per peer they come in the order of sending, together with all
/// other kinds.
class MessageHandler {
 public:
  /// A whole message; `payload` is valid during the call only.
  virtual void on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) = 0;
  /// A message whose payload is still arriving: where it goes. Never for at most kAlwaysWholeBytes.
  virtual Landing on_header(Endpoint& from, const wire::Header& header, size_t bytes) = 0;
  virtual void on_landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) = 0;
  /// After its last message.
  virtual void on_peer_lost(Endpoint& peer, const Error& error) {}

 protected:
  ~MessageHandler() = default;
};

}  // namespace tern
