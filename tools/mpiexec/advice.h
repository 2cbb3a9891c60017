// The rules by which --explain gives advice (explain.h).
#pragma once

#include <cstdint>
#include <vector>

#include "explain.h"

namespace tern::mpiexec {

/// `all_ns`: the time of all ranks together.
std::vector<Advice> find_advice(const Timeline& timeline, uint64_t all_ns);

}  // namespace tern::mpiexec
