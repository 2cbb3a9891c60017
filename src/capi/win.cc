// Windows: making, info, names (MPI 5.0, 12.2), and synchronisation (12.5). Operations are in rma.cc, attributes in
// attribute.cc, error handlers in errors.cc.
#include <cstring>
#include <string>

#include "capi/comm_common.h"
#include "capi/memory_kinds.h"
#include "capi/promises.h"
#include "impl.gen.h"
#include "rma/window.h"

namespace tern::capi {

Window::Window(std::unique_ptr<rma::Window> made, Ref<ErrorHandler> handler)
    : window(std::move(made)), error_handler(std::move(handler)) {}
Window::~Window() = default;

const Communicator& comm_of(const Window& win) { return win.window->comm(); }

namespace {

using rma::Flavor;

// One warning a job: by the first rank of a window, and that rank's first. (MPI_Win_get_info says it of each window.)
void warn_of_substitute(Call& call, const rma::Window& made) {
  const char* used = made.lock_substitute();
  if (!used || made.comm().rank() != 0 || !call.process().windows().may_warn()) return;
  call.process().log().warn(
      "TERN_RMA_LOCK (or the info key tern_rma_lock): this design needs all ranks of a window on one node, or one RDMA "
      "path with atomic operations between them; used instead: " +
      std::string(used));
}

Error make(Call& call, Communicator& comm, const rma::Window::Plan& plan, void* baseptr, Window*& win) {
  if (Error error = intra_only(comm)) return error;
  std::unique_ptr<rma::Window> made;
  if (Error error = rma::Window::create(call.process().windows(), comm, plan, made)) return error;
  warn_of_substitute(call, *made);
  // The operations of other ranks may need this rank while it computes.
  if (comm.size() > 1 && made->serves()) call.help();
  if (baseptr) {
    void* base = made->memory().told_base();
    std::memcpy(baseptr, &base, sizeof base);
  }
  // Windows start with MPI_ERRORS_ARE_FATAL (12.6.1).
  World& world = call.world();
  win = new Window(std::move(made), Ref<ErrorHandler>::share(&world.handlers.fatal));
  win->size = plan.size;
  win->disp_unit = int(plan.disp_unit);
  win->flavor = int(plan.flavor);
  win->memory_kinds = memory_kinds_of(world, comm.from_session);
  if (call.checks()) check_window_promises(call, *win);
  return {};
}

rma::Window& of(Window& win) { return *win.window; }

}  // namespace

namespace body {

Error Win_create(Call& call, void* base, Aint size, Aint disp_unit, Info* info, Communicator& comm, Window*& win) {
  return make(call, comm, {Flavor::create, base, size, disp_unit, info}, nullptr, win);
}

Error Win_allocate(Call& call, Aint size, Aint disp_unit, Info* info, Communicator& comm, void* baseptr, Window*& win) {
  return make(call, comm, {Flavor::allocate, nullptr, size, disp_unit, info}, baseptr, win);
}

Error Win_allocate_shared(Call& call, Aint size, Aint disp_unit, Info* info, Communicator& comm, void* baseptr,
                          Window*& win) {
  return make(call, comm, {Flavor::shared, nullptr, size, disp_unit, info}, baseptr, win);
}

Error Win_create_dynamic(Call& call, Info* info, Communicator& comm, Window*& win) {
  return make(call, comm, {Flavor::dynamic, nullptr, 0, 1, info}, nullptr, win);
}

Error Win_free(Call& call, Window*& win) {
  if (Error error = of(*win).may_be_freed()) return error;
  if (Error error = win->attributes.clear(*win)) return error;
  call.blame_last(Ref<Window>::share(win));  // first, as it needs memory
  Error error = of(*win).free();
  Ref<Window>::adopt(win);
  win = nullptr;
  return error;
}

Error Win_attach(Call& call, Window& win, void* base, Aint size) { return of(win).memory().attach(base, size); }
Error Win_detach(Call& call, Window& win, const void* base) { return of(win).memory().detach(base); }

Error Win_shared_query(Call& call, Window& win, int rank, Aint& size, Count& disp_unit, void* baseptr) {
  void* base = nullptr;
  Aint unit = 0;
  if (Error error = of(win).memory().shared_query(rank, size, unit, base)) return error;
  disp_unit = unit;
  std::memcpy(baseptr, &base, sizeof base);
  return {};
}

Error Win_get_group(Call& call, Window& win, Group*& group) {
  group = Ref<Group>::share(&of(win).comm().group()).release();
  return {};
}

Error Win_set_info(Call& call, Window& win, Info& info) {
  of(win).set_info(info);
  return {};
}

Error Win_get_info(Call& call, Window& win, Info*& info_used) {
  info_used = new Info;
  of(win).tell_info(*info_used);
  info_used->set("mpi_memory_alloc_kinds", win.memory_kinds);
  return {};
}

Error Win_set_name(Call& call, Window& win, const char* win_name) {
  of(win).name().assign(win_name, strnlen(win_name, MPI_MAX_OBJECT_NAME - 1));
  return {};
}

Error Win_get_name(Call& call, Window* win, char* win_name, int& resultlen) {
  const std::string name = win ? of(*win).name() : "MPI_WIN_NULL";
  std::memcpy(win_name, name.c_str(), name.size() + 1);
  resultlen = int(name.size());
  return {};
}

// --- Synchronisation.

namespace {

/// After one that ends what was begun.
Error ended(Call& call, Window& win, Error error) {
  synchronised(call, win);
  return error;
}

/// What an event of an epoch names its call by (base/events.h).
enum class EpochCall : int32_t { fence, start, complete, post, wait, lock, unlock, flush };
constexpr int kEveryRank = -1;  // no rank has it

/// The same call as those who listen are told it, if it did what it should.
Error told(Call& call, Window& win, EpochCall what, int target, Error error) {
  const Counters& counters = *call.world().counts.rank;
  if (counters.watched != 0 && !error) [[unlikely]]
    counters.tell(Event::window_epoch, {target, int32_t(what), int64_t(of(win).comm().context()), 0});
  return error;
}

}  // namespace

Error Win_fence(Call& call, int assertions, Window& win) {
  return told(call, win, EpochCall::fence, kEveryRank, ended(call, win, of(win).access().fence(assertions)));
}
Error Win_post(Call& call, Group& group, int assertions, Window& win) {
  return told(call, win, EpochCall::post, kEveryRank, of(win).access().post(group, assertions));
}
Error Win_start(Call& call, Group& group, int assertions, Window& win) {
  return told(call, win, EpochCall::start, kEveryRank, of(win).access().start(group, assertions));
}
Error Win_complete(Call& call, Window& win) {
  return told(call, win, EpochCall::complete, kEveryRank, ended(call, win, of(win).access().complete()));
}
Error Win_wait(Call& call, Window& win) {
  return told(call, win, EpochCall::wait, kEveryRank, of(win).access().wait());
}
Error Win_test(Call& call, Window& win, bool& flag) { return of(win).access().test(flag); }
Error Win_lock(Call& call, int lock_type, int rank, int assertions, Window& win) {
  if (call.checks()) [[unlikely]]
    check_lock_promise(call, win);
  return told(call, win, EpochCall::lock, rank, of(win).access().lock(lock_type, rank, assertions));
}
Error Win_unlock(Call& call, int rank, Window& win) {
  return told(call, win, EpochCall::unlock, rank, ended(call, win, of(win).access().unlock(rank)));
}
Error Win_lock_all(Call& call, int assertions, Window& win) {
  if (call.checks()) [[unlikely]]
    check_lock_promise(call, win);
  return told(call, win, EpochCall::lock, kEveryRank, of(win).access().lock_all(assertions));
}
Error Win_unlock_all(Call& call, Window& win) {
  return told(call, win, EpochCall::unlock, kEveryRank, ended(call, win, of(win).access().unlock_all()));
}
Error Win_flush(Call& call, int rank, Window& win) {
  return told(call, win, EpochCall::flush, rank, ended(call, win, of(win).access().flush(rank)));
}
Error Win_flush_all(Call& call, Window& win) {
  return told(call, win, EpochCall::flush, kEveryRank, ended(call, win, of(win).access().flush_all()));
}
Error Win_flush_local(Call& call, int rank, Window& win) {
  return told(call, win, EpochCall::flush, rank, of(win).access().flush_local(rank));
}
Error Win_flush_local_all(Call& call, Window& win) {
  return told(call, win, EpochCall::flush, kEveryRank, of(win).access().flush_local_all());
}
Error Win_sync(Call& call, Window& win) { return of(win).access().sync(); }

}  // namespace body
}  // namespace tern::capi
