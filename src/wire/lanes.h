// What path schedulers (fabric/scheduler/) say to each other: headers without payload. They are not counted among the
// messages of their lane.
//
//   kind     flags         token     tag          context
//   resume   lost path     incident  -            how many messages of the receiver's the sender has
//   confirm  -             -         -            the same
//   probe    path          -         incarnation  -             begin that lane anew
//   probed   path          -         incarnation  -             it has begun anew
//   hello    path          -         incarnation  -             over that lane: it carries messages
//   welcome  path          -         incarnation  -             over that lane: the answer
//   leave    path          incident  -            -             what follows comes over that path
//   left     path          incident  -            -             it may
#pragma once

#include "wire/header.h"

namespace tern::wire {

enum class LaneKind : uint8_t {
  resume = uint8_t(kFirstLaneKind),
  confirm,
  probe,
  probed,
  hello,
  welcome,
  leave,
  left,
};

inline bool is_lane_kind(Kind kind) { return uint8_t(kind) >= uint8_t(kFirstLaneKind); }

inline Header make_lane_header(LaneKind kind, uint8_t path, uint32_t incident, uint32_t incarnation, uint64_t count) {
  return make_header(Kind(kind), 0, count, int32_t(incarnation), incident, path);
}

}  // namespace tern::wire
