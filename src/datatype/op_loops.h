// The arithmetic types behind Rep, and the tables of loops that op.cc looks up: one function per operator and
// type, so that nothing is decided per element. Internal to datatype/. Thread rule: pure functions of their
// arguments.
#pragma once

#include <cstdint>

#include "datatype/op.h"
#include "datatype/real_types.h"

namespace tern::op_loops {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

using Loop = void (*)(const void* in, void* inout, Count n);

/// Null when the operator has no loop for the type.
Loop number_loop(OpId id, Rep rep);             ///< sum, prod, min, max
Loop complex_loop(OpId id, Rep rep);            ///< sum, prod
Loop integer_loop(OpId id, Rep rep);            ///< bitwise and logical
Loop pair_loop(OpId id, Rep value, Rep index);  ///< minloc, maxloc

/// Calls fn.template operator()<T>() with the type behind an integer Rep; a default-made result when it is
/// none.
template <typename Fn>
auto with_integer(Rep rep, Fn&& fn) -> decltype(fn.template operator()<int>()) {
  switch (rep) {
    case Rep::i8: return fn.template operator()<int8_t>();
    case Rep::i16: return fn.template operator()<int16_t>();
    case Rep::i32: return fn.template operator()<int32_t>();
    case Rep::i64: return fn.template operator()<int64_t>();
    case Rep::i128: return fn.template operator()<Int128>();
    case Rep::u8: return fn.template operator()<uint8_t>();
    case Rep::u16: return fn.template operator()<uint16_t>();
    case Rep::u32: return fn.template operator()<uint32_t>();
    case Rep::u64: return fn.template operator()<uint64_t>();
    default: return {};
  }
}

/// Calls `fn` with the C++ type of a floating Rep.
template <typename Fn>
auto with_floating(Rep rep, Fn&& fn) -> decltype(fn.template operator()<double>()) {
  switch (rep) {
    case Rep::f16: return fn.template operator()<Float16>();
    case Rep::f32: return fn.template operator()<float>();
    case Rep::f64: return fn.template operator()<double>();
    case Rep::f80: return fn.template operator()<long double>();
    case Rep::f128: return fn.template operator()<Float128>();
    default: return {};
  }
}

}  // namespace tern::op_loops
