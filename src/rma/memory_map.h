// MemoryMap: where the memory of every rank of a window is, and which of it this rank reaches by loads and stores.
// Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "rma/context.h"
#include "rma/remote_part.h"
#include "rma/shared_part.h"

namespace tern::rma {

/// The members' values of one quantity: one number when they are all the same.
class PerRank {
 public:
  void set(std::vector<int64_t> values);
  int64_t of(int rank) const { return values_.empty() ? common_ : values_[size_t(rank)]; }
  bool same() const { return values_.empty(); }

 private:
  int64_t common_ = 0;
  std::vector<int64_t> values_;
};

class MemoryMap {
 public:
  MemoryMap(WindowContext& context, void* base, Aint size, Aint disp_unit);

  // --- Making the window.
  void set_shapes(std::vector<int64_t> sizes, std::vector<int64_t> disp_units);
  /// Memory of this rank alone. Error: there is none.
  Error allocate(size_t alignment_bytes);
  /// The members' memory lies in `part`. `whole`: all ranks are members.
  void lies_in_part(bool whole);
  /// Memory can be shared with the rank.
  bool shares_node_with(int rank) const;
  SharedPart& part() { return part_; }
  const SharedPart& part() const { return part_; }
  RemotePart& remote() { return remote_; }
  const RemotePart& remote() const { return remote_; }
  /// Exposes this rank's memory to the paths.
  void expose() { remote_.expose(*context_.comm, base_, size_t(size_)); }

  // --- Local.
  std::byte* base() const { return base_; }
  /// What the program is told: MPI_Win_allocate_shared and MPI_Win_shared_query give a rank without memory none.
  void* told_base() const { return context_.flavor == Flavor::shared && size_ == 0 ? nullptr : base_; }
  Aint size() const { return size_; }
  Aint disp_unit() const { return disp_unit_; }
  Error attach(void* base, Aint size);
  Error detach(const void* base);
  /// MPI_Win_shared_query; `rank` may be kProcNull. What cannot be reached is said to be empty (MPI 5.0, 12.2.3).
  Error shared_query(int rank, Aint& size, Aint& disp_unit, void*& base) const;

  // --- Of any rank.
  int64_t size_of(int rank) const { return sizes_.of(rank); }
  int64_t disp_unit_of(int rank) const { return disp_units_.of(rank); }
  bool same_size() const { return sizes_.same(); }
  bool same_disp_unit() const { return disp_units_.same(); }
  /// Memory of all ranks is mapped by all.
  bool shares_all() const { return shares_all_; }
  bool shares_data() const { return shares_data_; }
  /// Where it is mapped here. Null: nowhere, so that operations on it go by messages, also this rank's own.
  std::byte* reachable(int rank) const;
  /// On the node, of the word that accumulates exclude each other by; negative: nobody else reaches the memory.
  int place_of(int rank) const { return part_.empty() ? -1 : part_.place_of(rank); }
  /// This rank's.
  int place() const { return place_; }
  void set_place(int place) { place_ = place; }

  /// Whether bytes of this rank's window (dynamic: of its memory) are inside.
  bool contains(int64_t low, int64_t high) const;
  /// Where elements lie in this rank's memory: `bytes` of their packed stream from `offset` on. The numbers come from
  /// another rank: they may be anything. Error: they are not inside.
  struct Place {
    uint64_t address, count, offset, bytes;
  };
  Error locate(const Datatype& type, const Place& at, Cursor& cursor) const;

 private:
  WindowContext& context_;
  std::byte* base_;
  const Aint size_;
  const Aint disp_unit_;
  PerRank sizes_, disp_units_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> owned_;  ///< memory of this rank alone that MPI has allocated
  SharedPart part_;                                           ///< memory shared with ranks of this node; empty: none
  int place_ = -1;
  RemotePart remote_;                              ///< what paths need to get and put
  bool shares_data_ = false, shares_all_ = false;  ///< `part_` has the members' windows; those of all ranks
  std::map<uintptr_t, size_t> attached_;           ///< dynamic windows: address, size
};

}  // namespace tern::rma
