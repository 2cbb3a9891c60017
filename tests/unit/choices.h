// An explorer that runs through all sequences of choices, for tests that let real code run again and again. Thread
// rule: one thread.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"

namespace tern::test {

// Depth-first over the sequences of choices: each run follows `path_` and then takes the first of everything.
class Explorer {
 public:
  size_t choose(size_t options) {
    if (options <= 1) return 0;
    if (depth_ == path_.size()) path_.push_back({wild_ ? rng_.below(options) : 0, options});
    EXPECT_EQ(path_[depth_].options, options) << "a run is not repeatable";
    return path_[depth_++].taken;
  }
  /// False: all have been taken.
  bool next() {
    depth_ = 0;
    wild_ = false;
    while (!path_.empty() && path_.back().taken + 1 == path_.back().options) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }
  /// Goes on somewhere else: for spaces too large to be run through.
  void jump() {
    path_.clear();
    depth_ = 0;
    wild_ = true;
  }
  /// What follows has been run before: the beginning of this run, to where it turns elsewhere.
  bool replaying() const { return depth_ < path_.size(); }
  std::string text() const {
    std::string out;
    for (auto& step : path_) out += std::to_string(step.taken) + "/" + std::to_string(step.options) + " ";
    return out;
  }

 private:
  struct Step {
    size_t taken, options;
  };
  std::vector<Step> path_;
  size_t depth_ = 0;
  bool wild_ = false;
  Rng rng_{1};
};

}  // namespace tern::test
