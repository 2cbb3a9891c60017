// Collectives of small data through the shared memory of a NodeTeam, complete on return (blocking calls only): every
// member reads what it needs where its owner wrote it. One hand-over instead of the rounds of a tree, no message, no
// request.
//
//   allreduce, 3 ranks     0: writes A     1: writes B     2: writes C
//                          each waits for all three and computes A op (B op C): the same everywhere, in order
//   alltoall, 3 ranks      0: writes 01 02     1: writes 10 12     2: writes 20 21     (own blocks are not written)
//                          0: reads 10 20      1: reads 01 21      2: reads 02 12
#include <algorithm>
#include <cstring>

#include "coll/algorithms.h"
#include "coll/copy.h"

namespace tern {

namespace {
using Bytes = std::span<const std::byte>;

// Block `block` of a contribution that has all but its writer's own, `bytes` each: where it begins.
size_t block_at(int block, int writer, size_t bytes) { return size_t(block < writer ? block : block - 1) * bytes; }

// Bytes first .. first + length - 1 of a contribution, as far as they are there, into a block.
void deliver(Bytes contribution, size_t first, const Block& block) {
  if (first >= contribution.size()) return;
  unpack_block(contribution.data() + first, std::min(block.bytes(), contribution.size() - first), block);
}

// right[i] = left[i] op right[i]; `left` is shared memory.
void apply(const Op& op, const std::byte* left, std::byte* right, Count count, const Datatype& type) {
  if (op.is_predefined()) {
    op.apply(left, right, count, type);
    return;
  }
  // A user's function that writes to its first argument must not harm the others.
  alignas(64) std::byte own[NodeTeam::kBulkBytes];
  std::memcpy(own, left, size_t(count * type.size()));
  op.apply(own, right, count, type);
}

bool contribute(NodeTeam& team, const Operands& o, size_t bytes) {
  std::byte* place = team.place(bytes);
  if (!place) return false;
  std::memcpy(place, o.contribution(), bytes);
  return true;
}

// Combines what the members `last`, `last` - 1, .. 0 have contributed to this operation, `bytes` each, or the part of
// it at `first` that is `count` elements long, into `result`.
bool combine(NodeTeam& team, const Operands& o, size_t bytes, int last, size_t first, Count count, std::byte* result) {
  const Datatype& type = *o.receive.type;
  for (int i = last; i >= 0; --i) {
    const std::byte* theirs = team.await_all(i, bytes);
    if (!theirs) return false;
    if (count == 0) continue;
    if (i == last) {
      std::memcpy(result, theirs + first, size_t(count * type.size()));
    } else {
      apply(*o.op, theirs + first, result, count, type);
    }
  }
  return true;
}
}  // namespace

Error barrier_node(NodeTeam& team, const Operands&) {
  team.enter();
  if (!team.place(0)) return team.error();
  team.publish();
  for (int i = team.size() - 1; i >= 0; --i) {
    if (i != team.rank() && !team.await(i, 0).data()) return team.error();
  }
  team.all_have_entered();
  return {};
}

Error bcast_node(NodeTeam& team, const Operands& o) {
  team.enter();
  Block buffer = o.receive.whole();
  const size_t bytes = buffer.bytes();
  if (team.rank() == o.root) {
    std::byte* place = team.place(bytes);
    if (!place) return team.error();
    pack_block(buffer, place, bytes);
    team.publish();
    return {};
  }
  Bytes data = team.await(o.root, bytes);
  if (!data.data()) return team.error();
  unpack_block(data.data(), data.size(), buffer);
  return {};
}

Error gather_node(NodeTeam& team, const Operands& o) {
  team.enter();
  if (team.rank() != o.root) {
    Block own = o.send.whole();
    std::byte* place = team.place(own.bytes());
    if (!place) return team.error();
    pack_block(own, place, own.bytes());
    team.publish_for(o.root);
    return {};
  }
  Error error;
  if (!o.in_place) error = copy_block(o.send.whole(), o.receive.block(o.root));
  for (int i = 0; i < team.size(); ++i) {
    if (i == o.root) continue;
    Block block = o.receive.block(i);
    Bytes data = team.await(i, block.bytes());
    if (!data.data()) return team.error();
    deliver(data, 0, block);
  }
  return error;
}

Error scatter_node(NodeTeam& team, const Operands& o) {
  team.enter();
  const int others = team.size() - 1;
  if (team.rank() != o.root) {
    Block own = o.receive.whole();
    Bytes data = team.await(o.root, own.bytes() * size_t(others));
    if (!data.data()) return team.error();
    deliver(data, block_at(team.rank(), o.root, own.bytes()), own);
    return {};
  }
  const size_t bytes = o.send.block(0).bytes();
  std::byte* place = team.place(bytes * size_t(others));
  if (!place) return team.error();
  for (int i = 0; i < team.size(); ++i) {
    if (i != o.root) pack_block(o.send.block(i), place + block_at(i, o.root, bytes), bytes);
  }
  team.publish();
  return o.in_place ? Error() : copy_block(o.send.block(o.root), o.receive.whole());
}

Error allgather_node(NodeTeam& team, const Operands& o) {
  team.enter();
  const int rank = team.rank();
  Block own = o.in_place ? o.receive.block(rank) : o.send.whole();
  std::byte* place = team.place(own.bytes());
  if (!place) return team.error();
  pack_block(own, place, own.bytes());
  team.publish();
  Error error;
  if (!o.in_place) error = copy_block(own, o.receive.block(rank));
  for (int i = 0; i < team.size(); ++i) {
    if (i == rank) continue;
    Block block = o.receive.block(i);
    Bytes data = team.await(i, block.bytes());
    if (!data.data()) return team.error();
    deliver(data, 0, block);
  }
  team.all_have_entered();
  return error;
}

Error alltoall_node(NodeTeam& team, const Operands& o) {
  team.enter();
  const int rank = team.rank(), size = team.size();
  const Side& source = o.in_place ? o.receive : o.send;
  const size_t bytes = source.block(0).bytes(), expected = o.receive.whole().bytes();
  std::byte* place = team.place(bytes * size_t(size - 1));
  if (!place) return team.error();
  for (int i = 0; i < size; ++i) {
    if (i != rank) pack_block(source.block(i), place + block_at(i, rank, bytes), bytes);
  }
  team.publish();
  Error error;
  if (!o.in_place) error = copy_block(o.send.block(rank), o.receive.block(rank));
  for (int i = 0; i < size; ++i) {
    if (i == rank) continue;
    Bytes data = team.await(i, expected * size_t(size - 1));
    if (!data.data()) return team.error();
    deliver(data, block_at(rank, i, expected), o.receive.block(i));
  }
  team.all_have_entered();
  return error;
}

Error reduce_node(NodeTeam& team, const Operands& o) {
  team.enter();
  const size_t bytes = o.receive.whole().bytes();
  if (!contribute(team, o, bytes)) return team.error();
  team.publish_for(o.root);
  if (team.rank() != o.root) return {};
  return combine(team, o, bytes, team.size() - 1, 0, o.receive.count, o.receive.buffer) ? Error() : team.error();
}

Error allreduce_node(NodeTeam& team, const Operands& o) {
  team.enter();
  const size_t bytes = o.receive.whole().bytes();
  if (!contribute(team, o, bytes)) return team.error();
  team.publish();
  if (!combine(team, o, bytes, team.size() - 1, 0, o.receive.count, o.receive.buffer)) return team.error();
  team.all_have_entered();
  return {};
}

Error reduce_scatter_node(NodeTeam& team, const Operands& o) {
  team.enter();
  auto length = [&](int i) { return o.receive.shape == Side::Shape::uniform ? o.receive.count : o.receive.counts[i]; };
  Count first = 0, total = 0;
  for (int i = 0; i < team.size(); ++i) {
    if (i == team.rank()) first = total;
    total += length(i);
  }
  const size_t element = size_t(o.receive.type->size()), bytes = size_t(total) * element;
  if (!contribute(team, o, bytes)) return team.error();
  team.publish();
  if (!combine(team, o, bytes, team.size() - 1, size_t(first) * element, length(team.rank()), o.receive.buffer))
    return team.error();
  team.all_have_entered();
  return {};
}

// Where members share cores: each hands the sum of all up to itself to the next one, so that it waits for one member
// and reads one line.
Error scan_chain(NodeTeam& team, const Operands& o) {
  team.enter();
  const size_t bytes = o.receive.whole().bytes();
  const int next = team.rank() + 1;
  if (!o.in_place) std::memcpy(o.receive.buffer, o.contribution(), bytes);
  if (team.rank() > 0) {
    const std::byte* before = team.await_all(team.rank() - 1, bytes);
    if (!before) return team.error();
    apply(*o.op, before, o.receive.buffer, o.receive.count, *o.receive.type);
  }
  if (next == team.size()) return {};
  std::byte* place = team.place(bytes);
  if (!place) return team.error();
  std::memcpy(place, o.receive.buffer, bytes);
  team.publish_for(next);
  return {};
}

// Every member combines what those before it have contributed: p reads instead of log2 p rounds.
Error scan_node(NodeTeam& team, const Operands& o) {
  if (team.shares_cores()) return scan_chain(team, o);
  team.enter();
  const size_t bytes = o.receive.whole().bytes();
  if (team.rank() + 1 != team.size()) {
    if (!contribute(team, o, bytes)) return team.error();
    team.publish();
  }
  if (!o.in_place) std::memcpy(o.receive.buffer, o.contribution(), bytes);
  for (int i = team.rank() - 1; i >= 0; --i) {
    const std::byte* theirs = team.await_all(i, bytes);
    if (!theirs) return team.error();
    apply(*o.op, theirs, o.receive.buffer, o.receive.count, *o.receive.type);
  }
  return {};
}

// As scan_chain: what is handed on is the sum of all before the next one.
Error exscan_chain(NodeTeam& team, const Operands& o) {
  team.enter();
  const size_t bytes = o.receive.whole().bytes();
  const int next = team.rank() + 1;
  const std::byte* before = nullptr;
  if (team.rank() > 0 && !(before = team.await_all(team.rank() - 1, bytes))) return team.error();
  if (next < team.size()) {
    std::byte* place = team.place(bytes);
    if (!place) return team.error();
    std::memcpy(place, o.contribution(), bytes);
    if (before) apply(*o.op, before, place, o.receive.count, *o.receive.type);
    team.publish_for(next);
  }
  if (before) std::memcpy(o.receive.buffer, before, bytes);
  return {};
}

Error exscan_node(NodeTeam& team, const Operands& o) {
  if (team.shares_cores()) return exscan_chain(team, o);
  team.enter();
  const size_t bytes = o.receive.whole().bytes();
  if (team.rank() + 1 != team.size()) {
    if (!contribute(team, o, bytes)) return team.error();
    team.publish();
  }
  if (team.rank() == 0) return {};
  return combine(team, o, bytes, team.rank() - 1, 0, o.receive.count, o.receive.buffer) ? Error() : team.error();
}

}  // namespace tern
