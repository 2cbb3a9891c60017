#include "rma/remote_part.h"

#include <algorithm>
#include <cstring>

namespace tern::rma {

namespace {

bool is_named(const ExposedMemory::Key& key, const char* path) {
  return std::strncmp(key.path, path, sizeof key.path - 1) == 0;
}

}  // namespace

void RemotePart::expose(Communicator& comm, std::byte* base, size_t bytes) {
  if (bytes == 0) return;
  mine_.address = reinterpret_cast<uintptr_t>(base);
  const auto reaches_another = [&](const Path& path) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank != comm.rank() && path.reaches(comm.peer(rank))) return true;
    }
    return false;
  };
  for (Path* path : comm.p2p().endpoints().paths()) {
    RemoteMemory* memory = path->remote_memory();
    if (!memory || exposed_.size() == ExposedMemory::kMostPaths) continue;
    const RemoteMemoryProperties& can = memory->remote_properties();
    if (!(can.get || can.put) || !reaches_another(*path)) continue;
    const RemoteKey key = memory->expose(base, bytes, {.read = true, .write = true, .atomic = can.atomics});
    if (key.empty()) continue;
    ExposedMemory::Key& place = mine_.keys[exposed_.size()];
    std::strncpy(place.path, path->properties().name, sizeof place.path - 1);
    place.key = key;
    exposed_.push_back({memory, key});
  }
}

void RemotePart::conceal() {
  for (const Exposed& one : exposed_) one.memory->conceal(one.key);
  exposed_.clear();
}

void RemotePart::set_members(std::vector<ExposedMemory> members) {
  const bool some = std::any_of(members.begin(), members.end(), [](auto& one) { return !one.keys[0].key.empty(); });
  members_ = some ? std::move(members) : std::vector<ExposedMemory>();
}

RemoteKey RemotePart::key_of(int rank, const Endpoint& way) const {
  if (members_.empty() || way.lost()) return {};
  for (const ExposedMemory::Key& one : members_[size_t(rank)].keys) {
    if (!one.key.empty() && is_named(one, way.properties().name)) return one.key;
  }
  return {};
}

}  // namespace tern::rma
