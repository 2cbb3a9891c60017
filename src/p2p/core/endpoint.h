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

#include "base/assert.h"
#include "base/error.h"
#include "base/types.h"
#include "fabric/path.h"
#include "p2p/core/eager_credit.h"
#include "p2p/core/message_count.h"
#include "p2p/core/message_handler.h"
#include "wire/header.h"

namespace tern {

/// This rank's receives that a peer knows of (announcements.h).
struct AnnouncedCount {
  uint32_t open = 0;         ///< announced and not complete
  uint32_t withdrawing = 0;  ///< withdrawals that are not answered yet
  uint32_t next_serial = 1;
};

class alignas(64) Endpoint {
 public:
  Endpoint(PeerId peer, Path& way, int64_t credit_bytes);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // --- Messages to the peer. Those that a receive will match go by the first three only, which count them.
  /// As Path::try_send.
  bool try_send_message(const wire::Header& header, const void* payload, size_t bytes) {
    if (!path_->try_send(*lane_, header, payload, bytes)) return false;
    messages.count_sent(header);
    return true;
  }
  /// As Path::try_post; of either kind of message.
  bool try_post(const wire::Header& header, const void* payload, size_t bytes) {
    if (!path_->try_post(*lane_, header, payload, bytes)) return false;
    if (is_message(header)) messages.count_sent(header);
    return true;
  }
  /// As Path::enqueue.
  void enqueue_message(SendOperation& operation) {
    TERN_ASSERT(is_message(operation.header));
    messages.count_sent(operation.header);
    operation.lane = lane_;
    path_->enqueue(operation);
  }
  /// As Path::try_send and Path::enqueue, for what no receive matches.
  bool try_send(const wire::Header& header, const void* payload, size_t bytes) {
    TERN_ASSERT(!is_message(header));
    return path_->try_send(*lane_, header, payload, bytes);
  }
  void enqueue(SendOperation& operation) {
    TERN_ASSERT(!is_message(operation.header));
    operation.lane = lane_;
    path_->enqueue(operation);
  }
  /// As Path::withdraw. A message stays counted: both sides must begin anew (MessageCount::restart_sent).
  bool withdraw(SendOperation& operation) { return path_->withdraw(operation); }
  /// As Path::peek, take and poll_lane. Only where `peeks` says so.
  bool peek(PeekedMessage& arrival) { return path_->peek(*lane_, arrival); }
  void take() { path_->take(*lane_); }
  int poll_lane() { return path_->poll_lane(*lane_); }

  // --- What comes from the peer. Every eager message, however it is received, is counted, and brings credit back.
  void eager_arrived(const wire::Header& header) {
    messages.count_arrived();
    if (header.carried != 0) [[unlikely]]
      credit.returned(header.carried);
  }
  /// Anything but an eager message.
  void arrived(const wire::Header& header) {
    if (is_message(header)) messages.count_arrived();
  }

  /// Gives all owed credit back by a message of its own. Not queued when the way is full: the debt stays until the
  /// peer's next message, eager or an rts.
  [[gnu::cold, gnu::noinline]] void settle_credit();

  /// As Path::may_send_shortly.
  bool may_send_shortly(size_t bytes) const { return peeks_ || (path_ && path_->may_send_shortly(*lane_, bytes)); }
  bool lost() const { return path_ == nullptr; }
  const PathProperties& properties() const { return path_->properties(); }
  /// For what the path offers beside messages.
  Lane& lane() const { return *lane_; }
  size_t eager_limit() const { return eager_limit_; }
  /// Longest message that leaves without a request, if it does at once; -1: none does (tuple queues).
  int32_t blocking_limit() const { return blocking_limit_; }
  /// Longest message of a nonblocking send that leaves without a request; longer ones are left to the path, which saves
  /// it a copy.
  int32_t at_once_limit() const { return at_once_limit_; }
  bool peeks() const { return peeks_; }
  /// Every message is looked at from now on, whether a queue takes it.
  void use_tuple_queues();

