// What the roots of two groups tell each other when their jobs meet (MPI 5.0, 11.9): the members of a group, and what
// is needed to reach each of them. It travels through a PortLink, encrypted, and from the root to its group.
//
//   u32 version | u32 members | u64 context (0: the other side makes it) | then per member:
//   u64 job | u32 rank | u32 ranks of the job | 32 bytes secret of the job | u32 bytes of the card | card
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/peer_table.h"
#include "base/types.h"

namespace tern::wire {

struct Member {
  RankName name;
  uint32_t job_ranks = 0;
  JobSecret secret{};
  std::string card;  ///< wire/card.h
};

struct MeetingSide {
  uint64_t context = 0;  ///< of the intercommunicator
  std::vector<Member> members;
};

inline constexpr uint32_t kMeetingVersion = 1;
/// Bounds the memory for a card: 64 addresses need less than 2,000 bytes.
inline constexpr size_t kMaxMemberCard = 8192;

std::string build_meeting(const MeetingSide& side);
/// False: no side can say this.
bool parse_meeting(std::string_view text, MeetingSide& side);

}  // namespace tern::wire
