// How long a simulated program computes between two calls of MPI: one burst after the other.
//   none      no time
//   constant  each burst takes the same time
//   measured  the CPU time that it took here, times a factor; what the simulator does meanwhile is not part of it
//   recorded  as it was measured once: the same times in every run, whatever else changes
//
// A record keeps a rank's bursts by the function whose call ends them. So a protocol that needs more calls (of
// MPI_Test, say) than when it was recorded finds the right times for all others; the calls beyond the record get the
// last of its kind. Times in nanoseconds. Thread rule: the simulator's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace tern::sim {

enum class ComputeKind { none, constant, measured, recorded };

/// Bursts of all ranks.
class BurstRecord {
 public:
  /// Functions are named by their numbers (names.gen.h); this one is the program's reading of a clock.
  static constexpr uint16_t kClock = 0xffff;

  void resize(uint32_t ranks) { ranks_.resize(ranks); }
  uint32_t ranks() const { return uint32_t(ranks_.size()); }
  void add(uint32_t rank, uint16_t function, uint64_t ns);
  /// The next one of that rank; 0: there was none.
  uint64_t next(uint32_t rank, uint16_t function);
  /// Begins again at the first of each.
  void rewind();

  Error write(const std::string& path) const;
  Error read(const std::string& path);

 private:
  struct List {
    uint16_t function;
    uint32_t next = 0;
    std::vector<uint32_t> bursts{};  ///< see encode
  };
  List& list(uint32_t rank, uint16_t function);

  std::vector<std::vector<List>> ranks_;
};

struct ComputeOptions {
  ComputeKind kind = ComputeKind::measured;
  uint64_t constant_ns = 0;
  double factor = 1;              ///< time on the simulated machine / time here; of measured and recorded
  BurstRecord* record = nullptr;  ///< measured: is added to, when there is one; recorded: is read
};

/// One rank's bursts.
class ComputeTime {
 public:
  ComputeTime(const ComputeOptions& options, uint32_t rank) : options_(options), rank_(rank) {}
  /// The program begins to compute.
  void begin();
  /// It ends with a call of that function; how long it lasts on the simulated machine.
  uint64_t end(uint16_t function);

 private:
  const ComputeOptions& options_;
  const uint32_t rank_;
  uint64_t began_ns_ = 0;
};

}  // namespace tern::sim