  // What the path says, or what is true of a path without the interface.
  bool can_get() const { return memory && memory->can_get(*lane_); }
  bool can_put() const { return memory && memory->can_put(*lane_); }
  bool can_get_lent() const { return arbiter ? arbiter->can_get_lent(*lane_) : can_get(); }
  bool autonomous() const { return memory && memory->remote_properties().autonomous; }
  bool copy_locks() const { return arbiter && arbiter->arbiter_properties().copy_locks; }
  /// Copies are made by a CPU, and each side can ask whether the other one is there to make its part.
  bool arbitrates() const { return arbiter && memory && !memory->remote_properties().autonomous; }
  bool peer_is_polling(bool stays = false) const { return arbiter && arbiter->peer_is_polling(*lane_, stays); }
  /// After a get or put of a piece: the peer is in its library, or was meanwhile.
  bool peer_has_polled() const { return arbiter && arbiter->peer_has_polled(*lane_); }
  /// As CopySituation: false where no CPU copies.
  bool stream_is_faster(size_t bytes, Traffic traffic) const {
    return arbitrates() && arbiter->stream_is_faster(*lane_, bytes, traffic);
  }

 private:
  friend class Endpoints;
  void close();

  // What a small message touches comes first.
  Path* path_;  ///< null: the peer is lost
  Lane* lane_;  ///< of that path
  size_t eager_limit_;
  int32_t blocking_limit_;
  int32_t at_once_limit_;

 public:
  EagerCredit credit;
  MessageCount messages;

 private:
  bool peeks_;

 public:
  const PeerId peer;
  RemoteMemory* const memory;     ///< null: the path has none
  CopyArbiter* const arbiter;     ///< null: the path has none
  TupleQueues* tuples = nullptr;  ///< null: the path has none, or they are not wanted
  uint32_t sent_to_queues = 0;    ///< messages that went into tuple queues of the peer's, modulo 2^32
  AnnouncedCount announced;
  std::vector<uint16_t> owed_releases;  ///< library buffers of the peer's that were read, not told yet
};

class Endpoints {
 public:
  explicit Endpoints(int64_t credit_bytes) : credit_bytes_(credit_bytes) {}
  ~Endpoints();

  /// Messages may go by tuple queues from now on, where the path has them.
  void want_tuple_queues();
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
  /// Null: there is none yet.
  Endpoint* find(PeerId peer) const { return peer < table_.size() ? table_[peer] : nullptr; }
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
    for (const auto& [peer, endpoint] : far_) visit(*endpoint);
  }

  /// Kinds first..last go to `handler` from now on. Not owned.
  void register_kinds(wire::Kind first, wire::Kind last, MessageHandler& handler);
  /// Null: none is registered.
  MessageHandler* handler_of(wire::Kind kind) const { return handlers_[size_t(kind)]; }
  const std::vector<MessageHandler*>& handlers() const { return all_handlers_; }

  /// Sends a message that no request waits for: at once, or when there is room, from a copy of the payload. To a lost
  /// peer: nothing (its handlers have been told).
  void post(Endpoint& to, const wire::Header& header, const void* payload = nullptr, size_t bytes = 0) {
    if (bytes > kAlwaysWholeBytes || to.lost() || !to.try_post(header, payload, bytes)) [[unlikely]]
      post_slowly(to, header, payload, bytes);
  }
  /// Messages that wait for room.
  uint32_t posts_queued() const { return posts_queued_; }

  /// From now on the peer is lost, for the reason that its path gave. False: it was lost before.
  bool lose(Endpoint& endpoint, const Error& error);
  Error loss_of(PeerId peer) const;
  uint32_t losses() const { return uint32_t(losses_.size()); }
  bool lost(PeerId peer) const { return !losses_.empty() && losses_.contains(peer); }

 private:
  struct Post;
  void post_slowly(Endpoint& to, const wire::Header& header, const void* payload, size_t bytes);
  Endpoint& make(PeerId peer);

  const int64_t credit_bytes_;  ///< eager data that a peer lets wait unread
  bool tuple_queues_ = false;
  std::vector<Path*> paths_;
  /// Peers from here on are looked up in a map: in a world of 65,536 ranks a table would take half a megabyte in each.
  static constexpr PeerId kFirstFar = 4096;
  std::vector<Endpoint*> table_;  ///< by PeerId, before kFirstFar; owned; null: never used
  std::map<PeerId, std::unique_ptr<Endpoint>> far_;
  std::array<MessageHandler*, 256> handlers_{};
  std::vector<MessageHandler*> all_handlers_;
  uint32_t posts_queued_ = 0;
  std::map<PeerId, std::pair<int, std::string>> losses_;  ///< class and text of the error
};

}  // namespace tern
