// What the run-time (runtime.cc) asks of the explorer. Outside of an execution, and for memory that is not shared in
// it, atomic operations are the processor's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/explore/memory.h"

namespace tern::explore {

/// A thread of an execution runs, and the operation is on memory that it shares.
bool is_explored(const volatile void* address);

enum class Change : uint8_t { exchange, add, sub, bit_and, bit_or, bit_xor };
uint64_t on_load(uintptr_t place, const volatile void* address, unsigned bytes, Order order);
void on_store(uintptr_t place, const volatile void* address, unsigned bytes, uint64_t value, Order order);
uint64_t on_change(uintptr_t place, const volatile void* address, unsigned bytes, Change change, uint64_t operand,
                   Order order);
/// The value found; `desired` is stored if that is `expected`.
uint64_t on_compare_exchange(uintptr_t place, const volatile void* address, unsigned bytes, uint64_t expected,
                             uint64_t desired, Order order);
void on_fence(uintptr_t place, Order order);
void on_plain(const volatile void* address, uint64_t bytes, bool write);
/// The number of the thread of the execution that runs; SIZE_MAX: none.
size_t running_thread();
/// Of every thread of the execution. False: none runs.
bool on_barrier_everywhere();
/// Linux's futex: asleep until it is woken, if the word is `value`. False: no thread of an execution runs.
bool on_futex_wait(const volatile void* address, uint32_t value);
/// Wakes up to that number of threads that sleep at this word, in the order in which they came. False: as above.
bool on_futex_wake(const volatile void* address, uint64_t most);
/// False: no thread of an execution runs; else it does not return.
bool on_failure(const char* text);

}  // namespace tern::explore
