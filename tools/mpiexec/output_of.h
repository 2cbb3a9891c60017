// What a short command prints: mpiexec asks other programs for names (ssh -G, flux getattr).
// Thread rule: starts a child and waits for it; before the job's own processes are started.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

/// Its standard output; empty when it cannot be started. What it says as errors is dropped.
std::string output_of(const std::vector<std::string>& words);
/// Up to the first end of a line.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace tern::mpiexec
