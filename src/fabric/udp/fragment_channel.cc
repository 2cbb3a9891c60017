#include "fabric/udp/fragment_channel.h"

#include <algorithm>
#include <new>

#include "base/assert.h"
#include "base/crc32c.h"

namespace tern {
namespace {

using wire::DatagramType;

// Attempt number of a nack for a fragment that was overtaken.
constexpr uint32_t kAnyAttempt = ~uint32_t{0};
// Message number of a nack that only asks whether the peer is alive; it is answered by an ack of the same number.
constexpr uint64_t kQuestion = ~uint64_t{0};
// The two sockets.
constexpr int kShort = 0, kLong = 1;

}  // namespace

uint32_t FragmentChannel::crc_of(wire::FragmentHead head, const std::byte* payload, size_t bytes) {
  head.crc = head.attempt = 0;
  return crc32c(payload, bytes, crc32c(&head, sizeof head));
}

FragmentChannel::~FragmentChannel() {
  SendList forgotten;
  surrender(forgotten);
  while (forgotten.pop_front()) {
  }
}

// --- Sending.

FragmentChannel::Sending& FragmentChannel::begin(const wire::Header& header, uint64_t bytes, SendOperation* operation) {
  link_.shared.charge_messages(1);
  Sending& sending = sendings_.emplace_back();
  sending.number = next_message_++;
  sending.header = header;
  sending.bytes = bytes;
  sending.operation = operation;
  sending.total = uint32_t(wire::fragment_count(bytes));
  TERN_DEBUG_ASSERT(sending.total != 0 && sendings_.size() <= kMessages);
  return sending;
}

bool FragmentChannel::try_send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) {
  if (bytes > wire::kFirstFragmentBytes || full_ || !queue_.empty() || sendings_.size() >= kMessages) return false;
  copy(begin(header, bytes, nullptr), static_cast<const std::byte*>(payload));
  flush(now_ns);
  return true;
}

void FragmentChannel::enqueue(SendOperation& operation, uint64_t now_ns) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  TERN_DEBUG_ASSERT(!operation.linked());
  queue_.push_back(&operation);
  fill(now_ns);
  flush(now_ns);
}

bool FragmentChannel::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  SendList::remove(&operation);
  return true;
}

// Copies the next fragment, from flat memory or from the operation.
void FragmentChannel::copy(Sending& sending, const std::byte* flat) {
  const uint32_t index = sending.copied;
  TERN_DEBUG_ASSERT(index < sending.total);
  const uint64_t offset = wire::fragment_offset(index);
  const uint64_t whole = index == 0 ? wire::kFirstFragmentBytes : wire::kFragmentBytes;
  const size_t bytes = size_t(std::min(sending.bytes - offset, whole));
  auto* fragment = new (link_.shared.pool.take(sizeof(Fragment) + wire::kFragmentOverhead + bytes)) Fragment;
  fragment->payload_bytes = uint32_t(bytes);
  if (flat) {
    if (bytes != 0) std::memcpy(fragment->payload(), flat, bytes);
  } else {
    [[maybe_unused]] const size_t packed =
        sending.operation ? sending.operation->payload.pack(fragment->payload(), bytes) : 0;
    TERN_ASSERT(packed == bytes);
  }
  link_.shared.clock.charge_copy(bytes);
  fragment->head.message = sending.number;
  fragment->head.bytes = sending.bytes;
  fragment->head.index = index;
  fragment->head.header = sending.header;
  fragment->head.crc = crc_of(fragment->head, fragment->payload(), bytes);
  sending.fragments.push_back(fragment);
  ++sending.copied;
  TERN_DEBUG_ASSERT(sending.copied <= sending.total);
  ready_.push_back(fragment);
}

