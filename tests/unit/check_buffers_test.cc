// Bytes that two buffers share, against a bitmap, and what is told of pending operations.
#include <set>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "check/buffers.h"
#include "datatype/construct.h"
#include "datatype/cursor.h"
#include "datatype/predefined.h"

namespace tern::check {
namespace {

using namespace type_id;

TEST(Bytes, OverlapExactlyWhereTheDatatypesDo) {
  PredefinedTypes types;
  Rng rng(5);
  std::vector<char> memory(4096);
  int shared = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::set<size_t>> touched(2);
    std::vector<Bytes> bytes;
    for (int side = 0; side < 2; ++side) {
      Ref<Datatype> type;
      ASSERT_FALSE(construct::hvector(Count(rng.below(5)), Count(rng.below(3)), Count(rng.below(40)) + 8,
                                      types.get(kInt), type));
      const Count count = Count(rng.below(3));
      const size_t start = rng.below(100);
      bytes.push_back(Bytes::of(memory.data() + start, count, *type));
      Cursor cursor(memory.data() + start, count, *type);
      iovec pieces[8];
      size_t moved = 0;
      while (size_t n = cursor.segments(pieces, SIZE_MAX, moved)) {
        for (size_t i = 0; i < n; ++i) {
          const size_t at = size_t(static_cast<char*>(pieces[i].iov_base) - memory.data());
          for (size_t k = 0; k < pieces[i].iov_len; ++k) touched[size_t(side)].insert(at + k);
        }
      }
    }
    bool common = false;
    for (size_t at : touched[0]) common = common || touched[1].contains(at);
    ASSERT_EQ(bytes[0].overlaps(bytes[1]), common) << round;
    ASSERT_EQ(bytes[1].overlaps(bytes[0]), common) << round;
    shared += common;
  }
  EXPECT_GT(shared, 100);
}

struct OneRequest final : Request {
  OneRequest() : Request(Kind::send) {}
  void destroy() override {}
};

TEST(Buffers, ReportsWhatAPendingSendForbids) {
  std::vector<std::string> said;
  Findings findings{[&](const std::string& text) { said.push_back(text); }, [] { return std::string("MPI_X"); }, {}};
  OneRequest request;
  bool alive = true;
  Buffers buffers(findings, [&](int32_t) { return alive ? &request : nullptr; });
  PredefinedTypes types;
  int values[8] = {};
  const Datatype& type = types.get(kInt);
  buffers.stage({{values, 4, &type, false}});
  buffers.bind(5000, true);
  buffers.use({{values + 2, 4, &type, false}});  // two that read
  buffers.use({{values + 4, 4, &type, true}});   // behind it
  buffers.completing(5000);
  EXPECT_TRUE(said.empty());
  buffers.use({{values + 3, 1, &type, true}});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("overlaps"), std::string::npos);
  values[0] = 1;
  buffers.completing(5000);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[1].find("changed"), std::string::npos);
  buffers.completing(5000);  // once is enough
  alive = false;
  buffers.use({{values, 4, &type, true}});
  EXPECT_EQ(said.size(), 2u);
  buffers.use({{values, 2, &type, true}, {values + 1, 2, &type, false}});
  EXPECT_EQ(said.size(), 3u);
}

}  // namespace
}  // namespace tern::check
