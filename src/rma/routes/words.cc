#include "rma/routes/words.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tern::rma {

using wire::WindowAction;

namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);
// Of one call. A few times what a fast adapter has on its way in one round trip.
constexpr size_t kMaxElements = 64;

bool is_word(const Kind& kind) {
  const bool integer = kind.type_class == TypeClass::c_integer || kind.type_class == TypeClass::fortran_integer ||
                       kind.type_class == TypeClass::logical || kind.type_class == TypeClass::multi_language;
  return integer && kind.size == kWordBytes && kind.extent == kWordBytes;
}

Cursor part_of(const void* base, Count count, Datatype* type) {
  return type ? Cursor(const_cast<void*>(base), count, *type) : Cursor();
}

}  // namespace

/// One word of a call, or several that follow each other.
struct WordElement final : AtomicOperation {
  WordAccumulate* owner = nullptr;
  uint64_t brought = 0;
  std::vector<uint64_t> run;  ///< of several words, instead of `brought` and `result`; empty before
  size_t offset = 0;          ///< in the result
  bool over = true;

  static void on_done(AtomicOperation& operation, Error error);
};

/// One call, from its beginning until it is over.
struct WordAccumulate final : HeldOperation {
  WordAccumulate(WordRoute& of, Target& to, const Operation& what, const RemoteMemoryProperties& able);
  WordAccumulate(const WordAccumulate&) = delete;
  WordAccumulate& operator=(const WordAccumulate&) = delete;
  void leave() override { route.leave(*this); }
  void drop(Error why) override { route.over(*this, std::move(why)); }

  bool is_over() const { return begun && left == 0 && outstanding == 0; }
  /// Each element is one atomic operation.
  bool at_once() const { return kind != AtomicOperation::Kind::compare_swap || compares(); }
  bool compares() const { return operation.action == WindowAction::compare_and_swap; }

  WordRoute& route;
  Target& target;
  WindowRequest* request = nullptr;
  Operation operation;
  Ref<Datatype> origin_type, result_type, target_type;  ///< keep the operation's datatypes
  AtomicOperation::Kind kind;
  size_t most_words;   ///< of an element
  Cursor there, from;  ///< of the next element
  size_t left;         ///< elements that were not begun
  size_t outstanding = 0;
  size_t next_offset = 0;
  bool begun = false;
  std::vector<WordElement> elements;  ///< at most as many words are on their way at one time
  Error error;
};

WordAccumulate::WordAccumulate(WordRoute& of, Target& to, const Operation& what, const RemoteMemoryProperties& able)
    : route(of), target(to), operation(what) {
  origin_type = Ref<Datatype>::share(what.origin_type);
  result_type = Ref<Datatype>::share(what.result_type);
  target_type = Ref<Datatype>::share(what.target_type);
  kind = what.op == OpId::sum || what.op == OpId::no_op ? AtomicOperation::Kind::fetch_add
         : what.op == OpId::replace && able.atomic_swap ? AtomicOperation::Kind::swap
                                                        : AtomicOperation::Kind::compare_swap;
  if (compares()) kind = AtomicOperation::Kind::compare_swap;
  most_words = kind == AtomicOperation::Kind::compare_swap ? 1 : able.atomic_words;
  if (what.brings()) from = part_of(what.origin, what.origin_count, what.origin_type);
  left = (what.brings() ? from.remaining() : bytes_of(what.target_count, what.target_type)) / kWordBytes;
  elements = std::vector<WordElement>(std::min(left, kMaxElements));
  for (WordElement& element : elements) element.owner = this;
  TERN_DEBUG_ASSERT(elements.size() <= kMaxElements);
}

void WordElement::on_done(AtomicOperation& operation, Error error) {
  auto& self = static_cast<WordElement&>(operation);
  self.owner->route.element_over(self, std::move(error));
}

Cursor WordRoute::elements_of(const Operation& o) const {
  auto* start = reinterpret_cast<std::byte*>(memory_.remote().address_of(o.target));
  start += o.displacement * memory_.disp_unit_of(o.target);
  return Cursor(start, o.target_count, *o.target_type);
}

bool WordRoute::all_words(const Operation& o) const {
  const Kind* kind = o.target_type->basic_kind();
  if (!kind || !is_word(*kind)) return false;
  Cursor there = elements_of(o);
  iovec pieces[16];
  size_t filled_bytes = 0;
  while (size_t filled = there.segments(pieces, there.remaining(), filled_bytes)) {
    for (size_t i = 0; i < filled; ++i) {
      if ((reinterpret_cast<uintptr_t>(pieces[i].iov_base) | pieces[i].iov_len) % kWordBytes != 0) return false;
    }
  }
  return true;
}

void WordRoute::begin(const Operation& o, Target& target, WindowRequest* request) {
  auto* made = new WordAccumulate(*this, target, o, memory_.remote().atomics()->remote_properties());
  made->there = elements_of(o);
  made->request = request;
  ++target.flight.transfers;
  if (request) request->begin_part();
  if (!records_.hold(target, *made)) leave(*made);
}

void WordRoute::leave(WordAccumulate& call) {
  TERN_DEBUG_ASSERT(!call.begun && call.outstanding == 0);
  call.target.words.calls.push_back(&call);
  advance(call.target);
}

