// Accumulates of 8-byte integers (MPI_Fetch_and_op, MPI_Compare_and_swap and the others) by the atomics of the path's
// RemoteMemory, without the target's processor, in windows whose members all reach each other by one path that has them
// (RemotePart::atomics).
//
// All of them go this way, also those of a rank on its own memory and on memory that it shares with the target: an
// adapter's atomics exclude each other, but seldom the CPU's. Where they do (`atomics_with_cpu`) words that this rank
// maps are changed by the CPU's atomics instead. Both are atomic element by element, as MPI asks (MPI 5.0, 12.7.1).
//
//   sum, no_op            fetch_add             replace   swap, where the path has it
//   compare-and-swap      compare_swap          others    reads the word, then compare_swap until nobody came between
//
// Ordered at the target's words as the program has begun them: the path keeps atomics of one lane in order, and what
// takes several of them lets nothing pass.
// Source: Jiang et al. 2004, section 2 (atomics of the adapter). Thread rule: under the rank's lock.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;

namespace {

constexpr size_t kWord_bytes = sizeof(uint64_t);
// Of one call. A few times what a fast adapter has on its way in one round trip.
constexpr size_t kMaxElements = 64;

bool is_word(const Kind& kind) {
  const bool integer = kind.type_class == TypeClass::c_integer || kind.type_class == TypeClass::fortran_integer ||
                       kind.type_class == TypeClass::logical || kind.type_class == TypeClass::multi_language;
  return integer && kind.size == kWord_bytes && kind.extent == kWord_bytes;
}

Cursor part_of(const void* base, Count count, Datatype* type) {
  return type ? Cursor(const_cast<void*>(base), count, *type) : Cursor();
}

}  // namespace

/// One word of a call.
struct WordElement final : AtomicOperation {
  WordAccumulate* owner = nullptr;
  uint64_t brought = 0;
  size_t offset = 0;  ///< in the result
  bool over = true;

  static void on_done(AtomicOperation& operation, Error error);
};

/// One call, from its beginning until it is over.
struct WordAccumulate {
  WordAccumulate(Window& its_window, Target& its_target, const Operation& what, bool swaps);
  WordAccumulate(const WordAccumulate&) = delete;
  WordAccumulate& operator=(const WordAccumulate&) = delete;

  bool is_over() const { return begun && left == 0 && outstanding == 0; }
  bool brings() const { return operation.op != OpId::no_op; }
  /// Each element is one atomic operation.
  bool at_once() const { return kind != AtomicOperation::Kind::compare_swap || compares(); }
  bool compares() const { return operation.action == WindowAction::compare_and_swap; }

  Window& window;
  Target& target;
  WindowRequest* request = nullptr;
  Operation operation;
  Ref<Datatype> origin_type, result_type, target_type;  ///< keep the operation's datatypes
  AtomicOperation::Kind kind;
  Cursor there, from;  ///< of the next element
  size_t left;         ///< elements that were not begun
  size_t outstanding = 0;
  size_t next_offset = 0;
  bool begun = false;
  std::vector<WordElement> elements;  ///< at most as many words are on their way at one time
  Error error;
};

WordAccumulate::WordAccumulate(Window& its_window, Target& its_target, const Operation& what, bool swaps)
    : window(its_window), target(its_target), operation(what) {
  origin_type = Ref<Datatype>::share(what.origin_type);
  result_type = Ref<Datatype>::share(what.result_type);
  target_type = Ref<Datatype>::share(what.target_type);
  kind = what.op == OpId::sum || what.op == OpId::no_op ? AtomicOperation::Kind::fetch_add
         : what.op == OpId::replace && swaps            ? AtomicOperation::Kind::swap
                                                        : AtomicOperation::Kind::compare_swap;
  if (compares()) kind = AtomicOperation::Kind::compare_swap;
  if (brings()) from = part_of(what.origin, what.origin_count, what.origin_type);
  left = (brings() ? from.remaining() : bytes_of(what.target_count, what.target_type)) / kWord_bytes;
  elements = std::vector<WordElement>(std::min(left, kMaxElements));
  for (WordElement& element : elements) element.owner = this;
}

void WordElement::on_done(AtomicOperation& operation, Error error) {
  auto& self = static_cast<WordElement&>(operation);
  self.owner->window.word_done(self, std::move(error));
}

// Every word of the target's elements is aligned for the adapter's atomics.
bool Window::goes_by_words(const Operation& o) const {
  if (!remote_.atomics() || o.action == WindowAction::put || o.action == WindowAction::get) return false;
  const Kind* kind = o.target_type->basic_kind();
  if (!kind || !is_word(*kind)) return false;
  auto* start = reinterpret_cast<std::byte*>(remote_.address_of(o.target));
  start += o.displacement * disp_units_.of(o.target);
  Cursor there(start, o.target_count, *o.target_type);
  iovec pieces[16];
  size_t filled_bytes = 0;
  while (size_t filled = there.segments(pieces, there.remaining(), filled_bytes)) {
    for (size_t i = 0; i < filled; ++i) {
      if ((reinterpret_cast<uintptr_t>(pieces[i].iov_base) | pieces[i].iov_len) % kWord_bytes != 0) return false;
    }
  }
  return true;
}

