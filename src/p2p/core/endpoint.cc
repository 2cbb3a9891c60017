#include "p2p/core/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tern {

Endpoint::Endpoint(PeerId id, Path& way, int64_t credit_bytes)
    : path_(&way),
      lane_(&way.lane(id)),
      eager_limit_(way.properties().eager_bytes),
      blocking_limit_(int32_t(std::min<size_t>(eager_limit_, INT32_MAX))),
      at_once_limit_(blocking_limit_),
      credit(credit_bytes),
      peeks_(way.properties().peek),
      peer(id),
      memory(way.remote_memory()),
      arbiter(way.copy_arbiter()) {
  if (size_t from = way.properties().keep_from_bytes; from != 0)
    at_once_limit_ = std::min(at_once_limit_, int32_t(from - 1));
  lane_->owner = this;
}

void Endpoint::use_tuple_queues() {
  // A receive that is held back for a queue to stop is before those that come later, whoever their sender is.
  peeks_ = false;
  tuples = path_->tuple_queues();
  if (tuples) blocking_limit_ = at_once_limit_ = -1;
}

// The peer is lost. Without credit PointToPoint::send takes the way of isend, which reports the loss.
void Endpoint::close() {
  TERN_ASSERT(path_);
  path_ = nullptr;
  peeks_ = false;
  credit.close();
  messages.close();
}

void Endpoint::settle_credit() {
  if (!lost() && try_send(wire::make_control_header(wire::Kind::credit, credit.owed()), nullptr, 0)) credit.settled();
}

Endpoints::~Endpoints() {
  for (Endpoint* endpoint : table_) delete endpoint;
}

Path* Endpoints::path_to(PeerId peer) const {
  auto found = std::find_if(paths_.begin(), paths_.end(), [&](Path* path) { return path->reaches(peer); });
  return found == paths_.end() ? nullptr : *found;
}

[[gnu::cold, gnu::noinline]] Endpoint& Endpoints::make(PeerId peer) {
  const bool far = peer >= kFirstFar;
  if (auto found = far ? far_.find(peer) : far_.end(); found != far_.end()) return *found->second;
  if (!far && peer < table_.size() && table_[peer]) return *table_[peer];
  Path* path = path_to(peer);
  TERN_ASSERT(path);  // Process::start has asked
  auto made = std::make_unique<Endpoint>(peer, *path, credit_bytes_);
  if (tuple_queues_) made->use_tuple_queues();
  if (far) return *far_.emplace(peer, std::move(made)).first->second;
  if (table_.size() <= peer) table_.resize(size_t(peer) + 1);
  return *(table_[peer] = made.release());
}

void Endpoints::want_tuple_queues() {
  tuple_queues_ = true;
  for_each([](Endpoint& endpoint) {
    if (!endpoint.lost()) endpoint.use_tuple_queues();
  });
}

void Endpoints::register_kinds(wire::Kind first, wire::Kind last, MessageHandler& handler) {
  for (size_t kind = size_t(first); kind <= size_t(last); ++kind) {
    TERN_ASSERT(!handlers_[kind]);
    handlers_[kind] = &handler;
  }
  if (std::find(all_handlers_.begin(), all_handlers_.end(), &handler) == all_handlers_.end())
    all_handlers_.push_back(&handler);
}

/// A posted message that waits for room, with a copy of its payload.
struct Endpoints::Post final : SendOperation {
  Endpoints* owner = nullptr;
  std::unique_ptr<std::byte[]> payload_copy;
};

// A long message, or one for which there was no room.
void Endpoints::post_slowly(Endpoint& to, const wire::Header& header, const void* payload, size_t bytes) {
  if (to.lost()) return;
  const bool counted = is_message(header);
  if (bytes > kAlwaysWholeBytes && bytes <= to.properties().eager_bytes) {
    if (counted ? to.try_send_message(header, payload, bytes) : to.try_send(header, payload, bytes)) return;
  }
  auto* message = new Post;
  if (bytes != 0) {
    message->payload_copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(message->payload_copy.get(), payload, bytes);
  }
  message->owner = this;
  message->header = header;
  message->payload = Cursor::bytes(message->payload_copy.get(), bytes);
  message->done = [](SendOperation& operation, Error) {
    auto* self = static_cast<Post*>(&operation);
    TERN_ASSERT(self->owner->posts_queued_ != 0);
    --self->owner->posts_queued_;
    delete self;
  };
  ++posts_queued_;
  if (counted) to.enqueue_message(*message);
  else to.enqueue(*message);
}

bool Endpoints::lose(Endpoint& endpoint, const Error& error) {
  if (endpoint.lost()) return false;
  endpoint.close();
  losses_[endpoint.peer] = {error.error_class(), std::string(error.text())};
  return true;
}

Error Endpoints::loss_of(PeerId peer) const {
  const auto reason = losses_.find(peer);
  if (reason == losses_.end()) return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer) + " is gone");
  return Error(reason->second.first, reason->second.second);
}

}  // namespace tern
