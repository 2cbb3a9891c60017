// Provider `ibv` against a made-up driver, for what Soft-RoCE lacks: XRC and DC. The driver checks which attributes
// come with each change of state as Linux does (drivers/infiniband/core/verbs.c, hw/mlx5/qp.c), remembers what is made
// and destroyed, and records what is posted. What an adapter then does with it, this test cannot know.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "fabric/rdma/verbs/ibv_objects.h"

namespace tern::rdma {
namespace {

enum class Kind { rc, ud, xrc_send, xrc_receive, dci, dct };

struct Posted {
  uint64_t id = 0;
  unsigned flags = 0;
  uint32_t target = 0;
  uint64_t access_key = 0;
  size_t bytes = 0;
  bool inlined = false;
};

struct FakePair {
  ibv_qp_ex base{};  // first: an ibv_qp is cast to it
  mlx5dv_qp_ex direct{};
  Kind kind = Kind::rc;
  ibv_qp_state state = IBV_QPS_RESET;
  uint32_t capacity = 0;
  std::vector<Posted> posted, batch;
};

/// The driver's memory of one test.
struct Driver {
  verbs_context context{};
  std::set<void*> objects;
  uint32_t next_number = 100;
  uint64_t dct_key = 0;
  bool refuses_dct = false;
  FakePair* newest_initiator = nullptr;
};
Driver* driver = nullptr;

template <typename T>
T* made(T* object) {
  driver->objects.insert(object);
  return object;
}
template <typename T>
int gone(T* object) {
  EXPECT_EQ(driver->objects.erase(object), 1u);
  delete object;
  return 0;
}

FakePair* make_pair_of(Kind kind, uint32_t capacity) {
  auto* pair = made(new FakePair);
  pair->kind = kind;
  pair->capacity = capacity;
  pair->base.qp_base.context = &driver->context.context;
  pair->base.qp_base.qp_num = driver->next_number++;
  return pair;
}

// Required attributes of a change of state, and those that may be there besides; -1: no such change.
std::pair<int, int> attributes_of(Kind kind, ibv_qp_state from, ibv_qp_state to) {
  const bool initiates = kind == Kind::rc || kind == Kind::xrc_send,
             answers = kind == Kind::rc || kind == Kind::xrc_receive;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return {kind == Kind::dct ? -1 : 0, 0};
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) {
    const int both = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return {kind == Kind::ud ? both | IBV_QP_QKEY : kind == Kind::dci ? both : both | IBV_QP_ACCESS_FLAGS, 0};
  }
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
    if (kind == Kind::ud) return {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
    if (kind == Kind::dci) return {IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX};
    if (kind == Kind::dct) return {IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU, 0};
    return {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
            IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX};
  }
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
    if (kind == Kind::ud) return {IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY};
    if (kind == Kind::dct) return {-1, 0};
    const int waits = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
    if (initiates || kind == Kind::dci)
      return {waits | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER};
    return {waits, IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS};
  }
  return {-1, 0};
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  auto* pair = reinterpret_cast<FakePair*>(qp);
  const auto [required, optional] = attributes_of(pair->kind, pair->state, attributes->qp_state);
  mask &= ~IBV_QP_STATE;
  if (required < 0 || (mask & required) != required || (mask & ~(required | optional)) != 0) return EINVAL;
  pair->state = attributes->qp_state;
  if (pair->kind == Kind::dct && pair->state == IBV_QPS_RTR)
    qp->qp_num = driver->next_number++;  // its number comes now
  return 0;
}

// What is posted is here until `complete`, and then whole or not at all.
void begin_batch(ibv_qp_ex* qp) { reinterpret_cast<FakePair*>(qp)->batch.clear(); }
int complete_batch(ibv_qp_ex* qp) {
  auto* pair = reinterpret_cast<FakePair*>(qp);
  if (pair->posted.size() + pair->batch.size() > pair->capacity) return ENOMEM;
  pair->posted.insert(pair->posted.end(), pair->batch.begin(), pair->batch.end());
  return 0;
}
void add_request(ibv_qp_ex* qp) {
  reinterpret_cast<FakePair*>(qp)->batch.push_back({qp->wr_id, qp->wr_flags, 0, 0, 0, false});
}

