// Random nests of datatype constructors against the standard's definition spelled out (datatype_model.h):
// bounds, packing in fragments cut anywhere, unpacking, segments, seeking, copies of cursors, element counts,
// external32.
#include <algorithm>

#include "datatype/cursor.h"
#include "datatype/external32.h"
#include "datatype_model.h"

namespace tern {
namespace {

constexpr uint64_t kSeeds = 3000;

// A buffer that holds `count` elements wherever their bytes lie, and the address MPI calls would be given.
struct Buffer {
  Buffer(const std::vector<int64_t>& places) {
    for (int64_t place : places) {
      low = std::min(low, place);
      high = std::max(high, place + 1);
    }
    memory.resize(size_t(high - low) + 16);
  }
  std::byte* base() { return memory.data() + 8 - low; }
  std::byte& at(int64_t place) { return memory[size_t(8 + place - low)]; }
  int64_t low = 0, high = 0;
  std::vector<std::byte> memory;
};

class RandomDatatype : public testing::Test {
 protected:
  template <typename Fn>
  static void for_each_sample(Fn&& fn) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      PredefinedTypes types;
      model::Generator generator(seed, types);
      model::Sample sample = generator.make(1 + int(generator.rng().below(7)));
      Count count = generator.rng().chance(1, 12) ? 0 : 1 + Count(generator.rng().below(3));
      fn(generator.rng(), sample, count);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
};

// The other tests would prove little if the nests were mostly empty, flat or contiguous.
TEST_F(RandomDatatype, SamplesAreVaried) {
  int deep = 0, scattered = 0, empty = 0;
  for_each_sample([&](Rng&, model::Sample& sample, Count count) {
    const LayoutNode* node = sample.type->layout().node.get();
    deep += node && node->depth >= 3;
    scattered += sample.type->segments() * count > 30;
    empty += sample.map.entries.empty() || count == 0;
  });
  EXPECT_GT(deep, int(kSeeds / 5));
  EXPECT_GT(scattered, int(kSeeds / 6));
  EXPECT_LT(empty, int(kSeeds / 3));
}

TEST_F(RandomDatatype, BoundsFollowTheTypeMap) {
  for_each_sample([](Rng&, model::Sample& sample, Count) {
    const Datatype& type = *sample.type;
    EXPECT_EQ(type.size(), sample.map.size());
    EXPECT_EQ(type.lower_bound(), sample.map.lower());
    EXPECT_EQ(type.upper_bound(), sample.map.upper());
    EXPECT_EQ(type.true_lower_bound(), sample.map.true_lower());
    EXPECT_EQ(type.true_extent(), sample.map.true_upper() - sample.map.true_lower());
    std::vector<int64_t> places = sample.map.bytes(3);
    bool in_order = type.lower_bound() == 0 && type.extent() == type.size();
    for (size_t i = 0; i < places.size(); ++i) in_order &= places[i] == int64_t(i);
    EXPECT_EQ(type.is_contiguous(), in_order);
  });
}

TEST_F(RandomDatatype, PacksInFragmentsCutAnywhere) {
  for_each_sample([](Rng& rng, model::Sample& sample, Count count) {
    std::vector<int64_t> places = sample.map.bytes(count);
    Buffer buffer(places);
    for (std::byte& b : buffer.memory) b = std::byte(rng.next());
    std::vector<std::byte> expected;
    for (int64_t place : places) expected.push_back(buffer.at(place));

    Cursor cursor(buffer.base(), count, *sample.type);
    ASSERT_EQ(cursor.remaining(), expected.size());
    std::vector<std::byte> packed(expected.size() + 1, std::byte{0x5a});
    size_t at = 0, largest = 1 + rng.below(expected.size() + 8);
    while (cursor.remaining() > 0) {
      size_t want = rng.below(largest + 1);
      size_t got = cursor.pack(packed.data() + at, std::min(want, expected.size() - at));
      ASSERT_EQ(got, std::min(want, expected.size() - at));
      at += got;
      if (rng.chance(1, 4)) {
        // A copy must not lean on its original: that one goes on elsewhere and is gone.
        auto original = std::make_unique<Cursor>(cursor);
        Cursor copy = *original;
        *original = Cursor(buffer.base(), 1 + count, *sample.type);
        original->skip(3);
        original.reset();
        if (rng.chance(1, 2)) cursor = Cursor(buffer.base(), 2 + count, *sample.type);
        cursor = copy;
      }
      ASSERT_EQ(cursor.position(), at);
    }
    EXPECT_EQ(packed.back(), std::byte{0x5a});
    packed.pop_back();
    EXPECT_EQ(packed, expected);

    for (int round = 0; round < 4; ++round) {  // anywhere, in any order
      size_t from = rng.below(expected.size() + 1), n = rng.below(expected.size() - from + 1);
      cursor.seek(from);
      std::vector<std::byte> part(n);
      EXPECT_EQ(cursor.pack(part.data(), n), n);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + ptrdiff_t(from)));
      size_t step = rng.below(9);
      size_t before = cursor.position();
      cursor.skip(step);
      EXPECT_EQ(cursor.position(), std::min(before + step, expected.size()));
      cursor.truncate(3);
      size_t left = std::min<size_t>(3, expected.size() - cursor.position());
      EXPECT_EQ(cursor.remaining(), left);
      std::byte tail[8];
      size_t start = cursor.position();
      EXPECT_EQ(cursor.pack(tail, 8), left);
      EXPECT_TRUE(std::equal(tail, tail + left, expected.begin() + ptrdiff_t(start)));
      cursor = Cursor(buffer.base(), count, *sample.type);
    }
  });
}

