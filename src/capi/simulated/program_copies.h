// The copies of programs that simulated ranks run: for each rank one block (program_template.h), all in one range of
// addresses. The file's pages (code, constants) are shared by all; what a rank writes is its own. So a rank costs the
// pages that it writes.
//
// The kernel allows a process some 65,530 mappings (vm.max_map_count). As long as there are enough, each segment has
// the protection that it would have in a process of its own; else one mapping, writable and executable, holds the
// blocks of several ranks: of a file in which the blocks stand one after the other. Thread rule: the simulator's
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "capi/simulated/program_template.h"

namespace tern::sim {

class ProgramCopies {
 public:
  ProgramCopies() = default;
  ~ProgramCopies();
  ProgramCopies(const ProgramCopies&) = delete;
  ProgramCopies& operator=(const ProgramCopies&) = delete;

  /// Reserves addresses for `ranks` blocks of that program, which outlives this object.
  Error reserve(const ProgramTemplate& program, uint32_t ranks);
  /// Makes the block of that rank: relocated, nothing has run in it. Once for each. An error: no memory.
  Error make(uint32_t rank, std::byte*& block);
  const ProgramTemplate& program() const { return *program_; }
  uint32_t ranks() const { return ranks_; }

  /// Which part of which block `address` is in: for the unwinder. Null: none.
  const ProgramTemplate::Part* find(const void* address, const std::byte*& block) const;

 private:
  Error map_group(uint32_t group);
  void protect(std::byte* block);
  uint64_t group_bytes() const { return program_->block_bytes() * ranks_per_group_; }

  const ProgramTemplate* program_ = nullptr;
  uint32_t ranks_ = 0, ranks_per_group_ = 1;
  bool protected_ = false;  ///< segments have their own protection
  int file_ = -1;
  std::byte* base_ = nullptr;
  std::vector<bool> mapped_;  ///< by group
};

}  // namespace tern::sim
