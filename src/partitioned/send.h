// PartitionedSend: what MPI_Psend_init makes. Partitions are marked ready one by one; groups of them leave when they
// are whole, the receiver has started its side, and the path has room.
// Thread rule: under the rank's lock, but for `mark`, by any threads at once.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/request.h"
#include "partitioned/environment.h"
#include "partitioned/ready_marks.h"

namespace tern::partitioned {

class PartitionedSend final : public Request {
 public:
  PartitionedSend(Environment& environment, const Arguments& arguments);

  Error start() override;

  // --- MPI_Pready, in two steps.
  /// What `mark` has done. If it has `nothing_left`, that is all; else the rank's lock is taken and `finish` called.
  struct Marked {
    bool refused = false;             ///< nothing was marked: a partition does not exist, or was marked before
    int first_group = 0, groups = 0;  ///< these have become whole
    std::vector<int> more_groups;     ///< and these
    bool nothing_left() const { return !refused && groups == 0 && more_groups.empty(); }
  };
  /// Partitions first..last are ready. Without the lock. (Where two threads mark the same partition at the same time,
  /// which is an error of the program, others may be marked though it is refused.)
  Marked mark(int first, int last);
  /// Those of a list.
  Marked mark(const int* list, int length);
  /// Sends what has become whole; or says why it was refused, with the same arguments. No error: this send has failed
  /// already, which its completion tells.
  template <typename... What>
  Error finish(const Marked& marked, What... what) {
    send_whole(marked);
    return marked.refused ? why_refused(what...) : Error();
  }

  const Arguments& arguments() const { return arguments_; }
  bool is_from(const Endpoint& peer) const { return endpoint_ == &peer; }
  void matched(const wire::PartitionedAnswerBody& answer);
  bool receiver_freed() const { return answered_ && receiver_.token == 0; }
  /// The receiver has started.
  void opened();
  void lost();
  std::string report() const;

 private:
  struct Message;
  struct Put;

  void destroy() override;
  Error why_refused(int first, int last) const;
  Error why_refused(const int* list, int length) const;
  Error check(int partition) const;
  bool exists(int partition) const { return partition >= 0 && partition < arguments_.partitions; }
  void send_whole(const Marked& marked);
  void note_whole(int group);
  /// Sends the groups first..last, all of which are ready.
  void send(int first, int last);
  void send_message(size_t offset, size_t bytes);
  bool put(size_t offset, size_t bytes);
  void tell_landed(size_t offset, size_t bytes);
  void part_done(Error error);
  void finish_if_done();

  Environment& environment_;
  Arguments arguments_;
  Ref<Datatype> type_;
  Endpoint* endpoint_ = nullptr;  ///< null: MPI_PROC_NULL
  uint32_t token_ = 0;
  size_t partition_bytes_, total_bytes_;
  int group_partitions_;
  bool answered_ = false;
  wire::PartitionedAnswerBody receiver_{};  ///< token 0: not matched yet or, once answered, freed before it was

  // One start.
  ReadyMarks marks_;
  std::vector<bool> whole_;  ///< by group: its partitions are ready, and this is known under the lock
  int left_ = 0;             ///< groups that are not whole
  uint32_t parts_in_flight_ = 0;
  uint32_t opens_ = 0;  ///< starts of the receiver that this side has not met with one of its own
  bool may_send_ = false;
};

}  // namespace tern::partitioned
