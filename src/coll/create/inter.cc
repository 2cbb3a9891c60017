// Creation of intercommunicators, and what is made from them: dup, create, split, merge,
// intercomm_create(_from_groups).
//
// All of it is one pattern (MPI 5.0, 7.6.2): the statement of a side goes from its leader to the other leader over the
// bridge; each leader broadcasts the other side's statement to its own side:
//
//     side A:  0  1  2                 side B:  0  1
//              |<------- exchange ------------->|
//              |-> 1, 2  broadcast              |-> 1
//
// A side that cannot continue says so in the broadcast, so that no rank waits for it.
#include <algorithm>
#include <string>

#include "coll/create/create.h"
#include "coll/create/inter.h"

namespace tern::create {

namespace {

/// The first word of what a leader broadcasts.
enum Verdict : uint64_t { kGo, kNothing, kFailed, kOverlap, kSeveralJobs };

/// Between rank 0 of both sides of an intercommunicator, in the order of its collectives.
Channel bridge_of(const Maker& maker, Communicator& inter) {
  return Channel::across(maker, inter.remote_group(), inter.rank(), inter.context(Communicator::Plane::internal),
                         inter.next_collective_tag());
}

Error failed(Verdict verdict) {
  if (verdict == kOverlap)
    return Error(ErrorClass::comm, "the local and the remote group have a process in common; they must be disjoint");
  return Error(ErrorClass::other, "the leader of the local group could not reach the other group's leader");
}

/// Every rank on `local` gets in `heard` what the leader of the other side gave as `said`.
Flow relay(Channel local, int leader, Channel bridge, int far_leader, const Words& said, Words& heard) {
  Words words;
  Error bridging;
  if (local.rank() == leader) {
    bridging = co_await bridge.exchange(far_leader, said, words);
    words.insert(words.begin(), bridging ? kFailed : kGo);
  }
  Error error = co_await local.broadcast(leader, words);
  if (bridging) co_return std::move(bridging);
  if (error) co_return std::move(error);
  if (words[0] != kGo) co_return failed(Verdict(words[0]));
  heard.assign(words.begin() + 1, words.end());
  co_return Error();
}

Flow duplicate_flow(Maker maker, Ref<Communicator> fresh, bool low_side, Channel local, Channel bridge) {
  // The low side's leader makes the context; each leader one for its own side.
  Words mine{low_side && local.rank() == 0 ? maker.new_context() : 0}, theirs;
  Error error = co_await relay(local, 0, bridge, 0, mine, theirs);
  if (error) co_return std::move(error);
  Words agreed{mine[0], local.rank() == 0 ? maker.new_context() : 0};
  error = co_await local.broadcast(0, std::span<uint64_t>(agreed));
  if (error) co_return std::move(error);
  fresh->set_context(low_side ? agreed[0] : theirs.at(0));
  fresh->local_intra->set_context(agreed[1]);
  co_return Error();
}

/// What a side states in create_inter: its proposed context, then its members, job and rank of each.
Words introduce(const Maker& maker, const Group& group) {
  Words words{maker.new_context()};
  for (int rank = 0; rank < group.size(); ++rank) {
    const RankName name = maker.peers.name(group.peer(rank));
    words.insert(words.end(), {name.job, name.rank});
  }
  return words;
}

/// The members that the other side has named. Error: one that this rank does not know.
Error find_members(const Maker& maker, std::span<const uint64_t> words, std::vector<PeerId>& members) {
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    members.push_back(maker.peers.find({words[i], uint32_t(words[i + 1])}));
    if (members.back() == kNoPeer)
      return Error(ErrorClass::comm, "rank " + std::to_string(i / 2) +
                                         " of the remote group is of a job that this process is not connected with");
  }
  return {};
}

/// The same at both leaders.
bool of_several_jobs(const Words& mine, const Words& theirs) {
  const uint64_t job = mine.at(1);
  for (const Words* words : {&mine, &theirs})
    for (size_t i = 1; i + 1 < words->size(); i += 2)
      if ((*words)[i] != job) return true;
  return false;
}

/// `bridge` null except at the leader, and at a leader without a remote leader. `several_jobs`: see create_inter.
Flow connect_flow(const Maker& maker, Group& local_group, Channel local, int leader, const Channel* bridge,
                  int far_leader, Ref<Communicator>& result, bool* several_jobs = nullptr) {
  // Broadcast: verdict, context, whether we are the low side, context of the local side, remote members.
  Words words;
  Error bridging;
  if (local.rank() == leader) {
    Words mine = introduce(maker, local_group), theirs;
    Verdict verdict = kNothing;
    if (bridge) {
      bridging = co_await bridge->exchange(far_leader, mine, theirs);
      verdict = bridging || theirs.empty() ? kFailed : kGo;
    }
    if (verdict == kGo && several_jobs != nullptr && of_several_jobs(mine, theirs)) verdict = kSeveralJobs;
    if (verdict == kGo) {
      std::vector<PeerId> members;
      bridging = find_members(maker, std::span<const uint64_t>(theirs).subspan(1), members);
      bool overlap =
          std::any_of(members.begin(), members.end(), [&](PeerId peer) { return local_group.contains(peer); });
      if (overlap) verdict = kOverlap;
      if (bridging) verdict = kFailed;
    }
    if (verdict == kGo) {
      words = {verdict, std::min(mine[0], theirs[0]), mine[0] < theirs[0], maker.new_context()};
      words.insert(words.end(), theirs.begin() + 1, theirs.end());
    } else {
      words = {verdict};
    }
  }
  Error error = co_await local.broadcast(leader, words);
  if (bridging) co_return std::move(bridging);
  if (error) co_return std::move(error);
  if (words[0] == kNothing) co_return Error();
  if (words[0] == kSeveralJobs) {
    *several_jobs = true;
    co_return Error();
  }
  if (words[0] != kGo) co_return failed(Verdict(words[0]));
  std::vector<PeerId> members;
  error = find_members(maker, std::span<const uint64_t>(words).subspan(4), members);
  if (error) co_return std::move(error);
  auto remote = Group::of(local_group.me(), std::move(members));
  result = make_inter(maker, words[1], words[3], Ref<Group>::share(&local_group), std::move(remote), words[2] != 0);
  co_return Error();
}

}  // namespace

