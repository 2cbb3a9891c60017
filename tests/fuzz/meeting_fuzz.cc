// Fuzz target: the name of a port, which a user hands over, and what the root of another job says of its group.
#include "fuzz.h"
#include "process/jobs/port_name.h"
#include "wire/meeting.h"

using namespace tern;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  PortName name, same_name;
  if (!parse_port_name(text, name)) {
    TERN_FUZZ_CHECK(!parse_port_name(to_text(name), same_name));
    TERN_FUZZ_CHECK(same_name.number == name.number && same_name.secret == name.secret);
  }
  wire::MeetingSide side, same_side;
  if (wire::parse_meeting(text, side)) {
    TERN_FUZZ_CHECK(!side.members.empty());
    TERN_FUZZ_CHECK(wire::parse_meeting(wire::build_meeting(side), same_side));
    TERN_FUZZ_CHECK(same_side.members.size() == side.members.size());
  }
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  wire::Card card;
  card.addresses.push_back({4, 24, 4000, 0, 0, {10, 0, 0, 1}});
  wire::MeetingSide side;
  side.context = 5;
  for (uint32_t rank = 0; rank < 3; ++rank)
    side.members.push_back({.name = {7, rank}, .job_ranks = 3, .secret = {}, .card = wire::build_card(card)});
  return {"", to_text({.number = 1, .secret = TcpKey{}, .card = card}),
          to_text({.number = 2, .secret = {}, .card = card}), wire::build_meeting(side)};
}
