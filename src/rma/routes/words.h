// The words' route: accumulates of 8-byte integers (MPI_Fetch_and_op, MPI_Compare_and_swap and the others) by the
// atomics of the path's RemoteMemory, without the target's processor, in windows whose members all reach each other by
// one path that has them (RemotePart::atomics).
//
// All of them go this way, also those of a rank on its own memory and on memory that it shares with the target: an
// adapter's atomics exclude each other, but seldom the CPU's. Where they do (`atomics_with_cpu`) words that this rank
// maps are changed by the CPU's atomics instead. Both are atomic element by element, as MPI asks (MPI 5.0, 12.7.1).
//
//   sum, no_op            fetch_add             replace   swap, where the path has it
//   compare-and-swap      compare_swap          others    reads the word, then compare_swap until nobody came between
//
// Words that follow each other go in one operation where the path has such (RemoteMemoryProperties::atomic_words:
// libfabric, whose providers in software take a message for each operation).
//
// Ordered at the target's words as the program has begun them: the path keeps atomics of one lane in order, and what
// takes several of them lets nothing pass.
//
// takes: every word of the target's elements is aligned for the adapter. finish: with the transfers (adapter.h).
// Source: Jiang et al. 2004, section 2 (atomics of the adapter). Thread rule: under the rank's lock.
#pragma once

#include "rma/apply.h"
#include "rma/routes/record.h"

namespace tern::rma {

struct WordElement;

class WordRoute {
 public:
  WordRoute(WindowContext& context, const MemoryMap& memory, RecordRoute& records)
      : context_(context), memory_(memory), records_(records) {}

  bool takes(const Target& target, const Operation& operation) const {
    return target.routes.has(Route::words) && !operation.is_put() && !operation.is_get() && all_words(operation);
  }
  void begin(const Operation& operation, Target& target, WindowRequest* request);

 private:
  friend struct WordElement;
  friend struct WordAccumulate;
  bool all_words(const Operation& operation) const;
  Cursor elements_of(const Operation& operation) const;
  void leave(WordAccumulate& call);
  void advance(Target& target);
  void begin_elements(WordAccumulate& call);
  void begin_atomic(WordElement& element);
  bool tries_again(WordElement& element);
  void element_over(WordElement& element, Error error);
  void over(WordAccumulate& call, Error error);

  WindowContext& context_;
  const MemoryMap& memory_;
  RecordRoute& records_;
};

}  // namespace tern::rma
