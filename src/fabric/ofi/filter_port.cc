#include "fabric/ofi/filter_port.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace tern::ofi {
namespace {

// What by_chance gets: it happens once in that number of calls.
constexpr uint32_t kSaysAgain = 16, kGoesOn = 2, kLetsThrough = 2;
// The largest number of parts into which a read or write is split.
constexpr size_t kMostParts = 4;
// As many as any provider: what is held back must not grow without bound.
constexpr size_t kMostHeld = 256;
// As long as the longest message to a tuple queue (TERN_TUPLE_BYTES).
constexpr size_t kSpareBytes = 8 << 20;

// What the provider itself has, where it is less, stays.
void limit(Capabilities& able, FilterKind kind) {
  able.send_after_write = false;  // none of the three states it
  able.copied_by_target = able.streams = false;
  switch (kind) {
    case FilterKind::none: return;
    case FilterKind::efa:
      able.needs_local = able.pins = true;
      able.automatic_progress = able.waits = false;
      able.inject_bytes = std::min<size_t>(able.inject_bytes, 32);  // what the device takes with a request
      able.receive_pieces = std::min<size_t>(able.receive_pieces, 4);
      return;
    case FilterKind::cxi:
      able.pins = true;
      able.inject_bytes = std::min<size_t>(able.inject_bytes, 192);
      able.receive_pieces = 1;
      able.atomic_words = 1;
      able.tag_bits &= (uint64_t{1} << 48) - 1;
      return;
    case FilterKind::psm3:
      able.waits = able.automatic_progress = false;
      able.inject_bytes = std::min<size_t>(able.inject_bytes, 64);
      able.tag_bits &= (uint64_t{1} << 60) - 1;
      able.multi_receive = false;  // it has that; the others show it
      return;
  }
}

}  // namespace

bool parse_filter(std::string_view name, FilterKind& kind) {
  if (name.empty()) kind = FilterKind::none;
  else if (name == "efa") kind = FilterKind::efa;
  else if (name == "cxi") kind = FilterKind::cxi;
  else if (name == "psm3") kind = FilterKind::psm3;
  else return false;
  return true;
}

class FilterPort::FilterRegion final : public Region {
 public:
  FilterRegion(std::unique_ptr<Region> below, const void* address, size_t bytes)
      : begin(static_cast<const std::byte*>(address)), end(begin + bytes), below_(std::move(below)) {
    key_ = below_->key();
  }
  const Region* below() const { return below_.get(); }
  const std::byte *const begin, *const end;

 private:
  std::unique_ptr<Region> below_;
};

FilterPort::FilterPort(std::unique_ptr<Port> below, FilterKind kind, uint64_t seed)
    : below_(std::move(below)), rng_(seed) {
  capabilities_ = below_->capabilities();
  limit(capabilities_, kind);
  address_ = below_->address();
  const Capabilities& provider = below_->capabilities();
  if (kind == FilterKind::cxi && provider.receive_pieces > 1 && !provider.needs_local)
    spare_ = std::make_unique_for_overwrite<std::byte[]>(kSpareBytes);
}

FilterPort::~FilterPort() = default;

void FilterPort::check(const Piece& piece) const {
  TERN_ASSERT(piece.bytes <= capabilities_.max_bytes);
  if (!capabilities_.needs_local || piece.bytes == 0) return;
  TERN_ASSERT(piece.region);
  const auto& region = static_cast<const FilterRegion&>(*piece.region);
  const auto* data = static_cast<const std::byte*>(piece.data);
  TERN_ASSERT(data >= region.begin && data + piece.bytes <= region.end);
}

Piece FilterPort::below(const Piece& piece) const {
  Piece its = piece;
  if (piece.region) its.region = static_cast<const FilterRegion&>(*piece.region).below();
  return its;
}

std::unique_ptr<Region> FilterPort::register_memory(const void* address, size_t bytes, const MemoryRights& rights,
                                                    int& error) {
  std::unique_ptr<Region> region = below_->register_memory(address, bytes, rights, error);
  if (!region) return nullptr;
  return std::make_unique<FilterRegion>(std::move(region), address, bytes);
}

