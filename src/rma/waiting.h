// Waiting: how a call about a window waits, and what it looks after when it has nothing to wait for.
// Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include "base/hints.h"
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
    if (closely && context_.progress().idle().pauses != 0) {
      for (int i = 0; i < kCloseLooks; ++i, short_pause()) {
        if (done()) return;
      }
    }
    const NodeEpochs::Wait waiting(*counts_);
    until(done);
  }
  /// For answers of targets. Those in cells take some 0.2 us, if they come at once; meanwhile others may ask this rank.
  template <typename Done>
  void until_answered(Done&& done) {
    if (cells_ && cells_->asks() && context_.progress().idle().pauses != 0) {
      // Longer answers come as messages, before the cell is answered empty.
      for (int i = 0; i < kCloseLooks && cells_->asks(); ++i, short_pause()) {
        cells_->poll();
        if (done()) return;
      }
    }
    until(done);
  }
  /// A call that has nothing to wait for looks after everything else now and then: it may be one of many in a loop.
  void look() {
    if (++looks_ % kLooks == 0) context_.progress().look();
  }

 private:
  /// A look costs about as much as a put into shared memory, so that of many puts it takes a few per cent; so many
  /// calls take about a microsecond.
  static constexpr uint32_t kLooks = 32;
  static constexpr int kCloseLooks = 128;  ///< some microseconds

  WindowContext& context_;
  NodeEpochs* counts_ = nullptr;
  NodeCells* cells_ = nullptr;
  uint32_t looks_ = 0;
};

}  // namespace tern::rma
