// Paths: all paths of a rank, best first. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/path.h"

namespace tern {

class Paths {
 public:
  void add(std::unique_ptr<Path> path) {
    if (helped_) path->set_helped(true);  // one that is added later, to meet another job
    all_.push_back(std::move(path));
  }
  /// A message engine's over a network: helped and told of as the others, only while its engine is closed. Not owned;
  /// as long-lived as this.
  void add_of_engine(Path& path) { of_engines_.push_back(&path); }
  /// The best that reaches it; null: none.
  Path* to(PeerId peer) const {
    for (const auto& path : all_) {
      if (path->reaches(peer)) return path.get();
    }
    return nullptr;
  }
  /// As of Path, those added later included.
  void set_helped(bool helped) {
    helped_ = helped;
    for (auto& path : all_) path->set_helped(helped);
    for (Path* path : of_engines_) path->set_helped(helped);
  }
  /// "shm, tcp".
  std::string names() const;
  /// The path to each of the ranks 0 to `ranks` - 1: "paths: shm to ranks 0-3; tcp to ranks 4-7".
  std::string describe(int ranks) const;
  /// What has not arrived at the ranks 0 to `ranks` - 1 of this job, a line for each lane: "tcp to rank 1: 4096 bytes
  /// have not arrived; nothing was heard from its host for 14.0 s".
  std::vector<std::string> on_the_way(int ranks) const;

 private:
  std::vector<std::unique_ptr<Path>> all_;
  std::vector<Path*> of_engines_;
  bool helped_ = false;
};

}  // namespace tern
