// Availability (availability.c) without MPI: the same loops with nothing but an adapter's calls, on a simulated
// machine. What tuple queues can reach at best over that adapter: a message costs its sender one request and one
// completion, its receiver likewise; the barrier is an empty message each way.
//
//   bare_availability MACHINE.toml
//
// Messages take an XRC queue pair and the receiver's addressed queue, as tuple queues do; the barrier has its own
// connection and completion queue. Prints the series of availability.c.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fabric/rdma/verbs/hca.h"
#include "sim/adapter.h"
#include "sim/machine.h"
#include "sim/machine_file.h"

namespace {

using tern::rdma::QueuePairKind;
using Rank = tern::sim::Machine::Rank;

// As availability.c.
constexpr double kKnee = 1.5, kFlat = 1.02;
constexpr int kIterations = 24;
constexpr size_t kLongestBytes = size_t{1} << 20;
constexpr uint32_t kDepth = 64;

enum class Side { send, receive };

void check(const tern::Error& error) {
  if (!error) return;
  std::fprintf(stderr, "bare_availability: %s\n", std::string(error.text()).c_str());
  std::exit(2);
}

struct Addresses {
  tern::rdma::QueuePairAddress barrier, initiator, target;
  uint32_t srq = 0;
};

/// One of the two ranks: its ends of both connections.
class Bare {
 public:
  explicit Bare(Rank& rank)
      : strand_(rank.strand), launcher_(rank.make_launcher()), hca_(rank.make_hca()), data_(kLongestBytes) {
    check(hca_->make_channel(channel_));
    for (auto* queue : {&barriers_, &messages_}) check(hca_->make_completion_queue({256, channel_.get()}, *queue));
    check(hca_->register_memory(data_.data(), data_.size(), {}, region_));
    check(hca_->make_srq({kDepth, 1, true, messages_.get()}, srq_));
    tern::rdma::QueuePairOptions options;
    options.rnr_wait_ns = uint64_t(tern::Tunables().rdma_rnr_wait_us) * 1000;
    options.inline_bytes = hca_->capabilities().max_inline_bytes;
    options.send_depth = options.receive_depth = kDepth;
    options.sends = options.receives = barriers_.get();
    options.kind = QueuePairKind::rc;
    check(hca_->make_queue_pair(options, barrier_));
    options.sends = messages_.get();
    options.receives = nullptr;
    options.kind = QueuePairKind::xrc_initiator;
    check(hca_->make_queue_pair(options, initiator_));
    options.sends = nullptr;
    options.kind = QueuePairKind::xrc_target;
    check(hca_->make_queue_pair(options, target_));
    connect();
    for (uint32_t i = 0; i < kDepth / 2; ++i) post_barrier_receive();
  }

  uint64_t now_ns() const { return strand_.now_ns(); }
  void work(uint64_t ns) { strand_.charge_ns(ns); }

  void barrier() {
    tern::rdma::WorkRequest request;
    request.inlined = true;
    request.signaled = ++barriers_sent_ % 16 == 0;
    barrier_->post({&request, 1});
    while (wait(*barriers_).kind != tern::rdma::CompletionKind::receive) {
    }
    post_barrier_receive();
  }

  void start_receive(size_t bytes) {
    const tern::rdma::Piece piece = whole(bytes);
    const tern::rdma::ReceiveRequest request{0, &piece, 1};
    srq_->post({&request, 1});
  }
  void start_send(size_t bytes) {
    const tern::rdma::Piece piece = whole(bytes);
    tern::rdma::WorkRequest request;
    request.pieces = &piece;
    request.piece_count = 1;
    request.inlined = bytes <= hca_->capabilities().max_inline_bytes;
    request.remote_srq = peer_.srq;
    initiator_->post({&request, 1});
  }
  void wait_for_message() { wait(*messages_); }
  /// What the other one still waits for has left.
  void finish() { check(launcher_->fence()); }

 private:
  void connect() {
    const Addresses mine{barrier_->address(), initiator_->address(), target_->address(), srq_->number()};
    const std::string text(reinterpret_cast<const char*>(&mine), sizeof mine);
    check(launcher_->put("bare", text));
    check(launcher_->fence());
    std::string others;
    check(launcher_->get(1 - launcher_->rank(), "bare", others));
    std::memcpy(&peer_, others.data(), sizeof peer_);
    check(barrier_->connect(peer_.barrier));
    check(initiator_->connect(peer_.target));
    check(target_->connect(peer_.initiator));
    check(launcher_->fence());
  }
  void post_barrier_receive() {
    const tern::rdma::ReceiveRequest request{0, nullptr, 0};
    barrier_->post_receives({&request, 1});
  }
  tern::rdma::Piece whole(size_t bytes) const {
    return {reinterpret_cast<uint64_t>(data_.data()), uint32_t(bytes), region_->local_key()};
  }
  tern::rdma::Completion wait(tern::rdma::CompletionQueue& queue) {
    tern::rdma::Completion completion;
    while (queue.poll(&completion, 1) == 0) {
      queue.arm(false);
      if (queue.poll(&completion, 1) != 0) break;
      strand_.block(tern::kNever_ns, "waiting for a completion");
    }
    if (completion.status != tern::rdma::Status::success)
      check(tern::Error(tern::ErrorClass::other, "a request failed"));
    return completion;
  }

