// Datatypes by known values: the predefined table, envelopes and their way back to an equal datatype, layouts
// that must stay small, counts beyond 2^31, "external32" vectors, Fortran kinds, refused arguments.
#include <complex>
#include <cwchar>

#include "datatype/cursor.h"
#include "datatype/external32.h"
#include "datatype_model.h"

namespace tern {
namespace {

using namespace type_id;
using construct::Width;

template <typename T>
void expect_is(PredefinedTypes& types, int id, const char* name) {
  const Datatype& type = types.get(id);
  EXPECT_EQ(type.size(), Count(sizeof(T))) << name;
  EXPECT_EQ(type.extent(), Count(sizeof(T))) << name;
  EXPECT_EQ(type.alignment(), Count(alignof(T))) << name;
  EXPECT_EQ(type.name(), name);
  EXPECT_EQ(type.handle, id);
  EXPECT_TRUE(type.committed() && type.is_predefined() && type.is_named() && type.is_contiguous()) << name;
  EXPECT_EQ(type.basic_count(), 1);
}

TEST(PredefinedTypes, AreTheLanguagesTypes) {
  PredefinedTypes types;
  expect_is<char>(types, kChar, "MPI_CHAR");
  expect_is<wchar_t>(types, kWchar, "MPI_WCHAR");
  expect_is<short>(types, kShort, "MPI_SHORT");
  expect_is<int>(types, kInt, "MPI_INT");
  expect_is<long>(types, kLong, "MPI_LONG");
  expect_is<long long>(types, kLongLong, "MPI_LONG_LONG_INT");
  expect_is<unsigned long>(types, kUnsignedLong, "MPI_UNSIGNED_LONG");
  expect_is<float>(types, kFloat, "MPI_FLOAT");
  expect_is<double>(types, kDouble, "MPI_DOUBLE");
  expect_is<long double>(types, kLongDouble, "MPI_LONG_DOUBLE");
  expect_is<bool>(types, kCBool, "MPI_C_BOOL");
  expect_is<bool>(types, kCxxBool, "MPI_CXX_BOOL");
  expect_is<std::complex<float>>(types, kCFloatComplex, "MPI_C_COMPLEX");
  expect_is<std::complex<double>>(types, kCDoubleComplex, "MPI_C_DOUBLE_COMPLEX");
  expect_is<std::complex<long double>>(types, kCxxLongDoubleComplex, "MPI_CXX_LONG_DOUBLE_COMPLEX");
  expect_is<int32_t>(types, kInteger, "MPI_INTEGER");
  expect_is<int32_t>(types, kLogical, "MPI_LOGICAL");
  expect_is<double>(types, kDoublePrecision, "MPI_DOUBLE_PRECISION");
  expect_is<intptr_t>(types, kAint, "MPI_AINT");
  expect_is<std::byte>(types, kPacked, "MPI_PACKED");
  expect_is<std::byte>(types, kByte, "MPI_BYTE");

  int found = 0;
  for (int id = PredefinedTypes::kFirst; id <= PredefinedTypes::kLast; ++id) {
    const Datatype* type = types.find(id);
    if (!type) continue;
    ++found;
    // The ABI encodes the size of the fixed-size types in bits 5:3 (bit 6 marks them).
    if (id & 0x40 || id >= 0x2c0) {
      EXPECT_EQ(type->size(), Count{1} << (id >> 3 & 7)) << type->name();
    }
  }
  EXPECT_EQ(found, 70);  // all of the ABI but MPI_DATATYPE_NULL
  EXPECT_EQ(types.find(kNull), nullptr);
  EXPECT_EQ(types.find(0), nullptr);
  EXPECT_EQ(types.find(0x300), nullptr);
  struct ShortInt {
    short value;
    int index;
  };
  const Datatype& pair = types.get(kShortInt);
  EXPECT_EQ(pair.size(), 6);
  EXPECT_EQ(pair.extent(), Count(sizeof(ShortInt)));
  EXPECT_EQ(pair.true_extent(), 8);
  EXPECT_FALSE(pair.is_contiguous());
  EXPECT_TRUE(types.get(kFloatInt).is_contiguous());
}

TEST(PredefinedTypes, FortranKinds) {
  PredefinedTypes types;
  Datatype *a = nullptr, *b = nullptr;
  ASSERT_FALSE(types.f90_real(6, 37, a));
  EXPECT_EQ(a->size(), 4);
  EXPECT_EQ(a->envelope().combiner, Combiner::f90_real);
  EXPECT_EQ(a->envelope().integers, (std::vector<int>{6, 37}));
  EXPECT_TRUE(a->is_predefined() && a->committed() && !a->is_named());
  ASSERT_FALSE(types.f90_real(6, 37, b));
  EXPECT_EQ(a, b);
  ASSERT_FALSE(types.f90_real(6, kUndefined, b));
  EXPECT_NE(a, b);
  ASSERT_FALSE(types.f90_real(7, kUndefined, b));
  EXPECT_EQ(b->size(), 8);
  ASSERT_FALSE(types.f90_real(kUndefined, 308, b));
  EXPECT_EQ(b->basic_kind()->rep, kLongDoubleRep);  // gfortran has no other between real(8) and real(16)
  EXPECT_EQ(external32::packed_size(1, *b), 16);
  ASSERT_FALSE(types.f90_complex(33, 4931, b));
  EXPECT_EQ(b->size(), 32);
  EXPECT_TRUE(types.f90_real(34, 1, b));
  EXPECT_TRUE(types.f90_real(kUndefined, kUndefined, b));
  const int digits[] = {2, 3, 9, 10, 18, 38}, sizes[] = {1, 2, 4, 8, 8, 16};
  for (int i = 0; i < 6; ++i) {
    ASSERT_FALSE(types.f90_integer(digits[i], b));
    EXPECT_EQ(b->size(), sizes[i]);
    EXPECT_EQ(b->envelope().integers, std::vector<int>{digits[i]});
  }
  EXPECT_TRUE(types.f90_integer(39, b));
  EXPECT_EQ(types.match_size(TypeClass::floating, 8), &types.get(kReal8));
  EXPECT_EQ(types.match_size(TypeClass::fortran_integer, 2), &types.get(kInteger2));
  EXPECT_EQ(types.match_size(TypeClass::complex, 32), &types.get(kComplex32));
  EXPECT_EQ(types.match_size(TypeClass::floating, 3), nullptr);
}

// Calls the constructor that an envelope describes.
Ref<Datatype> rebuild(const Envelope& e) {
  bool large = !e.large_counts.empty();
  Width width = large ? Width::large : Width::small;
  std::vector<Count> counts = large ? e.large_counts : std::vector<Count>(e.integers.begin(), e.integers.end());
  auto part = [](const std::vector<Count>& v, size_t from, size_t n) {
    return std::vector<Count>(v.begin() + ptrdiff_t(from), v.begin() + ptrdiff_t(from + n));
  };
  std::vector<Count> places(e.addresses.begin(), e.addresses.end());
  Ref<Datatype> made;
  Error error;
  Datatype* old = e.types.empty() ? nullptr : e.types[0].get();
  size_t n = counts.empty() ? 0 : size_t(counts[0]);
  switch (e.combiner) {
    case Combiner::dup: error = construct::dup(*old, made); break;
    case Combiner::contiguous: error = construct::contiguous(counts[0], *old, made, width); break;
    case Combiner::vector: error = construct::vector(counts[0], counts[1], counts[2], *old, made, width); break;
    case Combiner::hvector:
      error = construct::hvector(counts[0], counts[1], large ? counts[2] : places[0], *old, made, width);
      break;
    case Combiner::indexed:
      error = construct::indexed(part(counts, 1, n), part(counts, 1 + n, n), *old, made, width);
      break;
    case Combiner::hindexed:
      error = construct::hindexed(part(counts, 1, n), large ? part(counts, 1 + n, n) : places, *old, made, width);
      break;
    case Combiner::indexed_block:
      error = construct::indexed_block(counts[1], part(counts, 2, n), *old, made, width);
      break;
    case Combiner::hindexed_block:
      error = construct::hindexed_block(counts[1], large ? part(counts, 2, n) : places, *old, made, width);
      break;
    case Combiner::structure: {
      std::vector<Datatype*> olds;
      for (const Ref<Datatype>& type : e.types) olds.push_back(type.get());
      error = construct::structure(part(counts, 1, n), large ? part(counts, 1 + n, n) : places, olds, made, width);
      break;
    }
    case Combiner::resized:
      error = construct::resized(large ? counts[0] : places[0], large ? counts[1] : places[1], *old, made, width);
      break;
    case Combiner::subarray: {
      size_t d = size_t(e.integers[0]), at = large ? 0 : 1;
      error = construct::subarray(part(counts, at, d), part(counts, at + d, d), part(counts, at + 2 * d, d),
                                  e.integers.back(), *old, made, width);
      break;
    }
    case Combiner::darray: {
      size_t d = size_t(e.integers[2]), at = large ? 3 : 3 + d;
      std::vector<Count> gsizes = large ? e.large_counts : part(counts, 3, d);
      auto ints = [&](size_t i) { return std::span<const int>(e.integers.data() + at + i * d, d); };
      error = construct::darray(e.integers[0], e.integers[1], gsizes, ints(0), ints(1), ints(2), e.integers.back(),
                                *old, made, width);
      break;
    }
    default: ADD_FAILURE() << "combiner " << int(e.combiner);
  }
  EXPECT_FALSE(error) << error.text();
  return made;
}

TEST(Envelope, RebuildsAnEqualDatatype) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PredefinedTypes types;
    model::Generator generator(seed, types);
    model::Sample sample = generator.make(3);
    if (sample.type->is_named()) continue;
    Ref<Datatype> again = rebuild(sample.type->envelope());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->size(), sample.type->size());
    EXPECT_EQ(again->lower_bound(), sample.type->lower_bound());
    EXPECT_EQ(again->extent(), sample.type->extent());
    EXPECT_EQ(again->true_lower_bound(), sample.type->true_lower_bound());
    EXPECT_EQ(again->true_extent(), sample.type->true_extent());
    EXPECT_EQ(again->segments(), sample.type->segments());
    EXPECT_EQ(again->envelope().integers, sample.type->envelope().integers);
    EXPECT_EQ(again->envelope().addresses, sample.type->envelope().addresses);
  }
}

