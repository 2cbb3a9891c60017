// What ranks tell each other with TERN_CHECK=1 (src/check/): the datatype of a message, the arguments of a collective,
// and the judgement on them. A record is a fixed part, for collectives the summaries of their blocks, and the place in
// the program as text. Ranks that do not check drop these kinds. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/header.h"

namespace tern::wire {

inline constexpr Kind kCheckMessage = Kind(168), kCheckCollective = Kind(169), kCheckVerdict = Kind(170),
                      kCheckFinalize = Kind(171);  ///< the sender is in MPI_Finalize: a header only
inline constexpr Kind kFirstCheckKind = kCheckMessage, kLastCheckKind = kCheckFinalize;

/// The type signature of (count, datatype): two are equal if and, but for collisions of the hash, only if these are.
struct TypeSummary {
  uint64_t elements = 0;  ///< basic elements
  uint64_t hash = 0;      ///< of their sequence (check/type_summary.h)
  uint64_t bytes = 0;
  int32_t basic = 0;   ///< the ABI value of the one basic type of all elements; 0: they differ, or there are none
  uint32_t flags = 0;  ///< kPacked
  static constexpr uint32_t kPacked = 1;  ///< MPI_PACKED is among them, which matches anything
};
static_assert(sizeof(TypeSummary) == 32);

/// A message that is on its way, or here.
struct CheckedMessage {
  uint64_t context = 0;
  int32_t tag = 0;
  uint32_t number = 0;  ///< among its sender's messages (MessageCount)
  TypeSummary type;
};
static_assert(sizeof(CheckedMessage) == 48);

std::string build_checked_message(const CheckedMessage& message, std::string_view place);
/// False: no rank can say this. `place` points into `bytes`.
bool parse_checked_message(std::string_view bytes, CheckedMessage& message, std::string_view& place);

/// One rank's call of a collective.
struct CheckedCollective {
  uint64_t context = 0;
  uint32_t sequence = 0;  ///< among the rank's collectives on the communicator
  int32_t rank = 0, ranks = 1;
  int32_t root = 0;
  int32_t op = 0;              ///< 0: none
  uint8_t operation = kOther;  ///< of coll/operands.h
  bool blocking = true;
  bool in_place = false;
  std::vector<TypeSummary> sends, receives;  ///< of each peer, or one for all
  std::string function;                      ///< "MPI_Bcast"
  std::string place;                         ///< "main (a.c:7)"

  static constexpr uint8_t kOther = 255;  ///< an operation that moves no data of the program's
};
inline constexpr uint32_t kMaxCheckedText = 1024;

std::string build_checked_collective(const CheckedCollective& call);
bool parse_checked_collective(std::string_view bytes, CheckedCollective& call);

/// What the judge says of a collective.
struct CheckVerdict {
  uint64_t context = 0;
  uint32_t sequence = 0;
  int32_t error_class = 0;  ///< 0: all calls match
};
static_assert(sizeof(CheckVerdict) == 16);

std::string build_verdict(const CheckVerdict& verdict, std::string_view text);
bool parse_verdict(std::string_view bytes, CheckVerdict& verdict, std::string_view& text);

}  // namespace tern::wire
