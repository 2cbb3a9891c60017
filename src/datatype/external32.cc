#include "datatype/external32.h"

#include <algorithm>
#include <cstring>

#include "datatype/cursor.h"
#include "datatype/real_types.h"

namespace tern::external32 {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "native data are taken to be little-endian");

// One number of a basic element, in both representations.
struct Part {
  Rep rep;
  size_t native, external;
  bool is_signed;
};

struct Plan {
  Part parts[2];
  int count;
};

Part part_of(const Kind& kind, size_t native, size_t external) {
  bool is_signed = kind.rep == Rep::i8 || kind.rep == Rep::i16 || kind.rep == Rep::i32 || kind.rep == Rep::i64 ||
                   kind.rep == Rep::i128;
  // A wide character is a code point, not a signed number.
  return {kind.rep, native, external, is_signed && kind.type_class != TypeClass::character};
}

// The numbers in one element of a basic type: one, or two for complex and for pairs.
Plan plan_of(const Kind& kind) {
  if (kind.type_class == TypeClass::complex) {
    Part half = part_of(kind, size_t(kind.size) / 2, size_t(kind.external_size) / 2);
    return {{half, half}, 2};
  }
  if (kind.type_class == TypeClass::pair) {
    const Kind& value = *kind_of(kind.value_id);
    const Kind& index = *kind_of(kind.index_id);
    return {{part_of(value, value.size, value.external_size), part_of(index, index.size, index.external_size)}, 2};
  }
  return {{part_of(kind, kind.size, kind.external_size), {}}, 1};
}

void swap_bytes(const std::byte* in, std::byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = in[n - 1 - i];
}

void encode(const Part& part, const std::byte* in, std::byte* out) {
  if (part.rep == Rep::f80) {
    long double value;
    std::memcpy(&value, in, sizeof value);
    op_loops::Float128 wide = value;
    std::byte bytes[16];
    std::memcpy(bytes, &wide, 16);
    return swap_bytes(bytes, out, 16);
  }
  // Little-endian: the low bytes come first, so a shorter form just leaves the high ones out.
  swap_bytes(in, out, part.external);
}

void decode(const Part& part, const std::byte* in, std::byte* out) {
  if (part.rep == Rep::f80) {
    std::byte bytes[16];
    swap_bytes(in, bytes, 16);
    op_loops::Float128 wide;
    std::memcpy(&wide, bytes, 16);
    long double value = static_cast<long double>(wide);
    std::memset(out, 0, sizeof value);  // the padding of the 80-bit format
    std::memcpy(out, &value, 10);
    return;
  }
  swap_bytes(in, out, part.external);
  bool negative = part.is_signed && (in[0] & std::byte{0x80}) != std::byte{0};
  if (part.native > part.external) std::memset(out + part.external, negative ? 0xff : 0, part.native - part.external);
}

// Numbers of the same length in both: only the order of their bytes differs. (One loop for each length: the compiler
// makes vector code of it.)
template <typename Word>
void swap_words(const std::byte* in, std::byte* out, Count n) {
  for (Count i = 0; i < n; ++i) {
    Word word;
    std::memcpy(&word, in + i * Count(sizeof word), sizeof word);
    if constexpr (sizeof word == 8) word = __builtin_bswap64(word);
    else if constexpr (sizeof word == 4) word = __builtin_bswap32(word);
    else word = __builtin_bswap16(word);
    std::memcpy(out + i * Count(sizeof word), &word, sizeof word);
  }
}

/// False: these elements need more than that.
bool swap_run(const Plan& plan, const std::byte* in, std::byte* out, Count elements) {
  const Part& first = plan.parts[0];
  for (int p = 0; p < plan.count; ++p) {
    const Part& part = plan.parts[p];
    if (part.rep == Rep::f80 || part.native != part.external || part.native != first.native) return false;
  }
  const Count n = elements * plan.count;
  switch (first.native) {
    case 1: std::memcpy(out, in, size_t(n)); return true;
    case 2: swap_words<uint16_t>(in, out, n); return true;
    case 4: swap_words<uint32_t>(in, out, n); return true;
    case 8: swap_words<uint64_t>(in, out, n); return true;
    default: return false;
  }
}