TEST(Envelope, HasTheStandardsShape) {
  PredefinedTypes types;
  Datatype& old = types.get(kInt);
  Ref<Datatype> made;
  const Count blocks[] = {1, 2}, places[] = {0, 10}, sizes[] = {4, 5}, subsizes[] = {2, 2}, starts[] = {1, 3};
  Datatype* olds[] = {&old, &old};
  const int distribs[] = {17, 18}, dargs[] = {19, 1}, psizes[] = {2, 3};
  auto expect = [&](Combiner combiner, size_t integers, size_t addresses, size_t large, size_t datatypes) {
    const Envelope& e = made->envelope();
    EXPECT_EQ(e.combiner, combiner);
    EXPECT_EQ(e.integers.size(), integers) << int(combiner);
    EXPECT_EQ(e.addresses.size(), addresses) << int(combiner);
    EXPECT_EQ(e.large_counts.size(), large) << int(combiner);
    EXPECT_EQ(e.types.size(), datatypes) << int(combiner);
  };
  for (Width width : {Width::small, Width::large}) {
    bool large = width == Width::large;
    auto check = [&](Combiner combiner, size_t integers, size_t addresses, size_t datatypes) {
      if (large) expect(combiner, 0, 0, integers + addresses, datatypes);
      else expect(combiner, integers, addresses, 0, datatypes);
    };
    ASSERT_FALSE(construct::contiguous(3, old, made, width));
    check(Combiner::contiguous, 1, 0, 1);
    ASSERT_FALSE(construct::vector(3, 2, 4, old, made, width));
    check(Combiner::vector, 3, 0, 1);
    ASSERT_FALSE(construct::hvector(3, 2, 4, old, made, width));
    check(Combiner::hvector, 2, 1, 1);
    ASSERT_FALSE(construct::indexed(blocks, places, old, made, width));
    check(Combiner::indexed, 5, 0, 1);
    ASSERT_FALSE(construct::hindexed(blocks, places, old, made, width));
    check(Combiner::hindexed, 3, 2, 1);
    ASSERT_FALSE(construct::indexed_block(2, places, old, made, width));
    check(Combiner::indexed_block, 4, 0, 1);
    ASSERT_FALSE(construct::hindexed_block(2, places, old, made, width));
    check(Combiner::hindexed_block, 2, 2, 1);
    ASSERT_FALSE(construct::structure(blocks, places, olds, made, width));
    check(Combiner::structure, 3, 2, 2);
    ASSERT_FALSE(construct::resized(-4, 16, old, made, width));
    check(Combiner::resized, 0, 2, 1);
    ASSERT_FALSE(construct::subarray(sizes, subsizes, starts, construct::kOrderC, old, made, width));
    large ? expect(Combiner::subarray, 2, 0, 6, 1) : expect(Combiner::subarray, 8, 0, 0, 1);
    ASSERT_FALSE(construct::darray(6, 2, sizes, distribs, dargs, psizes, construct::kOrderC, old, made, width));
    large ? expect(Combiner::darray, 10, 0, 2, 1) : expect(Combiner::darray, 12, 0, 0, 1);
  }
  ASSERT_FALSE(construct::dup(old, made));
  expect(Combiner::dup, 0, 0, 0, 1);
  EXPECT_EQ(made->predefined_id(), kInt);
  EXPECT_FALSE(made->is_predefined());
  EXPECT_TRUE(made->committed());
}

