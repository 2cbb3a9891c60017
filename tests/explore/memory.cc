#include "tests/explore/memory.h"

#include <algorithm>
#include <cstdlib>

namespace tern::explore {

void View::join_seen(const View& other) {
  if (seen.size() < other.seen.size()) seen.resize(other.seen.size());
  for (size_t i = 0; i < other.seen.size(); ++i) seen[i] = std::max(seen[i], other.seen[i]);
}

void View::join(const View& other) {
  join_seen(other);
  for (size_t i = 0; i < kMaxThreads; ++i) clock[i] = std::max(clock[i], other.clock[i]);
}

namespace {

// Of the size of an atomic; not memcpy, which the run-time takes for an access of the program.
uint64_t read_raw(uintptr_t address, unsigned bytes) {
  switch (bytes) {
    case 1: return *reinterpret_cast<const volatile uint8_t*>(address);
    case 2: return *reinterpret_cast<const volatile uint16_t*>(address);
    case 4: return *reinterpret_cast<const volatile uint32_t*>(address);
    default: return *reinterpret_cast<const volatile uint64_t*>(address);
  }
}

void write_raw(uintptr_t address, unsigned bytes, uint64_t value) {
  switch (bytes) {
    case 1: *reinterpret_cast<volatile uint8_t*>(address) = uint8_t(value); break;
    case 2: *reinterpret_cast<volatile uint16_t*>(address) = uint16_t(value); break;
    case 4: *reinterpret_cast<volatile uint32_t*>(address) = uint32_t(value); break;
    default: *reinterpret_cast<volatile uint64_t*>(address) = value; break;
  }
}

}  // namespace

size_t Memory::location(const volatile void* address, unsigned bytes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto [found, fresh] = by_address_.try_emplace(at, locations_.size());
  if (fresh) {
    locations_.push_back({at, bytes, {}});
    locations_.back().stores.push_back({read_raw(at, bytes), {}});
    return found->second;
  }
  Location& known = locations_[found->second];
  if (known.bytes != bytes) std::abort();  // one atomic, two sizes: not modelled
  // Written by a plain store, or by code that is not instrumented.
  const uint64_t now = read_raw(at, bytes);
  if (now != known.stores.back().value) known.stores.push_back({now, {}});
  return found->second;
}

size_t Memory::choices(size_t thread, size_t location, Order order) const {
  uint32_t oldest = threads_[thread].view.at(location);
  if (order == Order::seq_cst) oldest = std::max(oldest, sc_.at(location));
  return locations_[location].stores.size() - oldest;
}

uint64_t Memory::load(size_t thread, size_t location, Order order, size_t choice) {
  Thread& reader = threads_[thread];
  const auto number = uint32_t(locations_[location].stores.size() - 1 - choice);
  const Store& store = locations_[location].stores[number];
  reader.view.see(location, number);
  (acquires(order) ? reader.view : reader.to_acquire).join(store.view);
  return store.value;
}

void Memory::append(size_t thread, size_t location, Order order, uint64_t value, const View* sequence) {
  Thread& writer = threads_[thread];
  Location& where = locations_[location];
  const auto number = uint32_t(where.stores.size());
  ++writer.view.clock[thread];
  writer.view.see(location, number);
  View view = releases(order) ? writer.view : writer.released;
  view.see(location, number);
  if (sequence) view.join(*sequence);
  where.stores.push_back({value, std::move(view)});
  if (order == Order::seq_cst) sc_.see(location, number);
  write_raw(where.address, where.bytes, value);
  ++stores_;
}

void Memory::store(size_t thread, size_t location, Order order, uint64_t value) {
  append(thread, location, order, value, nullptr);
}

void Memory::exchange(size_t thread, size_t location, Order order, uint64_t value) {
  load(thread, location, order, 0);
  const View before = locations_[location].stores.back().view;  // a release sequence goes on
  append(thread, location, order, value, &before);
}

void Memory::fence(size_t thread, Order order) {
  Thread& here = threads_[thread];
  if (acquires(order)) here.view.join(here.to_acquire);
  if (order == Order::seq_cst) {
    here.view.join_seen(sc_);
    sc_.join_seen(here.view);
  }
  if (releases(order)) {
    ++here.view.clock[thread];
    here.released = here.view;
  }
}

void Memory::barrier_everywhere(size_t thread) {
  fence(thread, Order::seq_cst);
  for (size_t other = 0; other < threads_.size(); ++other) {
    if (other != thread) fence(other, Order::seq_cst);
  }
  fence(thread, Order::seq_cst);
}

std::string Memory::plain(size_t thread, uintptr_t address, size_t bytes, bool write) {
  Thread& here = threads_[thread];
  for (uintptr_t word = address / 8; word * 8 < address + bytes; ++word) {
    const uintptr_t begin = std::max(address, word * 8), end = std::min(address + bytes, word * 8 + 8);
    const auto mask = uint8_t(((1u << (end - begin)) - 1) << (begin - word * 8));
    Plain& last = plain_[word];
    if ((last.written & mask) && !before(thread, last.writer, last.write_at))
      return std::string(write ? "a write" : "a read") + " races with thread " + std::to_string(last.writer) +
             "'s write";
    for (size_t other = 0; write && other < threads_.size(); ++other) {
      if ((last.read[other] & mask) && !before(thread, other, last.read_at[other]))
        return "a write races with thread " + std::to_string(other) + "'s read";
    }
    // An access is before whatever this thread releases later: its clock is the one of the next release.
    const uint32_t now = here.view.clock[thread] + 1;
    if (write) {
      if (last.writer != thread || last.write_at != now) last.written = 0;
      last.writer = uint8_t(thread);
      last.write_at = now;
      last.written |= mask;
    } else {
      if (last.read_at[thread] != now) last.read[thread] = 0;
      last.read_at[thread] = now;
      last.read[thread] |= mask;
    }
  }
  return {};
}

}  // namespace tern::explore
