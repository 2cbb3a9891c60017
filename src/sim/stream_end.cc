#include "sim/stream_end.h"

#include <algorithm>
#include <cerrno>

#include "sim/stream_hosts.h"

namespace tern::sim {
namespace {

constexpr uint32_t kDuplicates = 3;  // RFC 5681, 3.2: so many duplicate acknowledgements show a loss

}  // namespace

StreamEnd::StreamEnd(StreamHosts& hosts, uint64_t number, StreamAddress from, StreamAddress to, bool called)
    : id(number),
      own(from),
      peer(to),
      hosts_(hosts),
      state_(called ? State::called : State::calling),
      send_bytes_(hosts.model().send_bytes) {}

int StreamEnd::take_error() {
  const int error = error_;
  error_ = 0;
  return error;
}

void StreamEnd::changed() {
  if (owner) owner->on_change(*this);
}

uint64_t StreamEnd::limit() const { return received_ + (hosts_.model().receive_bytes - inbox_.size()); }

std::unique_ptr<StreamSegment> StreamEnd::segment() const {
  auto out = std::make_unique<StreamSegment>();
  out->source = own;
  out->target = peer;
  out->sequence = next_;
  out->ack = state_ != State::calling;
  out->acknowledged = received_;
  out->limit = limit();
  return out;
}

void StreamEnd::emit(uint64_t now, std::unique_ptr<StreamSegment> segment) {
  if (segment->ack && !segment->reset) {
    unanswered_ = 0;
    due_.answer_ns = kNever_ns;
    told_limit_ = segment->limit;
  }
  emitted_ns_ = std::max(emitted_ns_, now);
  hosts_.transmit(emitted_ns_, std::move(segment));
}

void StreamEnd::acknowledge(uint64_t now) { emit(now, segment()); }

void StreamEnd::acknowledge_now(uint64_t now) {
  if (unanswered_ != 0 && state_ == State::open) acknowledge(now);
  set_timer();
}

std::string StreamEnd::describe() const {
  static constexpr const char* kStates[] = {"calling", "called", "open", "dead"};
  auto text = [](const StreamAddress& address) {
    return std::to_string(address.node) + "/" + std::to_string(address.network) + ":" + std::to_string(address.port);
  };
  std::string out = text(own) + " to " + text(peer) + " " + kStates[int(state_)] + ", sent " + std::to_string(next_) +
                    " of " + std::to_string(last()) + ", acknowledged " + std::to_string(una_) + ", room up to " +
                    std::to_string(their_limit_) + "; received " + std::to_string(received_) + ", not read " +
                    std::to_string(inbox_.size());
  if (repetitions_ != 0) out += "; repeated " + std::to_string(repetitions_) + " times";
  if (fin_) out += "; sends no more";
  if (ended_) out += "; peer sends no more";
  if (closed_) out += "; closed";
  return out;
}

// --- The handshake.

void StreamEnd::call(uint64_t now) {
  acknowledged_at_ns_ = heard_ns_ = now;
  auto hello = segment();
  hello->syn = true;
  emit(now, std::move(hello));
  due_.repeat_ns = now + due_.timeout_ns;
  set_timer();
}

void StreamEnd::answer_call(uint64_t now) {
  auto answer = segment();
  answer->syn = true;
  emit(now, std::move(answer));
}

// False: the segment has nothing more.
bool StreamEnd::on_handshake(uint64_t now, const StreamSegment& segment) {
  if (state_ == State::calling) {
    if (!segment.syn || !segment.ack) return false;
    state_ = State::open;
    due_.repeat_ns = kNever_ns;
    due_.timeout_ns = StreamModel::kFirstTimeout_ns;
    repetitions_ = 0;
    their_limit_ = segment.limit;
    acknowledge(now);
    changed();
    return false;
  }
  if (state_ == State::called) {
    if (segment.syn) {  // the first time, or our answer was lost
      if (due_.repeat_ns == kNever_ns) {
        acknowledged_at_ns_ = heard_ns_ = now;
        due_.repeat_ns = now + due_.timeout_ns;
      }
      answer_call(now);
      return false;
    }
    if (!segment.ack || !hosts_.enter_queue(*this)) return false;  // no room: as if it had not come
    state_ = State::open;
    due_.repeat_ns = kNever_ns;
    due_.timeout_ns = StreamModel::kFirstTimeout_ns;
    repetitions_ = 0;
    their_limit_ = segment.limit;
    return true;
  }
  if (!segment.syn) return true;
  acknowledge(now);  // what ended the handshake was lost
  return false;
}

// --- Sending.

ssize_t StreamEnd::send(uint64_t now, const std::byte* data, size_t bytes) {
  if (error_ != 0) return -take_error();
  if (state_ == State::dead || fin_) return -EPIPE;
  if (state_ != State::open) return -EAGAIN;
  const size_t n = std::min(bytes, send_bytes_ - std::min(send_bytes_, out_.size()));
  if (n == 0) return bytes == 0 ? 0 : -EAGAIN;
  out_.insert(out_.end(), data, data + n);
  end_ += n;
  return ssize_t(n);
}

void StreamEnd::cork(uint64_t now, bool more) {
  due_.uncork_ns = more ? now + StreamModel::kCork_ns : kNever_ns;
  if (state_ == State::open) send_from(now, ~size_t{0});
  set_timer();
}

// Sends what the peer has room for.
void StreamEnd::send_from(uint64_t now, size_t most_segments) {
  const size_t full = hosts_.model().segment_bytes;
  for (; most_segments != 0 && next_ < last(); --most_segments) {
    const size_t room = their_limit_ > next_ ? size_t(their_limit_ - next_) : 0;
    const size_t n = next_ < end_ ? std::min({full, room, size_t(end_ - next_)}) : 0;
    const bool to_end = next_ + n == end_;
    if (n == 0 && !(to_end && fin_)) break;  // no room
    if (to_end && n < full && !fin_ && due_.uncork_ns != kNever_ns) break;
    auto part = segment();
    const auto from = out_.begin() + ptrdiff_t(next_ - una_);
    part->payload.assign(from, from + ptrdiff_t(n));
    part->fin = to_end && fin_;
    next_ += n + part->fin;
    emit(now, std::move(part));
  }
  if (una_ != next_) {
    if (due_.repeat_ns == kNever_ns) due_.repeat_ns = now + due_.timeout_ns;
    due_.window_probe_ns = kNever_ns;
  } else if (next_ < last() && their_limit_ <= next_ && due_.window_probe_ns == kNever_ns) {
    due_.window_probe_ns = now + due_.timeout_ns;
  }
}

void StreamEnd::on_acknowledgement(uint64_t now, const StreamSegment& segment) {
  acknowledged_at_ns_ = now;
  const bool moved = segment.limit > their_limit_;
  their_limit_ = std::max(their_limit_, segment.limit);
  if (moved || segment.acknowledged > una_) {
    due_.window_probe_ns = kNever_ns;
    window_probes_ = 0;
  }
  if (segment.acknowledged > una_ && segment.acknowledged <= last()) {
    const bool was_full = out_.size() >= send_bytes_;
    const size_t gone = size_t(std::min(segment.acknowledged, end_) - una_);
    out_.erase(out_.begin(), out_.begin() + ptrdiff_t(gone));
    una_ = segment.acknowledged;
    next_ = std::max(next_, una_);
    repetitions_ = duplicates_ = 0;
    due_.timeout_ns = StreamModel::kFirstTimeout_ns;
    due_.repeat_ns = una_ != next_ ? now + due_.timeout_ns : kNever_ns;
    if (was_full) changed();
  } else if (segment.acknowledged == una_ && una_ != next_ && !moved && segment.payload.empty() && !segment.fin &&
             ++duplicates_ == kDuplicates) {
    next_ = una_;
  }
  send_from(now, ~size_t{0});
}

// A timeout: nothing was acknowledged.
void StreamEnd::repeat(uint64_t now) {
  const uint32_t most = state_ == State::calling  ? StreamModel::kCallRepetitions
                        : state_ == State::called ? StreamModel::kAnswerRepetitions
                                                  : StreamModel::kRepetitions;
  if (repetitions_ == most) return die(now, ETIMEDOUT);
  ++repetitions_;
  due_.timeout_ns = std::min(2 * due_.timeout_ns, StreamModel::kMaxTimeout_ns);
  due_.repeat_ns = now + due_.timeout_ns;
  if (state_ == State::calling) {
    auto hello = segment();
    hello->syn = true;
    emit(now, std::move(hello));
  } else if (state_ == State::called) {
    answer_call(now);
  } else {
    next_ = una_;
    duplicates_ = 0;
    send_from(now, 1);
  }
}

// --- Receiving.

void StreamEnd::on_data(uint64_t now, const StreamSegment& segment) {
  const size_t bytes = segment.payload.size();
  if (bytes == 0 && !segment.fin) return;
  const uint64_t over = segment.sequence + bytes + segment.fin;
  if (segment.sequence > received_ || over <= received_) return acknowledge(now);  // a gap, or nothing new
  if (receive_closed_ && bytes != 0) return reset(now, ECONNRESET);                // RFC 1122, 4.2.2.13
  const size_t skip = size_t(received_ - segment.sequence);
  const size_t n = std::min(bytes - std::min(skip, bytes), hosts_.model().receive_bytes - inbox_.size());
  const auto from = segment.payload.begin() + ptrdiff_t(skip);
  inbox_.insert(inbox_.end(), from, from + ptrdiff_t(n));
  received_ += n;
  if (segment.fin && received_ + 1 == over) {
    ++received_;
    ended_ = true;
  }
  if (++unanswered_ >= 2 || ended_ || receive_closed_) acknowledge(now);
  else if (due_.answer_ns == kNever_ns) due_.answer_ns = now + StreamModel::kDelayedAnswer_ns;
  changed();
}

ssize_t StreamEnd::receive(uint64_t now, std::byte* out, size_t bytes) {
  const size_t n = std::min(bytes, inbox_.size());
  if (n == 0) {
    if (error_ != 0) return -take_error();
    return ended_ || receive_closed_ || state_ == State::dead ? 0 : -EAGAIN;
  }
  if (out) std::copy_n(inbox_.begin(), n, out);
  inbox_.erase(inbox_.begin(), inbox_.begin() + ptrdiff_t(n));
  // The peer is told of room when there is much more than it knows of.
  if (state_ == State::open && limit() - told_limit_ >= hosts_.model().receive_bytes / 2) acknowledge(now);
  set_timer();
  return ssize_t(n);
}

bool StreamEnd::readable(size_t at_least) const {
  if (state_ == State::calling || state_ == State::called) return false;
  if (state_ == State::dead || ended_ || receive_closed_) return true;
  const size_t enough = std::clamp<size_t>(at_least, 1, hosts_.model().receive_bytes / 2);
  return inbox_.size() >= enough;
}

// --- Segments and timers.

void StreamEnd::on_segment(uint64_t now, StreamSegment& segment) {
  if (state_ == State::dead) return;
  heard_ns_ = now;
  probes_ = 0;
  if (segment.reset) return die(now, state_ == State::calling ? ECONNREFUSED : ECONNRESET);
  if (!on_handshake(now, segment)) return set_timer();
  if (segment.ack) on_acknowledgement(now, segment);
  on_data(now, segment);
  if (state_ == State::dead) return;
  if (segment.probe) acknowledge(now);
  forget_if_over(now);
  set_timer();
}

void StreamEnd::on_timer(uint64_t now) {
  if (now != due_.set_for_ns) return;  // it has been set anew since
  due_.set_for_ns = kNever_ns;
  if (state_ != State::dead && due_.repeat_ns <= now) repeat(now);
  if (state_ == State::open) {
    if (due_.uncork_ns <= now) cork(now, false);
    if (due_.answer_ns <= now) acknowledge(now);
    if (due_.window_probe_ns <= now) {
      if (++window_probes_ > StreamModel::kRepetitions) return die(now, ETIMEDOUT);
      due_.timeout_ns = std::min(2 * due_.timeout_ns, StreamModel::kMaxTimeout_ns);
      due_.window_probe_ns = now + due_.timeout_ns;
      auto probe = segment();
      probe->probe = true;
      emit(now, std::move(probe));
    }
    if (due_.alive_ns <= now) probe_if_silent(now);
  }
  if (due_.forget_ns <= now) return hosts_.forget(*this);
  set_timer();
}

void StreamEnd::ask_if_alive(uint64_t now, uint64_t idle_ns, uint64_t interval_ns, uint32_t probes) {
  idle_ns_ = idle_ns;
  interval_ns_ = interval_ns;
  max_probes_ = probes;
  probes_ = 0;
  due_.alive_ns = std::max(now, heard_ns_ + idle_ns);
  set_timer();
}

// Keepalive (RFC 1122, 4.2.3.6): not while data is repeated, which tests the same.
void StreamEnd::probe_if_silent(uint64_t now) {
  if (una_ != next_ || heard_ns_ + idle_ns_ > now) {
    due_.alive_ns = una_ != next_ ? now + idle_ns_ : heard_ns_ + idle_ns_;
    return;
  }
  if (probes_ == max_probes_) return reset(now, ETIMEDOUT);
  ++probes_;
  due_.alive_ns = now + interval_ns_;
  auto probe = segment();
  probe->probe = true;
  emit(now, std::move(probe));
}

void StreamEnd::set_timer() {
  if (state_ == State::dead) return;
  const uint64_t due = std::min({due_.repeat_ns, due_.window_probe_ns, due_.answer_ns, due_.uncork_ns, due_.forget_ns,
                                 state_ == State::open ? due_.alive_ns : kNever_ns});
  if (due >= due_.set_for_ns) return;
  due_.set_for_ns = hosts_.set_timer(*this, due);
}

// --- The end.

void StreamEnd::shutdown(uint64_t now, bool both) {
  if (state_ != State::open) {
    if (state_ != State::dead && both) die(now, 0);
    return;
  }
  receive_closed_ = receive_closed_ || both;
  fin_ = true;
  due_.uncork_ns = kNever_ns;
  send_from(now, ~size_t{0});
  set_timer();
  changed();
}

void StreamEnd::close(uint64_t now) {
  closed_ = true;
  owner = nullptr;
  due_.alive_ns = kNever_ns;
  if (state_ == State::open && inbox_.empty()) {
    shutdown(now, true);
    forget_if_over(now);
    set_timer();
    return;
  }
  if (state_ == State::open || state_ == State::called) reset(now, 0);
  else hosts_.forget(*this);
}

// The owner has closed it, both ends are sent and this one's is acknowledged; or the peer does not send its own.
void StreamEnd::forget_if_over(uint64_t now) {
  if (!closed_ || !fin_ || una_ != last() || due_.forget_ns != kNever_ns) return;
  due_.forget_ns = now + StreamModel::kTimeWait_ns;
}

void StreamEnd::reset(uint64_t now, int error) {
  auto word = segment();
  word->reset = true;
  emit(now, std::move(word));
  die(now, error);
}

void StreamEnd::die(uint64_t, int error) {
  if (state_ == State::dead) return;
  state_ = State::dead;
  error_ = error;
  out_.clear();
  if (!owner && !waits_in_queue) return hosts_.forget(*this);
  changed();
}

}  // namespace tern::sim