ibv_qp* create_direct(ibv_context*, ibv_qp_init_attr_ex* attributes, mlx5dv_qp_init_attr* direct) {
  EXPECT_EQ(attributes->qp_type, IBV_QPT_DRIVER);
  EXPECT_TRUE(direct->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC);
  const bool target = direct->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
  if (target && driver->refuses_dct) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  FakePair* pair = make_pair_of(target ? Kind::dct : Kind::dci, attributes->cap.max_send_wr);
  if (target) {
    EXPECT_NE(attributes->srq, nullptr);
    driver->dct_key = direct->dc_init_attr.dct_access_key;
    return &pair->base.qp_base;
  }
  EXPECT_TRUE(attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
  driver->newest_initiator = pair;
  ibv_qp_ex& e = pair->base;
  e.wr_start = begin_batch;
  e.wr_complete = complete_batch;
  e.wr_send = add_request;
  e.wr_rdma_write = [](ibv_qp_ex* qp, uint32_t, uint64_t) { add_request(qp); };
  e.wr_set_sge_list = [](ibv_qp_ex* qp, size_t count, const ibv_sge* pieces) {
    for (size_t i = 0; i < count; ++i) reinterpret_cast<FakePair*>(qp)->batch.back().bytes += pieces[i].length;
  };
  e.wr_set_inline_data_list = [](ibv_qp_ex* qp, size_t count, const ibv_data_buf* pieces) {
    Posted& last = reinterpret_cast<FakePair*>(qp)->batch.back();
    last.inlined = true;
    for (size_t i = 0; i < count; ++i) last.bytes += pieces[i].length;
  };
  pair->direct.wr_set_dc_addr = [](mlx5dv_qp_ex* qp, ibv_ah*, uint32_t number, uint64_t key) {
    auto* owner = reinterpret_cast<FakePair*>(reinterpret_cast<char*>(qp) - offsetof(FakePair, direct));
    owner->batch.back().target = number;
    owner->batch.back().access_key = key;
  };
  return &pair->base.qp_base;
}

std::shared_ptr<const IbvLibrary> made_up_library() {
  auto library = std::make_shared<IbvLibrary>();
  library->open_device = [](ibv_device*) { return &driver->context.context; };
  library->close_device = [](ibv_context* context) { return close(context->async_fd); };
  library->alloc_pd = [](ibv_context*) { return made(new ibv_pd{}); };
  library->dealloc_pd = [](ibv_pd* domain) { return gone(domain); };
  library->reg_mr = [](ibv_pd*, void*, size_t, int) { return made(new ibv_mr{}); };
  library->dereg_mr = [](ibv_mr* region) { return gone(region); };
  library->create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) { return made(new ibv_cq{}); };
  library->destroy_cq = [](ibv_cq* queue) { return gone(queue); };
  library->create_srq = [](ibv_pd*, ibv_srq_init_attr*) { return made(new ibv_srq{}); };
  library->destroy_srq = [](ibv_srq* queue) { return gone(queue); };
  library->create_qp = [](ibv_pd*, ibv_qp_init_attr* attributes) {
    return &make_pair_of(attributes->qp_type == IBV_QPT_UD ? Kind::ud : Kind::rc, attributes->cap.max_send_wr)
                ->base.qp_base;
  };
  library->destroy_qp = [](ibv_qp* pair) { return gone(reinterpret_cast<FakePair*>(pair)); };
  library->modify_qp = modify_qp;
  library->create_ah = [](ibv_pd*, ibv_ah_attr*) { return made(new ibv_ah{}); };
  library->destroy_ah = [](ibv_ah* address_handle) { return gone(address_handle); };
  library->qp_to_qp_ex = [](ibv_qp* pair) { return reinterpret_cast<ibv_qp_ex*>(pair); };
  library->mlx5.create_qp = create_direct;
  library->mlx5.qp_ex_from_ibv_qp_ex = [](ibv_qp_ex* pair) { return &reinterpret_cast<FakePair*>(pair)->direct; };
  return library;
}

