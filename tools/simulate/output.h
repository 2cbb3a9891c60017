// Where the output of simulated ranks goes: to the simulator's own, with labels as mpiexec -l writes them, or to files
// (mpiexec -outfile-pattern and so on). Thread rule: the simulator's thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "mpiexec/plan.h"

namespace tern::simulate {

class Output {
 public:
  Output(const mpiexec::OutputFiles& files, bool label, uint32_t ranks) : files_(files), label_(label), ranks_(ranks) {}
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  void write(uint32_t rank, int stream, std::string_view text);
  /// Lines that have no end yet.
  void finish();
  /// The errno with which output was lost; 0: none was.
  int lost() const { return lost_; }

 private:
  int file(uint32_t rank, int stream);
  void add_lines(uint32_t rank, int stream, std::string_view text);
  void write_all(int descriptor, std::string_view text);

  const mpiexec::OutputFiles& files_;
  const bool label_;
  const uint32_t ranks_;
  int lost_ = 0;
  std::unordered_map<uint64_t, int> open_;           ///< files by rank and stream
  std::unordered_map<uint64_t, std::string> lines_;  ///< begun, newline not seen yet
};

}  // namespace tern::simulate