TEST(Layout, StaysSmallAndFindsItsShape) {
  PredefinedTypes types;
  Ref<Datatype> made, outer;
  ASSERT_FALSE(construct::vector(1000000000, 1, 2, types.get(kDouble), made));
  EXPECT_EQ(made->layout().node->kind, LayoutNode::Kind::strided);
  EXPECT_EQ(made->layout().node->depth, 1);
  EXPECT_EQ(made->segments(), 1000000000);
  // Rows of a matrix that fill it are one block; every second element of all rows is one stride.
  ASSERT_FALSE(construct::vector(10, 20, 20, types.get(kInt), made));
  EXPECT_TRUE(made->is_contiguous());
  ASSERT_FALSE(construct::vector(10, 1, 2, types.get(kInt), made));
  ASSERT_FALSE(construct::hvector(5, 1, 80, *made, outer));
  EXPECT_EQ(outer->layout().node->kind, LayoutNode::Kind::strided);
  EXPECT_EQ(outer->layout().node->count, 50);
  // A regular list is a stride, a list of touching blocks one block.
  std::vector<Count> places, blocks;
  for (Count i = 0; i < 1000; ++i) places.push_back(3 * i);
  ASSERT_FALSE(construct::indexed_block(2, places, types.get(kInt), made));
  EXPECT_EQ(made->layout().node->kind, LayoutNode::Kind::strided);
  ASSERT_FALSE(construct::indexed_block(3, places, types.get(kInt), made));
  EXPECT_TRUE(made->is_contiguous());
  ASSERT_FALSE(construct::resized(0, 12, types.get(kInt), made));
  ASSERT_FALSE(construct::contiguous(7, *made, outer));
  EXPECT_EQ(outer->layout().node->kind, LayoutNode::Kind::strided);
  // A struct without holes inside.
  const Count ones[] = {1, 1, 1}, at[] = {0, 8, 12};
  Datatype* olds[] = {&types.get(kDouble), &types.get(kInt), &types.get(kFloat)};
  ASSERT_FALSE(construct::structure(ones, at, olds, made));
  EXPECT_TRUE(made->is_contiguous());
  EXPECT_EQ(made->basic_kind(), nullptr);
}

