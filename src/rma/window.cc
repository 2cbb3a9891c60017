#include "rma/window.h"
#include "base/assert.h"

#include <algorithm>

namespace tern::rma {

Window::Window(Environment& environment, const Plan& plan)
    : context_(environment, plan.flavor),
      memory_(context_, plan.base, plan.size, plan.disp_unit),
      locks_(context_),
      apply_(environment, memory_),
      waiting_(context_),
      operations_(context_, memory_, apply_, locks_, waiting_, gate_),
      exposure_(context_, memory_, apply_, waiting_),
      access_(context_, memory_, locks_, waiting_, operations_, exposure_) {
  hints_.lock = environment.p2p().tunables().rma_lock;
  if (plan.info) hints_.take(*plan.info, true);
  context_.lock_at_once = hints_.lock_at_once;
}

Window::~Window() {
  close_gate();
  if (context_.comm && !freed_) end_under_way();
  TERN_ASSERT(nothing_under_way());
  locks_.end_design();
  operations_.cell().end();
  if (counts_) context_.environment.word_poller().remove(*counts_);
  if (context_.comm) context_.environment.remove(*this);
}

// All ranks have ended their epochs, and wait for each other: then nothing is on its way, lock words included. But what
// the target has confirmed, a path may still have to tell of: with several paths to a peer it does so later.
Error Window::free() {
  Error error = access_.finish_all();
  TERN_DEBUG_ASSERT(!freed_);
  if (locks_.by_words()) waiting_.until([&] { return locks_.design()->quiet(); });
  if (Error late = access_.barrier(); late && !error) error = std::move(late);
  waiting_.until([&] { return nothing_under_way(); });
  locks_.end_design();
  if (counts_) {
    context_.environment.word_poller().remove(*counts_);
    counts_.reset();
  }
  operations_.cell().end();
  context_.environment.remove(*this);
  memory_.remote().conceal();
  TERN_DEBUG_ASSERT(nothing_under_way());
  freed_ = true;
  memory_.part().release();
  return error;
}

// Paths and adapters tell of what they do for this rank at objects of the window.
bool Window::nothing_under_way() const {
  const TargetTable& targets = const_cast<Window*>(this)->operations_.targets();
  return exposure_.is_silent() &&
         std::all_of(targets.begin(), targets.end(), [](auto& target) { return !target || target->flight.is_over(); });
}

// Answers of others are not waited for: without the window they are thrown away.
void Window::end_under_way() {
  context_.environment.remove(*this);
  if (locks_.by_words()) context_.environment.word_poller().remove(*locks_.design());
  if (NodeCells* cells = operations_.cell().cells()) context_.environment.word_poller().remove(*cells);
  for (auto& target : operations_.targets()) {
    if (!target) continue;
    operations_.cell().forget(*target);
    target->lock.state = LockState::refused;
    target->lock.refusal = Error(ErrorClass::win, context_.describe() + " has ended");
    operations_.records().drop_operations(*target);
  }
  waiting_.until([&] { return nothing_under_way() && !(locks_.by_words() && locks_.design()->under_way()); });
  locks_.end_design();
}

void Window::tell_info(Info& info) const {
  const Flavor flavor = context_.flavor;
  hints_.tell(info, flavor == Flavor::shared, flavor == Flavor::shared || flavor == Flavor::allocate);
  const LockChoice used = locks_.by_words() || wants_polls() ? lock_choice_ : LockChoice::event_thread;
  info.set("tern_rma_lock", used == LockChoice::automatic ? "tickets" : name_of(used));
}

const char* Window::lock_substitute() const {
  const bool wanted = lock_choice_ == LockChoice::test_and_set || lock_choice_ == LockChoice::mcs;
  const bool missing = wanted && !locks_.by_words() && !hints_.no_locks && context_.comm->size() > 1;
  return missing ? name_of(LockChoice::event_thread) : nullptr;
}

bool Window::wants_polls() const {
  return lock_choice_ == LockChoice::polling_thread && context_.comm->size() > 1 && context_.environment.may_poll();
}

// What was begun meanwhile leaves now.
void Window::take_cell(int from, std::span<const std::byte> answers) {
  Target& about = operations_.target(from);
  TERN_ASSERT(about.flight.in_cell);
  TERN_DEBUG_ASSERT(about.rank == from);
  about.flight.in_cell = false;
  operations_.records().take_answers(about, answers);
  if (about.out.has_records()) operations_.records().pump(about, true);
}

bool Window::land(const wire::Header& header, size_t bytes, Landing& landing) {
  if (header.kind != wire::kWindowResult) return exposure_.land(header.source, bytes, landing);
  Results::Awaited* awaited = operations_.results().find(header.token, header.source);
  if (!awaited || awaited->bytes != bytes) return false;
  landing.target = awaited->into;
  return true;
}

void Window::landed(const wire::Header& header, Error error) {
  if (header.kind != wire::kWindowResult) return exposure_.landed(header.source, error);
  Results& results = operations_.results();
  if (results.find(header.token, header.source)) results.over(header.token, std::move(error));
  context_.progress().notify();
}

void Window::lose(int rank, const Error& error) {
  if (Target* gone = operations_.known(rank)) {
    gone->lost = true;
    TERN_DEBUG_ASSERT(gone->rank == rank);
    operations_.cell().forget(*gone);
    operations_.records().drop_operations(*gone);
    gone->fail(error);
  }
  locks_.lose(rank, error);
  exposure_.lose(rank);
  context_.progress().notify();
}

std::string Window::report() const {
  std::string lines;
  const auto add = [&](const std::string& line) { lines += "  " + context_.describe() + ": " + line + "\n"; };
  Operations& operations = const_cast<Window*>(this)->operations_;
  for (const auto& target : operations.targets()) {
    if (!target) continue;
    const InFlight& flight = target->flight;
    const std::string of = " rank " + std::to_string(target->rank);
    if (target->lock.state == LockState::asked) add("the lock of" + of + " has been asked for");
    if (flight.transfers != 0)
      add(std::to_string(flight.transfers) + " transfers with the memory of" + of + " are not over");
    if (flight.pending != 0) add(std::to_string(flight.pending) + " transfers with" + of + " are not over");
    if (!flight.is_confirmed()) add("a confirmation of" + of + " has not come");
    const bool held = operations.epoch().started && target->out.has_records() && target->epoch.posts == 0;
    if (held || target->epoch.awaited) add(of.substr(1) + " has not called MPI_Win_post");
  }
  exposure_.report(add);
  return lines;
}

}  // namespace tern::rma
