// Team: how a file's ranks act together; the same at all of them. Thread rule: a value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/file_system.h"
#include "io/hints.h"

namespace tern::io {

struct Team {
  std::vector<int> aggregators;  ///< ranks that read and write for the others, in the order of their windows
  int64_t window = 0;            ///< bytes of the file that one of them handles at a time
  int nodes = 1;                 ///< hosts

  /// Chooses the aggregators: the first one of each node, then the second of each, and so on. `node_of`: by rank.
  void choose(std::span<const int64_t> node_of, const Hints& hints, const FileFacts& facts);
};

}  // namespace tern::io
