// What node.cc and node_join.cc share: descriptors, the mapping, and the state of a node that is still
// joining.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "fabric/shm/node.h"

namespace tern {

namespace shm {
/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

int open_doorbell();
/// A descriptor for the end of this very process; -1 where there is none.
int open_life_line();
/// "what: strerror(errno)" as an operating error.
Error system_error(const char* what);
}  // namespace shm

/// The mapped segment; shared by the nodes of one OS process in tests.
struct ShmNode::Mapping {
  std::byte* base = nullptr;
  size_t bytes = 0;
  ~Mapping() {
    if (base) munmap(base, bytes);
  }
};

struct ShmNode::Joining {
  ShmSetup setup;
  /// My socket. The leader's is where the others come; a member's is never accepted from: that it can be
  /// connected to tells the leader that the member can reach the leader too (same network namespace), that it
  /// closes tells the leader that the member has given up. So nobody ever waits for a rank that cannot come.
  shm::Descriptor listener;
};

}  // namespace tern
