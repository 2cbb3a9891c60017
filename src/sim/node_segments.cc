#include "sim/node_segments.h"

#include <cstring>
#include <new>

#include "base/assert.h"

namespace tern::sim {
namespace {

constexpr std::align_val_t kPage{4096};

}  // namespace

Error SimSegments::allocate(size_t bytes, NodeSegment& made) {
  const size_t size = bytes ? bytes : 1;
  auto* data = static_cast<std::byte*>(operator new(size, kPage, std::nothrow));
  if (!data) return Error(ErrorClass::no_mem, "no memory for a segment of a simulated node");
  std::memset(data, 0, size);
  const uint64_t id = table_.next_id++;
  table_.segments.emplace(
      id, SegmentTable::Segment{{data, [](std::byte* memory) { operator delete(memory, kPage); }}, bytes, node_, 1});
  made = {data, bytes, {{id, bytes + 1}}};
  return {};
}

Error SimSegments::attach(const SegmentKey& key, NodeSegment& attached) {
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
