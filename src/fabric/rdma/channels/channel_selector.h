// ChannelSelector: when the map of channels is changed. Time is divided into units of about a second; in each the
// receiver counts messages by peer. At the end of each unit (Takagi et al. 2015, section 3.4):
//
//   T1  the first unit's map is taken; its window is the current one, [begin, end)
//   T2  the window is extended to now: what would its best map gain against the current map?
//   T3  the same for the last half as long a window
//   T4  the better of the two is taken, if it gains more than a threshold for each message
//
//        begin         end                now
//   -------|------------|------------------|
//          [------- extended --------------)
//                                   [shrunk)      half of [begin, end)
//
// A new map leaves the current channels as they are where it does not need them, as long as they are within the limits
// and polling them costs little (the paper does not destroy what it has, section 3.2). So a pattern that returns finds
// its channels, and a peer that pauses is not moved twice.
//
// The table of counts has a bounded number of rows, one per unit, of the peers that sent something: the window begins
// no earlier than the oldest row. The sums of both windows are updated as their ends move, so a unit costs only what
// its rows contain, however long the windows are. Thread rule: no sharing.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/types.h"
#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/channels/find_map.h"

namespace tern {

/// How many rows the table of counts has in a job of `ranks` ranks (sigma of Table 2): `rows` up to 1024, then fewer.
size_t statistics_rows(size_t rows, uint64_t ranks);

class ChannelSelector {
 public:
  /// Peers whose messages do not come by the base channel.
  using Map = std::unordered_map<PeerId, ChannelKind>;

  ChannelSelector(const ChannelCosts& costs, const MapLimits& limits, size_t max_rows)
      : costs_(costs), limits_(limits), max_rows_(max_rows) {}

  /// `messages` of that peer came in the unit that is ending. Called once per peer and unit. `paired`: this rank sends
  /// to it over a connected queue pair (find_map.h).
  void add(PeerId peer, uint32_t messages, bool paired = false);
  /// Most peers with a connected channel from now on (h).
  void limit_connected(uint32_t peers) { limits_.max_connected = peers; }
  /// The unit is over. True: the map has changed.
  bool end_of_unit();
  const Map& map() const { return map_; }
  /// Of the extended window.
  uint64_t messages_in_window() const { return extended_.messages; }
  /// Memory of the table.
  size_t table_bytes() const;

 private:
  using Row = std::vector<std::pair<PeerId, uint32_t>>;
  using Counts = std::vector<std::pair<uint32_t, PeerId>>;  ///< descending
  struct Candidate {
    Map map;
    double gain_of_message = 0;  ///< against the current map, in picoseconds
  };
  /// What came in the units from `begin` on.
  struct Window {
    uint64_t begin = 0;
    uint64_t messages = 0;
    std::unordered_map<PeerId, uint64_t> sums;  ///< none is 0
    void add(const Row& row);
    void subtract(const Row& row);
  };
  const Row& row(uint64_t unit) const { return rows_[size_t(unit - (now_ - rows_.size()))]; }
  void take_row();
  void move(Window& window, uint64_t begin);
  Counts busiest(const Window& window) const;
  Map best_map(const Window& window, int64_t& gain) const;
  void keep_current(Map& map, const Window& window) const;
  int64_t current_gain(const Window& window) const;
  Candidate consider(const Window& window) const;
  bool take_first();
  bool take_better();

  const ChannelCosts costs_;
  MapLimits limits_;
  const size_t max_rows_;
  std::deque<Row> rows_;               ///< the newest last
  Row next_;                           ///< of the unit that is ending
  std::unordered_set<PeerId> paired_;  ///< of that unit, too
  uint64_t now_ = 0;                   ///< units that are over
  uint64_t begin_ = 0, end_ = 0;       ///< of the current window
  Window extended_, shrunk_;           ///< both end now
  Map map_;
};

}  // namespace tern
