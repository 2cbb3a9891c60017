// The inner loops of packing: blocks of a fixed length at a stride or at listed offsets, in either direction.
// The length is a template parameter where it matters, so that a block is one or two register moves and not a
// call. Internal to datatype/. Thread rule: pure functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tern::copy_loops {

enum class LoopKind { pack, unpack };

template <LoopKind way>
inline void copy(uintptr_t user, std::byte* stream, size_t n) {
  void* memory = reinterpret_cast<void*>(user);
  if constexpr (way == LoopKind::pack) std::memcpy(stream, memory, n);
  else std::memcpy(memory, stream, n);
}

/// Short blocks of varying length: overlapping moves instead of a call.
template <LoopKind way>
inline void copy_short(uintptr_t user, std::byte* stream, size_t n) {
  if (n > 16) return copy<way>(user, stream, n);
  if (n >= 8) {
    uint64_t head, tail;
    const std::byte* from = way == LoopKind::pack ? reinterpret_cast<const std::byte*>(user) : stream;
    std::byte* to = way == LoopKind::pack ? stream : reinterpret_cast<std::byte*>(user);
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + n - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + n - 8, &tail, 8);
  } else if (n >= 4) {
    uint32_t head, tail;
    const std::byte* from = way == LoopKind::pack ? reinterpret_cast<const std::byte*>(user) : stream;
    std::byte* to = way == LoopKind::pack ? stream : reinterpret_cast<std::byte*>(user);
    std::memcpy(&head, from, 4);
    std::memcpy(&tail, from + n - 4, 4);
    std::memcpy(to, &head, 4);
    std::memcpy(to + n - 4, &tail, 4);
  } else {
    for (size_t i = 0; i < n; ++i) copy<way>(user + i, stream + i, 1);
  }
}

template <LoopKind way, size_t length>
inline void strided_fixed(uintptr_t user, int64_t stride, std::byte* stream, int64_t count) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < count; ++i) {
    copy<way>(user, stream, length);
    user += uintptr_t(stride);
    stream += length;
  }
}

/// `count` blocks of `length`, `stride` apart in memory, side by side in the stream.
template <LoopKind way>
inline void strided(uintptr_t user, int64_t stride, int64_t length, std::byte* stream, int64_t count) {
  switch (length) {
    case 1: return strided_fixed<way, 1>(user, stride, stream, count);
    case 2: return strided_fixed<way, 2>(user, stride, stream, count);
    case 4: return strided_fixed<way, 4>(user, stride, stream, count);
    case 8: return strided_fixed<way, 8>(user, stride, stream, count);
    case 12: return strided_fixed<way, 12>(user, stride, stream, count);
    case 16: return strided_fixed<way, 16>(user, stride, stream, count);
    case 24: return strided_fixed<way, 24>(user, stride, stream, count);
    case 32: return strided_fixed<way, 32>(user, stride, stream, count);
    case 48: return strided_fixed<way, 48>(user, stride, stream, count);
    case 64: return strided_fixed<way, 64>(user, stride, stream, count);
    default: break;
  }
  for (int64_t i = 0; i < count; ++i) {
    copy_short<way>(user, stream, size_t(length));
    user += uintptr_t(stride);
    stream += length;
  }
}

template <LoopKind way, size_t length>
inline void columns_fixed(uintptr_t user, int64_t stride, std::byte* stream, int64_t step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, user += uintptr_t(stride), stream += step) copy<way>(user, stream, length);
}

/// `count` blocks of `length`, `stride` apart in memory and `step` apart in the stream.
template <LoopKind way>
inline void columns(uintptr_t user, int64_t stride, int64_t length, std::byte* stream, int64_t step, int64_t count) {
  switch (length) {
    case 1: return columns_fixed<way, 1>(user, stride, stream, step, count);
    case 2: return columns_fixed<way, 2>(user, stride, stream, step, count);
    case 3: return columns_fixed<way, 3>(user, stride, stream, step, count);
    case 4: return columns_fixed<way, 4>(user, stride, stream, step, count);
    case 8: return columns_fixed<way, 8>(user, stride, stream, step, count);
    case 12: return columns_fixed<way, 12>(user, stride, stream, step, count);
    case 16: return columns_fixed<way, 16>(user, stride, stream, step, count);
    case 24: return columns_fixed<way, 24>(user, stride, stream, step, count);
    case 32: return columns_fixed<way, 32>(user, stride, stream, step, count);
    default: break;
  }
  for (int64_t i = 0; i < count; ++i, user += uintptr_t(stride), stream += step)
    copy_short<way>(user, stream, size_t(length));
}

template <LoopKind way, size_t length>
inline void listed_fixed(uintptr_t user, const int64_t* offsets, std::byte* stream, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    copy<way>(user + uintptr_t(offsets[i]), stream, length);
    stream += length;
  }
}

/// `count` blocks of `length` at listed offsets.
template <LoopKind way>
inline void listed(uintptr_t user, const int64_t* offsets, int64_t length, std::byte* stream, int64_t count) {
  switch (length) {
    case 1: return listed_fixed<way, 1>(user, offsets, stream, count);
    case 2: return listed_fixed<way, 2>(user, offsets, stream, count);
    case 4: return listed_fixed<way, 4>(user, offsets, stream, count);
    case 8: return listed_fixed<way, 8>(user, offsets, stream, count);
    case 12: return listed_fixed<way, 12>(user, offsets, stream, count);
    case 16: return listed_fixed<way, 16>(user, offsets, stream, count);
    case 24: return listed_fixed<way, 24>(user, offsets, stream, count);
    case 32: return listed_fixed<way, 32>(user, offsets, stream, count);
    default: break;
  }
  for (int64_t i = 0; i < count; ++i) {
    copy_short<way>(user + uintptr_t(offsets[i]), stream, size_t(length));
    stream += length;
  }
}

}  // namespace tern::copy_loops
