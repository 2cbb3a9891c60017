// The buffers of operations that are pending: until its request is completed, a program must not change a buffer that
// is sent, nor touch one that is received into (MPI 5.0, 3.7.2). Found are two operations that use the same bytes, one
// of them writing, and buffers that the program itself changed: those of sends always, those of receives that no
// message has matched. That a program reads a receive's buffer too early is not seen.
//
// Bytes are compared exactly, holes of datatypes apart: columns of a matrix that interleave do not overlap.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check/findings.h"
#include "datatype/datatype.h"
#include "p2p/request.h"

namespace tern::check {

/// Ascending bytes of memory, apart from each other.
struct Bytes {
  struct Range {
    uintptr_t begin, end;
  };
  std::vector<Range> ranges;

  /// Of (buffer, count, type). Beyond kMaxRanges pieces: what lies around them (then `exact` is false).
  static Bytes of(const void* buffer, Count count, const Datatype& type);
  void add(const Bytes& more);
  /// False also where the answer is not certain.
  bool overlaps(const Bytes& other) const;
  bool overlaps_itself() const;
  bool exact = true;
  static constexpr size_t kMaxRanges = 1 << 16;  ///< 1 MiB of memory
};

/// What one operation does with one buffer.
struct Use {
  const void* buffer = nullptr;
  Count count = 0;
  const Datatype* type = nullptr;
  bool writes = false;
};

/// Check sums of what the buffers hold. `readable` becomes false where no memory is.
std::vector<uint32_t> sums_of(const std::vector<Use>& uses, bool& readable);

class Buffers {
 public:
  /// `request_of`: the request of a handle, null when it is completed or freed.
  Buffers(const Findings& findings, std::function<Request*(int32_t)> request_of)
      : findings_(findings), request_of_(std::move(request_of)) {}

  /// An operation that begins now, and is over when its call returns: reports what it shares with pending ones.
  void use(const std::vector<Use>& uses);
  /// An operation that begins now and has a request, which is not known until `bind`: reports what it shares with
  /// pending ones.
  void stage(const std::vector<Use>& uses);
  /// The handle of what was staged last. Nothing staged: nothing. `active`: it has begun.
  void bind(int32_t handle, bool active);
  void drop_staged() {
    if (staged_by_ == std::this_thread::get_id()) staged_.clear();
  }
  /// The calling thread leaves MPI: what it `use`d is over.
  void leave();
  /// A persistent operation begins.
  void start(int32_t handle);
  /// Before the program completes the request: whether its buffer is as it was. Once for each beginning.
  void completing(int32_t handle);
  /// Where the request was made; empty: not known.
  std::string place_of(int32_t handle) const;

 private:
  struct Entry {
    Bytes bytes;
    bool writes = false;
    bool summed = false;
    uint32_t sum = 0;
    const void* buffer = nullptr;
    Count count = 0;
    Ref<Datatype> type;
    std::string place;
    bool active = true;
  };
  using Entries = std::vector<Entry>;
  Entries entries_of(const std::vector<Use>& uses) const;
  /// Between buffers of one operation.
  void compare_within(const Entries& entries, const Entries& others);
  void compare_with_pending(const Entries& entries, int32_t self);
  void compare(const Entries& entries, const Entries& others);
  bool pending(int32_t handle, const Entries& entries) const;
  static uint32_t sum_of(const Entry& entry);

  const Findings& findings_;
  std::function<Request*(int32_t)> request_of_;
  std::map<int32_t, Entries> pending_;
  Entries staged_;
  std::thread::id staged_by_;
  std::map<std::thread::id, Entries> blocking_;  ///< of blocking calls, by thread
};

}  // namespace tern::check