// Begins messages and copies fragments, as the windows allow.
void FragmentChannel::fill(uint64_t) {
  while (!queue_.empty() && sendings_.size() < kMessages) {
    SendOperation* operation = queue_.pop_front();
    operation->header_sent = true;
    copying_.push_back(&begin(operation->header, operation->total_bytes, operation));
  }
  for (Sending *sending = copying_.front(), *following; sending; sending = following) {
    following = copying_.next(sending);
    while (sending->copied < sending->total && (sending->copied == 0 || sending->cleared) &&
           sending->fragments.size() < link_.shared.paper_window) {
      copy(*sending, nullptr);
    }
    if (sending->copied < sending->total) continue;
    IntrusiveList<Sending>::remove(sending);
    TERN_DEBUG_ASSERT(sending->operation && sending->operation->payload.remaining() == 0);
    link_.shared.finished.push_back(sending->operation);
    sending->operation = nullptr;
  }
}

// False: the way is full.
bool FragmentChannel::send(Fragment& fragment, uint64_t now_ns) {
  std::memcpy(fragment.datagram() + sizeof(wire::DatagramHead), &fragment.head, sizeof fragment.head);
  fragment.number = link_.close(fragment.datagram(), fragment.bytes(), DatagramType::fragment);
  const iovec piece{fragment.datagram(), fragment.bytes()};
  if (link_.shared.port.send(link_.peer, fragment.head.index == 0 ? kShort : kLong, &piece, 1) == 0) {
    --link_.next_number;
    link_.reopen(fragment.datagram(), fragment.bytes(), fragment.number);
    return false;
  }
  ++link_.shared.counters->udp_sent;
  fragment.sent_ns = now_ns;
  fragment.due_ns = now_ns + timeout_ns(fragment.head.attempt);
  next_due_ns_ = std::min(next_due_ns_, fragment.due_ns);
  return true;
}

void FragmentChannel::flush(uint64_t now_ns) {
  full_ = false;
  while (!answers_.empty() && !full_) {
    const Answer& answer = answers_.front();
    std::byte datagram[sizeof(wire::DatagramHead) + sizeof(wire::FragmentAnswer) + wire::kDatagramTagBytes];
    std::memcpy(datagram + sizeof(wire::DatagramHead), &answer.body, sizeof answer.body);
    full_ = !link_.send_alone(datagram, sizeof datagram, answer.type);
    if (!full_) answers_.pop_front();
  }
  while (!ready_.empty() && !full_) {
    Fragment* fragment = ready_.front();
    full_ = !send(*fragment, now_ns);
    if (full_) break;
    IntrusiveList<Fragment>::remove(fragment);
    on_the_way_.push_back(fragment);
    TERN_DEBUG_ASSERT(!fragment->flying);
    fragment->flying = true;
  }
  if (full_) retry_at_ns_ = now_ns + UdpShared::kFullWait_ns;
}

void FragmentChannel::repeat(Fragment& fragment) {
  IntrusiveList<Fragment>::remove(&fragment);
  TERN_DEBUG_ASSERT(fragment.flying);
  fragment.flying = false;
  link_.reopen(fragment.datagram(), fragment.bytes(), fragment.number);
  ++fragment.head.attempt;
  ++link_.shared.counters->udp_repeated;
  ready_.push_back(&fragment);
}

FragmentChannel::Sending* FragmentChannel::sending_of(uint64_t message) {
  if (sendings_.empty() || message < sendings_.front().number) return nullptr;
  const uint64_t at = message - sendings_.front().number;
  return at < sendings_.size() ? &sendings_[size_t(at)] : nullptr;
}

void FragmentChannel::forget(Fragment& fragment) {
  if (fragment.linked()) IntrusiveList<Fragment>::remove(&fragment);
  link_.shared.pool.give(&fragment, sizeof(Fragment) + wire::kFragmentOverhead + fragment.payload_bytes);
}