FilterPort::Part& FilterPort::new_part(Whole& whole, Verb verb, Address peer, const Piece& piece) {
  check(piece);
  Part& part = *parts_.create();
  part.whole = &whole;
  part.verb = verb;
  part.peer = peer;
  part.piece = below(piece);
  ++whole.parts;
  return part;
}

int FilterPort::hand_down(Part& part) {
  int result = 0;
  switch (part.verb) {
    case Verb::send: result = below_->send(part.peer, part.piece, false, part); break;
    case Verb::send_tagged: result = below_->send_tagged(part.peer, part.tag, part.piece, part.marked, part); break;
    case Verb::write: result = below_->write(part.peer, part.piece, part.remote, part.key, part); break;
    case Verb::read: result = below_->read(part.peer, part.piece, part.remote, part.key, part); break;
    case Verb::atomic:
      result = below_->atomic(part.peer, part.kind, part.piece, part.answer, part.remote, part.key, part);
      break;
    case Verb::receive:
    case Verb::receive_tagged: break;  // never delayed
  }
  if (result == 0) outstanding_.push_back(&part);
  return result;
}

// Hands a part down now or later: messages in order, others in any.
int FilterPort::start(Part& part) {
  delayed_.push_back(&part);
  return 0;
}

void FilterPort::hand_down_delayed() {
  bool messages = true;  // none before it waits
  for (size_t i = 0; i < delayed_.size();) {
    Part& part = *delayed_[i];
    const bool ordered = part.verb == Verb::send || part.verb == Verb::send_tagged;
    const bool now = (!ordered || messages) && by_chance(kGoesOn);
    const int result = now ? hand_down(part) : kAgain;
    if (result == kAgain) {
      messages = messages && !ordered;
      ++i;
      continue;
    }
    delayed_.erase(delayed_.begin() + ptrdiff_t(i));
    if (result != 0) {
      Completion refused;
      refused.context = &part;
      refused.error = -result;
      take(refused);
    }
  }
}

int FilterPort::send(Address to, const Piece& piece, bool inject, Context& context) {
  if (by_chance(kSaysAgain) || delayed_.size() >= kMostHeld) return kAgain;
  TERN_ASSERT(!inject || piece.bytes <= capabilities_.inject_bytes);
  Whole& whole = *wholes_.create();
  whole.user = &context;
  Part& part = new_part(whole, Verb::send, to, inject ? Piece{} : piece);
  if (inject) {
    const auto* data = static_cast<const std::byte*>(piece.data);
    part.injected.assign(data, data + piece.bytes);
    part.piece = {part.injected.data(), piece.bytes, below(piece).region};
  }
  return start(part);
}

int FilterPort::send_tagged(Address to, uint64_t tag, const Piece& piece, bool marked, Context& context) {
  TERN_ASSERT(capabilities_.tagged && (tag & ~capabilities_.tag_bits) == 0);
  if (by_chance(kSaysAgain) || delayed_.size() >= kMostHeld) return kAgain;
  Whole& whole = *wholes_.create();
  whole.user = &context;
  Part& part = new_part(whole, Verb::send_tagged, to, piece);
  part.tag = tag;
  part.marked = marked;
  return start(part);
}

int FilterPort::receive(const Piece& piece, bool many, Context& context) {
  TERN_ASSERT(!many || capabilities_.multi_receive);
  Whole& whole = *wholes_.create();
  whole.user = &context;
  whole.many = many;
  Part& part = new_part(whole, Verb::receive, kNoAddress, piece);
  const int result = below_->receive(part.piece, many, part);
  if (result == 0) {
    outstanding_.push_back(&part);
  } else {
    parts_.destroy(&part);
    wholes_.destroy(&whole);
  }
  return result;
}

int FilterPort::receive_tagged(Address from, uint64_t tag, const Piece* pieces, size_t count, Context& context) {
  TERN_ASSERT(count <= capabilities_.receive_pieces && (tag & ~capabilities_.tag_bits) == 0);
  Whole& whole = *wholes_.create();
  whole.user = &context;
  std::vector<Piece> its;
  for (size_t i = 0; i < count; ++i) {
    check(pieces[i]);
    its.push_back(below(pieces[i]));
  }
  Part& part = new_part(whole, Verb::receive_tagged, from, pieces[0]);
  // cxi cuts off what is too long. Providers in software may give the connection up instead (tcp;ofi_rxm): here they
  // have room for it.
  if (spare_ && count == 1) its.push_back({spare_.get(), kSpareBytes, nullptr});
  const int result = below_->receive_tagged(from, tag, its.data(), its.size(), part);
  if (result == 0) {
    outstanding_.push_back(&part);
  } else {
    parts_.destroy(&part);
    wholes_.destroy(&whole);
  }
  return result;
}