TEST_F(RandomDatatype, UnpacksInFragmentsAndTouchesNothingElse) {
  for_each_sample([](Rng& rng, model::Sample& sample, Count count) {
    std::vector<int64_t> places = sample.map.bytes(count);
    // Receiving into overlapping places is erroneous (MPI 5.0, 5.1.11): no order is promised.
    std::vector<int64_t> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return;
    Buffer expected(places), buffer(places);
    std::vector<std::byte> stream(places.size());
    for (std::byte& b : stream) b = std::byte(rng.next());
    std::fill(expected.memory.begin(), expected.memory.end(), std::byte{0xee});
    buffer.memory = expected.memory;
    for (size_t i = 0; i < places.size(); ++i) expected.at(places[i]) = stream[i];

    Cursor cursor(buffer.base(), count, *sample.type);
    size_t at = 0, largest = 1 + rng.below(stream.size() + 8);
    while (cursor.remaining() > 0)
      at += cursor.unpack(stream.data() + at, std::min<size_t>(1 + rng.below(largest), stream.size() - at));
    EXPECT_EQ(at, stream.size());
    EXPECT_EQ(buffer.memory, expected.memory);
  });
}

TEST_F(RandomDatatype, SegmentsNameTheSameBytes) {
  for_each_sample([](Rng& rng, model::Sample& sample, Count count) {
    std::vector<int64_t> places = sample.map.bytes(count);
    Buffer buffer(places);
    Cursor cursor(buffer.base(), count, *sample.type);
    std::vector<const std::byte*> found;
    while (cursor.remaining() > 0) {
      iovec pieces[5];
      size_t room = 1 + rng.below(5), most = 1 + rng.below(40), bytes = 0, before = cursor.position();
      size_t filled = cursor.segments(std::span(pieces, room), most, bytes);
      ASSERT_GE(filled, 1u);
      ASSERT_LE(filled, room);
      ASSERT_LE(bytes, most);
      ASSERT_EQ(cursor.position(), before + bytes);
      size_t sum = 0;
      for (size_t i = 0; i < filled; ++i) {
        ASSERT_GT(pieces[i].iov_len, 0u);
        sum += pieces[i].iov_len;
        for (size_t b = 0; b < pieces[i].iov_len; ++b) found.push_back(static_cast<std::byte*>(pieces[i].iov_base) + b);
      }
      ASSERT_EQ(sum, bytes);
      if (rng.chance(1, 3)) cursor.seek(cursor.position());
    }
    ASSERT_EQ(found.size(), places.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], buffer.base() + places[i]);
  });
}

TEST_F(RandomDatatype, CountsElementsOfPartialData) {
  for_each_sample([](Rng&, model::Sample& sample, Count) {
    std::vector<Count> ends{0};  // packed offsets after each basic element; a pair is two
    for (int copy = 0; copy < 2; ++copy)
      for (const model::Entry& entry : sample.map.entries) {
        if (entry.kind.type_class == TypeClass::pair) ends.push_back(ends.back() + Count(rep_size(entry.kind.rep)));
        Count value =
            entry.kind.type_class == TypeClass::pair ? Count(rep_size(entry.kind.index_rep)) : entry.kind.size;
        ends.push_back(ends.back() + value);
      }
    const Signature& signature = sample.type->signature();
    for (Count bytes = 0; bytes <= ends.back(); ++bytes) {
      auto found = std::lower_bound(ends.begin(), ends.end(), bytes);
      Count expected = *found == bytes ? Count(found - ends.begin()) : kUndefined;
      ASSERT_EQ(signature::elements_in(signature, bytes), expected) << bytes << " bytes";
    }
    for (size_t i = 0; i < ends.size(); ++i) ASSERT_EQ(signature::bytes_of(signature, Count(i)), ends[i]);
  });
}

TEST_F(RandomDatatype, External32BringsBackWhatWasPacked) {
  for_each_sample([](Rng& rng, model::Sample& sample, Count count) {
    std::vector<int64_t> places = sample.map.bytes(count);
    Buffer buffer(places), back(places);
    // Small positive integers survive every length, also where they are read as (denormal) floating numbers;
    // long double does not keep such bits, so it gets real values. Overlapping maps keep whatever was written
    // last.
    bool has_extended = false, overlaps = false;
    std::vector<int64_t> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < sorted.size(); ++i) overlaps |= sorted[i] == sorted[i - 1];
    for (const model::Entry& entry : sample.map.entries) has_extended |= entry.kind.rep == Rep::f80;
    Count size = 0;
    for (const model::Entry& entry : sample.map.entries) size += entry.kind.external_size;
    EXPECT_EQ(external32::packed_size(count, *sample.type), size * count);
    if (has_extended || overlaps) return;
    Count step = sample.map.extent();
    for (Count c = 0; c < count; ++c)
      for (const model::Entry& entry : sample.map.entries) {
        buffer.at(c * step + entry.displacement) = std::byte(rng.below(128));
      }
    std::vector<std::byte> stream(size_t(size * count));
    size_t used = 0;
    ASSERT_FALSE(external32::pack(buffer.base(), count, *sample.type, stream.data(), stream.size(), used));
    EXPECT_EQ(used, stream.size());
    ASSERT_FALSE(external32::unpack(stream.data(), stream.size(), back.base(), count, *sample.type, used));
    EXPECT_EQ(used, stream.size());
    for (int64_t place : places) ASSERT_EQ(back.at(place), buffer.at(place));
    if (!stream.empty()) {
      EXPECT_EQ(
          external32::pack(buffer.base(), count, *sample.type, stream.data(), stream.size() - 1, used).error_class(),
          15);
    }
  });
}

}  // namespace
}  // namespace tern
