// Group: an immutable ordered set of peers, and set arithmetic on it.
// Source: MPI 5.0 section 7.3. Most groups are an arithmetic progression of peers (the world, its halves, its
// rows and columns); those are held as (first, stride, size), whatever their size. The others hold a table of
// peers and, for the way back, the same table sorted. Thread rule: immutable; shared under the rank's lock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/object.h"
#include "base/types.h"

namespace tern {

/// Result of comparing groups or communicators; values of MPI_IDENT .. MPI_UNEQUAL in the standard ABI.
enum class Comparison : int { identical = 0, congruent = 1, similar = 2, unequal = 3 };

struct DebugLayout;

class Group : public Object {
 public:
  /// Ranks first, last and stride of MPI_Group_range_incl / _excl.
  struct Range {
    int first, last, stride;
  };

  /// `me` is the peer that this process is itself, member or not. The caller owns the one reference.
  static Ref<Group> empty(PeerId me) { return strided(me, 0, 1, 0); }
  /// Peers first, first + stride, ...; `stride` may be negative, not 0.
  static Ref<Group> strided(PeerId me, PeerId first, int64_t stride, int size);
  /// Peers in the order given; no peer twice.
  static Ref<Group> of(PeerId me, std::vector<PeerId> peers);

  int size() const { return size_; }
  /// The rank of this process, or kUndefined.
  int rank() const { return rank_; }
  PeerId me() const { return me_; }
  /// 0 <= rank < size().
  PeerId peer(int rank) const {
    return table_.empty() ? PeerId(int64_t(first_) + stride_ * rank) : table_[size_t(rank)];
  }
  /// kUndefined when the peer is not a member.
  int rank_of(PeerId peer) const;
  bool contains(PeerId peer) const { return rank_of(peer) != kUndefined; }

  /// identical, similar (same members in another order) or unequal.
  Comparison compare(const Group& other) const;
  /// Ranks of this group to ranks of `to`; kProcNull stays what it is. Error: a rank out of range.
  Error translate(std::span<const int> ranks, const Group& to, int* result) const;

  // Set arithmetic; order as the standard says: that of the first group, then the second.
  Ref<Group> join(const Group& other) const;  ///< MPI_Group_union
  Ref<Group> intersect(const Group& other) const;
  Ref<Group> subtract(const Group& other) const;  ///< MPI_Group_difference
  bool disjoint(const Group& other) const;

  /// Members `ranks` in that order. Errors: a rank out of range or twice.
  Error include(std::span<const int> ranks, Ref<Group>& result) const;
  /// All but members `ranks`. Errors: a rank out of range or twice.
  Error exclude(std::span<const int> ranks, Ref<Group>& result) const;
  Error include_ranges(std::span<const Range> ranges, Ref<Group>& result) const;
  Error exclude_ranges(std::span<const Range> ranges, Ref<Group>& result) const;

  /// All members in order.
  std::vector<PeerId> peers() const;

  ~Group() = default;

  /// The C API's handle of the session that this was derived from (MPI 5.0, 9.3 and 11.3); 0: none. Set by capi/ right
  /// after the making.
  int32_t session = 0;

 private:
  friend class Ref<Group>;
  friend struct DebugLayout;  // capi/debug_view.h
  struct Place {
    PeerId peer;
    int rank;
  };

  Group(PeerId me, PeerId first, int64_t stride, int size, std::vector<PeerId> table);
  Error expand(std::span<const Range> ranges, std::vector<int>& ranks) const;
  Error check_members(std::span<const int> ranks) const;

  PeerId me_;
  int size_;
  int rank_;
  PeerId first_;               ///< strided form: the first member
  int64_t stride_;             ///< strided form: never 0
  std::vector<PeerId> table_;  ///< table form: the members; empty exactly in the strided form
  std::vector<Place> sorted_;  ///< table form: by peer
};

}  // namespace tern
