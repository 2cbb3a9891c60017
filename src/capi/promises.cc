#include "capi/promises.h"

#include <iterator>

#include "capi/checks.h"
#include "fmt/format.h"

namespace tern::capi {

namespace {

// Accumulates that are remembered of one epoch: what a program does with one place lies close together.
constexpr size_t kRemembered = 256;

void tell(Call& call, const std::string& promise, const std::string& but) {
  Checks& checks = *call.checks();
  checks.report(fmt::format("{}: the info key {} was set, but {}", checks.place(), promise, but));
}

bool is_of_alloc_mem(const World& world, void* address) {
  const auto next = world.allocations.upper_bound(address);
  if (next == world.allocations.begin()) return false;
  const auto& [start, bytes] = *std::prev(next);
  return static_cast<std::byte*>(address) < static_cast<std::byte*>(start) + bytes;
}

std::string name_of(const Window& win) {
  return win.window->name().empty() ? std::string("the window") : "the window '" + win.window->name() + "'";
}

}  // namespace

void check_receive_promises(Call& call, const Communicator& comm, int source, int tag) {
  if (source == kAnySource && comm.info.flag("mpi_assert_no_any_source"))
    tell(call, "mpi_assert_no_any_source", "the call names MPI_ANY_SOURCE");
  if (tag == kAnyTag && comm.info.flag("mpi_assert_no_any_tag"))
    tell(call, "mpi_assert_no_any_tag", "the call names MPI_ANY_TAG");
}

void check_length_promise(Call& call, const Communicator& comm, Count room_bytes, const Status& status) {
  if (Count(status.bytes) == room_bytes || !comm.info.flag("mpi_assert_exact_length")) return;
  tell(call, "mpi_assert_exact_length",
       fmt::format("a message of {} bytes has met a receive of {}", status.bytes, room_bytes));
}

void check_window_promises(Call& call, Window& win) {
  const rma::Window& window = *win.window;
  if (window.hints().same_size && !window.memory().same_size()) tell(call, "same_size", "the ranks' sizes differ");
  if (window.hints().same_disp_unit && !window.memory().same_disp_unit())
    tell(call, "same_disp_unit", "the ranks' displacement units differ");
  // Of memory that MPI has allocated in other ways the library cannot tell.
  const std::string& kinds = window.hints().memory_kinds;
  const bool own = window.flavor() == rma::Flavor::create && window.memory().base();
  if (own && kinds == "mpi:alloc_mem" && !is_of_alloc_mem(call.world(), window.memory().base()))
    tell(call, "mpi_assert_memory_alloc_kinds=" + kinds,
         "the window's memory does not begin in memory of MPI_Alloc_mem");
}

void check_lock_promise(Call& call, Window& win) {
  if (win.window->hints().no_locks) tell(call, "no_locks", name_of(win) + " is locked");
}

void check_accumulate_promise(Call& call, Window& win, const rma::Operation& operation) {
  const rma::Hints& hints = win.window->hints();
  const bool accumulates = operation.action != wire::WindowAction::put && operation.action != wire::WindowAction::get;
  int64_t low = 0, high = 0;
  if (!hints.ops_promised || !accumulates || operation.target < 0 || operation.target_count <= 0 ||
      !rma::touched(*operation.target_type, operation.target_count, low, high))
    return;
  if (operation.op == OpId::no_op && hints.ops == "same_op_no_op") return;
  const bool swaps = operation.action == wire::WindowAction::compare_and_swap;
  const Aint start = operation.displacement * win.window->memory().disp_unit_of(operation.target);
  const Window::Accumulate now{operation.target, start + low, start + high, swaps ? -1 : int(operation.op)};
  for (const Window::Accumulate& one : win.accumulates) {
    if (one.target != now.target || one.high <= now.low || now.high <= one.low || one.op == now.op) continue;
    tell(call, "accumulate_ops=" + hints.ops,
         fmt::format("accumulates by several operators meet at rank {} of {}, bytes {} to {}, before a synchronisation",
                     now.target, name_of(win), now.low, now.high));
    break;
  }
  if (win.accumulates.size() < kRemembered) win.accumulates.push_back(now);
}

}  // namespace tern::capi
