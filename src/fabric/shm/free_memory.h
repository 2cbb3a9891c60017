// How much memory can be reserved without the kernel killing a process for it. Reserving more than there is does not
// fail on Linux: it takes page after page until the kernel, or the container's limit, kills a process.
#pragma once

#include <cstdint>
#include <string>

namespace tern::shm {

/// Bytes: what the host has available, and what the limits of this process's control groups (version 2) leave,
/// whichever is less. No limit is known: ~0. `root`: for tests, a directory with proc/ and sys/ in it.
uint64_t free_memory_bytes(const std::string& root = "/");

}  // namespace tern::shm
