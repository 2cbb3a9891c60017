// Chore: work of point-to-point's own that every poll must do while there is any of it.
// Thread rule: under the rank's lock.
#pragma once

#include "progress/engine.h"

namespace tern {

class Chore : public Advanceable {
 protected:
  explicit Chore(ProgressEngine& progress) : progress_(progress) {}
  ~Chore() = default;
  bool is_idle() const { return !linked(); }
  /// Whether there is any. Idempotent.
  void want(bool wanted) {
    if (wanted == linked()) return;
    if (wanted) progress_.activate(*this);
    else progress_.deactivate(*this);
  }

  ProgressEngine& progress_;
};

}  // namespace tern
