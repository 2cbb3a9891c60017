#include "sim/faults.h"

#include <algorithm>

namespace tern::sim {

Faults Faults::random(Rng& rng) {
  Faults faults;
  auto sometimes = [&](uint32_t parts) { return rng.chance(1, 2) ? uint32_t(rng.below(parts)) : 0; };
  faults.delay_in_1024 = sometimes(512);
  faults.delay_ns = uint64_t{1} << (4 + rng.below(14));
  faults.stall_in_1024 = sometimes(32);
  faults.stall_ns = uint64_t{1} << (10 + rng.below(8));
  faults.refuse_in_1024 = rng.chance(1, 8) ? 1024 : sometimes(512);
  faults.get_fail_in_1024 = rng.chance(1, 8) ? 1024 : sometimes(512);
  faults.misjudge_in_1024 = sometimes(1024);
  faults.doze_in_1024 = sometimes(64);
  faults.doze_ns = uint64_t{1} << (8 + rng.below(8));
  faults.slow_in_1024 = sometimes(512);
  faults.slow_factor = 2 + rng.below(30);
  faults.early_in_8 = sometimes(7);
  faults.start_skew_ns = rng.chance(1, 2) ? uint64_t{1} << rng.below(18) : 0;
  return faults;
}

uint64_t FaultyWeather::extra_delay_ns(uint64_t now_ns, PeerId from, PeerId to) {
  uint64_t extra = 0;
  if (faults_.delay_ns != 0 && rng_.chance(faults_.delay_in_1024, 1024)) extra = rng_.below(faults_.delay_ns);
  if (faults_.stall_ns == 0) return extra;
  uint64_t& closed_until = closed_until_ns_[(uint64_t(from) << 32) | to];
  if (rng_.chance(faults_.stall_in_1024, 1024)) closed_until = now_ns + rng_.below(faults_.stall_ns);
  return std::max(extra, closed_until > now_ns ? closed_until - now_ns : 0);
}

FaultPath::FaultPath(std::unique_ptr<Path> inner, Clock& clock, const Faults& faults, uint64_t seed, Pace pace)
    : inner_(std::move(inner)), clock_(clock), faults_(faults), rng_(seed), pace_(pace) {
  properties_ = inner_->properties();
  if (RemoteMemory* memory = inner_->remote_memory()) memory_.emplace(*memory, faults_, rng_);
  if (CopyArbiter* arbiter = inner_->copy_arbiter()) arbiter_.emplace(*arbiter, faults_, rng_);
}

Lane& FaultPath::lane(PeerId peer) {
  Lane& lane = inner_->lane(peer);
  if (std::find(lanes_.begin(), lanes_.end(), &lane) == lanes_.end()) lanes_.push_back(&lane);
  return lane;
}

bool FaultPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  if (rng_.chance(faults_.refuse_in_1024, 1024)) return false;
  return inner_->try_send(lane, header, payload, bytes);
}

bool FaultPath::try_post(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  if (rng_.chance(faults_.refuse_in_1024, 1024)) return false;
  return inner_->try_post(lane, header, payload, bytes);
}

void FaultMemory::get(TransferOperation& operation) {
  if (!rng_.chance(faults_.get_fail_in_1024, 1024)) {
    inner_.get(operation);
    return;
  }
  // After an error the local memory is undefined: overwrite some of it.
  Cursor scribble = operation.local;
  std::byte junk[256];
  std::fill(std::begin(junk), std::end(junk), std::byte{0xdb});
  scribble.truncate(std::min<size_t>(operation.bytes, rng_.below(sizeof junk + 1)));
  scribble.unpack(junk, sizeof junk);
  if (rng_.chance(1, 2)) {
    fail(operation);
  } else {
    failing_.push_back(&operation);
  }
}

// If messages arrive after puts, a put only fails with its peer. Otherwise it may have written anything, or nothing.
void FaultMemory::put(TransferOperation& operation) {
  if (remote_properties_.puts_before_messages || !rng_.chance(faults_.get_fail_in_1024, 1024)) {
    inner_.put(operation);
  } else if (rng_.chance(1, 2)) {
    fail(operation);
  } else {
    failing_.push_back(&operation);
  }
}

void FaultMemory::fail(TransferOperation& operation) {
  operation.done(operation, Error(ErrorClass::other, "the transfer failed (simulated)"));
}

int FaultMemory::tell_errors() {
  int told = 0;
  while (TransferOperation* operation = failing_.pop_front()) {
    ++told;
    fail(*operation);
  }
  return told;
}

void FaultPath::take_time() {
  if (pace_.poll_ns == 0) return;
  pace_.strand->charge_ns(pace_.poll_ns * cost_.times());
  pace_.strand->catch_up();
}

int FaultPath::poll_lane(Lane& lane) {
  if (awake_at_ns_ != 0) return poll();
  take_time();
  return inner_->poll_lane(lane);
}

int FaultPath::poll() {
  take_time();
  if (faults_.doze_ns != 0) {
    uint64_t now = clock_.now_ns();
    if (now < awake_at_ns_) return 0;
    awake_at_ns_ = 0;
    if (rng_.chance(faults_.doze_in_1024, 1024)) {
      awake_at_ns_ = now + 1 + rng_.below(faults_.doze_ns);
      return 0;
    }
  }
  if (faults_.cut_in_65536 != 0 && replaceable_ && !lanes_.empty() && rng_.chance(faults_.cut_in_65536, 65536))
    inner_->give_up(*lanes_[size_t(rng_.below(lanes_.size()))]);
  int handled = memory_ ? memory_->tell_errors() : 0;
  handled += inner_->poll();
  cost_.polled(handled != 0);
  return handled;
}

bool FaultPath::arm() {
  // Dozing: nothing is found before next_deadline_ns, whatever is there.
  if (awake_at_ns_ != 0 && clock_.now_ns() < awake_at_ns_) {
    ++arms_dozing_;
    return true;
  }
  return !(memory_ && memory_->has_errors()) && inner_->arm();
}

void FaultPath::disarm() {
  if (arms_dozing_ != 0) --arms_dozing_;
  else inner_->disarm();
}

uint64_t FaultPath::next_deadline_ns() const {
  return std::min(awake_at_ns_ ? awake_at_ns_ : ~uint64_t{0}, inner_->next_deadline_ns());
}

}  // namespace tern::sim