class IbvFake : public ::testing::Test {
 protected:
  void SetUp() override {
    driver = &mine_;
    verbs_context& context = mine_.context;
    context.sz = sizeof context;
    context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context.context.async_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    context.open_xrcd = [](ibv_context*, ibv_xrcd_init_attr*) { return made(new ibv_xrcd{}); };
    context.close_xrcd = [](ibv_xrcd* domain) { return gone(domain); };
    context.create_srq_ex = [](ibv_context* owner, ibv_srq_init_attr_ex* attributes) {
      EXPECT_EQ(attributes->srq_type, IBV_SRQT_XRC);
      auto* queue = made(new ibv_srq{});
      queue->context = owner;
      return queue;
    };
    context.get_srq_num = [](ibv_srq*, uint32_t* number) {
      *number = driver->next_number++;
      return 0;
    };
    context.create_qp_ex = [](ibv_context*, ibv_qp_init_attr_ex* attributes) {
      const bool send = attributes->qp_type == IBV_QPT_XRC_SEND;
      EXPECT_EQ(attributes->comp_mask, uint32_t(send ? IBV_QP_INIT_ATTR_PD : IBV_QP_INIT_ATTR_XRCD));
      return &make_pair_of(send ? Kind::xrc_send : Kind::xrc_receive, attributes->cap.max_send_wr)->base.qp_base;
    };
    port_.device = "made_up";
    port_.mtu = IBV_MTU_4096;
    port_.capabilities.device = "made_up";
    port_.capabilities.xrc = port_.capabilities.atomics = true;
    port_.capabilities.max_reads = 16;
  }
  void TearDown() override {
    EXPECT_TRUE(mine_.objects.empty()) << mine_.objects.size() << " objects of the driver are left";
  }

  std::unique_ptr<IbvHca> open() {
    auto hca = std::make_unique<IbvHca>(made_up_library(), port_, tunables_, 1);
    const Error error = hca->open(nullptr);
    EXPECT_FALSE(error) << error.text();
    return hca;
  }

  Driver mine_;
  IbvPort port_;
  Tunables tunables_;
};

TEST_F(IbvFake, EveryKindReachesItsStates) {
  auto hca = open();
  EXPECT_TRUE(hca->capabilities().xrc);
  EXPECT_TRUE(hca->capabilities().dc);
  std::unique_ptr<CompletionQueue> completions;
  std::unique_ptr<SharedReceiveQueue> srq, addressed;
  ASSERT_FALSE(hca->make_completion_queue({16, nullptr}, completions));
  ASSERT_FALSE(hca->make_srq({16, 1, false, nullptr}, srq));
  ASSERT_FALSE(hca->make_srq({16, 1, true, completions.get()}, addressed));
  EXPECT_NE(addressed->number(), 0u);
  for (QueuePairKind kind : {QueuePairKind::rc, QueuePairKind::ud, QueuePairKind::xrc_initiator,
                             QueuePairKind::xrc_target, QueuePairKind::dc_initiator, QueuePairKind::dc_target}) {
    SCOPED_TRACE(int(kind));
    QueuePairOptions options;
    options.kind = kind;
    options.sends = options.receives = completions.get();
    options.srq = kind == QueuePairKind::dc_target ? srq.get() : nullptr;
    options.send_depth = options.receive_depth = 4;
    std::unique_ptr<QueuePair> pair;
    Error error = hca->make_queue_pair(options, pair);
    ASSERT_FALSE(error) << error.text();
    const bool connected =
        kind == QueuePairKind::rc || kind == QueuePairKind::xrc_initiator || kind == QueuePairKind::xrc_target;
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(pair->state(), connected ? QueuePair::State::idle : QueuePair::State::ready);
      if (connected) {
        error = pair->connect(pair->address());
        ASSERT_FALSE(error) << error.text();
      }
      EXPECT_EQ(pair->state(), QueuePair::State::ready);
      pair->fail();
      EXPECT_EQ(pair->state(), QueuePair::State::error);
      error = pair->reset();
      ASSERT_FALSE(error) << error.text();
    }
  }
}

