// The messages between mpiexec and its keeper (keeper.h) over a stream socket: orders one way, reports the other. Both
// are the same program, so structs are sent as they are in memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spawn.h"

namespace tern::mpiexec {

enum class OrderKind : uint32_t {
  start,       ///< the process `id`; `text` is a packed ChildSpec, its descriptors travel beside it
  signal_one,  ///< `number` to the process `id`
  signal_all,  ///< `number` to every process of the job
  end_all,     ///< kill every process of the job; answered by ReportKind::all_ended
  sweep,       ///< `text`: a folder that is to be removed when mpiexec has ended
  sync,        ///< answered by ReportKind::synced, after the ends of all processes that have ended by now
};

struct Order {
  OrderKind kind;
  int32_t id = 0, number = 0;
  std::string text{};
  std::vector<int> descriptors{};  ///< the receiver of the order owns them
};

/// Sends all of it; waits while the other side is busy. False: errno says why; EPIPE: the other side has ended.
bool send_order(int socket, const Order& order);
/// Waits for a whole order. None: the other side has ended. EMFILE in `failure`: descriptors were lost.
std::optional<Order> receive_order(int socket, int& failure);

/// A ChildSpec without its descriptors.
std::string packed(const ChildSpec& spec);
ChildSpec unpacked(const Order& order);

enum class ReportKind : uint32_t {
  started,    ///< the process `id` is there: `pid`
  failed,     ///< it is not: `error`, an errno
  ended,      ///< it has ended: `status` of waitpid; `error` not 0: it never became the program
  all_ended,  ///< no process of the job is left, except `pid` (0: none) and perhaps more
  synced,
};

struct Report {
  ReportKind kind;
  int32_t id = 0;
  pid_t pid = 0;
  int32_t status = 0, error = 0;
};

}  // namespace tern::mpiexec
