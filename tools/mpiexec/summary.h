// mpiexec --summary: where the time went, as tables of text.
#pragma once

#include <string>

#include "records.h"

namespace tern::mpiexec {

/// The tables, for people. `ranks`: how many were started; those without a record are said to have none.
/// `ended_ns`: now, on this machine's CLOCK_MONOTONIC: calls in which ranks were killed lasted until then.
std::string summary_of(const Records& records, int ranks, uint64_t ended_ns);

}  // namespace tern::mpiexec
