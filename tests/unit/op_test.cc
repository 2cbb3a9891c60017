// Reduction operators: the table of 6.9.2 (which operator takes which type) written out again, results
// against plain arithmetic in a wider type, pairs, accumulates on packed and scattered data, user functions.
#include <cmath>
#include <complex>
#include <set>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "datatype/construct.h"
#include "datatype/op.h"
#include "datatype/predefined.h"
#include "datatype/real_types.h"

namespace tern {
namespace {

using namespace type_id;

const OpId kAllOps[] = {OpId::sum,  OpId::min, OpId::max,  OpId::prod,   OpId::band,   OpId::bor,     OpId::bxor,
                        OpId::land, OpId::lor, OpId::lxor, OpId::minloc, OpId::maxloc, OpId::replace, OpId::no_op};

// The last, MPI_CHAR, is beyond the standard (op.cc says why).
const std::set<int> kCIntegers = {
    kInt,        kLong,         kShort, kUnsignedShort, kUnsigned, kUnsignedLong, kLongLong, kUnsignedLongLong,
    kSignedChar, kUnsignedChar, kInt8,  kInt16,         kInt32,    kInt64,        kUint8,    kUint16,
    kUint32,     kUint64,       kChar};
const std::set<int> kFortranIntegers = {kInteger, kInteger1, kInteger2, kInteger4, kInteger8, kInteger16};
const std::set<int> kFloats = {kFloat, kDouble, kReal, kDoublePrecision, kLongDouble, kReal2, kReal4, kReal8, kReal16};
const std::set<int> kLogicals = {kLogical, kCBool, kCxxBool, kLogical1, kLogical2, kLogical4, kLogical8, kLogical16};
const std::set<int> kComplexes = {kComplex,
                                  kCFloatComplex,
                                  kCDoubleComplex,
                                  kCLongDoubleComplex,
                                  kCxxFloatComplex,
                                  kCxxDoubleComplex,
                                  kCxxLongDoubleComplex,
                                  kDoubleComplex,
                                  kComplex4,
                                  kComplex8,
                                  kComplex16,
                                  kComplex32};
const std::set<int> kMultiLanguage = {kAint, kOffset, type_id::kCount};
const std::set<int> kPairs = {kFloatInt,      kDoubleInt, kLongInt,          k2Int,    kShortInt,
                              kLongDoubleInt, k2Real,     k2DoublePrecision, k2Integer};

bool standard_allows(OpId op, int id) {
  bool integer = kCIntegers.count(id) || kFortranIntegers.count(id) || kMultiLanguage.count(id);
  switch (op) {
    case OpId::max:
    case OpId::min: return integer || kFloats.count(id);
    case OpId::sum:
    case OpId::prod: return integer || kFloats.count(id) || kComplexes.count(id);
    case OpId::land:
    case OpId::lor:
    // Beyond the table: the multi-language types, which are integers and which other libraries take.
    case OpId::lxor: return kCIntegers.count(id) || kLogicals.count(id) || kMultiLanguage.count(id);
    case OpId::band:
    case OpId::bor:
    case OpId::bxor: return integer || id == kByte;
    case OpId::minloc:
    case OpId::maxloc: return kPairs.count(id);
    default: return false;
  }
}

TEST(Op, TakesWhatTheStandardsTableSays) {
  PredefinedTypes types;
  PredefinedOps ops;
  int valid = 0;
  for (OpId id : kAllOps)
    for (int i = 0; i < kind_count(); ++i) {
      Datatype& type = types.get(kind_at(i).id);
      const Op& op = ops.get(id);
      EXPECT_EQ(op.valid_for(type), standard_allows(id, type.predefined_id())) << op.name() << " " << type.name();
      // What is taken beyond the table is known as such (TERN_CHECK names it).
      const bool logical = id == OpId::land || id == OpId::lor || id == OpId::lxor;
      EXPECT_EQ(op_goes_beyond(id, *type.kind()),
                op.valid_for(type) &&
                    (type.predefined_id() == kChar || (logical && kMultiLanguage.count(type.predefined_id()))))
          << op.name() << " " << type.name();
      valid += op.valid_for(type);
      if (!op.valid_for(type)) continue;
      // Every valid combination has a loop (apply asserts otherwise).
      alignas(16) std::byte in[32] = {}, inout[32] = {};
      op.apply(in, inout, 1, type);
    }
  EXPECT_GT(valid, 300);
  EXPECT_EQ(ops.find(0x20), nullptr);
  EXPECT_EQ(ops.find(0x27), nullptr);
  EXPECT_EQ(ops.find(0x40), nullptr);
}

// Compares every element of a run of `n` (odd lengths too, for the tails of vectorised loops).
template <typename T, typename Fn>
void check(OpId id, int type, Fn&& expected, bool small = false) {
  PredefinedTypes types;
  PredefinedOps ops;
  Rng rng(uint64_t(type) * 131 + uint64_t(id));
  for (size_t n : {size_t{1}, size_t{3}, size_t{17}, size_t{1000}}) {
    std::vector<T> in(n), inout(n), result;
    for (size_t i = 0; i < n; ++i) {
      in[i] = T(small ? int64_t(rng.below(7)) - 3 : int64_t(rng.next()));
      inout[i] = T(small ? int64_t(rng.below(7)) - 3 : int64_t(rng.next()));
      if (i % 5 == 0) inout[i] = in[i];
    }
    result = inout;
    std::vector<T> before = in;
    ops.get(id).apply(in.data(), result.data(), Count(n), types.get(type));
    EXPECT_EQ(in, before);
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(result[i], T(expected(in[i], inout[i])))
          << ops.get(id).name() << " " << types.get(type).name() << " at " << i;
  }
}

template <typename T>
void check_integers(int type, bool logical) {
  using U = std::make_unsigned_t<T>;
  check<T>(OpId::sum, type, [](T a, T b) { return T(U(uint64_t(U(a)) + uint64_t(U(b)))); });
  check<T>(OpId::prod, type, [](T a, T b) { return T(U(uint64_t(U(a)) * uint64_t(U(b)))); });
  check<T>(OpId::min, type, [](T a, T b) { return std::min(a, b); });
  check<T>(OpId::max, type, [](T a, T b) { return std::max(a, b); });
  check<T>(OpId::band, type, [](T a, T b) { return T(a & b); });
  check<T>(OpId::bor, type, [](T a, T b) { return T(a | b); });
  check<T>(OpId::bxor, type, [](T a, T b) { return T(a ^ b); });
  if (!logical) return;
  check<T>(
      OpId::land, type, [](T a, T b) { return a && b; }, true);
  check<T>(
      OpId::lor, type, [](T a, T b) { return a || b; }, true);
  check<T>(
      OpId::lxor, type, [](T a, T b) { return !a != !b; }, true);
}

TEST(Op, Integers) {
  check_integers<char>(kChar, true);
  check_integers<int>(kInt, true);
  check_integers<long>(kLong, true);
  check_integers<short>(kShort, true);
  check_integers<long long>(kLongLong, true);
  check_integers<unsigned short>(kUnsignedShort, true);
  check_integers<unsigned>(kUnsigned, true);
  check_integers<unsigned long>(kUnsignedLong, true);
  check_integers<unsigned long long>(kUnsignedLongLong, true);
  check_integers<signed char>(kSignedChar, true);
  check_integers<unsigned char>(kUnsignedChar, true);
  check_integers<int8_t>(kInt8, true);
  check_integers<uint8_t>(kUint8, true);
  check_integers<int16_t>(kInt16, true);
  check_integers<uint16_t>(kUint16, true);
  check_integers<int32_t>(kInt32, true);
  check_integers<uint32_t>(kUint32, true);
  check_integers<int64_t>(kInt64, true);
  check_integers<uint64_t>(kUint64, true);
  check_integers<int32_t>(kInteger, false);
  check_integers<int8_t>(kInteger1, false);
  check_integers<int16_t>(kInteger2, false);
  check_integers<int32_t>(kInteger4, false);
  check_integers<int64_t>(kInteger8, false);
  check_integers<int64_t>(kAint, false);
  check_integers<int64_t>(type_id::kCount, false);
  check_integers<int64_t>(kOffset, false);
}

template <typename T>
void check_floats(int type) {
  check<T>(OpId::sum, type, [](T a, T b) { return a + b; });
  check<T>(OpId::prod, type, [](T a, T b) { return a * b; });
  check<T>(OpId::min, type, [](T a, T b) { return std::min(a, b); });
  check<T>(OpId::max, type, [](T a, T b) { return std::max(a, b); });
}

TEST(Op, FloatingPoint) {
  check_floats<float>(kFloat);
  check_floats<float>(kReal);
  check_floats<float>(kReal4);
  check_floats<double>(kDouble);
  check_floats<double>(kDoublePrecision);
  check_floats<double>(kReal8);
  check_floats<long double>(kLongDouble);
  PredefinedTypes types;
  PredefinedOps ops;
  using Quad = op_loops::Float128;
  Quad in = Quad(1) / 3, inout = 2;
  ops.get(OpId::sum).apply(&in, &inout, 1, types.get(kReal16));
  EXPECT_TRUE(inout == Quad(1) / 3 + 2);
  // binary16: 1.5 + 2 = 3.5
  uint16_t half_in = 0x3e00, half_inout = 0x4000;
  ops.get(OpId::sum).apply(&half_in, &half_inout, 1, types.get(kReal2));
  EXPECT_EQ(half_inout, 0x4300);
  __extension__ typedef __int128 Wide;
  Wide wide_in = Wide(INT64_MAX), wide_inout = 3;
  ops.get(OpId::prod).apply(&wide_in, &wide_inout, 1, types.get(kInteger16));
  EXPECT_TRUE(wide_inout == Wide(INT64_MAX) * 3);
}

template <typename T>
void check_complexes(int type) {
  using C = std::complex<T>;
  check<C>(
      OpId::sum, type, [](C a, C b) { return a + b; }, true);
  PredefinedTypes types;
  PredefinedOps ops;
  C in[] = {{1, 2}, {-3, 0.5}}, inout[] = {{3, -1}, {2, 4}};
  ops.get(OpId::prod).apply(in, inout, 2, types.get(type));
  EXPECT_EQ(inout[0], C(5, 5));
  EXPECT_EQ(inout[1], C(-8, -11));
}

TEST(Op, Complex) {
  for (int type : {kComplex, kCFloatComplex, kCxxFloatComplex, kComplex8}) check_complexes<float>(type);
  for (int type : {kCDoubleComplex, kCxxDoubleComplex, kDoubleComplex, kComplex16}) check_complexes<double>(type);
  for (int type : {kCLongDoubleComplex, kCxxLongDoubleComplex}) check_complexes<long double>(type);
}

template <typename T>
void check_logicals(int type) {
  check<T>(
      OpId::land, type, [](T a, T b) { return a && b; }, true);
  check<T>(
      OpId::lor, type, [](T a, T b) { return a || b; }, true);
  check<T>(
      OpId::lxor, type, [](T a, T b) { return !a != !b; }, true);
}

TEST(Op, Logical) {
  check_logicals<uint8_t>(kCBool);
  check_logicals<uint8_t>(kCxxBool);
  check_logicals<int32_t>(kLogical);
  check_logicals<int8_t>(kLogical1);
  check_logicals<int16_t>(kLogical2);
  check_logicals<int32_t>(kLogical4);
  check_logicals<int64_t>(kLogical8);
}

template <typename V, typename I>
struct Pair {
  V value;
  I index;
};

template <typename V, typename I>
void check_pair(const Datatype& type) {
  using P = Pair<V, I>;
  ASSERT_EQ(type.extent(), Count(sizeof(P)));
  ASSERT_EQ(type.size(), Count(sizeof(V) + sizeof(I)));
  PredefinedOps ops;
  const P in[] = {{1, 7}, {5, 2}, {3, 4}, {3, 9}};
  P low[] = {{2, 1}, {4, 3}, {3, 6}, {3, 8}}, high[] = {{2, 1}, {4, 3}, {3, 6}, {3, 8}};
  ops.get(OpId::minloc).apply(in, low, 4, type);
  ops.get(OpId::maxloc).apply(in, high, 4, type);
  const P lowest[] = {{1, 7}, {4, 3}, {3, 4}, {3, 8}}, highest[] = {{2, 1}, {5, 2}, {3, 4}, {3, 8}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(low[i].value, lowest[i].value);
    EXPECT_EQ(low[i].index, lowest[i].index);
    EXPECT_EQ(high[i].value, highest[i].value);
    EXPECT_EQ(high[i].index, highest[i].index);
  }
}

TEST(Op, PairsNamedAndUnnamed) {
  PredefinedTypes types;
  check_pair<float, int>(types.get(kFloatInt));
  check_pair<double, int>(types.get(kDoubleInt));
  check_pair<long, int>(types.get(kLongInt));
  check_pair<int, int>(types.get(k2Int));
  check_pair<short, int>(types.get(kShortInt));
  check_pair<long double, int>(types.get(kLongDoubleInt));
  check_pair<float, float>(types.get(k2Real));
  check_pair<double, double>(types.get(k2DoublePrecision));
  check_pair<int, int>(types.get(k2Integer));

  auto pair = [&](int value, int index) { return types.value_index(types.get(value), types.get(index)); };
  EXPECT_EQ(pair(kFloat, kInt), &types.get(kFloatInt));
  EXPECT_EQ(pair(kInt, kInt), &types.get(k2Int));
  EXPECT_EQ(pair(kReal, kReal), &types.get(k2Real));
  EXPECT_EQ(pair(kDouble, kDouble), nullptr);
  EXPECT_EQ(pair(kCDoubleComplex, kInt), nullptr);
  EXPECT_EQ(pair(kInt, kByte), nullptr);
  Datatype* unnamed = pair(kDouble, kUint64);
  ASSERT_NE(unnamed, nullptr);
  EXPECT_EQ(pair(kDouble, kUint64), unnamed);
  EXPECT_TRUE(unnamed->is_predefined());
  EXPECT_FALSE(unnamed->is_named());
  EXPECT_TRUE(unnamed->committed());
  ASSERT_EQ(unnamed->envelope().combiner, Combiner::value_index);
  EXPECT_EQ(unnamed->envelope().types[0].get(), &types.get(kDouble));
  EXPECT_EQ(unnamed->envelope().types[1].get(), &types.get(kUint64));
  check_pair<double, uint64_t>(*unnamed);
  check_pair<uint8_t, int64_t>(*pair(kUint8, kInt64));
  check_pair<int64_t, uint8_t>(*pair(kAint, kUint8));
  check_pair<long double, int16_t>(*pair(kLongDouble, kInt16));
  EXPECT_TRUE(PredefinedOps().get(OpId::minloc).valid_for(*unnamed));
  EXPECT_FALSE(PredefinedOps().get(OpId::min).valid_for(*unnamed));
}

TEST(Op, AccumulatesOnScatteredAndPackedData) {
  PredefinedTypes types;
  PredefinedOps ops;
  Ref<Datatype> column, pairs, mixed;
  ASSERT_FALSE(construct::vector(100, 2, 5, types.get(kInt), column));
  const Op& sum = ops.get(OpId::sum);
  EXPECT_FALSE(sum.valid_for(*column));
  EXPECT_TRUE(sum.valid_for_accumulate(*column));
  std::vector<int> in(1500), inout(1500, 10);
  for (int i = 0; i < 1500; ++i) in[size_t(i)] = i;
  sum.apply(in.data(), inout.data(), 3, *column);
  int extent = int(column->extent() / 4);
  for (int i = 0; i < 1500; ++i) {
    int in_element = i < 3 * extent ? i % extent : -1;
    bool touched = in_element >= 0 && in_element % 5 < 2 && in_element / 5 < 100;
    ASSERT_EQ(inout[size_t(i)], touched ? 10 + i : 10) << i;
  }

  // Pairs with padding: packed they lie closer than in memory, and at odd addresses.
  ASSERT_FALSE(construct::vector(200, 1, 2, types.get(kShortInt), pairs));
  const Op& minloc = ops.get(OpId::minloc);
  ASSERT_TRUE(minloc.valid_for_accumulate(*pairs));
  std::vector<Pair<short, int>> target(400, {5, 50});
  std::vector<std::byte> packed(1 + 200 * 6);
  for (int i = 0; i < 200; ++i) {
    short value = short(i % 11);
    std::memcpy(&packed[size_t(1 + i * 6)], &value, 2);
    std::memcpy(&packed[size_t(3 + i * 6)], &i, 4);
  }
  Cursor cursor(target.data(), 1, *pairs);
  minloc.apply_packed(packed.data() + 1, cursor, 150, *pairs->basic_kind());
  EXPECT_EQ(cursor.position(), 150u * 6);
  minloc.apply_packed(packed.data() + 1 + 150 * 6, cursor, 50, *pairs->basic_kind());
  EXPECT_EQ(cursor.remaining(), 0u);
  for (int i = 0; i < 400; ++i) {
    int k = i / 2;
    bool mine = i % 2 == 0;
    ASSERT_EQ(target[size_t(i)].value, mine ? std::min(5, k % 11) : 5);
    int index = !mine || k % 11 > 5 ? 50 : k % 11 == 5 ? std::min(50, k) : k;
    ASSERT_EQ(target[size_t(i)].index, index);
  }

  Datatype* two[] = {&types.get(kInt), &types.get(kDouble)};
  const Count ones[] = {1, 1}, places[] = {0, 8};
  ASSERT_FALSE(construct::structure(ones, places, two, mixed));
  EXPECT_FALSE(sum.valid_for_accumulate(*mixed));
  const Op& replace = ops.get(OpId::replace);
  EXPECT_TRUE(replace.valid_for_accumulate(*mixed));
  EXPECT_FALSE(replace.valid_for(types.get(kInt)));
  struct Mixed {
    int i;
    int padding;
    double d;
  } from{1, 2, 3}, to{4, 5, 6};
  replace.apply(&from, &to, 1, *mixed);
  EXPECT_EQ(to.i, 1);
  EXPECT_EQ(to.padding, 5);
  EXPECT_EQ(to.d, 3);
  ops.get(OpId::no_op).apply(&to, &from, 1, *mixed);
  EXPECT_EQ(from.padding, 2);
}

TEST(Op, UserFunctionsSeeTheDatatype) {
  PredefinedTypes types;
  Ref<Datatype> pair;
  ASSERT_FALSE(construct::contiguous(2, types.get(kInt), pair));
  // Affine maps x -> a x + b compose, and not commutatively.
  Op compose(
      [&](const void* in, void* inout, Count n, const Datatype& type) {
        EXPECT_EQ(&type, pair.get());
        const int* f = static_cast<const int*>(in);
        int* g = static_cast<int*>(inout);
        for (Count i = 0; i < n; ++i, f += 2, g += 2) {
          int a = f[0] * g[0], b = f[0] * g[1] + f[1];
          g[0] = a;
          g[1] = b;
        }
      },
      false);
  EXPECT_FALSE(compose.commutative());
  EXPECT_FALSE(compose.is_predefined());
  EXPECT_TRUE(compose.valid_for(*pair));
  int f[] = {2, 1, 3, 0}, g[] = {5, 7, 1, 1};
  compose.apply(f, g, 2, *pair);
  EXPECT_EQ(g[0], 10);
  EXPECT_EQ(g[1], 15);
  EXPECT_EQ(g[2], 3);
  EXPECT_EQ(g[3], 3);
}

}  // namespace
}  // namespace tern
