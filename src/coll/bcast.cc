// Broadcasts by messages (MPI 5.0, 6.4). Processes may describe the same bytes with different counts and types, so the
// packed stream is cut into parts, never the elements.
#include <algorithm>

#include "coll/lanes.h"

namespace tern {

namespace {

// The buffer as a packed stream: itself when it is contiguous, else a copy (made here at the root, unpacked by
// `deliver` elsewhere).
struct Stream {
  Stream(Builder& b, const Operands& o) : buffer(o.receive.whole()) {
    bytes = buffer.bytes();
    direct = buffer.type->is_contiguous();
    data = direct ? buffer.data : b.temporary(bytes);
    if (!direct && b.rank() == o.root) b.pack(buffer, data);
  }
  void deliver(Builder& b, const Operands& o) const {
    if (direct || b.rank() == o.root) return;
    b.fence_receives();
    b.unpack(data, buffer);
  }
  Block buffer;
  std::byte* data;
  size_t bytes;
  bool direct;
};
}  // namespace

// The root sends to each. Where all take the data from its memory themselves, they do so side by side.
void bcast_linear(Builder& b, const Operands& o) {
  const Block buffer = o.receive.whole();
  if (b.rank() != o.root) {
    b.receive(buffer, o.root);
    return;
  }
  for (int rel = 1; rel < b.size(); ++rel) b.send(buffer, absolute_rank(b, o.root, rel));
}

// Binomial tree: after round k, 2^(k+1) processes have the data. Ranks relative to the root.
//
//   0 ──> 4      0 ──> 2, 4 ──> 6      0 ──> 1, 2 ──> 3, 4 ──> 5, 6 ──> 7
void bcast_binomial(Builder& b, const Operands& o) {
  int size = b.size(), rel = relative_rank(b, o.root);
  Block buffer = o.receive.whole();
  int mask = 1;
  while (mask < size && !(rel & mask)) mask *= 2;
  if (rel != 0) {
    b.receive(buffer, absolute_rank(b, o.root, rel - mask));
    b.fence_receives();
  }
  for (mask /= 2; mask > 0; mask /= 2) {
    if (rel + mask < size) b.send(buffer, absolute_rank(b, o.root, rel + mask));
  }
}

// Scatter down a binomial tree, then allgather round a ring (van de Geijn): every process sends and receives about
// twice the bytes, whatever their number.
//
//   scatter (4 parts)       0: ABCD     1: .B..     2: ..CD     3: ...D
//   ring, step s: rank r sends part r - s to r + 1 and receives part r - s - 1 from r - 1
void bcast_scatter_allgather(Builder& b, const Operands& o) {
  int size = b.size(), rel = relative_rank(b, o.root);
  Stream stream(b, o);
  size_t part = (stream.bytes + size_t(size) - 1) / size_t(size);
  auto begin = [&](int i) { return std::min(stream.bytes, part * size_t(i)); };
  int mask = 1;
  while (mask < size && !(rel & mask)) mask *= 2;
  if (rel != 0) {
    int end = std::min(size, rel + mask);
    b.receive_bytes(stream.data + begin(rel), begin(end) - begin(rel), absolute_rank(b, o.root, rel - mask));
    b.fence_receives();
  }
  for (mask /= 2; mask > 0; mask /= 2) {
    int child = rel + mask;
    if (child >= size) continue;
    int end = std::min(size, child + mask);
    b.send_bytes(stream.data + begin(child), begin(end) - begin(child), absolute_rank(b, o.root, child));
  }
  int right = absolute_rank(b, o.root, rel + 1), left = absolute_rank(b, o.root, rel + size - 1);
  for (int s = 0; s < size - 1; ++s) {
    int out = (rel - s + size) % size, in = (rel - s - 1 + size) % size;
    // The root has everything already: its left neighbour need not send to it.
    if (rel != 0) b.receive_bytes(stream.data + begin(in), begin(in + 1) - begin(in), left);
    if (rel + 1 != size) b.send_bytes(stream.data + begin(out), begin(out + 1) - begin(out), right);
    b.fence_receives();
  }
  stream.deliver(b, o);
}

// Scatter and allgather piece by piece: the root gives each of the others a part of a piece, and each passes its part
// on to all others while the root's parts of the next piece come. The root sends every byte once, the others at most
// once.
//
//   0 ──A──> 1, 0 ──B──> 2, 0 ──C──> 3      1 ──A──> 2, 3   2 ──B──> 3, 1   3 ──C──> 1, 2
void bcast_spread(Builder& b, const Operands& o) {
  const int rel = relative_rank(b, o.root), others = b.size() - 1;
  if (others == 0) return;
  const Stream stream(b, o);
  const int pieces = int(std::clamp<size_t>(stream.bytes / (kPartBytes * size_t(others)), 1, kMaxParts));
  auto begin = [&](int piece, int part) {
    return size_t(part_begin(Count(stream.bytes), piece * others + part, pieces * others));
  };
  auto length = [&](int piece, int part) { return begin(piece, part + 1) - begin(piece, part); };
  auto send = [&](int piece, int part, int to) {
    b.send_bytes(stream.data + begin(piece, part), length(piece, part), absolute_rank(b, o.root, to));
  };
  auto receive = [&](int piece, int part, int from) {
    b.receive_bytes(stream.data + begin(piece, part), length(piece, part), absolute_rank(b, o.root, from));
  };
  if (rel == 0) {
    for (int piece = 0; piece < pieces; ++piece) {
      for (int to = 1; to <= others; ++to) send(piece, to - 1, to);
    }
    return;
  }
  receive(0, rel - 1, 0);
  for (int piece = 0; piece < pieces; ++piece) {
    b.fence_receives();
    if (piece + 1 < pieces) receive(piece + 1, rel - 1, 0);
    for (int i = 1; i < others; ++i) {
      const int from = (rel - 1 + others - i) % others + 1;
      receive(piece, from - 1, from);
    }
    for (int i = 1; i < others; ++i) send(piece, rel - 1, (rel - 1 + i) % others + 1);
  }
  stream.deliver(b, o);
}

// A pipeline along the chain root, root + 1, ...: while a process passes one part on, it receives the next.
//
//   0 ──A──> 1
//   0 ──B──> 1 ──A──> 2
//   0 ──C──> 1 ──B──> 2 ──A──> 3
void bcast_chain(Builder& b, const Operands& o) {
  int size = b.size(), rel = relative_rank(b, o.root);
  Stream stream(b, o);
  size_t part = std::max(kPartBytes, (stream.bytes + kMaxParts - 1) / kMaxParts);
  int left = absolute_rank(b, o.root, rel + size - 1), right = absolute_rank(b, o.root, rel + 1);
  auto receive = [&](size_t at) {
    if (rel != 0 && at < stream.bytes) b.receive_bytes(stream.data + at, std::min(part, stream.bytes - at), left);
  };
  receive(0);
  for (size_t at = 0; at < stream.bytes; at += part) {
    b.fence_receives();
    receive(at + part);
    if (rel + 1 != size) b.send_bytes(stream.data + at, std::min(part, stream.bytes - at), right);
  }
  stream.deliver(b, o);
}

// Over nodes (lanes.h): the root scatters the parts inside its node, each lane broadcasts its part to the nodes, and
// inside each node every member gets every part from its lane.
void bcast_lanes(Builder& b, const Operands& o) {
  const int count = lanes_for(b, o.receive.whole().bytes());
  if (count == 1) return bcast_leaders(b, o);
  Stream stream(b, o);
  Lanes lanes(b, count);
  if (!lanes) return;
  Builder inside = lanes.inside;
  const int root_index = lanes.levels.index_of(o.root), root_node = lanes.levels.node_of(o.root);
  const bool root = b.rank() == o.root, with_root = lanes.node == root_node;
  auto begin = [&](int lane) { return size_t(part_begin(Count(stream.bytes), lane, lanes.count)); };
  auto length = [&](int lane) { return begin(lane + 1) - begin(lane); };
  if (root) {
    for (int lane = 0; lane < lanes.count; ++lane) {
      if (lane != root_index) inside.send_bytes(stream.data + begin(lane), length(lane), lane);
    }
  } else if (with_root && lanes.works()) {
    inside.receive_bytes(stream.data + begin(lanes.number()), length(lanes.number()), root_index);
    b.fence_receives();
  }
  if (lanes.works()) {
    Operands part;
    part.receive.buffer = stream.data + begin(lanes.number());
    part.receive.count = Count(length(lanes.number()));
    part.receive.type = &b.byte();
    part.root = root_node;
    build_flat(lanes.across, Operation::bcast, part);
    b.fence_receives();
  }
  for (int s = 1; s < lanes.members && !root; ++s) {
    const int from = (lanes.index - s + lanes.members) % lanes.members;
    if (from < lanes.count) inside.receive_bytes(stream.data + begin(from), length(from), from);
  }
  for (int s = 1; s < lanes.members && lanes.works(); ++s) {
    const int to = (lanes.index + s) % lanes.members;
    if (!with_root || to != root_index)
      inside.send_bytes(stream.data + begin(lanes.number()), length(lanes.number()), to);
  }
  stream.deliver(b, o);
}

}  // namespace tern
