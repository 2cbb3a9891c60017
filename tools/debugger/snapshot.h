// The communicators and message queues of one stopped rank, read through the debugger. Whatever the rank's memory
// holds, reading ends: lists are bounded, and what cannot be read is left out.
// Thread rule: one thread. Values; the rank's addresses in them mean nothing here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capi/debug_view.h"
#include "debugger/mqs.h"

namespace tern::debugger {

/// The rank's memory, as the debugger shows it.
class Target {
 public:
  Target(mqs_process* process, const mqs_process_callbacks& calls) : process_(process), calls_(calls) {}

  bool read(uint64_t address, void* to, size_t bytes) const;
  /// 0 where nothing can be read.
  template <typename T>
  T value(uint64_t address) const {
    T raw{}, value{};
    if (address == 0 || !read(address, &raw, sizeof raw)) return value;
    calls_.mqs_target_to_host_fp(process_, &raw, &value, int(sizeof value));
    return value;
  }
  uint64_t pointer(uint64_t address) const { return value<uint64_t>(address); }
  std::string text(uint64_t address, size_t most) const;

 private:
  mqs_process* process_;
  const mqs_process_callbacks& calls_;
};

struct Communicator {
  uint64_t context = 0;  ///< of one plane (comm/communicator.h)
  int rank = 0, size = 0;
  std::string name;
  std::vector<int> group;  ///< ranks in MPI_COMM_WORLD; kMqsAny: of another job
  std::vector<int> peers;  ///< those that messages go to: of an intercommunicator the other group
};

struct Operation {
  int queue = 0;  ///< mqs_pending_sends, ...
  uint64_t context = 0;
  mqs_pending_operation shown{};
};

struct Snapshot {
  std::vector<Communicator> communicators;  ///< those with handles, and those that messages name
  std::vector<Operation> operations;
};

/// `view` is the rank's, and sound (read_view).
Snapshot take_snapshot(const Target& target, const DebugView& view);
/// Null when it is one of this release's with something to see; else why not.
const char* read_view(const Target& target, uint64_t address, DebugView& view);

}  // namespace tern::debugger
