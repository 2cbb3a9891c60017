// Creation of intracommunicators: dup, create, create_group, create_from_group, split.
#include <algorithm>
#include <string>

#include "coll/create/create.h"
#include "coll/create/inter.h"
#include "comm/context.h"
#include "p2p/engines.h"

namespace tern::create {

namespace {

/// What the members of a new communicator must agree on.
struct Agreement {
  uint64_t context = 0;
  uint32_t network_engines = 0;
};

/// How many message engines this rank has for messages of these members over a network.
uint32_t network_engines_for(const Maker& maker, const Group& group) {
  const Engines* engines = maker.environment.engines;
  if (!engines || engines->over_network() == 0) return 0;
  for (int i = 0; i < group.size(); ++i) {
    if (!maker.peers.in_my_job(group.peer(i))) return 0;
  }
  return engines->over_network();
}

/// Among the channel's members: the first one makes the context. If it has engines, all tell how many they have.
Flow agree(const Maker& maker, Channel channel, const Group& group, Agreement& agreement) {
  uint64_t engines = network_engines_for(maker, group);
  uint64_t words[2] = {channel.rank() == 0 ? maker.new_context() : 0, engines};
  Error error = co_await channel.broadcast(0, words);
  if (!error && words[1] != 0) error = co_await channel.smallest(engines);
  agreement = {words[0], words[1] != 0 ? uint32_t(engines) : 0};
  co_return std::move(error);
}

/// The ranks in `numbering` of the members of `group`. Error: one that is not there.
Error members_of(const Group& group, const Group& numbering, std::vector<int>& ranks) {
  for (int i = 0; i < group.size(); ++i) {
    ranks.push_back(numbering.rank_of(group.peer(i)));
    if (ranks.back() == kUndefined)
      return Error(ErrorClass::group, "the group's rank " + std::to_string(i) + " is no member of the communicator");
  }
  return {};
}

// The context is set when it is known.
Flow duplicate_intra(Maker maker, Ref<Communicator> fresh, Channel channel) {
  Agreement agreed;
  Error error = co_await agree(maker, channel, fresh->group(), agreed);
  if (!error) fresh->set_context(agreed.context, agreed.network_engines);
  co_return std::move(error);
}

Flow duplicate_start(const Maker& maker, Communicator& comm, Ref<Communicator>& result) {
  if (comm.is_inter()) return duplicate_inter(maker, comm, result);
  result = make_intra(maker, 0, Ref<Group>::share(&comm.group()));
  if (comm.topology) result->topology = comm.topology->clone();
  return duplicate_intra(maker, result, Channel::of(maker, comm));
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

struct SplitEntry {
  int64_t color;
  int key;
  uint64_t context, local_context;
  uint32_t network_engines;
  static SplitEntry read(const Words& words, int rank) {
    const uint64_t* at = words.data() + size_t(rank) * std::tuple_size_v<SplitWords>;
    return {int64_t(at[0]), int(int64_t(at[1])), at[2], at[3], uint32_t(at[4])};
  }
};

}  // namespace

Ref<Communicator> make_intra(const Maker& maker, uint64_t context, Ref<Group> group, uint32_t network_engines) {
  return Ref<Communicator>::adopt(new Communicator(maker.environment, context, std::move(group), {}, network_engines));
}

Error duplicate(const Maker& maker, Communicator& comm, Ref<Communicator>& result) {
  Error error = run(maker.environment.p2p, duplicate_start(maker, comm, result));
  if (error) result.reset();
  return error;
}

Request* start_duplicate(const Maker& maker, Communicator& comm, Ref<Communicator>& result) {
  return FlowRequest::begin(maker.environment.p2p.progress(), duplicate_start(maker, comm, result));
}

Error create(const Maker& maker, Communicator& comm, Group& group, Ref<Communicator>& result) {
  if (comm.is_inter()) return create_from_inter(maker, comm, group, result);
  std::vector<int> ranks;
  if (Error error = members_of(group, comm.group(), ranks)) return error;
  // Members of other groups, or of none, take part by counting one more collective operation.
  int tag = comm.next_collective_tag();
  if (group.rank() == kUndefined) return {};
  Agreement agreed;
  Channel channel(maker, comm.group(), comm.context(Communicator::Plane::internal), tag, std::move(ranks));
  if (Error error = run(maker.environment.p2p, agree(maker, channel, group, agreed))) return error;
  result = make_intra(maker, agreed.context, Ref<Group>::share(&group), agreed.network_engines);
  return {};
}

Error create_group(const Maker& maker, Communicator& comm, Group& group, int tag, Ref<Communicator>& result) {
  if (group.rank() == kUndefined) return {};
  std::vector<int> ranks;
  if (Error error = members_of(group, comm.group(), ranks)) return error;
  Agreement agreed;
  Channel channel(maker, comm.group(), comm.context(Communicator::Plane::tagged), tag, std::move(ranks));
  if (Error error = run(maker.environment.p2p, agree(maker, channel, group, agreed))) return error;
  result = make_intra(maker, agreed.context, Ref<Group>::share(&group), agreed.network_engines);
  return {};
}

uint64_t bootstrap_context(std::string_view string_tag, uint64_t group_hash) {
  uint64_t mixed = hash_text(string_tag) ^ (group_hash * 0x9e3779b97f4a7c15u);
  return ((mixed ^ (mixed >> 31)) | kBootstrap) & ~uint64_t{3};
}

uint64_t hash_of(const Maker& maker, const Group& group) {
  uint64_t hash = 0;
  for (int rank = 0; rank < group.size(); ++rank) hash = tern::hash_of(maker.peers.name(group.peer(rank)), hash);
  return hash;
}

Error create_from_group(const Maker& maker, Group& group, std::string_view string_tag, Ref<Communicator>& result) {
  if (group.size() == 0) return {};
  if (group.rank() == kUndefined) return Error(ErrorClass::group, "this process is not in the group");
  Agreement agreed;
  Channel channel(maker, group,
                  bootstrap_context(string_tag, hash_of(maker, group)) | uint64_t(Communicator::Plane::internal), 0);
  if (Error error = run(maker.environment.p2p, agree(maker, channel, group, agreed))) return error;
  result = make_intra(maker, agreed.context, Ref<Group>::share(&group), agreed.network_engines);
  return {};
}

SplitGroup split_group(const Group& from, const Words& words, int64_t color) {
  std::vector<std::pair<int, int>> order;  // (key, rank)
  uint32_t fewest = Engines::kMost;
  for (int rank = 0; rank < from.size(); ++rank) {
    SplitEntry entry = SplitEntry::read(words, rank);
    if (entry.color != color) continue;
    order.push_back({entry.key, rank});
    fewest = std::min(fewest, entry.network_engines);
  }
  std::sort(order.begin(), order.end());
  std::vector<PeerId> peers;
  for (auto [key, rank] : order) peers.push_back(from.peer(rank));
  SplitEntry first = order.empty() ? SplitEntry{} : SplitEntry::read(words, order[0].second);
  return {Group::of(from.me(), std::move(peers)), first.context, first.local_context, fewest};
}

SplitWords split_words(const Maker& maker, int64_t color, int key, bool inter) {
  const bool member = color != kNoColor;
  const Engines* engines = maker.environment.engines;
  return {uint64_t(color), uint64_t(int64_t(key)), member ? maker.new_context() : 0,
          member && inter ? maker.new_context() : 0, engines ? engines->over_network() : 0};
}

Error split(const Maker& maker, Communicator& comm, int64_t color, int key, Ref<Communicator>& result) {
  if (comm.is_inter()) return split_inter(maker, comm, color, key, result);
  Words all;
  // Every member proposes a context; that of a new communicator's first member counts.
  if (Error error = allgather(maker, comm, split_words(maker, color, key, false), all)) return error;
  if (color == kNoColor) return {};
  SplitGroup mine = split_group(comm.group(), all, color);
  const uint32_t engines = std::min(mine.network_engines, network_engines_for(maker, *mine.group));
  result = make_intra(maker, mine.context, std::move(mine.group), engines);
  return {};
}

}  // namespace tern::create
