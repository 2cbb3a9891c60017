// See unwind.cc.
#pragma once

#include <memory>
#include <vector>

#include "capi/simulated/program_copies.h"

namespace tern::sim {

/// Exceptions pass through code of these copies; null: there are none. They live until the next call.
void unwind_through(const std::vector<std::unique_ptr<ProgramCopies>>* copies);

}  // namespace tern::sim
