// Agreement: what all ranks of a file must know of each other before they continue, for operations that may block.
// Every rank makes a statement; rank 0 gets all of them and sends its conclusion to all. So one pair of collectives
// (gather, broadcast) carries arguments that must be equal, values that only one rank has, and errors with their text.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/environment.h"

namespace tern::io {

struct Statement {
  static constexpr int kWords = 6;  ///< the most that any agreement needs
  int64_t words[kWords] = {};
  int32_t error_class = 0;  ///< 0: all is well with this rank
  char text[236] = {};      ///< of the error; cut to this length

  void set(const Error& error);
  Error error() const;
};

/// Rank 0: looks at all statements and writes the verdict, which starts as rank 0's own statement. An error of any rank
/// has then become the verdict's, with the rank's number in its text.
using Judge = std::function<void(std::span<const Statement> all, Statement& verdict)>;

/// Blocking and collective. Returns the verdict's error (a rank's own error if it has one).
Error agree(Environment& environment, Communicator& comm, const Statement& mine, const Judge& judge,
            Statement* verdict = nullptr);
/// All ranks return the error of one of them, if any has one (a rank's own if it has). Blocking and collective.
Error agree(Environment& environment, Communicator& comm, Error mine);

/// For a judge: an error when word `index` is not the same everywhere. `what`: "argument 'size'".
Error require_same(std::span<const Statement> all, int index, std::string_view what);

/// Blocking collectives over bytes.
Error broadcast(Environment& environment, Communicator& comm, void* data, size_t bytes, int root = 0);
Error allgather(Environment& environment, Communicator& comm, const void* mine, size_t bytes, void* all);

}  // namespace tern::io
