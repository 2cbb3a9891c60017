// Waiting: how a call about a window waits, and what it looks after when it has nothing to wait for.
// Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include "base/looks.h"
#include "rma/context.h"
#include "rma/node_cells.h"
#include "rma/node_epochs.h"

namespace tern::rma {

class Waiting {
 public:
  explicit Waiting(WindowContext& context) : context_(context) {}
  /// What the waits look at besides polls; null: there is none.
  void set_counts(NodeEpochs* counts) { counts_ = counts; }
  void set_cells(NodeCells* cells) { cells_ = cells; }

  template <typename Done>
  void until(Done&& done) {
    context_.progress().wait_until(done);
  }
  /// The other rank writes a count in memory. Its answer takes some 0.1 us, if it comes at once: polls between two
  /// looks would delay its discovery. `closely`: nothing else is likely to be waited for.
  template <typename Done>
  void until_counted(Done&& done, bool closely) {
    if (closely && context_.progress().look_closely<Look::window_count>(done)) return;
    const NodeEpochs::Wait waiting(*counts_);
    until(done);
  }
  /// For answers of targets. Those in cells take some 0.2 us, if they come at once; meanwhile others may ask this rank.
  template <typename Done>
  void until_answered(Done&& done) {
    // Longer answers come as messages, before the cell is answered empty.
    if (cells_ && cells_->asks()) {
      context_.progress().look_closely<Look::window_answer>([&] {
        cells_->poll();
        return done() || !cells_->asks();
      });
    }
    until(done);
  }
  /// A call that has nothing to wait for looks after everything else now and then: it may be one of many in a loop.
  void look() {
    if (++looks_ % limits_of(Look::window_call).looks == 0) context_.progress().look();
  }

 private:
  WindowContext& context_;
  NodeEpochs* counts_ = nullptr;
  NodeCells* cells_ = nullptr;
  uint32_t looks_ = 0;
};

}  // namespace tern::rma