int FilterPort::start_split(Verb verb, Address peer, const Piece& piece, uint64_t remote, uint64_t key,
                            Context& context) {
  TERN_ASSERT(capabilities_.rma);
  if (by_chance(kSaysAgain) || delayed_.size() >= kMostHeld) return kAgain;
  Whole& whole = *wholes_.create();
  whole.user = &context;
  const size_t count = std::clamp<size_t>(rng_.next() % kMostParts + 1, 1, std::max<size_t>(piece.bytes, 1));
  std::vector<Part*> parts;
  for (size_t i = 0; i < count; ++i) {
    const size_t from = piece.bytes * i / count, to = piece.bytes * (i + 1) / count;
    Part& part = new_part(whole, verb, peer, {static_cast<std::byte*>(piece.data) + from, to - from, piece.region});
    part.remote = remote + from;
    part.key = key;
    parts.push_back(&part);
  }
  std::swap(parts.front(), parts[rng_.next() % count]);
  for (Part* part : parts) start(*part);
  return 0;
}

int FilterPort::write(Address to, const Piece& piece, uint64_t remote, uint64_t key, Context& context) {
  return start_split(Verb::write, to, piece, remote, key, context);
}

int FilterPort::read(Address from, const Piece& piece, uint64_t remote, uint64_t key, Context& context) {
  return start_split(Verb::read, from, piece, remote, key, context);
}

int FilterPort::atomic(Address to, AtomicOperation::Kind kind, const Piece& operands, const Piece& result,
                       uint64_t remote, uint64_t key, Context& context) {
  TERN_ASSERT(capabilities_.atomics && result.bytes <= capabilities_.atomic_words * sizeof(uint64_t));
  if (by_chance(kSaysAgain)) return kAgain;
  Whole& whole = *wholes_.create();
  whole.user = &context;
  Part& part = new_part(whole, Verb::atomic, to, operands);
  check(result);
  part.answer = below(result);
  part.kind = kind;
  part.remote = remote;
  part.key = key;
  return start(part);
}

void FilterPort::cancel(Context& context) {
  for (Part* part : outstanding_) {
    if (part->whole->user == &context) below_->cancel(*part);
  }
}

void FilterPort::take(const Completion& completion) {
  auto& part = static_cast<Part&>(*completion.context);
  Whole& whole = *part.whole;
  Completion its = completion;
  its.context = whole.user;
  const bool cut_off = spare_ && part.verb == Verb::receive_tagged && completion.bytes > part.piece.bytes;
  if (completion.error != 0) whole.error = completion.error;
  else if (cut_off) whole.error = kTruncated;
  if (whole.many && !completion.released) {
    held_.push_back(its);
    return;
  }
  std::erase(outstanding_, &part);
  parts_.destroy(&part);
  if (--whole.parts != 0) return;
  its.error = whole.error;
  wholes_.destroy(&whole);
  held_.push_back(its);
}

int FilterPort::poll(Completion* out, int most) {
  hand_down_delayed();
  Completion batch[16];
  if (held_.size() < kMostHeld) {
    const int count = below_->poll(batch, int(std::size(batch)));
    if (count < 0) return count;
    for (int i = 0; i < count; ++i) take(batch[i]);
  }
  int given = 0;
  for (size_t i = 0; i < held_.size() && given < most;) {
    const Completion& its = held_[i];
    // A buffer for many is free only when its earlier messages were given.
    const bool last = its.released && std::any_of(held_.begin(), held_.begin() + ptrdiff_t(i),
                                                  [&](const Completion& c) { return c.context == its.context; });
    if (last || !by_chance(kLetsThrough)) {
      ++i;
      continue;
    }
    out[given++] = its;
    held_.erase(held_.begin() + ptrdiff_t(i));
  }
  return given;
}

}  // namespace tern::ofi