// Long arrays of structs go member by member in batches; cuts must fall anywhere in them.
TEST(Layout, ArraysOfStructsPackInFragments) {
  struct Record {
    int16_t a;
    double b;
    char c[3];
    float d;
  };
  PredefinedTypes types;
  const Count blocks[] = {1, 1, 3, 1}, places[] = {0, 8, 16, 20};
  Datatype* olds[] = {&types.get(kShort), &types.get(kDouble), &types.get(kChar), &types.get(kFloat)};
  Ref<Datatype> record, outer;
  ASSERT_FALSE(construct::structure(blocks, places, olds, record));
  ASSERT_EQ(record->extent(), Count(sizeof(Record)));
  ASSERT_FALSE(construct::vector(5, 200, 230, *record, outer));
  std::vector<Record> records(5 * 230);
  std::vector<std::byte> expected;
  auto append = [&](const void* from, size_t n) {
    expected.insert(expected.end(), static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + n);
  };
  for (size_t i = 0; i < records.size(); ++i) {
    records[i] = {int16_t(i), double(i) / 3, {char(i), char(i / 7), char(i / 11)}, float(i) / 7};
    if (i % 230 >= 200) continue;
    append(&records[i].a, 2);
    append(&records[i].b, 8);
    append(records[i].c, 3);
    append(&records[i].d, 4);
  }
  for (size_t step : {size_t{1}, size_t{16}, size_t{17}, size_t{1000}, size_t{4097}, size_t{1} << 20}) {
    Cursor out(records.data(), 1, *outer);
    std::vector<Record> back(records.size());
    Cursor in(back.data(), 1, *outer);
    std::vector<std::byte> stream(expected.size());
    ASSERT_EQ(out.remaining(), expected.size());
    for (size_t at = 0; at < stream.size();) at += out.pack(stream.data() + at, step);
    EXPECT_EQ(stream, expected);
    for (size_t at = 0; at < stream.size();) at += in.unpack(stream.data() + at, std::min(step, stream.size() - at));
    std::vector<std::byte> again(expected.size());
    Cursor(back.data(), 1, *outer).pack(again.data(), again.size());
    EXPECT_EQ(again, expected);
    for (size_t i = 200; i < 230; ++i) EXPECT_EQ(back[i].b, 0);
  }
}

