#include "wire/meeting.h"

#include "wire/bytes.h"

namespace tern::wire {
namespace {

constexpr size_t kMemberBytes = 8 + 4 + 4 + 32 + 4;  ///< without its card

}  // namespace

std::string build_meeting(const MeetingSide& side) {
  Writer out;
  out.integer(kMeetingVersion);
  out.integer(uint32_t(side.members.size()));
  out.integer(side.context);
  for (const Member& member : side.members) {
    out.integer(member.name.job);
    out.integer(member.name.rank);
    out.integer(member.job_ranks);
    out.bytes(member.secret.data(), member.secret.size());
    out.integer(uint32_t(member.card.size()));
    out.text(member.card);
  }
  return out.take();
}

bool parse_meeting(std::string_view text, MeetingSide& side) {
  Reader in(text);
  if (in.integer<uint32_t>() != kMeetingVersion) return false;
  const auto members = in.integer<uint32_t>();
  side.context = in.integer<uint64_t>();
  if (members == 0 || members > in.left() / kMemberBytes) return false;
  side.members.assign(members, {});
  for (Member& member : side.members) {
    member.name.job = in.integer<uint64_t>();
    member.name.rank = in.integer<uint32_t>();
    member.job_ranks = in.integer<uint32_t>();
    in.bytes(member.secret.data(), member.secret.size());
    const auto card = in.integer<uint32_t>();
    if (card > kMaxMemberCard || member.name.rank >= member.job_ranks) return false;
    member.card = in.text(card);
  }
  return in.ok() && in.left() == 0;
}

}  // namespace tern::wire
