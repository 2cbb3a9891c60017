// The classes behind provider `ibv`, shared by its files only. Each wraps one verbs object and defines what verbs leave
// open. Thread rule: as Hca.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "fabric/rdma/verbs/hca.h"
#include "fabric/rdma/verbs/ibv.h"
#include "fabric/rdma/verbs/ibv_library.h"

namespace tern::rdma {

class IbvHca;
class IbvQueuePair;

/// "what: the system's reason", with the advice that goes with it.
Error ibv_failure(std::string_view what, int system_error);

/// Verbs' codes of waiting times, rounded up.
uint8_t ibv_rnr_code(uint64_t wait_ns);
uint8_t ibv_timeout_code(uint64_t timeout_ns);

/// What PortAddress's bytes mean to this provider; the rest is zero.
struct IbvPortAddress {
  uint8_t gid[16];
  uint8_t lid[2];      ///< low byte first
  uint8_t mtu;         ///< verbs' code
  uint8_t infiniband;  ///< else Ethernet
};
static_assert(sizeof(IbvPortAddress) <= sizeof(PortAddress::bytes));

class IbvMemoryRegion final : public MemoryRegion {
 public:
  IbvMemoryRegion(const IbvLibrary& library, ibv_mr* region) : library_(library), region_(region) {
    local_key_ = region->lkey;
    remote_key_ = region->rkey;
  }
  ~IbvMemoryRegion() override { library_.dereg_mr(region_); }

 private:
  const IbvLibrary& library_;
  ibv_mr* region_;
};

class IbvAddressHandle final : public AddressHandle {
 public:
  IbvAddressHandle(const IbvLibrary& library, ibv_ah* made) : handle(made), library_(library) {}
  ~IbvAddressHandle() override { library_.destroy_ah(handle); }
  ibv_ah* const handle;

 private:
  const IbvLibrary& library_;
};

class IbvEventChannel final : public EventChannel {
 public:
  IbvEventChannel(const IbvLibrary& library, ibv_comp_channel* made, int poller)
      : channel(made), library_(library), poller_(poller) {}
  ~IbvEventChannel() override;
  int descriptor() const override { return poller_; }
  void drain() override;
  ibv_comp_channel* const channel;

 private:
  const IbvLibrary& library_;
  int poller_;  ///< an epoll instance: readable when the completion channel or the adapter's asynchronous descriptor is
};

class IbvCompletionQueue final : public CompletionQueue {
 public:
  explicit IbvCompletionQueue(IbvHca& hca) : hca_(hca) {}
  ~IbvCompletionQueue() override;
  size_t poll(Completion* entries, size_t most) override;
  void arm(bool solicited_only) override;

  /// A request that the driver rejected; it completes with `status` after those before it.
  void add_refused(const Completion& entry) { refused_.push_back(entry); }
  void forget_refused_of(uint32_t queue_pair);
  ibv_cq* queue = nullptr;

 private:
  IbvHca& hca_;
  std::deque<Completion> refused_;
};

class IbvSharedReceiveQueue final : public SharedReceiveQueue {
 public:
  explicit IbvSharedReceiveQueue(IbvHca& hca) : hca_(hca) {}
  ~IbvSharedReceiveQueue() override;
  size_t post(std::span<const ReceiveRequest> requests) override;
  void arm_limit(uint32_t limit) override;
  void set_number(uint32_t number) { number_ = number; }
  ibv_srq* queue = nullptr;

 private:
  IbvHca& hca_;
};

class IbvQueuePair final : public QueuePair {
 public:
  IbvQueuePair(IbvHca& hca, const QueuePairOptions& options) : hca_(hca), options_(options) {}
  ~IbvQueuePair() override;
  /// Makes the verbs object and takes it to its first state (idle, or ready for ud and dc).
  Error create();

  Error connect(const QueuePairAddress& peer) override;
  size_t post(std::span<const WorkRequest> work) override;
  size_t post_receives(std::span<const ReceiveRequest> requests) override;
  void fail() override;
  Error reset() override;
  State state() const override { return state_; }

  /// The adapter has put it into the error state.
  void on_error() { state_ = State::error; }

 private:
  bool is_dc() const {
    return options_.kind == QueuePairKind::dc_initiator || options_.kind == QueuePairKind::dc_target;
  }
  void destroy();
  Error create_plain();
  Error create_dc();  ///< ibv_dc.cc
  Error begin();      ///< from the reset state to the first one
  Error begin_ud();
  Error begin_dc();  ///< ibv_dc.cc
  Error modify(ibv_qp_attr& attributes, int mask, const char* what);
  size_t post_dc(std::span<const WorkRequest> work);  ///< ibv_dc.cc
  int post_dc_batch(std::span<const WorkRequest> work);
  /// The driver rejects `work` for another reason than a full queue.
  void refuse(const WorkRequest& work, int system_error);