TEST(LargeCounts, NeedNoMemory) {
  PredefinedTypes types;
  Ref<Datatype> huge, matrix, made;
  constexpr Count kBig = Count{3} << 31;
  ASSERT_FALSE(construct::contiguous(kBig, types.get(kDouble), huge, Width::large));
  EXPECT_EQ(huge->size(), kBig * 8);
  EXPECT_TRUE(huge->is_contiguous());
  EXPECT_EQ(signature::elements_in(huge->signature(), kBig * 8 * 5 - 8), kBig * 5 - 1);
  ASSERT_FALSE(construct::vector(kBig, 2, 1000, types.get(kInt), matrix, Width::large));
  EXPECT_EQ(matrix->extent(), (kBig - 1) * 4000 + 8);

  // A cursor far inside an address range that does not exist: only addresses are computed.
  auto base = reinterpret_cast<std::byte*>(uintptr_t{1} << 45);
  Cursor cursor(base, 2, *matrix);
  EXPECT_EQ(cursor.remaining(), size_t(kBig) * 16);
  cursor.seek(size_t(kBig) * 8 + (size_t{1} << 31) * 8 + 3);
  iovec piece[2];
  size_t bytes = 0;
  ASSERT_EQ(cursor.segments(piece, 10, bytes), 2u);
  EXPECT_EQ(bytes, 10u);
  std::byte* second = base + matrix->extent();
  EXPECT_EQ(piece[0].iov_base, second + (Count{1} << 31) * 4000 + 3);
  EXPECT_EQ(piece[0].iov_len, 5u);
  EXPECT_EQ(piece[1].iov_base, second + ((Count{1} << 31) + 1) * 4000);

  EXPECT_EQ(construct::contiguous(kBig, *huge, made, Width::large).error_class(), 59);
  EXPECT_EQ(construct::vector(2, 1, Count{1} << 60, types.get(kDouble), made).error_class(), 59);
  EXPECT_FALSE(made);
}

