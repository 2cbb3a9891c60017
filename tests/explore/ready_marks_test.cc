// Marks of partitions by several threads (partitioned/ready_marks.h): of each group one thread is told that it is
// whole, and sees what all have written.
#include "partitioned/ready_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

using partitioned::ReadyMarks;

struct State {
  State(int partitions, int group_partitions) : marks(partitions, group_partitions) {}
  ReadyMarks marks;
  uint64_t data[8] = {};  ///< plain: by thread; what is read too early is a race
  uint64_t told[8] = {};  ///< by group, how often it was whole; plain: told twice is a race
};

struct Run {
  int first, last;
};

/// Each thread writes, marks its partitions, and looks at what was written before all marks of a group that is whole.
/// `writers`: of each group.
Program mark_all(int partitions, int group_partitions, std::vector<Run> runs, std::vector<std::vector<int>> writers) {
  return [=](Execution& execution) {
    auto state = std::make_shared<State>(partitions, group_partitions);
    state->marks.open();
    execution.share(state->data, sizeof state->data);
    execution.share(state->told, sizeof state->told);
    execution.share(&state->marks, sizeof state->marks);
    state->marks.for_each_word([&](const void* word, size_t bytes) { execution.share(word, bytes); });
    for (size_t i = 0; i < runs.size(); ++i) {
      execution.thread([=] {
        state->data[i] = i + 1;
        for (int at = runs[i].first; at <= runs[i].last; ++at) {
          const int end = std::min(runs[i].last, state->marks.last_beside(at));
          const int word = state->marks.word_of(at);
          uint64_t bits = 0;
          for (; at < end; ++at) bits |= state->marks.bit_of(at);
          const ReadyMarks::Marked marked = state->marks.mark(word, bits | state->marks.bit_of(end));
          require(!marked.before, "nobody else has marked these");
          if (!marked.whole) continue;
          const int group = state->marks.group_of_word(word);
          ++state->told[group];
          for (int writer : writers[size_t(group)])
            require(state->data[writer] == uint64_t(writer) + 1, "what was written before a mark is seen");
        }
      });
    }
    execution.finally([=] {
      for (int group = 0; group < state->marks.groups(); ++group)
        require(state->told[group] == 1, "one is told of each group");
      require(state->marks.count() == partitions, "all are marked");
    });
  };
}

TEST(ReadyMarks, GroupsOfOneWord) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 2};
  // Two groups of three partitions; the second thread's range is in both.
  const Program program = mark_all(6, 3, {{0, 1}, {2, 4}, {5, 5}}, {{0, 1}, {1, 2}});
  const Outcome outcome = must_hold("ReadyMarks, 3 threads, groups of one word", bounds, program);
  EXPECT_EQ(count_needed(outcome, bounds, program, "ready_marks"), 1u) << "the mark";
}

TEST(ReadyMarks, GroupsOfSeveralWords) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 2};
  const Program program = mark_all(70, 70, {{0, 30}, {31, 63}, {64, 69}}, {{0, 1, 2}});
  const Outcome outcome = must_hold("ReadyMarks, 3 threads, a group of two words", bounds, program);
  EXPECT_EQ(count_needed(outcome, bounds, program, "ready_marks"), 2u) << "the mark, and the count of full words";
}

TEST(ReadyMarks, MarkedTwiceIsNoticedByOne) {
  const Bounds bounds{.preemptions = preemptions(3), .old_values = 2};
  must_hold("ReadyMarks, marked twice", bounds, [](Execution& execution) {
    struct Twice {
      ReadyMarks marks{2, 2};
      int before[2] = {}, whole[2] = {};
    };
    auto state = std::make_shared<Twice>();
    state->marks.open();
    state->marks.for_each_word([&](const void* word, size_t bytes) { execution.share(word, bytes); });
    for (size_t i = 0; i < 2; ++i) {
      execution.thread([=] {
        const ReadyMarks::Marked both = state->marks.mark(0, 3);
        state->before[i] = both.before;
        state->whole[i] = both.whole;
      });
    }
    execution.finally([=] {
      require(state->before[0] + state->before[1] == 1, "one of them is told that it is wrong");
      require(state->whole[0] + state->whole[1] == 1, "the group is whole once");
    });
  });
}

// Of every size of group: which words and bits.
TEST(ReadyMarks, Places) {
  for (int partitions : {1, 2, 63, 64, 65, 129, 200}) {
    for (int group : {1, 2, 63, 64, 65, 128, 200}) {
      if (group > partitions) continue;
      ReadyMarks marks(partitions, group);
      EXPECT_TRUE(marks.mark(marks.word_of(0), marks.bit_of(0)).before) << "not open";
      for (int again = 0; again < 2; ++again) {
        marks.open();
        EXPECT_EQ(marks.count(), 0);
        int whole = 0;
        for (int i = 0; i < partitions; ++i) {
          const int partition = partitions - 1 - i;
          EXPECT_FALSE(marks.marked(marks.word_of(partition), marks.bit_of(partition)));
          const ReadyMarks::Marked marked = marks.mark(marks.word_of(partition), marks.bit_of(partition));
          EXPECT_FALSE(marked.before);
          EXPECT_EQ(marked.whole, partition % group == 0) << partitions << " in groups of " << group;
          whole += marked.whole;
        }
        EXPECT_EQ(whole, marks.groups());
        EXPECT_EQ(marks.count(), partitions);
      }
    }
  }
}

}  // namespace
}  // namespace tern::explore