void FragmentChannel::on_answer(const wire::Datagram& datagram, uint64_t now_ns) {
  const wire::FragmentAnswer& said = datagram.answer;
  const bool positive = datagram.head.type == DatagramType::ack;
  if (said.message == kQuestion) {
    if (!positive) return answer(DatagramType::ack, kQuestion, 0, 0);
    asked_at_ns_ = 0;
    silence_ = 0;
    return;
  }
  Sending* sending = sending_of(said.message);
  if (!sending) return;
  auto found = std::find_if(sending->fragments.begin(), sending->fragments.end(),
                            [&](Fragment* fragment) { return fragment->head.index == said.index; });
  if (found == sending->fragments.end()) return;
  Fragment& fragment = **found;
  if (!positive) {
    const bool recent = said.attempt == kAnyAttempt ? now_ns < fragment.sent_ns + trip_.least_ns()
                                                    : said.attempt != fragment.head.attempt;
    if (fragment.flying && !recent) repeat(fragment);
    return;
  }
  silence_ = 0;
  if (said.attempt == fragment.head.attempt) {
    if (fragment.flying) trip_.sample(now_ns - std::min(now_ns, fragment.sent_ns), 0);
  } else {
    ++link_.shared.counters->udp_spurious;
  }
  if (said.index == 0) sending->cleared = true;
  ++sending->acknowledged;
  TERN_DEBUG_ASSERT(sending->acknowledged <= sending->total);
  sending->fragments.erase(found);
  forget(fragment);
  while (!sendings_.empty() && sendings_.front().acknowledged == sendings_.front().total) sendings_.pop_front();
}

void FragmentChannel::look_for_silent(uint64_t now_ns) {
  bool overdue = false;
  next_due_ns_ = kNever_ns;
  for (Fragment *fragment = on_the_way_.front(), *following; fragment; fragment = following) {
    following = on_the_way_.next(fragment);
    if (fragment->due_ns <= now_ns) {
      overdue = true;
      repeat(*fragment);
    } else {
      next_due_ns_ = std::min(next_due_ns_, fragment->due_ns);
    }
  }
  if (asked_at_ns_ != 0) {
    if (now_ns >= asked_at_ns_ + timeout_ns(silence_)) {
      overdue = true;
      asked_at_ns_ = now_ns;
      answer(DatagramType::nack, kQuestion, 0, 0);
    }
    next_due_ns_ = std::min(next_due_ns_, asked_at_ns_ + timeout_ns(silence_ + overdue));
  }
  if (overdue) networks_ = link_.try_next_network();
  silence_ += overdue;
}

void FragmentChannel::ask(uint64_t now_ns) {
  if (unsent() || unacknowledged()) return;
  asked_at_ns_ = now_ns;
  next_due_ns_ = std::min(next_due_ns_, now_ns + timeout_ns(silence_));
  answer(DatagramType::nack, kQuestion, 0, 0);
  flush(now_ns);
}

void FragmentChannel::advance(uint64_t now_ns, bool) {
  if (now_ns >= next_due_ns_) look_for_silent(now_ns);
  fill(now_ns);
  if (!ready_.empty() || !answers_.empty()) flush(now_ns);
}

uint64_t FragmentChannel::deadline_ns() const { return full_ ? std::min(next_due_ns_, retry_at_ns_) : next_due_ns_; }

void FragmentChannel::surrender(SendList& out) {
  while (Sending* sending = copying_.pop_front()) {
    out.push_back(sending->operation);
    sending->operation = nullptr;
  }
  while (SendOperation* operation = queue_.pop_front()) out.push_back(operation);
  for (Sending& sending : sendings_) {
    for (Fragment* fragment : sending.fragments) forget(*fragment);
  }
  sendings_.clear();
  answers_.clear();
  asked_at_ns_ = 0;
  next_due_ns_ = kNever_ns;
}

// --- Receiving.

void FragmentChannel::answer(DatagramType type, uint64_t message, uint32_t index, uint32_t attempt) {
  link_.shared.counters->udp_nacks += type == DatagramType::nack && message != kQuestion;
  answers_.push_back({type, {message, index, attempt}});
}

bool FragmentChannel::on_datagram(const wire::Datagram& datagram, uint64_t now_ns, int& handled) {
  link_.received.add(datagram.head.number);
  switch (datagram.head.type) {
    case DatagramType::fragment: return on_fragment(datagram, handled);
    case DatagramType::ack:
    case DatagramType::nack: on_answer(datagram, now_ns); return true;
    default: return false;
  }
}