TEST(External32, KnownVectors) {
  PredefinedTypes types;
  auto expect = [&](int id, const void* value, std::vector<int> expected) {
    const Datatype& type = types.get(id);
    std::vector<std::byte> stream(expected.size());
    size_t used = 0;
    ASSERT_EQ(external32::packed_size(1, type), Count(expected.size())) << type.name();
    ASSERT_FALSE(external32::pack(value, 1, type, stream.data(), stream.size(), used));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(int(stream[i]), expected[i]) << type.name() << " byte " << i;
    std::byte back[32] = {};
    ASSERT_FALSE(external32::unpack(stream.data(), stream.size(), back, 1, type, used));
    size_t compared = type.basic_kind()->rep == Rep::f80 ? 10 : size_t(type.size());
    EXPECT_EQ(std::memcmp(back, value, compared), 0) << type.name();
  };
  int i = 0x01020304, minus = -2;
  expect(kInt, &i, {1, 2, 3, 4});
  expect(kInteger, &minus, {0xff, 0xff, 0xff, 0xfe});
  long l = 0x7f, negative = -129;
  expect(kLong, &l, {0, 0, 0, 0x7f});
  expect(kLong, &negative, {0xff, 0xff, 0xff, 0x7f});
  unsigned long u = 0x80000001u;
  expect(kUnsignedLong, &u, {0x80, 0, 0, 1});
  long long ll = 0x0102030405060708;
  expect(kLongLong, &ll, {1, 2, 3, 4, 5, 6, 7, 8});
  expect(kAint, &ll, {1, 2, 3, 4, 5, 6, 7, 8});
  float f = -2.5f;
  expect(kFloat, &f, {0xc0, 0x20, 0, 0});
  double d = 1.0;
  expect(kDouble, &d, {0x3f, 0xf0, 0, 0, 0, 0, 0, 0});
  long double ld = -1.5L;
  expect(kLongDouble, &ld, {0xbf, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  wchar_t w = 0x20ac;
  expect(kWchar, &w, {0x20, 0xac});
  std::complex<float> c(1.0f, -2.5f);
  expect(kComplex, &c, {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0});
  char text = 'A';
  expect(kChar, &text, {0x41});
  struct {
    double value;
    int index;
  } pair{1.0, 0x01020304};
  expect(kDoubleInt, &pair, {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4});
}

TEST(Construct, RefusesWhatTheStandardForbids) {
  PredefinedTypes types;
  Datatype& old = types.get(kInt);
  Ref<Datatype> made;
  const Count four[] = {4}, five[] = {5}, zero[] = {0}, one[] = {1}, minus[] = {-1};
  EXPECT_TRUE(construct::contiguous(-1, old, made));
  EXPECT_TRUE(construct::vector(1, -1, 1, old, made));
  EXPECT_TRUE(construct::indexed(minus, zero, old, made));
  EXPECT_TRUE(construct::subarray(four, five, zero, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::subarray(four, four, one, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::subarray(four, zero, one, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::subarray(four, one, zero, 99, old, made));
  EXPECT_TRUE(construct::subarray({}, {}, {}, construct::kOrderC, old, made));
  const int block[] = {17}, none[] = {16}, standard[] = {19}, two[] = {2}, unknown[] = {3};
  EXPECT_FALSE(construct::darray(2, 1, five, block, standard, two, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::darray(3, 1, five, block, standard, two, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::darray(2, 2, five, block, standard, two, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::darray(2, 1, five, none, standard, two, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::darray(2, 1, five, block, two, two, construct::kOrderC, old, made));
  EXPECT_TRUE(construct::darray(2, 1, five, unknown, standard, two, construct::kOrderC, old, made));
}

}  // namespace
}  // namespace tern
