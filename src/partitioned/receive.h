// PartitionedReceive: what MPI_Precv_init makes. Data comes in pieces whose borders need not be those of its
// partitions. Thread rule: under the rank's lock, but for `arrived_for_sure`, by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "p2p/core/exposed_memory.h"
#include "p2p/request.h"
#include "partitioned/environment.h"

namespace tern::partitioned {

class PartitionedReceive final : public Request {
 public:
  PartitionedReceive(Environment& environment, const Arguments& arguments);

  Error start() override;
  /// MPI_Parrived: the partition's data is there. The partition exists.
  /// One without data has arrived when the whole message has.
  bool arrived(int partition) const { return left_[size_t(partition)] == 0 && (partition_bytes_ != 0 || complete()); }
  /// Without the lock. False: ask `arrived`.
  bool arrived_for_sure(int partition) const {
    return partition_bytes_ != 0 &&
           std::atomic_ref(const_cast<size_t&>(left_[size_t(partition)])).load(std::memory_order_acquire) == 0;
  }

  const Arguments& arguments() const { return arguments_; }
  size_t total_bytes() const { return total_bytes_; }
  bool is_from(const Endpoint& peer) const { return endpoint_ == &peer; }
  /// With a send whose message has so many bytes. `token`: this receive's.
  void matched(uint32_t sender_token, uint32_t token, uint64_t bytes);
  /// Such a piece may come now.
  bool expects(uint64_t offset, size_t bytes) const;
  Cursor target(uint64_t offset, size_t bytes);
  void landed(uint64_t offset, size_t bytes);
  /// The program has freed the send that this is matched with: what is started now, or later, fails.
  void sender_gone();
  /// Completes with an error, if it is started.
  void fail(Error error);
  std::string report() const;

 private:
  void destroy() override;
  void open();

  Environment& environment_;
  Arguments arguments_;
  Ref<Datatype> type_;
  Endpoint* endpoint_ = nullptr;  ///< null: MPI_PROC_NULL
  size_t partition_bytes_, total_bytes_;
  ExposedMemory exposed_;
  uint32_t token_ = 0, sender_token_ = 0;  ///< 0: not matched yet
  uint64_t sender_bytes_ = 0;
  bool sender_gone_ = false;

  // One start.
  std::vector<size_t> left_;  ///< bytes to come, by partition; a thread that reads 0 sees the data
  size_t left_bytes_ = 0;
};

}  // namespace tern::partitioned
