// The table of counters: every row is its own place in the struct, and size classes are where they say.
#include "base/counters.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace tern {
namespace {

TEST(Counters, EveryRowIsItsOwnPlaceInTheStruct) {
  std::set<std::string> names;
  std::set<uint32_t> places;
  for (const CounterRow& row : counter_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.elements == 1 || row.elements == kSizeClasses) << row.name;
    EXPECT_GE(std::string(row.meaning).size(), 20u) << row.name;
    for (uint32_t i = 0; i < row.elements; ++i) {
      EXPECT_TRUE(places.insert(row.offset + uint32_t(i * sizeof(uint64_t))).second) << row.name;
    }
    // Of rows that count bytes, the messages stand beside.
    std::string name(row.name);
    if (row.elements > 1 && name.ends_with("_bytes")) {
      EXPECT_TRUE(names.contains(name.substr(0, name.size() - 6))) << name;
      EXPECT_EQ(row.counter_class, CounterClass::aggregate) << name;
    }
  }
  EXPECT_LE(*places.rbegin(), sizeof(Counters) - sizeof(uint64_t));
  Counters counters;
  counters.tcp_resumed = 17;
  counters.sent_eager[3] = 5;
  int found = 0;
  for (const CounterRow& row : counter_rows()) {
    if (std::string(row.name) == "tcp_resumed") found += row.in(counters)[0] == 17;
    if (std::string(row.name) == "sent_eager") found += row.in(counters)[3] == 5;
  }
  EXPECT_EQ(found, 2);
}

TEST(Counters, SizeClassesMeetWithoutGap) {
  for (size_t i = 0; i + 1 < kSizeClasses; ++i) {
    EXPECT_EQ(size_class(size_class_limit(i)), i);
    EXPECT_EQ(size_class(size_class_limit(i) + 1), i + 1);
  }
  EXPECT_EQ(size_class(0), 0u);
  EXPECT_EQ(size_class(~size_t{0}), kSizeClasses - 1);
}

TEST(Counters, PeaksStayWhenLevelsFall) {
  Counters counters;
  counters.raise_unexpected(1, 100);
  counters.raise_unexpected(2, 50);
  counters.unexpected_queue = 0;
  counters.unexpected_bytes -= 150;
  counters.raise_unexpected(1, 10);
  EXPECT_EQ(counters.unexpected_queue, 1u);
  EXPECT_EQ(counters.unexpected_queue_peak, 2u);
  EXPECT_EQ(counters.unexpected_bytes, 10u);
  EXPECT_EQ(counters.unexpected_bytes_peak, 150u);
}

}  // namespace
}  // namespace tern
