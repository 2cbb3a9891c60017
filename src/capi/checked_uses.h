// CheckedUses: what the calls of the program use: buffers, and objects that other threads may use too. TERN_CHECK looks
// at the memory behind a buffer, and pauses in the call so that another thread which changes it is seen.
//
// Thread rule: under the rank's lock, which a pause gives up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "check/buffers.h"
#include "check/declarations.h"
#include "check/findings.h"
#include "check/sharing.h"

namespace tern::capi {

struct World;

class CheckedUses {
 public:
  /// What a message needs besides its buffer.
  struct Shared {
    uint64_t context;
    const Datatype* type;
  };

  CheckedUses(World& world, const check::Findings& findings, std::function<Request*(int32_t)> find_request)
      : world_(world),
        findings_(findings),
        buffers_(findings, std::move(find_request)),
        declarations_(findings),
        sharing_(findings) {}

  /// The current call uses these until it is over. `shared` may be null.
  void use(const std::vector<check::Use>& uses, const Shared* shared = nullptr);
  /// As use, until the request of the current call is complete.
  void stage(const std::vector<check::Use>& uses, const Shared* shared = nullptr);
  /// Nobody else may use the object during this call.
  void begin_alone(check::Sharing::Object object);
  /// Lets other threads go on for a moment.
  void pause();
  void end_of_call() {
    buffers_.leave();
    sharing_.end();
  }
  /// Those of requests.
  check::Buffers& buffers() { return buffers_; }

 private:
  void share(const Shared& shared);
  /// Returns what check::sums_of says.
  std::vector<uint32_t> look_at(const std::vector<check::Use>& uses, const Shared* shared);
  /// Whether another thread changes the buffers, soon, of which these are the sums.
  void await_change(const std::vector<check::Use>& uses, const std::vector<uint32_t>& sums);
  void ask_instruments(const check::Use& use);
  void look_at_blocks(const std::vector<check::Use>& uses);

  World& world_;
  const check::Findings& findings_;
  check::Buffers buffers_;
  check::Declarations declarations_;
  check::Sharing sharing_;
  std::map<std::string, int> pauses_;  ///< by place
};

}  // namespace tern::capi
