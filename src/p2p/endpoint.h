// Endpoint: what this rank keeps about one peer. Made when the peer is first used, resolved once a call, and handed
// down; an arrival brings it along (Lane::owner). A world of N ranks costs a pointer for each peer never spoken to.
//
// Other floors (windows, files, collectives) have messages of their own: they register message kinds here, send through
// the endpoint, and get what arrives without point-to-point knowing of them.
//
// Thread rule: under the rank's lock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "fabric/path.h"
#include "wire/header.h"

namespace tern {

struct Announcements;  // p2p/announcements.h

struct Endpoint {
  Endpoint(PeerId peer, Path& way);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  bool lost() const { return path == nullptr; }
  /// Every message is looked at from now on, whether a queue takes it.
  void use_tuple_queues();

  // --- The way to the peer. What a small message touches comes first.
  Path* path;  ///< null: the peer is lost
  Lane* lane;  ///< of that path
  size_t eager_limit;
  // Longest message that leaves without a request, if it does at once; -1: none does (tuple queues).
  int32_t blocking_limit;  ///< of blocking sends
  int32_t at_once_limit;   ///< of nonblocking sends; longer ones are left to the path, which saves it a copy
  int64_t credit = 0;      ///< 64-byte units that may still be sent eagerly without hearing back
  int64_t owed = 0;        ///< units of the peer's eager data that were consumed and not given back yet
  uint32_t sent = 0;       ///< messages (that a receive will match) begun to it
  uint32_t arrived = 0;    ///< and come from it
  std::unique_ptr<Announcements> announcements;  ///< null: no receive was announced yet, either way
  bool peek;                                     ///< the path's property
  const PeerId peer;
  RemoteMemory* memory;           ///< null: the path has none
  CopyArbiter* arbiter;           ///< null: the path has none
  TupleQueues* tuples = nullptr;  ///< null: the path has none, or they are not wanted

  // What the path says, or what is true of a path without the interface.
  bool can_get() const { return memory && memory->can_get(*lane); }
  bool can_put() const { return memory && memory->can_put(*lane); }
  bool can_get_lent() const { return arbiter ? arbiter->can_get_lent(*lane) : can_get(); }
  bool autonomous() const { return memory && memory->remote_properties().autonomous; }
  bool copy_locks() const { return arbiter && arbiter->arbiter_properties().copy_locks; }
  /// Copies are made by a CPU, and each side can ask whether the other one is there to make its part.
  bool arbitrates() const { return arbiter && memory && !memory->remote_properties().autonomous; }
  bool peer_is_polling(bool stays = false) const { return arbiter && arbiter->peer_is_polling(*lane, stays); }
  bool stream_is_faster(size_t bytes) const { return arbiter && arbiter->stream_is_faster(*lane, bytes); }
  bool peer_has_polled() const { return arbiter && arbiter->peer_has_polled(*lane); }

  bool try_send(const wire::Header& header, const void* payload, size_t bytes) {
    return path->try_send(*lane, header, payload, bytes);
  }
};

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

class Endpoints {
 public:
  explicit Endpoints(int64_t credit_units) : credit_units_(credit_units) {}
  ~Endpoints();

  /// Messages may go by tuple queues, where the path has them. Before the first endpoint is made.
  void want_tuple_queues() { tuple_queues_ = true; }
  /// Best first; none after the first endpoint is made. Not owned.
  void add_path(Path& path) { paths_.push_back(&path); }
  const std::vector<Path*>& paths() const { return paths_; }
  /// Null: no path reaches it.
  Path* path_to(PeerId peer) const;

  /// The endpoint of a peer that some path reaches; made when there is none.
  Endpoint& at(PeerId peer) {
    if (peer < table_.size() && table_[peer]) [[likely]]
      return *table_[peer];
    return make(peer);
  }
  /// Of an arrival.
  Endpoint& of(Lane& lane) {
    if (lane.owner) [[likely]]
      return *static_cast<Endpoint*>(lane.owner);
    return make(lane.id);
  }
  /// Visits those that were made, by ascending peer.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for (Endpoint* endpoint : table_) {
      if (endpoint) visit(*endpoint);
    }
  }

  /// Kinds first..last go to `handler` from now on. Not owned.
  void register_kinds(wire::Kind first, wire::Kind last, MessageHandler& handler);
  /// Null: nobody is registered.
  MessageHandler* handler_of(wire::Kind kind) const { return handlers_[size_t(kind)]; }
  const std::vector<MessageHandler*>& handlers() const { return all_handlers_; }

  /// Sends a message that no request waits for: at once, or when there is room, from a copy of the payload. To a lost
  /// peer: nothing (its handlers have been told).
  void post(Endpoint& to, const wire::Header& header, const void* payload = nullptr, size_t bytes = 0);
  /// Messages that wait for room.
  uint32_t posts_queued() const { return posts_queued_; }

  /// From now on the peer is lost, for the reason that its path gave. False: it was lost before.
  bool lose(Endpoint& endpoint, const Error& error);
  Error loss_of(PeerId peer) const;
  uint32_t losses() const { return uint32_t(losses_.size()); }
  bool lost(PeerId peer) const { return !losses_.empty() && losses_.contains(peer); }

 private:
  struct Post;
  Endpoint& make(PeerId peer);

  const int64_t credit_units_;
  bool tuple_queues_ = false;
  std::vector<Path*> paths_;
  std::vector<Endpoint*> table_;  ///< by PeerId; owned; null: never used
  std::array<MessageHandler*, 256> handlers_{};
  std::vector<MessageHandler*> all_handlers_;
  uint32_t posts_queued_ = 0;
  std::map<PeerId, std::pair<int, std::string>> losses_;  ///< class and text of the error
};

}  // namespace tern
