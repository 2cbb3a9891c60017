// Kinds of memory that buffers may be of (MPI 5.0, 11.4.3): the info keys mpi_memory_alloc_kinds and
// mpi_assert_memory_alloc_kinds. This library takes what the processor can reach: "system", and "mpi" with its
// restrictors. Thread rule: under the rank's lock.
#pragma once

#include <string>
#include <string_view>

#include "capi/world.h"

namespace tern::capi {

/// What is supported, as a list: the supported ones of `wanted`, spelled as there, then "mpi" and "system" where they
/// are not among them. `wanted`: null when nothing was asked for.
std::string supported_memory_kinds(const std::string* wanted);

/// All kinds of the list are supported; the empty list is.
bool supports_memory_kinds(std::string_view list);

/// What objects derived from a session support (`session`: its handle; 0: from the World Model).
std::string memory_kinds_of(World& world, int32_t session);

}  // namespace tern::capi
