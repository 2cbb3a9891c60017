// Whether the calls of a collective by all ranks of a communicator fit each other: the same operation, root and
// operator, and everywhere as much sent as received, of the same basic types (MPI 5.0, chapter 6). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "wire/check.h"

namespace tern::check {

/// What is wrong between two calls, whatever their arguments; no error: nothing.
Error compare_functions(const wire::CheckedCollective& a, const wire::CheckedCollective& b);
/// What is wrong among the calls of all ranks, calls[i] being rank i's. Of intercommunicators the functions only:
/// those of one group.
Error compare_calls(const std::vector<wire::CheckedCollective>& calls);

}  // namespace tern::check
