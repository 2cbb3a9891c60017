// The predefined datatypes as data: one row per value of the standard ABI (MPI 5.0, chapter 20, tables 30-38), with
// the size and alignment this platform's C compiler and gfortran give it, what arithmetic it stands for, and its length
// in "external32" (MPI 5.0, 14.5.2). Sizes in bytes. Immutable, shared by all ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace tern {

/// How the bits of one number are to be read.
enum class Rep : uint8_t { none, i8, i16, i32, i64, i128, u8, u16, u32, u64, f16, f32, f64, f80, f128 };
inline constexpr int kRepCount = 15;  ///< of Rep
/// Of C's long double: the 80-bit format of x86, binary128 on AArch64 and RISC-V.
inline constexpr Rep kLongDoubleRep = __LDBL_MANT_DIG__ == 64 ? Rep::f80 : Rep::f128;

/// The groups of MPI 5.0, 6.9.2, from which follows what operators apply.
enum class TypeClass : uint8_t {
  c_integer,
  fortran_integer,
  floating,
  logical,
  complex,
  byte,
  multi_language,
  character,  ///< MPI_CHAR, MPI_WCHAR, MPI_CHARACTER: no reductions but of MPI_CHAR (op.cc)
  packed,
  pair  ///< value and index, for MPI_MINLOC and MPI_MAXLOC
};

struct Kind {
  int16_t id = 0;  ///< ABI handle value; 0 for an unnamed value-index pair
  const char* name = "";
  TypeClass type_class = TypeClass::byte;
  Rep rep = Rep::none;  ///< of the number; of one part for complex; of the value for pairs
  uint8_t size = 0;     ///< bytes of data
  uint8_t extent = 0;   ///< distance of two in an array
  uint8_t alignment = 1;
  uint8_t external_size = 0;  ///< bytes in "external32"; of value plus index for pairs
  // Pairs only.
  Rep index_rep = Rep::none;
  uint8_t index_offset = 0;            ///< of the index in memory
  int16_t value_id = 0, index_id = 0;  ///< the ABI values of the two parts

  bool operator==(const Kind& other) const {
    return id == other.id && value_id == other.value_id && index_id == other.index_id;
  }
};

/// The row of an ABI handle value; null when that is no predefined datatype (MPI_DATATYPE_NULL is none).
const Kind* kind_of(int id);
/// The number of rows and the i-th of them, in ascending order of id.
int kind_count();
const Kind& kind_at(int i);
/// Makes the row of a pair: named if the standard names it. False when the two make no predefined pair.
bool make_pair_kind(const Kind& value, const Kind& index, Kind& pair);
/// The row that MPI_Type_match_size finds; null when there is none. `type_class`: fortran_integer, floating or complex.
const Kind* match_size(TypeClass type_class, Count size_bytes);
size_t rep_size(Rep rep);

/// ABI values of the predefined datatypes that code below capi/ names.
namespace type_id {
inline constexpr int kNull = 0x200, kAint = 0x201, kCount = 0x202, kOffset = 0x203, kPacked = 0x207, kShort = 0x208,
                     kInt = 0x209, kLong = 0x20a, kLongLong = 0x20b, kUnsignedShort = 0x20c, kUnsigned = 0x20d,
                     kUnsignedLong = 0x20e, kUnsignedLongLong = 0x20f, kFloat = 0x210, kCFloatComplex = 0x212,
                     kCxxFloatComplex = 0x213, kDouble = 0x214, kCDoubleComplex = 0x216, kCxxDoubleComplex = 0x217,
                     kLogical = 0x218, kInteger = 0x219, kReal = 0x21a, kComplex = 0x21b, kDoublePrecision = 0x21c,
                     kDoubleComplex = 0x21d, kCharacter = 0x21e, kLongDouble = 0x220, kCLongDoubleComplex = 0x224,
                     kCxxLongDoubleComplex = 0x225, kFloatInt = 0x228, kDoubleInt = 0x229, kLongInt = 0x22a,
                     k2Int = 0x22b, kShortInt = 0x22c, kLongDoubleInt = 0x22d, k2Real = 0x230,
                     k2DoublePrecision = 0x231, k2Integer = 0x232, kCBool = 0x238, kCxxBool = 0x239, kWchar = 0x23c,
                     kInt8 = 0x240, kUint8 = 0x241, kChar = 0x243, kSignedChar = 0x244, kUnsignedChar = 0x245,
                     kByte = 0x247, kInt16 = 0x248, kUint16 = 0x249, kInt32 = 0x250, kUint32 = 0x251, kInt64 = 0x258,
                     kUint64 = 0x259, kLogical1 = 0x2c0, kInteger1 = 0x2c1, kLogical2 = 0x2c8, kInteger2 = 0x2c9,
                     kReal2 = 0x2ca, kLogical4 = 0x2d0, kInteger4 = 0x2d1, kReal4 = 0x2d2, kComplex4 = 0x2d3,
                     kLogical8 = 0x2d8, kInteger8 = 0x2d9, kReal8 = 0x2da, kComplex8 = 0x2db, kLogical16 = 0x2e0,
                     kInteger16 = 0x2e1, kReal16 = 0x2e2, kComplex16 = 0x2e3, kComplex32 = 0x2eb;
}  // namespace type_id

}  // namespace tern
