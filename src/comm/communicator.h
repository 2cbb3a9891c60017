// Communicator: a group (or two), a context, and what users hang on it. Sending through it translates ranks
// to peers. Source: MPI 5.0 chapter 7. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/object.h"
#include "base/types.h"
#include "comm/attributes.h"
#include "comm/group.h"
#include "comm/info.h"
#include "comm/rank_environment.h"
#include "comm/topology.h"
#include "p2p/message_hints.h"

namespace tern {

struct Engine;       // p2p/engines.h
class ErrorHandler;  // capi/
struct DebugLayout;

class alignas(64) Communicator : public Object {
  friend struct DebugLayout;  // capi/debug_view.h
  // What every message uses: one cache line.
  RankEnvironment& environment_;
  PointToPoint* p2p_;  ///< for the messages of the program: the engine's, or the environment's
  uint64_t context_;
  Ref<Group> local_, remote_;
  MessageHints message_hints_;
  bool by_tag_ = false;  ///< its messages have all engines, chosen by the tag
  int rank_;
  uint32_t collective_sequence_ = 0;
  Engine* engine_ = nullptr;
  uint32_t network_engines_ = 0;

 public:
  /// Context ids are 64 bits and unique in the job for ever (see comm/context.h); the lowest two bits say
  /// what kind of traffic: point-to-point, collective, internal (creation of communicators by all members,
  /// tags from next_collective_tag), tagged (creation by some members, tags from the user: create_group,
  /// intercomm_create).
  enum class Plane : uint64_t { point_to_point = 0, collective = 1, internal = 2, tagged = 3 };

  /// Takes a reference to the groups; `remote` null for an intracommunicator. The caller is a member of
  /// `local`.
  /// `network_engines`: what all members agree on (Engines::over_network); 0: nothing.
  Communicator(RankEnvironment& environment, uint64_t context, Ref<Group> local, Ref<Group> remote,
               uint32_t network_engines = 0);
  ~Communicator();
  /// For a communicator whose context is agreed on after its object exists (MPI_Comm_idup). Before any use of
  /// it.
  void set_context(uint64_t context, uint32_t network_engines = 0);
  /// What its info says of point-to-point messages.
  void set_message_hints(const MessageHints& hints);
  /// All members have promised not to receive any tag, and it has an engine: from now on, before any message, it has
  /// all of them (if they reach all members), chosen by the tag. Only messages of one tag can meet the same receive.
  void spread_by_tag();

  bool is_inter() const { return bool(remote_); }
  int rank() const { return rank_; }
  int size() const { return local_->size(); }
  int remote_size() const { return remote_ ? remote_->size() : 0; }
  Group& group() const { return *local_; }
  Group& remote_group() const { return *remote_; }
  /// The group that destination and source ranks name: the remote one of an intercommunicator, else the local
  /// one.
  Group& peer_group() const { return remote_ ? *remote_ : *local_; }
  PeerId peer(int rank) const { return peer_group().peer(rank); }
  uint64_t context(Plane plane = Plane::point_to_point) const { return context_ | uint64_t(plane); }
  RankEnvironment& environment() const { return environment_; }
  /// For the messages of the program with this tag (Plane::point_to_point); all others go through the environment's.
  /// `tag`: kAnyTag only where the communicator is not spread by tag.
  PointToPoint& p2p(int tag) const { return by_tag_ ? p2p_of_tag(tag) : *p2p_; }
  /// For the messages of calls that visit no engine (capi/call.h), whatever their tag.
  PointToPoint& p2p_without_engine() const { return *p2p_; }
  /// The engine of those messages (p2p/engines.h); null: they have none of their own.
  Engine* engine(int tag) const { return by_tag_ ? engine_of_tag(tag) : engine_; }
  bool has_engine() const { return engine_ != nullptr; }
  bool is_spread_by_tag() const { return by_tag_; }
  /// All engines of its messages: none, one, or those of all tags.
  template <typename Visitor>
  void for_each_engine(Visitor&& visit) const {
    if (!is_spread_by_tag()) {
      if (engine_) visit(*engine_);
      return;
    }
    for (uint32_t i = 0; Engine* engine = engine_at(i); ++i) visit(*engine);
  }

  /// Arguments for a message through this communicator. `dest`/`source` are valid ranks (or kAnySource),
  /// never kProcNull.
  SendArguments send_arguments(const void* buffer, Count count, const Datatype& type, int dest, int tag,
                               SendMode mode = SendMode::standard, Plane plane = Plane::point_to_point) const {
    return {buffer, count, &type, peer(dest), rank_, tag, context(plane), mode};
  }
  ReceiveArguments receive_arguments(void* buffer, Count count, const Datatype& type, int source, int tag,
                                     Plane plane = Plane::point_to_point) const {
    return {buffer, count, &type, source == kAnySource ? kNoPeer : peer(source), source, tag, context(plane)};
  }

  /// The next tag of the collective plane: equal on all members since collectives are started in the same
  /// order everywhere.
  int next_collective_tag() { return int(collective_sequence_++ & 0x3fffffff); }

  std::string name;
  const char* made_by = nullptr;  ///< the function that has given it to the program; null: it is predefined
  uintptr_t made_at = 0;          ///< and where it was called, an address of code; 0: unknown
  AttributeCache attributes;
  Info info;  ///< hints in force
  std::unique_ptr<Topology> topology;
  Object* error_handler = nullptr;  ///< owned reference, capi/ knows the type
  /// Gives the reference back when the communicator dies; set together with error_handler. Null: nobody does.
  void (*drop_error_handler)(Object&) = nullptr;
  /// An intracommunicator over the local group, for the collectives of an intercommunicator: every
  /// intercommunicator has one (an owned reference), an intracommunicator never.
  Communicator* local_intra = nullptr;
  /// Of the two sides of an intercommunicator exactly one is the low one; both know which.
  bool low_side = false;
  /// Its info wants reductions that give the same bits for any placement of the same ranks (tern_reproducible).
  bool reproducible = false;
  /// Made from a session's group, or from such a communicator (MPI 5.0, 11.3): the C API's handle of that session; else
  /// 0.
  int32_t from_session = 0;
  /// Requests on it that the user has freed before their completion; MPI_Comm_disconnect waits for them.
  uint32_t freed_requests = 0;
  /// What the collectives floor keeps per communicator (shared-memory segment of the node, chosen
  /// algorithms); made on demand.
  struct CollectiveState {
    virtual ~CollectiveState() = default;
  };
  std::unique_ptr<CollectiveState> collective_state;

 private:
  void find_engine();
  template <typename Visitor>
  void for_each_p2p(Visitor&& visit) const;
  PointToPoint& p2p_of_tag(int tag) const;
  Engine* engine_of_tag(int tag) const;
  /// The `index`-th of the rank's; null: it has fewer.
  Engine* engine_at(uint32_t index) const;
};

}  // namespace tern