Ref<Communicator> make_inter(const Maker& maker, uint64_t context, uint64_t local_context, Ref<Group> local,
                             Ref<Group> remote, bool low_side) {
  auto intra = make_intra(maker, local_context, local);
  auto inter =
      Ref<Communicator>::adopt(new Communicator(maker.environment, context, std::move(local), std::move(remote)));
  inter->local_intra = intra.release();
  inter->low_side = low_side;
  return inter;
}

Flow duplicate_inter(const Maker& maker, Communicator& inter, Ref<Communicator>& result) {
  result = make_inter(maker, 0, 0, Ref<Group>::share(&inter.group()), Ref<Group>::share(&inter.remote_group()),
                      inter.low_side);
  return duplicate_flow(maker, result, inter.low_side, Channel::of(maker, *inter.local_intra), bridge_of(maker, inter));
}

Error create_from_inter(const Maker& maker, Communicator& inter, Group& group, Ref<Communicator>& result) {
  for (int rank = 0; rank < group.size(); ++rank)
    if (!inter.group().contains(group.peer(rank)))
      return Error(ErrorClass::group, "the group's rank " + std::to_string(rank) + " is not in the local group");
  Channel local = Channel::of(maker, *inter.local_intra);
  Channel bridge = bridge_of(maker, inter);
  // Said: a context, and the chosen members as ranks of their side.
  Words said{local.rank() == 0 ? maker.new_context() : 0}, heard;
  for (int rank = 0; rank < group.size(); ++rank) said.push_back(uint64_t(inter.group().rank_of(group.peer(rank))));
  if (Error error = run(maker.environment.p2p, relay(local, 0, bridge, 0, said, heard))) return error;
  Words own{said[0], local.rank() == 0 ? maker.new_context() : 0};
  if (Error error = run(maker.environment.p2p, local.broadcast(0, std::span<uint64_t>(own)))) return error;
  if (group.rank() == kUndefined || heard.size() == 1) return {};
  std::vector<PeerId> remote;
  for (size_t i = 1; i < heard.size(); ++i) remote.push_back(inter.remote_group().peer(int(heard[i])));
  result = make_inter(maker, inter.low_side ? own[0] : heard[0], own[1], Ref<Group>::share(&group),
                      Group::of(group.me(), std::move(remote)), inter.low_side);
  return {};
}