  IbvHca& hca_;
  const QueuePairOptions options_;
  ibv_qp* pair_ = nullptr;
  ibv_qp_ex* extended_ = nullptr;  ///< dc_initiator only, with
  mlx5dv_qp_ex* direct_ = nullptr;
  State state_ = State::idle;
};

class IbvHca final : public Hca {
 public:
  IbvHca(std::shared_ptr<const IbvLibrary> library, const IbvPort& port, const Tunables& tunables, uint64_t seed);
  ~IbvHca() override;
  /// `device` is valid during the call only.
  Error open(ibv_device* device);

  Error make_channel(std::unique_ptr<EventChannel>& result) override;
  Error make_completion_queue(const CompletionQueueOptions& options, std::unique_ptr<CompletionQueue>& result) override;
  Error make_srq(const SharedReceiveQueueOptions& options, std::unique_ptr<SharedReceiveQueue>& result) override;
  Error make_queue_pair(const QueuePairOptions& options, std::unique_ptr<QueuePair>& result) override;
  Error make_address_handle(const PortAddress& port, std::unique_ptr<AddressHandle>& result) override;
  Error register_memory(void* address, size_t bytes, const Access& access,
                        std::unique_ptr<MemoryRegion>& result) override;
  bool take_event(AsyncEvent& event) override;

  /// The way to a peer's port, for queue pairs and handles.
  ibv_ah_attr route_to(const PortAddress& peer) const;
  ibv_mtu mtu_with(const PortAddress& peer) const;
  void on_queue_pair_error(uint32_t number);

  const IbvLibrary& verbs() const { return *library_; }
  const IbvPort& own_port() const { return port_found_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  ibv_xrcd* xrc_domain() const { return xrc_domain_; }
  uint32_t draw_packet_number() { return uint32_t(rng_.below(1 << 24)); }
  std::unordered_map<uint32_t, IbvQueuePair*>& queue_pairs() { return queue_pairs_; }

 private:
  void find_inline_limit();
  void measure_registration();
  void find_xrc();
  void find_dc();  ///< ibv_dc.cc
  bool translate(const ibv_async_event& from, AsyncEvent& event);

  std::shared_ptr<const IbvLibrary> library_;
  IbvPort port_found_;
  uint8_t service_level_, traffic_class_;
  Rng rng_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_xrcd* xrc_domain_ = nullptr;
  std::unordered_map<uint32_t, IbvQueuePair*> queue_pairs_;  ///< by number; looked up when something goes wrong
};

inline constexpr size_t kChain = 16;  ///< requests handed over at once: they are translated on the stack

inline unsigned send_flags(const WorkRequest& work) {
  unsigned flags = 0;
  if (work.signaled) flags |= IBV_SEND_SIGNALED;
  if (work.inlined) flags |= IBV_SEND_INLINE;
  if (work.fenced) flags |= IBV_SEND_FENCE;
  if (work.solicited) flags |= IBV_SEND_SOLICITED;
  return flags;
}

/// Pieces are verbs' scatter/gather elements under another name.
inline ibv_sge* as_verbs(const Piece* pieces) { return reinterpret_cast<ibv_sge*>(const_cast<Piece*>(pieces)); }
static_assert(sizeof(Piece) == sizeof(ibv_sge) && offsetof(Piece, address) == offsetof(ibv_sge, addr) &&
              offsetof(Piece, bytes) == offsetof(ibv_sge, length) &&
              offsetof(Piece, local_key) == offsetof(ibv_sge, lkey));

/// Posts receives to a queue pair's own queue or to an SRQ: `give` hands a chain of at most kChain to the driver.
template <typename Give>
size_t post_receive_chain(std::span<const ReceiveRequest> requests, Give give) {
  size_t taken = 0;
  while (taken < requests.size()) {
    ibv_recv_wr chain[kChain];
    const size_t count = requests.size() - taken < kChain ? requests.size() - taken : kChain;
    for (size_t i = 0; i < count; ++i) {
      const ReceiveRequest& request = requests[taken + i];
      chain[i].wr_id = request.id;
      chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
      chain[i].sg_list = as_verbs(request.pieces);
      chain[i].num_sge = int(request.piece_count);
    }
    ibv_recv_wr* refused = nullptr;
    if (give(chain, &refused) == 0) {
      taken += count;
      continue;
    }
    return taken + (refused ? size_t(refused - chain) : 0);
  }
  return taken;
}

}  // namespace tern::rdma