bool FragmentChannel::on_fragment(const wire::Datagram& datagram, int& handled) {
  const wire::FragmentHead& head = datagram.fragment;
  const std::byte* payload = datagram.payload;
  const size_t bytes = datagram.payload_bytes;
  if (head.crc != crc_of(head, payload, bytes)) {
    answer(DatagramType::nack, head.message, head.index, head.attempt);
    return true;
  }
  const bool first = head.index == 0;
  if (head.message < expected_) {  // its ack was lost, or the timeout was too short
    answer(DatagramType::ack, head.message, head.index, head.attempt);
  } else if (head.message > expected_) {
    // Only first fragments come before the clear. One that is the whole message is kept; a longer message has to
    // wait.
    if (!first || head.message - expected_ >= kMessages) return true;
    if (!early_.count(head.message)) early_[head.message] = {head, std::vector<std::byte>(payload, payload + bytes)};
    if (wire::fragment_count(head.bytes) == 1) answer(DatagramType::ack, head.message, 0, head.attempt);
  } else if (!reception_.active) {
    if (!first) return true;
    answer(DatagramType::ack, head.message, 0, head.attempt);
    open(head, payload, bytes, handled);
  } else {
    if (head.bytes != reception_.bytes) return false;
    answer(DatagramType::ack, head.message, head.index, head.attempt);
    if (!reception_.there[head.index]) land(head.index, payload, bytes, handled);
  }
  while (!reception_.active && !early_.empty() && early_.begin()->first == expected_) {
    auto node = early_.extract(early_.begin());
    const Early& early = node.mapped();
    if (wire::fragment_count(early.head.bytes) != 1)
      answer(DatagramType::ack, early.head.message, 0, early.head.attempt);
    open(early.head, early.payload.data(), early.payload.size(), handled);
  }
  return true;
}

// The expected message's first fragment is here.
void FragmentChannel::open(const wire::FragmentHead& head, const std::byte* payload, size_t bytes, int& handled) {
  const uint64_t count = wire::fragment_count(head.bytes);
  if (count == 1) {
    ++expected_;
    ++handled;
    link_.shared.clock.charge_copy(bytes);
    link_.shared.sink.on_message(link_.lane, head.header, payload, bytes);
    return;
  }
  TERN_DEBUG_ASSERT(!reception_.active);
  reception_.active = true;
  reception_.header = head.header;
  reception_.bytes = head.bytes;
  reception_.there.assign(size_t(count), false);
  reception_.missing = uint32_t(count);
  TERN_DEBUG_ASSERT(count > 1 && head.message == expected_);
  reception_.highest = 0;
  reception_.landing = link_.shared.sink.on_header(link_.lane, head.header, size_t(head.bytes));
  reception_.begin = reception_.landing.target.position();
  land(0, payload, bytes, handled);
}

void FragmentChannel::land(uint32_t index, const std::byte* payload, size_t bytes, int& handled) {
  for (uint32_t missed = reception_.highest + 1; missed < index; ++missed) {
    if (!reception_.there[missed]) answer(DatagramType::nack, expected_, missed, kAnyAttempt);
  }
  reception_.highest = std::max(reception_.highest, index);
  TERN_DEBUG_ASSERT(index < reception_.there.size() && !reception_.there[index] && reception_.missing != 0);
  reception_.there[index] = true;
  Cursor& target = reception_.landing.target;
  target.seek(reception_.begin + size_t(wire::fragment_offset(index)));
  target.unpack(payload, bytes);  // bytes beyond the target's room are dropped
  link_.shared.clock.charge_copy(bytes);
  if (--reception_.missing != 0) return;
  reception_.active = false;
  ++expected_;
  ++handled;
  target.seek(reception_.begin + size_t(reception_.bytes));
  link_.shared.sink.on_landed(link_.lane, reception_.header, reception_.landing, size_t(reception_.bytes), {});
}

void FragmentChannel::abandon(const Error& error) {
  early_.clear();
  if (!reception_.active) return;
  reception_.active = false;
  link_.shared.sink.on_landed(link_.lane, reception_.header, reception_.landing, size_t(reception_.bytes),
                              Error(error.error_class(), std::string(error.text())));
}

}  // namespace tern
