#include "sim/scheduler.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/assert.h"

namespace tern::sim {
namespace {

// Calls of the C library have no argument that names a rank.
thread_local Strand* running_strand = nullptr;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 31);
}

}  // namespace

void Scheduler::at(uint64_t time_ns, EventTarget& target, EventKind kind, uint32_t rank, uint64_t datum) {
  foreign_events_ += kind != EventKind::resume;
  queue_.push({std::max(time_ns, now_ns_), sequence_++, &target, kind, rank, datum});
}

void Scheduler::trace(uint64_t time_ns, EventKind kind, uint32_t rank, uint64_t first, uint64_t second) {
  // Two steps, since it is done for each event: an odd factor keeps the two words apart that share a step.
  constexpr uint64_t kApart = 0x9fb21c651e98df25;
  trace_hash_ = mix(trace_hash_, time_ns * kApart + first);
  trace_hash_ = mix(trace_hash_, ((uint64_t(kind) << 32) | rank) * kApart + second);
  if (keep_trace_) trace_.push_back({time_ns, kind, rank, first, second});
}

void Scheduler::fail(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
}

bool Scheduler::count_step() {
  ++events_;
  if (now_ns_ <= limits_.virtual_ns && events_ <= limits_.events) return true;
  fail("the run does not end: " + std::to_string(events_) + " steps in " + std::to_string(now_ns_) +
       " ns of virtual time (a livelock, or limits that are too low)");
  return false;
}

void Scheduler::run() {
  while (!queue_.empty() && failure_.empty()) {
    const Event event = queue_.pop();
    foreign_events_ -= event.kind != EventKind::resume;
    now_ns_ = std::max(now_ns_, event.time_ns);
    trace(event.time_ns, event.kind, event.rank, event.sequence, 0);
    if (!count_step()) return;
    event.target->on_event(event.kind, event.datum);
  }
}

Strand::Strand(Scheduler& scheduler, uint32_t rank, std::byte* stack, size_t stack_bytes, Body body,
               const OnSwitch& on_switch)
    : scheduler_(scheduler),
      rank_(rank),
      body_(std::move(body)),
      on_switch_(on_switch),
      fiber_(
          stack, stack_bytes,
          [](void* self) {
            auto& strand = *static_cast<Strand*>(self);
            strand.body_(strand);
          },
          this) {}

void Strand::start(uint64_t time_ns) { schedule_resume(time_ns); }

void Strand::schedule_resume(uint64_t time_ns) {
  resume_at_ns_ = time_ns;
  scheduler_.at(time_ns, *this, EventKind::resume, rank_, turn_);
}

void Strand::on_event(EventKind, uint64_t turn) {
  if (turn != turn_ || stopped_) return;
  ++turn_;
  resume_at_ns_ = kNever_ns;
  blocked_in_ = nullptr;
  now_ns_ = std::max(now_ns_, scheduler_.now_ns()) + owed_ns_;
  interrupted_ns_ += std::exchange(owed_ns_, 0);
  if (on_switch_) on_switch_(int(rank_));
  running_strand = this;
  fiber_.resume();
  running_strand = nullptr;
  if (on_switch_) on_switch_(-1);
}

Strand* Strand::running() { return running_strand; }

Threads& Strand::threads() {
  if (!threads_) threads_ = std::make_unique<Threads>(*this, thread_seed_);
  return *threads_;
}

void Strand::switch_out() {
  if (threads_) threads_->leave_core();
  else suspend();
}

void Strand::catch_up() {
  if (scheduler_.clear_until(now_ns_) && !scheduler_.failed()) {
    scheduler_.now_ns_ = std::max(scheduler_.now_ns_, now_ns_);
    if (scheduler_.count_step()) return;
  }
  schedule_resume(now_ns_);
  switch_out();
}

void Strand::block(uint64_t deadline_ns, const char* why) {
  if (take_notice()) return;
  if (threads_) threads_->sleep(deadline_ns, why);
  else block_all(deadline_ns, why);
}

void Strand::block_all(uint64_t deadline_ns, const char* why) {
  blocked_in_ = why;
  if (deadline_ns != kNever_ns) schedule_resume(std::max(deadline_ns, now_ns_));
  suspend();
}

void Strand::stop() {
  stopped_ = true;
  blocked_in_ = "stopped";
  while (true) switch_out();
}

void Strand::wake(uint64_t time_ns) {
  if (threads_) threads_->rouse(time_ns);
  if (!blocked_in_ || stopped_ || fiber_.finished()) return;
  time_ns = std::max(time_ns, std::max(now_ns_, scheduler_.now_ns()));
  if (resume_at_ns_ <= time_ns) return;
  schedule_resume(time_ns);
}

}  // namespace tern::sim
