#include "process/launch/pmi_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace tern {
namespace {

TEST(PmiLine, FieldsInAnyOrder) {
  PmiLine line("rc=0 cmd=get_result msg=fine value=a=b");
  EXPECT_EQ(line.command(), "get_result");
  EXPECT_EQ(line["value"], "a=b");  // only the first sign separates
  EXPECT_EQ(line.number("rc", -1), 0);
  EXPECT_EQ(line.number("absent", 7), 7);
  EXPECT_EQ(line.number("msg", 7), 7);
  EXPECT_TRUE(line.has("msg"));
  EXPECT_FALSE(line.has("fine"));
}

TEST(PmiLine, OddBlanksAndEmptyValues) {
  PmiLine line("  cmd=x  key= junk =nameless ");
  EXPECT_EQ(line.command(), "x");
  EXPECT_TRUE(line.has("key"));
  EXPECT_EQ(line["key"], "");
  EXPECT_EQ(PmiLine("").command(), "");
}

TEST(PmiLines, LinesAreFoundHoweverTheBytesArrive) {
  const std::string text = "one\n\nthree is longer\nfour";
  for (size_t step = 1; step <= text.size(); ++step) {
    PmiLines lines;
    std::vector<std::string> found;
    for (size_t at = 0; at < text.size(); at += step) {
      lines.append(text.data() + at, std::min(step, text.size() - at));
      for (std::string_view line; lines.next(line);) found.emplace_back(line);
    }
    EXPECT_EQ(found, (std::vector<std::string>{"one", "", "three is longer"})) << "step " << step;
    EXPECT_EQ(lines.pending(), 4u);
  }
}

TEST(ProcessMapping, OneNode) {
  EXPECT_EQ(parse_process_mapping("(vector,(0,1,4))", 2, 4), (std::vector<int>{0, 1, 2, 3}));
}

TEST(ProcessMapping, BlocksAndCycles) {
  // Two nodes with two ranks each, in blocks: 0 0 1 1.
  EXPECT_EQ(parse_process_mapping("(vector,(0,2,2))", 1, 4), (std::vector<int>{0, 1}));
  EXPECT_EQ(parse_process_mapping("(vector,(0,2,2))", 2, 4), (std::vector<int>{2, 3}));
  // One by one over two nodes, repeated: 0 1 0 1 0.
  EXPECT_EQ(parse_process_mapping("(vector,(0,2,1))", 0, 5), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(parse_process_mapping("(vector,(0,2,1))", 3, 5), (std::vector<int>{1, 3}));
  // Three on node 0, then one on each of nodes 1 and 2.
  EXPECT_EQ(parse_process_mapping("(vector,(0,1,3),(1,2,1))", 4, 5), (std::vector<int>{4}));
  EXPECT_EQ(parse_process_mapping("(vector,(0,1,3),(1,2,1))", 0, 5), (std::vector<int>{0, 1, 2}));
}

TEST(ProcessMapping, Nodes) {
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,4))", 4), 1);
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,1))", 5), 2);
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,3),(1,2,1))", 5), 3);
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,3),(1,2,1))", 3), 1);
  EXPECT_EQ(nodes_of_mapping("(vector)", 4), 0);
}

TEST(ProcessMapping, MalformedTextIsNoMapping) {
  for (const char* text :
       {"", "(vector)", "(vector,)", "(vector,(0,1))", "(vector,(0,1,4)", "(vector,(0,0,0))", "(vector,(0,1,-4))",
        "(vector,(0,1,99999999999999999999))", "vector,(0,1,4)", "(vector,(0,1,4)x)", "(vector,(a,1,4))"}) {
    EXPECT_TRUE(parse_process_mapping(text, 0, 4).empty()) << text;
  }
  // Huge counts are cut to what is needed, not multiplied.
  EXPECT_EQ(parse_process_mapping("(vector,(0,9000000000000000000,9000000000000000000))", 1, 2),
            (std::vector<int>{0, 1}));
}

TEST(ProcessMapping, GarbageNeverHurts) {
  Rng rng(20);
  constexpr std::string_view kLetters = "(),vector0123456789- ";
  for (int round = 0; round < 20000; ++round) {
    std::string text = "(vector,(0,1,4),(1,2,3))";
    for (uint64_t changes = rng.below(6); changes-- > 0;) {
      size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0: text[at] = kLetters[rng.below(kLetters.size())]; break;
        case 1: text.erase(at, 1); break;
        default: text.insert(at, 1, kLetters[rng.below(kLetters.size())]);
      }
      if (text.empty()) break;
    }
    std::vector<int> local = parse_process_mapping(text, 3, 10);
    if (local.empty()) continue;
    EXPECT_TRUE(std::is_sorted(local.begin(), local.end()));
    EXPECT_NE(std::find(local.begin(), local.end(), 3), local.end()) << text;
    EXPECT_GE(local.front(), 0);
    EXPECT_LT(local.back(), 10);
  }
}

}  // namespace
}  // namespace tern
