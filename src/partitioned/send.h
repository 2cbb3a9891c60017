// PartitionedSend: what MPI_Psend_init makes. Partitions are marked ready one by one; groups of them leave when they
// are whole, the receiver has started its side, and the path has room. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/request.h"
#include "partitioned/environment.h"

namespace tern::partitioned {

class PartitionedSend final : public Request {
 public:
  PartitionedSend(Environment& environment, const Arguments& arguments);

  Error start() override;
  /// MPI_Pready of partitions first..last. Nothing is marked when there is an error.
  Error ready(int first, int last);
  /// MPI_Pready of each partition in a list. Nothing is marked when there is an error.
  Error ready(const int* list, int length);

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
  Error check(int partition) const;
  void mark(int partition);
  int group_of(int partition) const { return partition / group_partitions_; }
  int groups() const { return int(left_in_group_.size()); }
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
  int group_partitions_ = 1;
  bool answered_ = false;
  wire::PartitionedAnswerBody receiver_{};  ///< token 0: not matched yet or, once answered, freed before it was

  // One start.
  std::vector<bool> marked_;        ///< by partition
  std::vector<int> left_in_group_;  ///< partitions that are not ready, by group
  int left_ = 0;                    ///< partitions that are not ready
  uint32_t parts_in_flight_ = 0;
  uint32_t opens_ = 0;  ///< starts of the receiver that this side has not met with one of its own
  bool may_send_ = false;
};

}  // namespace tern::partitioned
