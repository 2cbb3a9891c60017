#include "coll/schedule.h"

#include <algorithm>
#include <new>

#include "base/assert.h"
#include "coll/copy.h"
#include "coll/difference.h"
#include "coll/environment.h"

namespace tern {

Schedule::Schedule(CollectiveEnvironment& environment, Communicator& communicator, Mode mode, int tag)
    : Request(Kind::collective),
      environment_(environment),
      communicator_(communicator),
      p2p_(communicator.environment().p2p),
      scratch_(communicator.environment().scratch),
      mode_(mode),
      running_(mode == Mode::blocking),
      tag_(tag) {
  if (mode == Mode::blocking) return;
  held_communicator_ = Ref<Communicator>::share(&communicator);
}

Schedule::~Schedule() {
  for (Held* held = held_; held; held = held->next) {
    if (held->type->drop_ref()) delete held->type;
  }
  while (extra_) {
    Extra* extra = extra_;
    extra_ = extra->next;
    scratch_.give(extra, extra->bytes);
  }
}

void Schedule::destroy() {
  // The pool belongs to the communicator, whose last reference this may be.
  Ref<Communicator> communicator = std::move(held_communicator_);
  environment_.schedules.destroy(this);
}

std::byte* Schedule::allocate(size_t bytes) {
  bytes = (bytes + 63) & ~size_t{63};
  if (size_t(free_end_ - free_) < bytes) {
    size_t block = std::max(bytes + 64, kBlockBytes);
    auto* extra = static_cast<Extra*>(block < bytes ? nullptr : scratch_.take(block));
    if (!extra) {
      fail(Error(ErrorClass::no_mem, "no memory for " + std::to_string(bytes) + " bytes of intermediate results"));
      return nullptr;
    }
    extra->next = extra_;
    extra->bytes = block;
    TERN_DEBUG_ASSERT(block >= bytes + 64);
    extra_ = extra;
    auto* data = reinterpret_cast<std::byte*>(extra) + 64;
    if (block - 64 - bytes <= size_t(free_end_ - free_)) return data;  // what is left of the current block serves on
    free_ = data;
    free_end_ = reinterpret_cast<std::byte*>(extra) + block;
  }
  std::byte* data = free_;
  free_ += bytes;
  TERN_DEBUG_ASSERT(free_ <= free_end_);
  return data;
}

void Schedule::hold(const Datatype* type) {
  if (!type || type->is_predefined()) return;
  for (Held* held = held_; held; held = held->next) {
    if (held->type == type) return;
  }
  std::byte* memory = allocate(sizeof(Held));
  if (!memory) return;
  auto* mine = const_cast<Datatype*>(type);
  mine->add_ref();
  held_ = new (memory) Held{mine, held_};
}

void Schedule::append(const Step& step) {
  if (failed_) return;
  TERN_ASSERT(write_ <= write_end_);
  if (write_ == write_end_) {
    auto* chunk = reinterpret_cast<Step*>(allocate(kStepsPerChunk * sizeof(Step)));
    if (!chunk) return;
    write_->kind = Step::Kind::jump;
    write_->to = chunk;
    write_ = chunk;
    write_end_ = chunk + kStepsPerChunk - 1;
  }
  TERN_DEBUG_ASSERT(write_ < write_end_ && !running_);
  *write_++ = step;
}

void Schedule::begin() {
  TERN_DEBUG_ASSERT(write_ <= write_end_);
  write_->kind = Step::Kind::end;  // one place is always left, the jump's
  if (mode_ == Mode::persistent) {
    make_persistent();
    return;
  }
  next_step_ = steps_;
  TERN_DEBUG_ASSERT(receives_out_ == 0 && sends_out_ == 0 && !running_);
  tell(Event::collective_begun);
  run();
}

Error Schedule::start() {
  restart();
  next_step_ = steps_;
  TERN_DEBUG_ASSERT(receives_out_ == 0 && sends_out_ == 0 && !running_);
  tell(Event::collective_begun);
  run();
  return {};
}

int Schedule::advance() {
  TERN_ASSERT(!running_ && next_step_);
  p2p_.progress().deactivate(*this);
  run();
  return 1;
}

void Schedule::tell(Event event) const {
  const Counters& counters = p2p_.progress().counters();
  if (counters.watched != 0) [[unlikely]]
    counters.tell(event, {algorithm_, int32_t(operation_), int64_t(communicator_.context()), 1});
}

void Schedule::run() {
  if (failed_) {
    if (mode_ == Mode::persistent && !error)
      error = Error(ErrorClass::no_mem, "the persistent collective has no memory");
    set_complete();
    return;
  }
  running_ = true;
  TERN_DEBUG_ASSERT(next_step_ && !linked());
  for (;;) {
    const Step& step = *next_step_;
    switch (step.kind) {
      case Step::Kind::jump: next_step_ = static_cast<const Step*>(step.to); continue;
      case Step::Kind::fence:
      case Step::Kind::fence_receives:
      case Step::Kind::end:
        waits_for_receives_only_ = step.kind == Step::Kind::fence_receives;
        if (!may_go_on()) {
          running_ = false;
          return;
        }
        check_received();
        if (step.kind == Step::Kind::end) {
          running_ = false;
          p2p_.progress().notify();
          tell(Event::collective_done);
          set_complete();  // may destroy this
          return;
        }
        break;
      default: carry_out(step);
    }
    ++next_step_;
  }
}

void Schedule::carry_out(const Step& step) {
  switch (step.kind) {
    case Step::Kind::send:
      // What is built on an error is no data: the peer gets less than it expects, and so has an error, too.
      post(p2p_.isend({step.from, error ? 0 : step.from_count, step.from_type, step.peer, step.source, tag_,
                       step.context, SendMode::standard, mode_ == Mode::blocking}),
           sends_out_);
      return;
    case Step::Kind::receive:
      missing_bytes_ += uint64_t(step.to_count * step.to_type->size());
      post(p2p_.ireceive({step.to, step.to_count, step.to_type, step.peer, step.source, tag_, step.context,
                          mode_ == Mode::blocking}),
           receives_out_);
      return;
    case Step::Kind::reduce: reduce(step); return;
    case Step::Kind::copy: copy(step); return;
    case Step::Kind::fence: wait_for(true); return;
    case Step::Kind::fence_receives: wait_for(false); return;
    default: return;
  }
}

// The request is given up at once: it destroys itself when it completes, after telling us.
void Schedule::post(Request* request, uint32_t& outstanding) {
  if (request->complete()) {
    note_end(*request, &outstanding == &receives_out_);
  } else {
    ++outstanding;
    request->watcher = this;
    request->on_complete = on_message_complete;
  }
  request->release();
}

// In the words of the call, not of the message that carries its data.
[[gnu::cold]] static Error sent_more(const Request& request) {
  return Error(ErrorClass::truncate,
               "rank " + std::to_string(request.status.source) + " of the communicator sends more than the " +
                   std::to_string(request.status.bytes) + " bytes that are expected here: it is " +
                   kDifferentCollectives +
                   ", or its count or datatype is another. All ranks of a communicator must call the same collective "
                   "operations in the same order. "
                   "TERN_CHECK=1 names both calls.");
}

void Schedule::note_end(Request& request, bool received) {
  if (request.error && !error) {
    error = std::move(request.error);
    if (error.error_class() == int(ErrorClass::truncate)) error = sent_more(request);
  }
  TERN_DEBUG_ASSERT(!received || error || missing_bytes_ >= uint64_t(request.status.bytes));
  if (received) missing_bytes_ -= uint64_t(request.status.bytes);
}

// Where all receives are complete. (A peer whose count is too small has made an error, too.)
void Schedule::check_received() {
  if (missing_bytes_ == 0) [[likely]]
    return;
  if (!error) {
    error = Error(ErrorClass::other, "a rank of the communicator has sent " + std::to_string(missing_bytes_) +
                                         " bytes less than are expected here: it is " + kDifferentCollectives +
                                         ", or its count or datatype is another, or this one has "
                                         "failed there. TERN_CHECK=1 names both calls");
  }
  missing_bytes_ = 0;
}

void Schedule::on_message_complete(Request& request) {
  auto* schedule = static_cast<Schedule*>(request.watcher);
  const bool received = request.kind() != Request::Kind::send;
  schedule->note_end(request, received);
  TERN_DEBUG_ASSERT((received ? schedule->receives_out_ : schedule->sends_out_) != 0);
  --(received ? schedule->receives_out_ : schedule->sends_out_);
  if (!schedule->running_ && !schedule->linked() && schedule->may_go_on()) {
    schedule->p2p_.progress().activate(*schedule);
  }
}

void Schedule::wait_for(bool sends) {
  if (receives_out_ != 0 || (sends && sends_out_ != 0))
    p2p_.progress().wait_until([&] { return receives_out_ == 0 && (!sends || sends_out_ == 0); });
  check_received();
}

Error Schedule::finish_immediate() {
  wait_for(true);
  Error result = std::move(error);
  environment_.schedules.destroy(this);
  return result;
}

void Schedule::reduce(const Step& step) {
  p2p_.progress().clock().charge_reduction(size_t(step.to_count * step.to_type->size()));
  TERN_DEBUG_ASSERT(op_ && step.to_count > 0);
  op_->apply(step.from, step.to, step.to_count, *step.to_type);
}

void Schedule::copy(const Step& step) {
  Block source{static_cast<std::byte*>(const_cast<void*>(step.from)), step.from_count, step.from_type};
  Block target{static_cast<std::byte*>(step.to), step.to_count, step.to_type};
  p2p_.progress().clock().charge_copy(size_t(source.bytes()));
  Error wrong = copy_block(source, target);
  if (wrong && !error) error = std::move(wrong);
}

}  // namespace tern