  tern::sim::Strand& strand_;
  std::unique_ptr<tern::Launcher> launcher_;
  std::unique_ptr<tern::rdma::Hca> hca_;
  std::unique_ptr<tern::rdma::EventChannel> channel_;
  std::unique_ptr<tern::rdma::CompletionQueue> barriers_, messages_;
  std::vector<std::byte> data_;
  std::unique_ptr<tern::rdma::MemoryRegion> region_;
  std::unique_ptr<tern::rdma::SharedReceiveQueue> srq_;
  std::unique_ptr<tern::rdma::QueuePair> barrier_, initiator_, target_;
  Addresses peer_;
  uint32_t barriers_sent_ = 0;
};

void works(Bare& bare, Side side, bool message, size_t bytes, uint64_t work_ns) {
  if (message && side == Side::receive) bare.start_receive(bytes);
  bare.barrier();
  if (message && side == Side::send) bare.start_send(bytes);
  if (work_ns != 0) bare.work(work_ns);
  if (message) bare.wait_for_message();
}

void supports(Bare& bare, Side side, bool message, size_t bytes) {
  if (message && side == Side::send) bare.start_receive(bytes);
  bare.barrier();
  if (message && side == Side::receive) bare.start_send(bytes);
  if (message) bare.wait_for_message();
}

/// The ranks run in one process, so rank 0 leaves here what both must know: whether one more loop comes, and its work.
struct Plan {
  bool over = false, message = true;
  uint64_t work_ns = 0;
};

double iteration_us(Bare& bare, bool first, Side side, size_t bytes, const Plan& plan) {
  const uint64_t began_ns = bare.now_ns();
  for (int i = 0; i < kIterations; ++i) {
    if (first) works(bare, side, plan.message, bytes, plan.work_ns);
    else supports(bare, side, plan.message, bytes);
  }
  return double(bare.now_ns() - began_ns) / 1000 / kIterations;
}

// Rank 0 makes a plan, a barrier, rank 1 reads it, a barrier: it is not changed before that.
void agree(Bare& bare) {
  bare.barrier();
  bare.barrier();
}

void support(Bare& bare, Side side, size_t bytes, const Plan& plan) {
  for (;;) {
    bare.barrier();
    const Plan now = plan;
    bare.barrier();
    if (now.over) return;
    iteration_us(bare, false, side, bytes, now);
  }
}

void measure(Bare& bare, Side side, size_t bytes, Plan& plan) {
  auto loop = [&](bool message, uint64_t work_ns) {
    plan = {.over = false, .message = message, .work_ns = work_ns};
    agree(bare);
    return iteration_us(bare, true, side, bytes, plan);
  };
  double took = loop(true, 0), base = took, sum = took;
  uint64_t work_ns = uint64_t(base * 1000 / 16) + 1;
  for (int flat = 1;; work_ns *= 2) {
    took = loop(true, work_ns);
    if (took > kKnee * base) break;
    if (took < kFlat * base) base = (sum += took) / ++flat;
  }
  const double overhead = took - loop(false, work_ns);
  plan.over = true;
  agree(bare);
  const char* name = side == Side::send ? "send" : "receive";
  std::printf("POINT availability-%s %zu %.6g percent\n", name, bytes, 100 * (1 - overhead / base));
  std::printf("POINT overhead-%s %zu %.6g us\n", name, bytes, overhead);
  std::printf("POINT base-%s %zu %.6g us\n", name, bytes, base);
}

}  // namespace

int main(int argc, char** argv) {
  tern::sim::MachineModel machine;
  if (argc != 2) check(tern::Error(tern::ErrorClass::arg, "takes a machine's file"));
  check(tern::sim::load_machine(argv[1], machine));
  tern::sim::WorldOptions options;
  options.network = machine.network;
  options.adapter = machine.adapter;
  options.rdma = true;
  options.ranks = 2;
  Plan plan;
  tern::sim::Machine world(options);
  tern::sim::Report report = world.run([&](Rank& rank) {
    Bare bare(rank);
    for (size_t bytes = 1; bytes <= kLongestBytes; bytes *= 4) {
      for (Side side : {Side::send, Side::receive}) {
        if (rank.index() == 0) measure(bare, side, bytes, plan);
        else support(bare, side, bytes, plan);
      }
    }
    bare.finish();
  });
  if (!report.ok()) check(tern::Error(tern::ErrorClass::other, report.failure));
  return 0;
}
