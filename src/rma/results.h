// Results: what gets and fetching operations that went as records still wait for. Each has a number, which the target
// sends back with the bytes. Thread rule: under the rank's lock.
#pragma once

#include <vector>

#include "datatype/cursor.h"
#include "rma/target.h"

namespace tern::rma {

class Results {
 public:
  struct Awaited {
    Cursor into;
    Ref<Datatype> type;        ///< keeps that of `into`
    Target* target = nullptr;  ///< null: the place is free
    WindowRequest* request = nullptr;
    size_t bytes = 0;
    uint32_t next_free = 0;
  };

  /// The number of a new one, never 0. The caller says where it goes.
  uint32_t await(Target& target, size_t bytes, WindowRequest* request);
  /// Of a number that `await` has given.
  Awaited& at(uint32_t token) { return all_[token - 1]; }
  /// Null: nobody waits for that from this target. Takes any number.
  Awaited* find(uint32_t token, int target);
  void over(uint32_t token, Error error);
  /// Those of the target will not come; `why` makes the error of each.
  template <typename Why>
  void drop(const Target& target, Why&& why) {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].target == &target) over(uint32_t(i + 1), why());
    }
  }

 private:
  std::vector<Awaited> all_;
  uint32_t free_ = 0;  ///< index + 1; 0: none
};

}  // namespace tern::rma
