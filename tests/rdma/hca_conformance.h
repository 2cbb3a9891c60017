// What every provider of Hca must do, written once: real verbs (hca_ibv.cc, in the machine) and the simulated adapter
// (tests/sim) run the same cases. One thread drives all adapters: what a peer does is in the same function.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fabric/rdma/verbs/hca.h"

namespace tern::rdma {

/// Adapters that reach each other (an adapter may appear twice), and time.
class ConformanceBed {
 public:
  virtual ~ConformanceBed() = default;
  /// At least two.
  virtual int adapters() const = 0;
  virtual Hca& adapter(int index) = 0;
  /// Lets time pass while nothing is to be done: a microsecond or some.
  virtual void pass() = 0;
  virtual uint64_t now_ns() = 0;
};

struct ConformanceCase {
  const char* name;
  void (*run)(ConformanceBed& bed);  ///< judges by gtest's EXPECT and ASSERT
};

std::span<const ConformanceCase> conformance_cases();
/// The case's name as gtest wants it.
std::string conformance_name(size_t index);

}  // namespace tern::rdma