TEST_F(IbvFake, TargetsAreAddressedPerMessage) {
  auto hca = open();
  std::unique_ptr<CompletionQueue> completions;
  std::unique_ptr<SharedReceiveQueue> srq;
  std::unique_ptr<QueuePair> target, initiator;
  std::unique_ptr<AddressHandle> address_handle;
  ASSERT_FALSE(hca->make_completion_queue({16, nullptr}, completions));
  ASSERT_FALSE(hca->make_srq({16, 1, false, nullptr}, srq));
  QueuePairOptions options;
  options.kind = QueuePairKind::dc_target;
  options.sends = options.receives = completions.get();
  options.srq = srq.get();
  options.key = 0xfeed;
  ASSERT_FALSE(hca->make_queue_pair(options, target));
  EXPECT_EQ(mine_.dct_key, 0xfeedu);
  EXPECT_EQ(target->number(), mine_.next_number - 1) << "the number that it got when it became ready";
  options.kind = QueuePairKind::dc_initiator;
  options.srq = nullptr;
  options.send_depth = 5;
  ASSERT_FALSE(hca->make_queue_pair(options, initiator));
  ASSERT_FALSE(hca->make_address_handle(hca->port(), address_handle));

  char bytes[64] = {};
  const Piece piece{uint64_t(uintptr_t(bytes)), sizeof bytes, 0};
  std::vector<WorkRequest> work(8);
  for (size_t i = 0; i < work.size(); ++i) {
    work[i].id = i;
    work[i].verb = i % 2 ? Verb::write : Verb::send;
    work[i].signaled = i % 3 == 0;
    work[i].inlined = i % 4 == 1;
    work[i].pieces = &piece;
    work[i].piece_count = 1;
    work[i].address_handle = address_handle.get();
    work[i].remote_number = 700 + uint32_t(i);
    work[i].remote_key_of_queue = 0xfeed0000 + i;
  }
  EXPECT_EQ(initiator->post({work.data(), 3}), 3u);
  EXPECT_EQ(initiator->post({work.data() + 3, 5}), 2u)
      << "the driver takes a batch whole or not at all: as many as fit go singly";
  EXPECT_EQ(initiator->post({work.data() + 5, 1}), 0u);
  const FakePair* fake = mine_.newest_initiator;
  ASSERT_EQ(fake->posted.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(fake->posted[i].id, i);
    EXPECT_EQ(fake->posted[i].target, 700 + i);
    EXPECT_EQ(fake->posted[i].access_key, 0xfeed0000 + i);
    EXPECT_EQ(fake->posted[i].bytes, 64u);
    EXPECT_EQ(fake->posted[i].inlined, i % 4 == 1);
    EXPECT_EQ((fake->posted[i].flags & IBV_SEND_SIGNALED) != 0, i % 3 == 0);
  }
}

TEST_F(IbvFake, AnAdapterWithoutTargetsHasNoDc) {
  mine_.refuses_dct = true;
  auto hca = open();
  EXPECT_FALSE(hca->capabilities().dc);
  std::unique_ptr<QueuePair> pair;
  QueuePairOptions options;
  options.kind = QueuePairKind::dc_initiator;
  const Error error = hca->make_queue_pair(options, pair);
  ASSERT_TRUE(error);
  EXPECT_EQ(error.error_class(), int(ErrorClass::unsupported_operation));
  EXPECT_NE(error.text().find("refuses to make a DC target"), std::string_view::npos) << error.text();
}

}  // namespace
}  // namespace tern::rdma
