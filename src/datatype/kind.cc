#include "datatype/kind.h"

#include <cwchar>
#include <iterator>

namespace tern {
namespace {

// The platform of this table: LP64, x87 long double in 16 bytes, gfortran's kinds.
static_assert(sizeof(long) == 8 && sizeof(void*) == 8 && sizeof(long double) == 16 && sizeof(wchar_t) == 4);
static_assert(alignof(long double) == 16 && alignof(double) == 8);

constexpr Kind row(int id, const char* name, TypeClass type_class, Rep rep, int size, int alignment, int external) {
  Kind kind;
  kind.id = int16_t(id);
  kind.name = name;
  kind.type_class = type_class;
  kind.rep = rep;
  kind.size = kind.extent = uint8_t(size);
  kind.alignment = uint8_t(alignment);
  kind.external_size = uint8_t(external);
  return kind;
}

constexpr int align_up(int at, int alignment) { return (at + alignment - 1) / alignment * alignment; }

constexpr Kind pair_row(int id, const char* name, const Kind& value, const Kind& index) {
  Kind kind;
  kind.id = int16_t(id);
  kind.name = name;
  kind.type_class = TypeClass::pair;
  kind.rep = value.rep;
  kind.index_rep = index.rep;
  kind.size = uint8_t(value.size + index.size);
  kind.alignment = value.alignment > index.alignment ? value.alignment : index.alignment;
  kind.index_offset = uint8_t(align_up(value.size, index.alignment));
  kind.extent = uint8_t(align_up(kind.index_offset + index.size, kind.alignment));
  kind.external_size = uint8_t(value.external_size + index.external_size);
  kind.value_id = value.id;
  kind.index_id = index.id;
  return kind;
}

using C = TypeClass;
using namespace type_id;

constexpr Kind kShortRow = row(kShort, "MPI_SHORT", C::c_integer, Rep::i16, 2, 2, 2);
constexpr Kind kIntRow = row(kInt, "MPI_INT", C::c_integer, Rep::i32, 4, 4, 4);
constexpr Kind kLongRow =
    row(kLong, "MPI_LONG", C::c_integer, Rep::i64, 8, 8, 4);  // 4 in external32: the table says so
constexpr Kind kFloatRow = row(kFloat, "MPI_FLOAT", C::floating, Rep::f32, 4, 4, 4);
constexpr Kind kDoubleRow = row(kDouble, "MPI_DOUBLE", C::floating, Rep::f64, 8, 8, 8);
constexpr Kind kLongDoubleRow = row(kLongDouble, "MPI_LONG_DOUBLE", C::floating, kLongDoubleRep, 16, 16, 16);
constexpr Kind kIntegerRow = row(kInteger, "MPI_INTEGER", C::fortran_integer, Rep::i32, 4, 4, 4);
constexpr Kind kRealRow = row(kReal, "MPI_REAL", C::floating, Rep::f32, 4, 4, 4);
constexpr Kind kDoublePrecisionRow = row(kDoublePrecision, "MPI_DOUBLE_PRECISION", C::floating, Rep::f64, 8, 8, 8);

constexpr Kind kRows[] = {
    row(kAint, "MPI_AINT", C::multi_language, Rep::i64, 8, 8, 8),
    row(kCount, "MPI_COUNT", C::multi_language, Rep::i64, 8, 8, 8),
    row(kOffset, "MPI_OFFSET", C::multi_language, Rep::i64, 8, 8, 8),
    row(kPacked, "MPI_PACKED", C::packed, Rep::none, 1, 1, 1),
    kShortRow,
    kIntRow,
    kLongRow,
    row(kLongLong, "MPI_LONG_LONG_INT", C::c_integer, Rep::i64, 8, 8, 8),
    row(kUnsignedShort, "MPI_UNSIGNED_SHORT", C::c_integer, Rep::u16, 2, 2, 2),
    row(kUnsigned, "MPI_UNSIGNED", C::c_integer, Rep::u32, 4, 4, 4),
    row(kUnsignedLong, "MPI_UNSIGNED_LONG", C::c_integer, Rep::u64, 8, 8, 4),
    row(kUnsignedLongLong, "MPI_UNSIGNED_LONG_LONG", C::c_integer, Rep::u64, 8, 8, 8),
    kFloatRow,
    row(kCFloatComplex, "MPI_C_COMPLEX", C::complex, Rep::f32, 8, 4, 8),
    row(kCxxFloatComplex, "MPI_CXX_FLOAT_COMPLEX", C::complex, Rep::f32, 8, 4, 8),
    kDoubleRow,
    row(kCDoubleComplex, "MPI_C_DOUBLE_COMPLEX", C::complex, Rep::f64, 16, 8, 16),
    row(kCxxDoubleComplex, "MPI_CXX_DOUBLE_COMPLEX", C::complex, Rep::f64, 16, 8, 16),
    row(kLogical, "MPI_LOGICAL", C::logical, Rep::i32, 4, 4, 4),
    kIntegerRow,
    kRealRow,
    row(kComplex, "MPI_COMPLEX", C::complex, Rep::f32, 8, 4, 8),
    kDoublePrecisionRow,
    row(kDoubleComplex, "MPI_DOUBLE_COMPLEX", C::complex, Rep::f64, 16, 8, 16),
    row(kCharacter, "MPI_CHARACTER", C::character, Rep::none, 1, 1, 1),
    kLongDoubleRow,
    row(kCLongDoubleComplex, "MPI_C_LONG_DOUBLE_COMPLEX", C::complex, kLongDoubleRep, 32, 16, 32),
    row(kCxxLongDoubleComplex, "MPI_CXX_LONG_DOUBLE_COMPLEX", C::complex, kLongDoubleRep, 32, 16, 32),
    pair_row(kFloatInt, "MPI_FLOAT_INT", kFloatRow, kIntRow),
    pair_row(kDoubleInt, "MPI_DOUBLE_INT", kDoubleRow, kIntRow),
    pair_row(kLongInt, "MPI_LONG_INT", kLongRow, kIntRow),
    pair_row(k2Int, "MPI_2INT", kIntRow, kIntRow),
    pair_row(kShortInt, "MPI_SHORT_INT", kShortRow, kIntRow),
    pair_row(kLongDoubleInt, "MPI_LONG_DOUBLE_INT", kLongDoubleRow, kIntRow),
    pair_row(k2Real, "MPI_2REAL", kRealRow, kRealRow),
    pair_row(k2DoublePrecision, "MPI_2DOUBLE_PRECISION", kDoublePrecisionRow, kDoublePrecisionRow),
    pair_row(k2Integer, "MPI_2INTEGER", kIntegerRow, kIntegerRow),
    row(kCBool, "MPI_C_BOOL", C::logical, Rep::u8, 1, 1, 1),
    row(kCxxBool, "MPI_CXX_BOOL", C::logical, Rep::u8, 1, 1, 1),
    row(kWchar, "MPI_WCHAR", C::character, Rep::i32, 4, 4, 2),
    row(kInt8, "MPI_INT8_T", C::c_integer, Rep::i8, 1, 1, 1),
    row(kUint8, "MPI_UINT8_T", C::c_integer, Rep::u8, 1, 1, 1),
    row(kChar, "MPI_CHAR", C::character, char(-1) < 0 ? Rep::i8 : Rep::u8, 1, 1, 1),
    row(kSignedChar, "MPI_SIGNED_CHAR", C::c_integer, Rep::i8, 1, 1, 1),
    row(kUnsignedChar, "MPI_UNSIGNED_CHAR", C::c_integer, Rep::u8, 1, 1, 1),
    row(kByte, "MPI_BYTE", C::byte, Rep::u8, 1, 1, 1),
    row(kInt16, "MPI_INT16_T", C::c_integer, Rep::i16, 2, 2, 2),
    row(kUint16, "MPI_UINT16_T", C::c_integer, Rep::u16, 2, 2, 2),
    row(kInt32, "MPI_INT32_T", C::c_integer, Rep::i32, 4, 4, 4),
    row(kUint32, "MPI_UINT32_T", C::c_integer, Rep::u32, 4, 4, 4),
    row(kInt64, "MPI_INT64_T", C::c_integer, Rep::i64, 8, 8, 8),
    row(kUint64, "MPI_UINT64_T", C::c_integer, Rep::u64, 8, 8, 8),
    row(kLogical1, "MPI_LOGICAL1", C::logical, Rep::i8, 1, 1, 1),
    row(kInteger1, "MPI_INTEGER1", C::fortran_integer, Rep::i8, 1, 1, 1),
    row(kLogical2, "MPI_LOGICAL2", C::logical, Rep::i16, 2, 2, 2),
    row(kInteger2, "MPI_INTEGER2", C::fortran_integer, Rep::i16, 2, 2, 2),
    row(kReal2, "MPI_REAL2", C::floating, Rep::f16, 2, 2, 2),
    row(kLogical4, "MPI_LOGICAL4", C::logical, Rep::i32, 4, 4, 4),
    row(kInteger4, "MPI_INTEGER4", C::fortran_integer, Rep::i32, 4, 4, 4),
    row(kReal4, "MPI_REAL4", C::floating, Rep::f32, 4, 4, 4),
    row(kComplex4, "MPI_COMPLEX4", C::complex, Rep::f16, 4, 2, 4),
    row(kLogical8, "MPI_LOGICAL8", C::logical, Rep::i64, 8, 8, 8),
    row(kInteger8, "MPI_INTEGER8", C::fortran_integer, Rep::i64, 8, 8, 8),
    row(kReal8, "MPI_REAL8", C::floating, Rep::f64, 8, 8, 8),
    row(kComplex8, "MPI_COMPLEX8", C::complex, Rep::f32, 8, 4, 8),
    row(kLogical16, "MPI_LOGICAL16", C::logical, Rep::i128, 16, 16, 16),
    row(kInteger16, "MPI_INTEGER16", C::fortran_integer, Rep::i128, 16, 16, 16),
    row(kReal16, "MPI_REAL16", C::floating, Rep::f128, 16, 16, 16),
    row(kComplex16, "MPI_COMPLEX16", C::complex, Rep::f64, 16, 8, 16),
    row(kComplex32, "MPI_COMPLEX32", C::complex, Rep::f128, 32, 16, 32),
};
constexpr int kRowCount = int(std::size(kRows));

constexpr bool rows_ascend() {
  for (int i = 1; i < kRowCount; ++i)
    if (kRows[i - 1].id >= kRows[i].id) return false;
  return true;
}
static_assert(rows_ascend());

// Row index + 1 of each id in 0x200..0x2ff; 0 where there is none.
struct Index {
  uint8_t row[256] = {};
};
constexpr Index kIndex = [] {
  Index index;
  for (int i = 0; i < kRowCount; ++i) index.row[kRows[i].id - 0x200] = uint8_t(i + 1);
  return index;
}();

bool is_number(const Kind& kind) {
  return kind.type_class == C::c_integer || kind.type_class == C::fortran_integer || kind.type_class == C::floating ||
         kind.type_class == C::multi_language;
}

}  // namespace

const Kind* kind_of(int id) {
  if (id < 0x200 || id > 0x2ff) return nullptr;
  int at = kIndex.row[id - 0x200];
  return at ? &kRows[at - 1] : nullptr;
}

int kind_count() { return kRowCount; }
const Kind& kind_at(int i) { return kRows[i]; }

bool make_pair_kind(const Kind& value, const Kind& index, Kind& pair) {
  for (const Kind& named : kRows)
    if (named.type_class == C::pair && named.value_id == value.id && named.index_id == index.id) {
      pair = named;
      return true;
    }
  bool integer_index = is_number(index) && index.type_class != C::floating;
  if (!is_number(value) || !integer_index || value.id == 0 || index.id == 0) return false;
  pair = pair_row(0, "", value, index);
  return true;
}

const Kind* match_size(TypeClass type_class, Count size_bytes) {
  // The Fortran types with a width in their name: what the standard's example returns.
  for (const Kind& kind : kRows)
    if (kind.id >= kLogical1 && kind.type_class == type_class && kind.size == size_bytes) return &kind;
  return nullptr;
}

size_t rep_size(Rep rep) {
  switch (rep) {
    case Rep::none:
    case Rep::i8:
    case Rep::u8: return 1;
    case Rep::i16:
    case Rep::u16:
    case Rep::f16: return 2;
    case Rep::i32:
    case Rep::u32:
    case Rep::f32: return 4;
    case Rep::i64:
    case Rep::u64:
    case Rep::f64: return 8;
    case Rep::i128:
    case Rep::f80:
    case Rep::f128: return 16;
  }
  return 1;
}

}  // namespace tern
