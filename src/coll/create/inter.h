// What the creation of intra- and intercommunicators shares; inside coll/create only. See create.h.
#pragma once

#include <array>
#include <string_view>

#include "coll/create/channel.h"

namespace tern::create {

/// A communicator of both groups with the intracommunicator of the local one.
Ref<Communicator> make_inter(const Maker& maker, uint64_t context, uint64_t local_context, Ref<Group> local,
                             Ref<Group> remote, bool low_side);

Flow duplicate_inter(const Maker& maker, Communicator& inter, Ref<Communicator>& result);
Error create_from_inter(const Maker& maker, Communicator& inter, Group& group, Ref<Communicator>& result);
Error split_inter(const Maker& maker, Communicator& inter, int64_t color, int key, Ref<Communicator>& result);

/// Where the members of a group agree on their first communicator.
uint64_t bootstrap_context(std::string_view string_tag, uint64_t group_hash);
/// A number that equal groups have in common in every process.
uint64_t hash_of(const Maker& maker, const Group& group);

/// What a member of a split sends to the others: colour, key, a context for the new communicator, one for the local
/// intracommunicator of a new intercommunicator, and Engines::over_network. Every member proposes contexts; the
/// proposal of a colour's first member counts.
using SplitWords = std::array<uint64_t, 5>;
SplitWords split_words(const Maker& maker, int64_t color, int key, bool inter);
/// One colour of a split: its members in order, what the first of them proposed, and the smallest number of engines.
struct SplitGroup {
  Ref<Group> group;
  uint64_t context, local_context;
  uint32_t network_engines;
};
/// `words`: SplitWords of every member of `from`, by rank.
SplitGroup split_group(const Group& from, const Words& words, int64_t color);

}  // namespace tern::create
