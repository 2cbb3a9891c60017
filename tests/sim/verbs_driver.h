// Provider `ibv` in the world: a made-up driver of libibverbs and of mlx5's direct verbs whose adapter is the simulated
// one. It moves bytes, so what is written for provider `ibv` and Soft-RoCE lacks (DC, XRC) runs against something: each
// verb of the real libraries becomes the same verb of the simulated adapter. Which attributes each change of state
// needs is checked elsewhere (tests/unit/ibv_fake_test.cc); here what an attribute says must agree with what the path
// asked for. Completion channels are not readable descriptors: the world wakes a rank itself.
// Thread rule: as Hca.
#pragma once

#include <memory>

#include "fabric/rdma/verbs/hca.h"

namespace tern::sim {

struct VerbsContext;

/// IbvHca over the made-up driver. Owns `adapter`.
class VerbsHca final : public rdma::Hca {
 public:
  explicit VerbsHca(std::unique_ptr<rdma::Hca> adapter);
  ~VerbsHca() override;
  Error make_channel(std::unique_ptr<rdma::EventChannel>& result) override;
  Error make_completion_queue(const rdma::CompletionQueueOptions& options,
                              std::unique_ptr<rdma::CompletionQueue>& result) override;
  Error make_srq(const rdma::SharedReceiveQueueOptions& options,
                 std::unique_ptr<rdma::SharedReceiveQueue>& result) override;
  Error make_queue_pair(const rdma::QueuePairOptions& options, std::unique_ptr<rdma::QueuePair>& result) override;
  Error make_address_handle(const rdma::PortAddress& port, std::unique_ptr<rdma::AddressHandle>& result) override;
  Error register_memory(void* address, size_t bytes, const rdma::Access& access,
                        std::unique_ptr<rdma::MemoryRegion>& result) override;
  bool take_event(rdma::AsyncEvent& event) override;
  void observe() override;

  /// Requests that went by direct verbs.
  uint64_t direct_requests() const;

 private:
  std::unique_ptr<VerbsContext> context_;
  std::unique_ptr<rdma::Hca> provider_;
};

}  // namespace tern::sim
