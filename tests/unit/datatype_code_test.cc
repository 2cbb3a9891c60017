// The code of a datatype: what comes out of the decoder lies where the original lies; damaged codes are refused or give
// a datatype that is sound, never more. And the records of one-sided operations, cut and damaged.
#include <algorithm>

#include "datatype/code.h"
#include "datatype/cursor.h"
#include "datatype_model.h"
#include "wire/window.h"

namespace tern {
namespace {

constexpr uint64_t kSeeds = 2000;

/// The displacements of all bytes in packing order.
std::vector<int64_t> places_of(const Datatype& type, Count count) {
  auto* base = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  Cursor cursor(base, count, type);
  std::vector<int64_t> all;
  iovec pieces[8];
  size_t bytes = 0;
  while (size_t filled = cursor.segments(pieces, cursor.remaining(), bytes)) {
    for (size_t i = 0; i < filled; ++i)
      for (size_t b = 0; b < pieces[i].iov_len; ++b)
        all.push_back(static_cast<std::byte*>(pieces[i].iov_base) - base + int64_t(b));
  }
  return all;
}

TEST(DatatypeCode, BringsTheLayoutAndTheBasicType) {
  size_t scattered = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    PredefinedTypes types;
    model::Generator generator(seed, types);
    model::Sample sample = generator.make(1 + int(generator.rng().below(7)));
    const Datatype& type = *sample.type;
    Ref<Datatype> copy;
    const Error error = datatype_code::decode(datatype_code::encode(type), copy);
    ASSERT_FALSE(error) << error.text();
    ASSERT_EQ(copy->size(), type.size());
    ASSERT_EQ(copy->extent(), type.extent());
    ASSERT_EQ(copy->lower_bound(), type.lower_bound());
    ASSERT_TRUE(copy->committed());
    ASSERT_EQ(copy->basic_kind() != nullptr, type.basic_kind() != nullptr || type.size() != 0);
    if (type.basic_kind()) {
      ASSERT_TRUE(*copy->basic_kind() == *type.basic_kind());
    }
    ASSERT_EQ(places_of(*copy, 2), places_of(type, 2));
    if (type.size() != 0) {
      const std::vector<int64_t> places = places_of(type, 1);
      ASSERT_EQ(copy->true_lower_bound(), *std::min_element(places.begin(), places.end()));
      ASSERT_EQ(copy->bounds().true_upper, *std::max_element(places.begin(), places.end()) + 1);
    }
    scattered += type.segments() > 8;
  }
  EXPECT_GT(scattered, kSeeds / 20);
}

TEST(DatatypeCode, HugeTypesTakeFewBytes) {
  PredefinedTypes types;
  Ref<Datatype> made, copy;
  ASSERT_FALSE(construct::vector(1'000'000'000, 2, 3, types.get(type_id::kDouble), made));
  const std::vector<std::byte> code = datatype_code::encode(*made);
  EXPECT_LT(code.size(), 40u);
  ASSERT_FALSE(datatype_code::decode(code, copy));
  EXPECT_EQ(copy->size(), made->size());
  EXPECT_EQ(copy->true_extent(), made->true_extent());
}

// A datatype that a damaged code gives is sound: its bytes lie within its true bounds, and there are `size` of them.
void expect_sound(const Datatype& type) {
  if (type.size() > 100'000) return;
  const std::vector<int64_t> places = places_of(type, 1);
  ASSERT_EQ(Count(places.size()), type.size());
  for (int64_t place : places) ASSERT_TRUE(place >= type.true_lower_bound() && place < type.bounds().true_upper);
}

TEST(DatatypeCode, DamagedCodesAreRefusedOrSound) {
  size_t refused = 0, taken = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    PredefinedTypes types;
    model::Generator generator(seed, types);
    Rng& rng = generator.rng();
    std::vector<std::byte> code = datatype_code::encode(*generator.make(1 + int(rng.below(7))).type);
    for (int round = 0; round < 10; ++round) {
      std::vector<std::byte> damaged = code;
      for (uint64_t i = 0, n = 1 + rng.below(3); i < n; ++i) {
        const size_t at = rng.below(damaged.size());
        const uint64_t how = rng.below(4);
        if (how == 0) damaged.resize(at + 1);
        else if (how == 1) damaged[at] = std::byte(rng.next());
        else if (how == 2) damaged.insert(damaged.begin() + std::ptrdiff_t(at), std::byte(rng.next()));
        else damaged[at] = std::byte{255};
      }
      Ref<Datatype> made;
      if (Error error = datatype_code::decode(damaged, made)) {
        ++refused;
      } else {
        ++taken;
        expect_sound(*made);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(refused, kSeeds);
  EXPECT_GT(taken, kSeeds / 10);
}

TEST(WindowRecords, ComeBackAsTheyWereWritten) {
  std::vector<std::byte> message;
  wire::WindowWriter out(message);
  out.record({wire::WindowCode::lock, 1});
  wire::WindowOperationBody body;
  body.inside = 1;
  body.bytes = 5;
  out.operation(wire::WindowAction::put, 17, body);
  std::memcpy(out.room(5), "honey", 5);
  out.brief(wire::WindowAction::compare_and_swap, 0x212, 9, {7, 255, wire::WindowBriefBody::kAddressEnd - 1}, 0);
  out.text({wire::WindowCode::failed, 48, 0, 3}, "why", 3);
  wire::WindowReader in(message);
  wire::WindowRecord head;
  std::span<const std::byte> bytes;
  ASSERT_TRUE(in.next(head));
  EXPECT_TRUE(head.code == wire::WindowCode::lock && head.flag == 1);
  ASSERT_TRUE(in.next(head) && in.operation(body) && in.data(body.bytes, bytes));
  EXPECT_EQ(head.number, 17u);
  EXPECT_EQ(std::memcmp(bytes.data(), "honey", 5), 0);
  wire::WindowBriefBody brief;
  ASSERT_TRUE(in.next(head) && in.brief(brief));
  EXPECT_TRUE(head.code == wire::WindowCode::brief && head.slot == 0x212 && head.number == 9);
  EXPECT_EQ(wire::WindowAction(head.flag), wire::WindowAction::compare_and_swap);
  EXPECT_TRUE(brief.op == 7 && brief.bytes == 255 && brief.address == wire::WindowBriefBody::kAddressEnd - 1);
  ASSERT_TRUE(in.next(head) && in.text(bytes));
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_FALSE(in.next(head));
  EXPECT_TRUE(in.ok());
}

// What the reader hands out lies within the message, whatever its bytes are.
TEST(WindowRecords, DamagedOnesStayWithinTheMessage) {
  Rng rng(5);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> message;
    wire::WindowWriter out(message);
    for (uint64_t i = 0, n = 1 + rng.below(4); i < n; ++i) {
      wire::WindowOperationBody body;
      body.bytes = rng.below(40);
      out.operation(wire::WindowAction::put, 1, body);
      out.room(size_t(body.bytes));
      out.brief(wire::WindowAction::put, 1, 1, {0, uint8_t(body.bytes), rng.next() >> 20}, 0);
      out.room(size_t(body.bytes));
      out.text({wire::WindowCode::datatype}, "some text or other 20", rng.below(20));
    }
    for (uint64_t i = 0, n = rng.below(4); i < n; ++i) message[rng.below(message.size())] = std::byte(rng.next());
    message.resize(1 + rng.below(message.size()));
    wire::WindowReader in(message);
    wire::WindowRecord head;
    const std::byte* end = message.data() + message.size();
    int records = 0;
    while (in.next(head)) {
      std::span<const std::byte> bytes;
      wire::WindowOperationBody body;
      if (head.code == wire::WindowCode::operate) {
        if (in.operation(body)) in.data(body.bytes, bytes);
      } else if (head.code == wire::WindowCode::datatype) {
        in.text(bytes);
      } else if (head.code == wire::WindowCode::brief) {
        if (wire::WindowBriefBody brief; in.brief(brief)) in.data(2 * size_t{brief.bytes}, bytes);
      }
      ASSERT_TRUE(bytes.empty() || (bytes.data() >= message.data() && bytes.data() + bytes.size() <= end));
      ASSERT_LT(++records, 1000);
    }
  }
}

}  // namespace
}  // namespace tern