// What was begun first goes first. The next call begins when all of this one's words are on their way, if the path
// keeps their order and both take one atomic operation for each word; else when this one is over.
void WordRoute::advance(Target& target) {
  WordQueue& words = target.words;
  if (words.advancing) {
    words.again = true;  // an atomic operation that was over at once
    return;
  }
  words.advancing = true;
  const bool ordered = memory_.remote().atomics()->remote_properties().ordered_atomics;
  do {
    words.again = false;
    bool alone = false;
    for (WordAccumulate* one : words.calls) {
      if (alone || (one != words.calls.front() && !one->at_once())) break;
      begin_elements(*one);
      alone = one->left != 0 || !ordered || !one->at_once();
    }
    while (!words.calls.empty() && words.calls.front()->is_over()) {
      WordAccumulate* over_now = words.calls.front();
      TERN_DEBUG_ASSERT(over_now->outstanding == 0);
      words.calls.pop_front();
      over(*over_now, std::move(over_now->error));
      words.again = true;
    }
  } while (words.again);
  TERN_DEBUG_ASSERT(words.advancing && !words.again);
  words.advancing = false;
}

void WordRoute::begin_elements(WordAccumulate& one) {
  const RemotePart& remote = memory_.remote();
  const int rank = one.target.rank;
  one.begun = true;
  if (one.left != 0 && one.target.endpoint.lost()) {
    one.error = context_.environment.endpoints().loss_of(one.target.endpoint.peer);
    one.left = 0;
  }
  for (WordElement& element : one.elements) {
    if (one.left == 0) break;
    if (!element.over) continue;
    iovec word;
    size_t bytes = 0;
    one.there.segments({&word, 1}, std::min(one.left, one.most_words) * kWordBytes, bytes);
    TERN_DEBUG_ASSERT(bytes != 0 && bytes % kWordBytes == 0);
    element.words = bytes / kWordBytes;
    element.brought = 0;
    if (element.words > 1) element.run.assign(element.words, 0);
    element.many = element.run.data();
    uint64_t* brought = element.words > 1 ? element.many : &element.brought;
    if (one.operation.brings()) one.from.pack(reinterpret_cast<std::byte*>(brought), bytes);
    element.over = false;
    element.offset = one.next_offset;
    element.lane = &remote.atomics_lane(context_.comm->peer(rank), context_.own(rank));
    element.remote_address = reinterpret_cast<uintptr_t>(word.iov_base);
    element.key = remote.atomics_key(rank);
    element.kind = one.at_once() ? one.kind : AtomicOperation::Kind::fetch_add;  // else it is read first
    element.operand = one.at_once() ? element.brought : 0;
    if (one.compares()) std::memcpy(&element.compare, one.operation.compare, sizeof element.compare);
    element.done = WordElement::on_done;
    one.next_offset += bytes;
    one.left -= element.words;
    ++one.outstanding;
    TERN_DEBUG_ASSERT(one.outstanding <= one.elements.size());
    begin_atomic(element);
  }
}

void WordRoute::begin_atomic(WordElement& element) {
  const Target& target = element.owner->target;
  const RemotePart& remote = memory_.remote();
  if (!target.memory.start || !remote.atomics_with_cpu()) {
    ++context_.counters().rma_atomics;
    return remote.atomics()->atomic(element);
  }
  ++context_.counters().rma_direct;
  std::byte* mapped = target.memory.start + (element.remote_address - remote.address_of(target.rank));
  TERN_DEBUG_ASSERT(mapped >= target.memory.start && mapped + kWordBytes <= target.memory.start + target.memory.size);
  TERN_ASSERT(element.words == 1);  // paths whose atomics the CPU's exclude take one at a time
  element.result = Apply::word(mapped, element.kind, element.operand, element.compare);
  element_over(element, Error());
}

// True: another atomic operation is needed, since the word has changed since it was read.
bool WordRoute::tries_again(WordElement& element) {
  const WordAccumulate& one = *element.owner;
  const bool stored = element.kind == AtomicOperation::Kind::compare_swap && element.result == element.compare;
  if (one.at_once() || stored) return false;
  uint64_t wanted = element.brought;
  if (one.operation.op != OpId::replace) {
    wanted = element.result;
    context_.environment.op(one.operation.op).apply_basic(&element.brought, &wanted, 1, *one.target_type->basic_kind());
  }
  if (wanted == element.result) return false;
  element.kind = AtomicOperation::Kind::compare_swap;
  TERN_DEBUG_ASSERT(!one.at_once());
  element.compare = element.result;
  element.operand = wanted;
  return true;
}

void WordRoute::element_over(WordElement& element, Error error) {
  WordAccumulate& one = *element.owner;
  if (!error && tries_again(element)) return begin_atomic(element);
  if (error) {
    if (!one.error) one.error = std::move(error);
    one.left = 0;
  } else if (one.result_type) {
    Cursor into(one.operation.result, one.operation.result_count, *one.operation.result_type);
    into.seek(element.offset);
    const uint64_t* result = element.words > 1 ? element.many : &element.result;
    into.unpack(reinterpret_cast<const std::byte*>(result), element.words * kWordBytes);
  }
  TERN_ASSERT(!element.over && one.outstanding != 0);
  element.over = true;
  --one.outstanding;
  advance(one.target);
}

// Whether a word that an error is about was changed is not known, so nothing is tried again.
void WordRoute::over(WordAccumulate& call, Error error) {
  std::unique_ptr<WordAccumulate> own(&call);
  Target& target = call.target;
  TERN_DEBUG_ASSERT(call.outstanding == 0);
  target.flight.end_transfer();
  if (error) {
    target.fail(error);
    if (call.request) call.request->fail(std::move(error));
  }
  if (call.request) call.request->end_part();
  context_.progress().notify();
}

}  // namespace tern::rma