size_t encode_run(const Plan& plan, const std::byte* in, std::byte* out, Count elements) {
  if (swap_run(plan, in, out, elements)) return size_t(elements * plan.count) * plan.parts[0].external;
  std::byte* const begin = out;
  for (Count i = 0; i < elements; ++i)
    for (int p = 0; p < plan.count; ++p) {
      encode(plan.parts[p], in, out);
      in += plan.parts[p].native;
      out += plan.parts[p].external;
    }
  return size_t(out - begin);
}

size_t decode_run(const Plan& plan, const std::byte* in, std::byte* out, Count elements) {
  if (swap_run(plan, in, out, elements)) return size_t(elements * plan.count) * plan.parts[0].external;
  const std::byte* const begin = in;
  for (Count i = 0; i < elements; ++i)
    for (int p = 0; p < plan.count; ++p) {
      decode(plan.parts[p], in, out);
      in += plan.parts[p].external;
      out += plan.parts[p].native;
    }
  return size_t(in - begin);
}

// Calls fn(kind, n) for runs over all `count` elements of the type.
template <typename Fn>
void for_each_run(Count count, const Datatype& type, Fn&& fn) {
  Signature all = signature::repeat(count, type.signature());
  if (all) signature::for_each_run(*all, fn);
}

constexpr size_t kChunkElements = 128;  // 4 KiB of the largest: a buffer on the stack
constexpr size_t kLargestElement = 32;  // complex of 16-byte numbers, pairs of two

// Decodes at most `items` values; returns the bytes read.
size_t decode_all(const std::byte* in, Count items, void* out, Count count, const Datatype& type) {
  Cursor cursor(out, count, type);
  const std::byte* at = in;
  for_each_run(count, type, [&](const Kind& kind, Count n) {
    Plan plan = plan_of(kind);
    std::byte chunk[kChunkElements * kLargestElement];
    n = std::min(n, items);
    items -= n;
    while (n > 0) {
      Count some = std::min<Count>(n, Count(kChunkElements));
      at += decode_run(plan, at, chunk, some);
      cursor.unpack(chunk, size_t(some) * kind.size);
      n -= some;
    }
    return items > 0;
  });
  return size_t(at - in);
}

}  // namespace

Count packed_size(Count count, const Datatype& type) {
  return type.signature() ? count * type.signature()->external_bytes : 0;
}

Error pack(const void* in, Count count, const Datatype& type, std::byte* out, size_t room, size_t& used) {
  used = 0;
  if (size_t(packed_size(count, type)) > room)
    return Error(ErrorClass::truncate, "the data need " + std::to_string(packed_size(count, type)) +
                                           " bytes, but the buffer has room for " + std::to_string(room));
  Cursor cursor(const_cast<void*>(in), count, type);
  std::byte* at = out;
  for_each_run(count, type, [&](const Kind& kind, Count n) {
    Plan plan = plan_of(kind);
    std::byte chunk[kChunkElements * kLargestElement];
    while (n > 0) {
      Count some = std::min<Count>(n, Count(kChunkElements));
      cursor.pack(chunk, size_t(some) * kind.size);
      at += encode_run(plan, chunk, at, some);
      n -= some;
    }
    return true;
  });
  used = size_t(at - out);
  return {};
}

Error unpack(const std::byte* in, size_t available, void* out, Count count, const Datatype& type, size_t& used) {
  used = 0;
  if (size_t(packed_size(count, type)) > available)
    return Error(ErrorClass::truncate, "the datatype wants " + std::to_string(packed_size(count, type)) +
                                           " bytes, but the buffer holds " + std::to_string(available));
  used = decode_all(in, INT64_MAX, out, count, type);
  return {};
}

void unpack_items(const std::byte* in, Count items, void* out, Count count, const Datatype& type) {
  decode_all(in, items, out, count, type);
}

}  // namespace tern::external32
