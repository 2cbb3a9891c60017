#include "process/launch/start_info.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "process/launch/pmi_text.h"

namespace tern {
namespace {

TEST(StartInfo, TextAndBack) {
  const StartInfo info{{"maxprocs", "5"}, {"soft", "1,2:10:2"}, {"empty", ""}, {"kinds", "system,mpi:alloc_mem"}};
  EXPECT_EQ(parse_start_info(text_of(info)), info);
  EXPECT_EQ(*find_key(info, "soft"), "1,2:10:2");
  EXPECT_EQ(find_key(info, "host"), nullptr);
  EXPECT_TRUE(parse_start_info("").empty());
  EXPECT_TRUE(parse_start_info("no sign;;").empty());
}

// All triplets of small numbers, against a set that is written out.
TEST(StartInfo, TheLargestSoftNumber) {
  for (int first = -3; first <= 6; ++first) {
    for (int last = -3; last <= 6; ++last) {
      for (int step : {-3, -2, -1, 1, 2, 3}) {
        const bool valid = last == first || (last > first) == (step > 0);
        std::set<int> numbers;
        for (int n = first; step > 0 ? n <= last : n >= last; n += step) numbers.insert(n);
        for (int most = 1; most <= 8; ++most) {
          const std::string text = std::to_string(first) + ":" + std::to_string(last) + ":" + std::to_string(step);
          int expected = 0;
          for (int n : numbers) {
            if (n <= most && n > expected) expected = n;
          }
          const std::optional<int> found = soft_number(text, most);
          ASSERT_EQ(found.has_value(), valid) << text;
          ASSERT_EQ(found.value_or(expected), expected) << text << " of " << most;
        }
      }
    }
  }
  EXPECT_EQ(soft_number("1,2,4,8,16", 13), 8);
  EXPECT_EQ(soft_number("2:10000:2", 7), 6);
  EXPECT_EQ(soft_number("2:10:2,7", 7), 7);
  EXPECT_EQ(soft_number("3", 2), 0);
  for (const char* wrong : {"", ",", "1,", "a", "1:b", "1:2:3:4", "1 ", "99999999999999999999"})
    EXPECT_FALSE(soft_number(wrong, 5)) << wrong;
}

TEST(StartInfo, ValuesThatAreRefused) {
  EXPECT_EQ(check_initial_errhandler("MPI_ERRORS_Return"), "");
  EXPECT_NE(check_initial_errhandler("return"), "");
  EXPECT_EQ(check_memory_kinds(""), "");
  EXPECT_NE(check_memory_kinds("a;b"), "");
}

TEST(PmiText, LineBreaksThereAndBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = random() % 12; i > 0; --i) text += "\n\\nx %"[random() % 6];
    const std::string line = escape_line_breaks(text);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(unescape_line_breaks(line), text);
  }
}

}  // namespace
}  // namespace tern