void Window::begin_words(const Operation& o, Target& target, WindowRequest* request) {
  auto* made = new WordAccumulate(*this, target, o, remote_.atomics()->remote_properties().atomic_swap);
  auto* start = reinterpret_cast<std::byte*>(remote_.address_of(target.rank));
  start += o.displacement * disp_units_.of(target.rank);
  made->there = Cursor(start, o.target_count, *o.target_type);
  made->request = request;
  ++target.transfers;
  if (request) request->begin_part();
  if (gate_open(target)) return issue(*made);
  seal(target, nullptr);
  target.sealed.push_back({{}, 0, nullptr, nullptr, made});
  pump(target, false);
}

void Window::issue(WordAccumulate& accumulate) {
  accumulate.target.words.push_back(&accumulate);
  advance_words(accumulate.target);
}

// What was begun first goes first. The next call begins when all of this one's words are on their way, if the path
// keeps their order and both take one atomic operation for each word; else when this one is over.
void Window::advance_words(Target& target) {
  if (target.advancing) {
    target.advance_again = true;  // an atomic operation that was over at once
    return;
  }
  target.advancing = true;
  const bool ordered = remote_.atomics()->remote_properties().ordered_atomics;
  do {
    target.advance_again = false;
    bool alone = false;
    for (WordAccumulate* one : target.words) {
      if (alone || (one != target.words.front() && !one->at_once())) break;
      begin_elements(*one);
      alone = one->left != 0 || !ordered || !one->at_once();
    }
    while (!target.words.empty() && target.words.front()->is_over()) {
      WordAccumulate* over = target.words.front();
      target.words.pop_front();
      words_over(*over, std::move(over->error));
      target.advance_again = true;
    }
  } while (target.advance_again);
  target.advancing = false;
}

void Window::begin_elements(WordAccumulate& one) {
  one.begun = true;
  if (one.left != 0 && one.target.endpoint.lost()) {
    one.error = environment_.endpoints().loss_of(one.target.endpoint.peer);
    one.left = 0;
  }
  for (WordElement& element : one.elements) {
    if (one.left == 0) break;
    if (!element.over) continue;
    iovec word;
    size_t bytes = 0;
    one.there.segments({&word, 1}, kWord_bytes, bytes);
    element.brought = 0;
    if (one.brings()) one.from.pack(reinterpret_cast<std::byte*>(&element.brought), kWord_bytes);
    element.over = false;
    element.offset = one.next_offset;
    element.lane = &remote_.atomics_lane(comm_->peer(one.target.rank), own(one.target.rank));
    element.remote_address = reinterpret_cast<uintptr_t>(word.iov_base);
    element.key = remote_.atomics_key(one.target.rank);
    element.kind = one.at_once() ? one.kind : AtomicOperation::Kind::fetch_add;  // else it is read first
    element.operand = one.at_once() ? element.brought : 0;
    if (one.compares()) std::memcpy(&element.compare, one.operation.compare, sizeof element.compare);
    element.done = WordElement::on_done;
    one.next_offset += kWord_bytes;
    --one.left;
    ++one.outstanding;
    begin_atomic(element);
  }
}

void Window::begin_atomic(WordElement& element) {
  const Target& target = element.owner->target;
  if (!target.memory || !remote_.atomics_with_cpu()) {
    ++environment_.counters().rma_atomics;
    return remote_.atomics()->atomic(element);
  }
  ++environment_.counters().rma_direct;
  std::byte* mapped = target.memory + (element.remote_address - remote_.address_of(target.rank));
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(mapped));
  switch (element.kind) {
    case AtomicOperation::Kind::fetch_add: element.result = word.fetch_add(element.operand); break;
    case AtomicOperation::Kind::swap: element.result = word.exchange(element.operand); break;
    case AtomicOperation::Kind::compare_swap:
      element.result = element.compare;
      word.compare_exchange_strong(element.result, element.operand);
      break;
  }
  word_done(element, Error());
}

// True: another atomic operation is needed, since the word has changed since it was read.
bool Window::tries_again(WordElement& element) {
  const WordAccumulate& one = *element.owner;
  const bool stored = element.kind == AtomicOperation::Kind::compare_swap && element.result == element.compare;
  if (one.at_once() || stored) return false;
  uint64_t wanted = element.brought;
  if (one.operation.op != OpId::replace) {
    wanted = element.result;
    environment_.op(one.operation.op).apply_basic(&element.brought, &wanted, 1, *one.target_type->basic_kind());
  }
  if (wanted == element.result) return false;
  element.kind = AtomicOperation::Kind::compare_swap;
  element.compare = element.result;
  element.operand = wanted;
  return true;
}

void Window::word_done(WordElement& element, Error error) {
  WordAccumulate& one = *element.owner;
  if (!error && tries_again(element)) return begin_atomic(element);
  if (error) {
    if (!one.error) one.error = std::move(error);
    one.left = 0;
  } else if (one.result_type) {
    Cursor into(one.operation.result, one.operation.result_count, *one.operation.result_type);
    into.seek(element.offset);
    into.unpack(reinterpret_cast<const std::byte*>(&element.result), kWord_bytes);
  }
  element.over = true;
  --one.outstanding;
  advance_words(one.target);
}

// Whether a word that an error is about was changed is not known, so nothing is tried again.
void Window::words_over(WordAccumulate& accumulate, Error error) {
  std::unique_ptr<WordAccumulate> own(&accumulate);
  Target& target = accumulate.target;
  --target.transfers;
  if (error) {
    if (!target.error) target.error = Error(error.error_class(), std::string(error.text()));
    if (accumulate.request && !accumulate.request->error) accumulate.request->error = std::move(error);
  }
  if (accumulate.request) accumulate.request->end_part();
  environment_.progress().notify();
}

}  // namespace tern::rma
