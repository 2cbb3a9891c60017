// RemotePart: what ranks of a window need to reach each other's memory by the paths' RemoteMemory: each exposes its own
// to the paths that can get or put, and tells the others the keys when the window is made.
// Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "p2p/core/endpoint.h"

namespace tern::rma {

/// One rank's memory, as the others name it. Plain bytes, which travel in the messages that make a window.
struct ExposedMemory {
  static constexpr size_t kMaxPaths = 3;
  struct Key {
    char path[8] = {};
    RemoteKey key;
  };
  uint64_t address = 0;  ///< 0: there is none
  /// The path by whose atomics this rank reaches all members, itself included; empty: there is none.
  char atomics_path[8] = {};
  Key keys[kMaxPaths];  ///< by path; one with an empty key and those after it say nothing
};

class RemotePart {
 public:
  RemotePart() = default;
  RemotePart(const RemotePart&) = delete;
  RemotePart& operator=(const RemotePart&) = delete;
  ~RemotePart() { conceal(); }

  /// Also finds out whether one path's atomics reach all members. Exposes this rank's memory to the paths by which
  /// other members reach it. A path that cannot is left out.
  void expose(Communicator& comm, std::byte* base, size_t bytes);
  /// Nobody uses it any more.
  void conceal();
  const ExposedMemory& mine() const { return mine_; }
  void set_members(std::vector<ExposedMemory> members);
  /// The key of a member's memory for the path of its endpoint; an empty key: there is none.
  RemoteKey key_of(int rank, const Endpoint& way) const;
  uint64_t address_of(int rank) const { return members_[size_t(rank)].address; }
  /// By whose atomics all members reach each other's memory, also on the same node, and this rank its own; null: there
  /// is none.
  RemoteMemory* atomics() const { return atomics_; }
  /// For them. `me`: the peer is this rank.
  Lane& atomics_lane(PeerId peer, bool me) const { return me ? *atomics_->own_lane() : atomics_path_->lane(peer); }
  /// The CPU's atomics on the members' memory exclude them.
  bool atomics_with_cpu() const { return atomics_->remote_properties().atomics_with_cpu; }
  RemoteKey atomics_key(int rank) const { return key_by(rank, mine_.atomics_path); }

 private:
  RemoteKey key_by(int rank, const char* path) const;
  struct Exposed {
    RemoteMemory* memory;
    RemoteKey key;
  };
  ExposedMemory mine_;
  std::vector<Exposed> exposed_;
  RemoteMemory* atomics_ = nullptr;
  Path* atomics_path_ = nullptr;        ///< whose it is
  std::vector<ExposedMemory> members_;  ///< by rank; empty: nobody has exposed anything
};

}  // namespace tern::rma
