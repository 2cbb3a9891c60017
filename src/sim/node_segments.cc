#include "sim/node_segments.h"

#include <cstdlib>
#include <cstring>

#include "base/assert.h"

namespace tern::sim {

Error SimSegments::allocate(size_t bytes, NodeSegment& made, size_t alignment_bytes) {
  const size_t size = bytes ? bytes : 1;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment_bytes, size) != 0)
    return Error(ErrorClass::no_mem, "no memory for a segment of a simulated node");
  auto* data = static_cast<std::byte*>(memory);
  std::memset(data, 0, size);
  const uint64_t id = table_.next_id++;
  table_.segments.emplace(id,
                          SegmentTable::Segment{{data, [](std::byte* owned) { std::free(owned); }}, bytes, node_, 1});
  made = {data, bytes, {{id, bytes + 1}}};
  return {};
}

Error SimSegments::attach(const SegmentKey& key, NodeSegment& attached, size_t) {
  auto found = table_.segments.find(key.words[0]);
  if (found == table_.segments.end() || found->second.node != node_ || found->second.bytes + 1 != key.words[1])
    return Error(ErrorClass::other, "there is no such segment on this node");
  ++found->second.users;
  attached = {found->second.data.get(), found->second.bytes, key};
  return {};
}

void SimSegments::release(NodeSegment& segment) {
  if (segment.empty()) return;
  auto found = table_.segments.find(segment.key.words[0]);
  TERN_ASSERT(found != table_.segments.end());
  if (--found->second.users == 0) table_.segments.erase(found);
  segment = {};
}

}  // namespace tern::sim