Error split_inter(const Maker& maker, Communicator& inter, int64_t color, int key, Ref<Communicator>& result) {
  Channel local = Channel::of(maker, *inter.local_intra);
  Channel bridge = bridge_of(maker, inter);
  Words ours, theirs;
  SplitWords words = split_words(maker, color, key, true);
  if (Error error = run(maker.environment.p2p, local.allgather(words, ours))) return error;
  if (Error error = run(maker.environment.p2p, relay(local, 0, bridge, 0, ours, theirs))) return error;
  if (color == kNoColor) return {};
  SplitGroup near = split_group(inter.group(), ours, color);
  SplitGroup far = split_group(inter.remote_group(), theirs, color);
  if (far.group->size() == 0) return {};
  result = make_inter(maker, inter.low_side ? near.context : far.context, near.local_context, std::move(near.group),
                      std::move(far.group), inter.low_side);
  return {};
}

Error create_inter(const Maker& maker, Communicator& local, int local_leader, Communicator* peer_comm,
                   int remote_leader, int tag, Ref<Communicator>& result, bool* several_jobs) {
  Channel side = Channel::of(maker, local);
  if (several_jobs) *several_jobs = false;
  if (local.rank() != local_leader)
    return run(maker.environment.p2p,
               connect_flow(maker, local.group(), side, local_leader, nullptr, 0, result, several_jobs));
  Channel bridge = bridge_between(maker, *peer_comm, tag);
  return run(maker.environment.p2p,
             connect_flow(maker, local.group(), side, local_leader, &bridge, remote_leader, result, several_jobs));
}

Channel bridge_between(const Maker& maker, Communicator& peer_comm, int tag) {
  return Channel::across(maker, peer_comm.peer_group(), peer_comm.rank(),
                         peer_comm.context(Communicator::Plane::tagged), tag);
}

Error create_inter_from_groups(const Maker& maker, Group& local, int local_leader, Group* remote, int remote_leader,
                               std::string_view string_tag, Ref<Communicator>& result) {
  if (local.size() == 0) return {};
  if (local.rank() == kUndefined) return Error(ErrorClass::group, "this process is not in the local group");
  // Tags other than create_from_group's 0, which may use the same string and group.
  constexpr int kSideTag = 1, kBridgeTag = 2;
  constexpr auto plane = uint64_t(Communicator::Plane::internal);
  Channel side(maker, local, bootstrap_context(string_tag, hash_of(maker, local)) | plane, kSideTag);
  if (local.rank() != local_leader || remote->size() == 0)
    return run(maker.environment.p2p, connect_flow(maker, local, side, local_leader, nullptr, 0, result));
  // The sum is the same on both sides.
  uint64_t meeting = bootstrap_context(string_tag, hash_of(maker, local) + hash_of(maker, *remote));
  Channel bridge = Channel::across(maker, *remote, local.rank(), meeting | plane, kBridgeTag);
  return run(maker.environment.p2p, connect_flow(maker, local, side, local_leader, &bridge, remote_leader, result));
}

Error merge(const Maker& maker, Communicator& inter, bool high, Ref<Communicator>& result) {
  Channel local = Channel::of(maker, *inter.local_intra);
  Channel bridge = bridge_of(maker, inter);
  // Said: a context and the leader's word on which side comes last.
  Words said{inter.low_side && local.rank() == 0 ? maker.new_context() : 0, high}, heard;
  if (Error error = run(maker.environment.p2p, relay(local, 0, bridge, 0, said, heard))) return error;
  // The leader's value counts for its side, so that all of a side use the same order.
  if (Error error = run(maker.environment.p2p, local.broadcast(0, std::span<uint64_t>(said)))) return error;
  bool we_first = said[1] != heard[1] ? said[1] == 0 : inter.low_side;
  const Group& first = we_first ? inter.group() : inter.remote_group();
  const Group& second = we_first ? inter.remote_group() : inter.group();
  result = make_intra(maker, inter.low_side ? said[0] : heard[0], first.join(second));
  return {};
}

}  // namespace tern::create
