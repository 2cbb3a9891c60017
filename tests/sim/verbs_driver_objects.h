// The objects of the made-up driver (verbs_driver.h), shared by its files only: each begins with what verbs know of it,
// to which it is cast.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/rdma/verbs/ibv_objects.h"

namespace tern::sim {

using namespace rdma;  // of the driver's files

struct DriverChannel {
  ibv_comp_channel base{};
  std::unique_ptr<EventChannel> of;
};
struct DriverCq {
  ibv_cq base{};
  std::unique_ptr<CompletionQueue> of;
};
struct DriverSrq {
  ibv_srq base{};
  std::unique_ptr<SharedReceiveQueue> of;
};
struct DriverRegion {
  ibv_mr base{};
  std::unique_ptr<MemoryRegion> of;
};
struct DriverAddressHandle {
  ibv_ah base{};
  std::unique_ptr<AddressHandle> of;
};
struct DriverPair {
  ibv_qp_ex base{};
  struct Direct {
    mlx5dv_qp_ex base{};
    DriverPair* owner;
  } direct{{}, this};
  QueuePairOptions options;
  std::unique_ptr<QueuePair> of;
  uint32_t first_packet = 0;  ///< as the provider says
  // By direct verbs: what is between start and complete, and what the send queue holds.
  struct Request {
    WorkRequest work;
    std::vector<Piece> pieces;
  };
  std::deque<Request> batch;
  struct Out {
    uint64_t id;
    bool signaled;
  };
  std::deque<Out> out;
};

struct VerbsContext {
  verbs_context verbs{};  // first
  std::unique_ptr<Hca> adapter;
  /// What the next queue pair is to be; and what each was, for one that the provider makes again.
  const QueuePairOptions* next_options = nullptr;
  std::map<void*, QueuePairOptions> options_of;
  std::map<uint32_t, DriverPair*> pairs;
  std::map<const SharedReceiveQueue*, DriverSrq*> srqs;
  uint64_t direct_requests = 0;
};

inline VerbsContext& context_of(ibv_context* context) {
  return *reinterpret_cast<VerbsContext*>(verbs_get_ctx(context));
}
template <typename Mine, typename Verbs>
Mine& mine(Verbs* object) {
  return *reinterpret_cast<Mine*>(object);
}
inline DriverPair& pair_of(ibv_qp* pair) { return mine<DriverPair>(pair); }
inline DriverPair& pair_of(ibv_qp_ex* pair) { return mine<DriverPair>(pair); }

inline std::string name_of(const uint8_t* port) { return std::string(reinterpret_cast<const char*>(port), 16); }

inline PortAddress port_of(const ibv_ah_attr& attributes) {
  EXPECT_EQ(attributes.is_global, 1);
  PortAddress port;
  std::memcpy(port.bytes, attributes.grh.dgid.raw, sizeof attributes.grh.dgid.raw);
  return port;
}

template <typename Mine>
int destroy(Mine* object) {
  delete object;
  return 0;
}

inline int fail_with(const Error&) {
  errno = ENOMEM;
  return ENOMEM;
}

// --- verbs_driver_pairs.cc

ibv_qp* make_pair(VerbsContext& context, const ibv_qp_init_attr_ex& attributes, QueuePairKind kind, uint64_t key);
int destroy_pair(ibv_qp* qp);
int modify_pair(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int post_send(ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused);
ibv_qp* make_direct_pair(ibv_context* context, ibv_qp_init_attr_ex* attributes, mlx5dv_qp_init_attr* direct);

inline const Piece* pieces_of(const ibv_sge* list) { return reinterpret_cast<const Piece*>(list); }

}  // namespace tern::sim
