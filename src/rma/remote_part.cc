#include "rma/remote_part.h"
#include "base/assert.h"

#include <algorithm>
#include <cstring>

namespace tern::rma {

namespace {

using PathName = char[sizeof ExposedMemory::Key::path];

bool is_named(const PathName& name, const char* path) { return std::strncmp(name, path, sizeof name - 1) == 0; }

// This path reaches all others, some of them alone (those of a node that share memory also go by that), and its atomics
// are for this rank, too.
bool carries_atomics(const Communicator& comm, Path& path) {
  RemoteMemory* memory = path.remote_memory();
  if (!memory || !memory->remote_properties().atomics || !memory->own_lane()) return false;
  bool needed = false;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) continue;
    if (!path.reaches(comm.peer(rank))) return false;
    needed = needed || comm.environment().p2p.endpoints().path_to(comm.peer(rank)) == &path;
  }
  return needed;
}

}  // namespace

void RemotePart::expose(Communicator& comm, std::byte* base, size_t bytes) {
  for (Path* path : comm.environment().p2p.endpoints().paths()) {
    if (!carries_atomics(comm, *path)) continue;
    std::strncpy(mine_.atomics_path, path->properties().name, sizeof mine_.atomics_path - 1);
    atomics_ = path->remote_memory();
    atomics_path_ = path;
    TERN_DEBUG_ASSERT(atomics_);
  }
  if (bytes == 0) return;
  mine_.address = reinterpret_cast<uintptr_t>(base);
  const auto reaches_another = [&](const Path& path) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank != comm.rank() && path.reaches(comm.peer(rank))) return true;
    }
    return false;
  };
  for (Path* path : comm.environment().p2p.endpoints().paths()) {
    RemoteMemory* memory = path->remote_memory();
    if (!memory || exposed_.size() == ExposedMemory::kMaxPaths) continue;
    const RemoteMemoryProperties& can = memory->remote_properties();
    if (!(can.get || can.put) || !reaches_another(*path)) continue;
    const RemoteKey key = memory->expose(base, bytes, {.read = true, .write = true, .atomic = can.atomics});
    if (key.empty()) continue;
    ExposedMemory::Key& place = mine_.keys[exposed_.size()];
    std::strncpy(place.path, path->properties().name, sizeof place.path - 1);
    place.key = key;
    TERN_DEBUG_ASSERT(exposed_.size() < ExposedMemory::kMaxPaths);
    exposed_.push_back({memory, key});
  }
}

void RemotePart::conceal() {
  for (const Exposed& one : exposed_) one.memory->conceal(one.key);
  exposed_.clear();
  atomics_ = nullptr;
}

void RemotePart::set_members(std::vector<ExposedMemory> members) {
  const bool some = std::any_of(members.begin(), members.end(), [](auto& one) { return !one.keys[0].key.empty(); });
  members_ = some ? std::move(members) : std::vector<ExposedMemory>();
  // All members come to the same answer.
  const bool all = some && std::all_of(members_.begin(), members_.end(), [&](const ExposedMemory& one) {
                     return one.atomics_path[0] != 0 && is_named(one.atomics_path, members_[0].atomics_path) &&
                            (one.address == 0 || !key_by(int(&one - members_.data()), one.atomics_path).empty());
                   });
  if (!all) atomics_ = nullptr;
}

RemoteKey RemotePart::key_by(int rank, const char* path) const {
  for (const ExposedMemory::Key& one : members_[size_t(rank)].keys) {
    if (!one.key.empty() && is_named(one.path, path)) return one.key;
  }
  return {};
}

RemoteKey RemotePart::key_of(int rank, const Endpoint& way) const {
  return members_.empty() || way.lost() ? RemoteKey() : key_by(rank, way.properties().name);
}

}  // namespace tern::rma
