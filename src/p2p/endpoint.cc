#include "p2p/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "p2p/announcements.h"

namespace tern {

Endpoint::Endpoint(PeerId id, Path& way)
    : path(&way),
      lane(&way.lane(id)),
      eager_limit(way.properties().eager_bytes),
      blocking_limit(int32_t(std::min<size_t>(eager_limit, INT32_MAX))),
      at_once_limit(blocking_limit),
      peek(way.properties().peek),
      peer(id),
      memory(way.remote_memory()),
      arbiter(way.copy_arbiter()) {
  if (size_t from = way.properties().keep_from_bytes; from != 0)
    at_once_limit = std::min(at_once_limit, int32_t(from - 1));
  lane->owner = this;
}

Endpoint::~Endpoint() = default;

void Endpoint::use_tuple_queues() {
  // A receive that is held back for a queue to stop is before those that come later, whoever their sender is.
  peek = false;
  tuples = path->tuple_queues();
  if (tuples) blocking_limit = at_once_limit = -1;
}

Endpoints::~Endpoints() {
  for (Endpoint* endpoint : table_) delete endpoint;
}

Path* Endpoints::path_to(PeerId peer) const {
  auto found = std::find_if(paths_.begin(), paths_.end(), [&](Path* path) { return path->reaches(peer); });
  return found == paths_.end() ? nullptr : *found;
}

[[gnu::cold, gnu::noinline]] Endpoint& Endpoints::make(PeerId peer) {
  if (table_.size() <= peer) table_.resize(size_t(peer) + 1);
  if (!table_[peer]) {
    Path* path = path_to(peer);
    TERN_ASSERT(path);  // Process::start has asked
    table_[peer] = new Endpoint(peer, *path);
    table_[peer]->credit = credit_units_;
    if (tuple_queues_) table_[peer]->use_tuple_queues();
  }
  return *table_[peer];
}

void Endpoints::register_kinds(wire::Kind first, wire::Kind last, MessageHandler& handler) {
  for (size_t kind = size_t(first); kind <= size_t(last); ++kind) {
    TERN_ASSERT(!handlers_[kind]);
    handlers_[kind] = &handler;
  }
  if (std::find(all_handlers_.begin(), all_handlers_.end(), &handler) == all_handlers_.end())
    all_handlers_.push_back(&handler);
}

/// A posted message that waits for room: the payload follows the object in its allocation.
struct Endpoints::Post final : SendOperation {
  Endpoints* owner = nullptr;
  std::unique_ptr<std::byte[]> payload_copy;
};

void Endpoints::post(Endpoint& to, const wire::Header& header, const void* payload, size_t bytes) {
  if (to.lost()) return;
  const size_t at_once = std::max(to.path->properties().eager_bytes, kAlwaysWholeBytes);
  if (bytes <= at_once && to.try_send(header, payload, bytes)) return;
  auto* message = new Post;
  if (bytes != 0) {
    message->payload_copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(message->payload_copy.get(), payload, bytes);
  }
  message->owner = this;
  message->lane = to.lane;
  message->header = header;
  message->payload = Cursor::bytes(message->payload_copy.get(), bytes);
  message->done = [](SendOperation& operation, Error) {
    auto* self = static_cast<Post*>(&operation);
    --self->owner->posts_queued_;
    delete self;
  };
  ++posts_queued_;
  to.path->enqueue(*message);
}

bool Endpoints::lose(Endpoint& endpoint, const Error& error) {
  if (endpoint.lost()) return false;
  endpoint.path = nullptr;
  losses_[endpoint.peer] = {error.error_class(), std::string(error.text())};
  return true;
}

Error Endpoints::loss_of(PeerId peer) const {
  const auto reason = losses_.find(peer);
  if (reason == losses_.end()) return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer) + " is gone");
  return Error(reason->second.first, reason->second.second);
}

}  // namespace tern
