// The messages that records tell of: what one rank sent and another received, as pairs.
//
// They are paired by counting: of those with the same sender, receiver, context and tag, the n-th that was sent is the
// n-th that was matched (MPI 5.0, 3.5: messages do not overtake).
#pragma once

#include <cstdint>
#include <vector>

#include "records.h"

namespace tern::mpiexec {

/// Places in the records, and in their events.
struct Message {
  uint32_t from, to;
  uint32_t send, receive;
};

/// By sender, receiver, context, tag, then time.
std::vector<Message> paired_messages(const Records& records);

}  // namespace tern::mpiexec
