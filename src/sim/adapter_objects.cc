// The simulated adapter's verbs: calls of the owner's strand, with their CPU time. See adapter.h.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "sim/adapter.h"

namespace tern::sim {
namespace {

/// Copies of inline payloads into the work request (an estimate): some 200 bytes, usually not in a cache yet.
constexpr uint64_t kInlineCopyBytesPerMicrosecond = 10'000;

Error lacking(const AdapterModel& model, const char* what) {
  return Error(ErrorClass::unsupported_operation, "the simulated adapter " + model.device + " has no " + what);
}

void put_node(rdma::PortAddress& port, uint32_t node) {
  std::memcpy(port.bytes, "sim", 4);
  std::memcpy(port.bytes + 4, &node, sizeof node);
}

bool get_node(const rdma::PortAddress& port, uint32_t& node) {
  std::memcpy(&node, port.bytes + 4, sizeof node);
  return std::memcmp(port.bytes, "sim", 4) == 0;
}

uint64_t sum(const std::vector<rdma::Piece>& pieces) {
  uint64_t bytes = 0;
  for (const rdma::Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

SimReceive make_receive(const rdma::ReceiveRequest& request, uint64_t ready_ns) {
  SimReceive receive{request.id, ready_ns, {request.pieces, request.pieces + request.piece_count}, 0};
  receive.capacity = sum(receive.pieces);
  return receive;
}

}  // namespace

SimMemoryRegion::SimMemoryRegion(SimHca& owner, uint64_t where, size_t count, const rdma::Access& rights)
    : hca(owner), address(where), bytes(count), access(rights) {
  local_key_ = remote_key_ = hca.node.next_number++;
  hca.node.memory.add(*this);
}

SimMemoryRegion::~SimMemoryRegion() {
  hca.strand.charge_ns(hca.node.model().deregister_ns);
  hca.node.memory.remove(*this);
}

size_t SimCompletionQueue::poll(rdma::Completion* entries, size_t most) {
  const AdapterModel& model = hca_.node.model();
  hca_.strand.charge_ns(model.poll_ns * poll_cost_.times(hca_.finds));
  hca_.strand.catch_up();
  size_t taken = 0;
  for (; taken < most && !entries_.empty(); ++taken) {
    Entry& entry = entries_.front();
    entries[taken] = entry.completion;
    if (entry.pair && entry.releases != 0) entry.pair->release_sends(entry.releases);
    entries_.pop_front();
    hca_.strand.charge_ns(model.completion_ns);
  }
  poll_cost_.polled(taken != 0, hca_.finds);
  return taken;
}

void SimCompletionQueue::arm(bool solicited_only) {
  TERN_ASSERT(options_.channel != nullptr);
  if (armed_ != Armed::any) armed_ = solicited_only ? Armed::solicited : Armed::any;
}

void SimCompletionQueue::push(const rdma::Completion& completion, bool solicited, SimQueuePair* pair,
                              uint32_t releases) {
  if (entries_.size() >= options_.depth) {
    rdma::AsyncEvent event;
    event.kind = rdma::AsyncEventKind::completion_overrun;
    event.queue = this;
    hca_.raise(event);
    return;
  }
  entries_.push_back({completion, pair, releases});
  if (armed_ == Armed::no) return;
  if (armed_ == Armed::solicited && !solicited && completion.status == rdma::Status::success) return;
  armed_ = Armed::no;
  hca_.strand.notify();
}

void SimCompletionQueue::forget(const SimQueuePair& pair) {
  for (Entry& entry : entries_) {
    if (entry.pair == &pair) entry.pair = nullptr;
  }
}

SimSharedReceiveQueue::SimSharedReceiveQueue(SimHca& owner, const rdma::SharedReceiveQueueOptions& chosen,
                                             uint32_t number)
    : hca(owner), options(chosen), table_number_(number) {
  if (options.addressed) number_ = number;
  hca.node.srqs[number] = this;
}

SimSharedReceiveQueue::~SimSharedReceiveQueue() { hca.node.srqs.erase(table_number_); }

size_t SimSharedReceiveQueue::post(std::span<const rdma::ReceiveRequest> requests) {
  const AdapterModel& model = hca.node.model();
  size_t taken = 0;
  for (; taken < requests.size() && receives.size() < options.depth; ++taken) {
    TERN_ASSERT(requests[taken].piece_count <= options.pieces);
    hca.strand.charge_ns(model.post_ns);
    receives.push_back(make_receive(requests[taken], hca.strand.now_ns()));
  }
  if (taken != 0) hca.strand.charge_ns(model.doorbell_ns);
  return taken;
}

void SimSharedReceiveQueue::arm_limit(uint32_t limit) {
  limit_ = limit;
  check_limit();
}

void SimSharedReceiveQueue::check_limit() {
  if (limit_ == 0 || receives.size() >= limit_) return;
  limit_ = 0;
  rdma::AsyncEvent event;
  event.kind = rdma::AsyncEventKind::srq_limit;
  event.number = number_;
  event.srq = this;
  hca.raise(event);
}

bool SimSharedReceiveQueue::take(uint64_t now_ns, SimReceive& receive) {
  if (receives.empty() || receives.front().ready_ns > now_ns) return false;
  receive = std::move(receives.front());
  receives.pop_front();
  check_limit();
  return true;
}

SimQueuePair::SimQueuePair(SimHca& hca, const rdma::QueuePairOptions& options, uint32_t number)
    : hca_(hca), node_(hca.node), options_(options) {
  address_.port = hca.port();
  address_.number = number;
  address_.key = options.key;
  node_.pairs[number] = this;
  clear();
}

SimQueuePair::~SimQueuePair() {
  node_.forget(*this);
  if (options_.sends) static_cast<SimCompletionQueue*>(options_.sends)->forget(*this);
}

// To the state after creation. Sequence numbers begin at a new value, so that nothing of an earlier connection fits.
void SimQueuePair::clear() {
  sends_.clear();
  receives_.clear();
  answers_.clear();
  dc_inbound_.clear();
  inbound_ = Inbound();
  next_ = 0;
  offset_ = 0;
  ++epoch_;
  occupied_ = unsignaled_ = 0;
  dc_connected_ = false;
  retries_left_ = options_.retries;
  rnr_left_ = options_.rnr_retries;
  address_.first_packet = uint32_t(node_.draw_sequence());
  first_sequence_ = address_.first_packet;
  bool needs_peer =
      options_.kind == Kind::rc || options_.kind == Kind::xrc_initiator || options_.kind == Kind::xrc_target;
  state_ = needs_peer ? State::idle : State::ready;
}

Error SimQueuePair::connect(const rdma::QueuePairAddress& peer) {
  uint32_t node = 0;
  if (!get_node(peer.port, node)) return Error(ErrorClass::other, "an address of another kind of adapter");
  TERN_ASSERT(state_ == State::idle);
  hca_.strand.charge_ns(node_.model().connect_ns);
  hca_.strand.catch_up();
  if (is_xrc() && node_.mishaps.refuses_xrc())
    return Error(ErrorClass::other, "the adapter refuses (a fault of the model)");
  peer_ = peer;
  peer_node_ = node;
  inbound_.expected = peer.first_packet;
  inbound_.requester = peer.number;
  state_ = State::ready;
  return {};
}

size_t SimQueuePair::post(std::span<const rdma::WorkRequest> work) {
  const AdapterModel& model = node_.model();
  TERN_ASSERT(state_ != State::idle && options_.kind != Kind::xrc_target && options_.kind != Kind::dc_target);
  if (is_xrc() && node_.mishaps.refuses_xrc()) return 0;
  size_t taken = 0;
  uint64_t earliest = kNever_ns;
  for (; taken < work.size() && occupied_ < options_.send_depth; ++taken) {
    const rdma::WorkRequest& wanted = work[taken];
    TERN_ASSERT(wanted.piece_count <= options_.send_pieces);
    ++occupied_;
    hca_.strand.charge_ns(model.post_ns);
    Request& request = sends_.emplace_back();
    request.work = wanted;
    request.pieces.assign(wanted.pieces, wanted.pieces + wanted.piece_count);
    request.total = uint32_t(sum(request.pieces));
    if (wanted.address_handle) request.to_node = static_cast<const SimAddressHandle*>(wanted.address_handle)->node;
    if (wanted.inlined) {
      TERN_ASSERT(request.total <= options_.inline_bytes);
      request.inlined.resize(request.total);
      size_t at = 0;
      for (const rdma::Piece& piece : request.pieces) {
        if (piece.bytes)
          std::memcpy(request.inlined.data() + at, reinterpret_cast<const void*>(piece.address), piece.bytes);
        at += piece.bytes;
      }
      hca_.strand.charge_ns(request.total * 1000 / kInlineCopyBytesPerMicrosecond);
    }
    if (state_ == State::error) {
      request.finish(rdma::Status::flushed);
      continue;
    }
    request.ready_ns =
        hca_.strand.now_ns() + model.doorbell_ns + (wanted.inlined ? model.inline_latency_ns : model.send_latency_ns);
    if (options_.kind == Kind::dc_initiator) request.ready_ns += model.dc_latency_ns;
    earliest = std::min(earliest, request.ready_ns);
  }
  if (taken != 0) hca_.strand.charge_ns(model.doorbell_ns);
  if (state_ == State::error) {
    pop_done();
  } else if (earliest != kNever_ns) {
    node_.activate(*this, earliest);
  }
  return taken;
}

size_t SimQueuePair::post_receives(std::span<const rdma::ReceiveRequest> requests) {
  TERN_ASSERT(!options_.srq && options_.receives);
  const AdapterModel& model = node_.model();
  size_t taken = 0;
  for (; taken < requests.size() && receives_.size() < options_.receive_depth; ++taken) {
    TERN_ASSERT(requests[taken].piece_count <= options_.receive_pieces);
    hca_.strand.charge_ns(model.post_ns);
    if (state_ == State::error) {
      rdma::Completion completion;
      completion.id = requests[taken].id;
      completion.kind = rdma::CompletionKind::receive;
      completion.status = rdma::Status::flushed;
      completion.queue_pair = number();
      static_cast<SimCompletionQueue*>(options_.receives)->push(completion, false, nullptr, 0);
      continue;
    }
    receives_.push_back(make_receive(requests[taken], hca_.strand.now_ns()));
  }
  if (taken != 0) hca_.strand.charge_ns(model.doorbell_ns);
  return taken;
}

void SimQueuePair::fail() {
  hca_.strand.catch_up();
  if (state_ != State::error) node_.to_error(*this);
}

Error SimQueuePair::reset() {
  hca_.strand.charge_ns(node_.model().connect_ns);
  hca_.strand.catch_up();
  if (options_.sends) static_cast<SimCompletionQueue*>(options_.sends)->forget(*this);
  node_.quiet(*this);
  clear();
  return {};
}

// Entries come in the order of posting: a request that is over waits for those before it.
void SimQueuePair::pop_done() {
  while (!sends_.empty() && sends_.front().done) {
    put_entry(sends_.front());
    sends_.pop_front();
    ++first_sequence_;
    if (next_ > 0) --next_;
  }
}

void SimQueuePair::put_entry(const Request& request) {
  if (request.status == rdma::Status::success && !request.work.signaled) {
    ++unsignaled_;
    return;
  }
  rdma::Completion completion;
  completion.id = request.work.id;
  completion.status = request.status;
  completion.queue_pair = number();
  completion.bytes = request.total;
  switch (request.work.verb) {
    case rdma::Verb::send:
    case rdma::Verb::send_immediate: completion.kind = rdma::CompletionKind::send; break;
    case rdma::Verb::write:
    case rdma::Verb::write_immediate: completion.kind = rdma::CompletionKind::write; break;
    case rdma::Verb::read: completion.kind = rdma::CompletionKind::read; break;
    default: completion.kind = rdma::CompletionKind::atomic; break;
  }
  uint32_t releases = unsignaled_ + 1;
  unsignaled_ = 0;
  static_cast<SimCompletionQueue*>(options_.sends)->push(completion, false, this, releases);
}

uint32_t SimQueuePair::reads_out() const {
  uint32_t count = 0;
  for (size_t i = 0; i < next_; ++i) count += sends_[i].is_read() && !sends_[i].done;
  return count;
}

SimHca::SimHca(AdapterNode& its_node, Strand& its_strand) : node(its_node), strand(its_strand) {
  const AdapterModel& model = node.model();
  const NetworkModel& network = node.adapters.network.model();
  capabilities_.provider = "sim";
  capabilities_.device = model.device;
  capabilities_.rc = capabilities_.ud = capabilities_.shared_receive = true;
  capabilities_.xrc = capabilities_.shared_xrc = model.xrc;
  capabilities_.dc = model.dc;
  capabilities_.atomics = model.atomics;
  capabilities_.atomic_swap = model.atomic_swap;
  capabilities_.atomics_with_cpu = model.atomics_with_cpu;
  capabilities_.ordered_writes = model.ordered_writes;
  capabilities_.autonomous = true;
  capabilities_.polled_wakes = model.polled_wakes;
  capabilities_.mtu_bytes = model.mtu_bytes;
  capabilities_.max_message_bytes = model.max_message_bytes;
  capabilities_.max_inline_bytes = model.max_inline_bytes;
  capabilities_.max_pieces = 16;
  capabilities_.max_queue_depth = capabilities_.max_srq_depth = model.max_queue_depth;
  capabilities_.max_completions = 1u << 22;
  capabilities_.max_queue_pairs = model.max_queue_pairs;
  capabilities_.max_reads = model.max_reads;
  capabilities_.queue_pair_cache = model.queue_pair_cache;
  capabilities_.latency_ns = model.inline_latency_ns + network.latency_ns + model.receive_latency_ns;
  capabilities_.bytes_per_us = std::min(network.adapter_bytes_per_us, network.port_bytes_per_us);
  capabilities_.register_ns = model.register_ns;
  capabilities_.register_page_ns = model.register_page_ns;
  put_node(port_, node.index);
}

SimHca::~SimHca() = default;

Error SimHca::make_channel(std::unique_ptr<rdma::EventChannel>& result) {
  result = std::make_unique<SimEventChannel>(strand);
  return {};
}

Error SimHca::make_completion_queue(const rdma::CompletionQueueOptions& options,
                                    std::unique_ptr<rdma::CompletionQueue>& result) {
  if (options.depth == 0 || options.depth > capabilities_.max_completions) {
    return Error(ErrorClass::other, "a completion queue of " + std::to_string(options.depth) +
                                        " entries; the adapter's most is " +
                                        std::to_string(capabilities_.max_completions));
  }
  result = std::make_unique<SimCompletionQueue>(*this, options);
  return {};
}

Error SimHca::make_srq(const rdma::SharedReceiveQueueOptions& options,
                       std::unique_ptr<rdma::SharedReceiveQueue>& result) {
  if (options.addressed && !capabilities_.xrc) return lacking(node.model(), "XRC");
  if (options.depth == 0 || options.depth > capabilities_.max_srq_depth || options.pieces > capabilities_.max_pieces) {
    return Error(ErrorClass::other, "a shared receive queue of a size that the adapter does not have");
  }
  TERN_ASSERT(!options.addressed || options.completions);
  result = std::make_unique<SimSharedReceiveQueue>(*this, options, node.next_number++);
  return {};
}

Error SimHca::make_queue_pair(const rdma::QueuePairOptions& options, std::unique_ptr<rdma::QueuePair>& result) {
  using Kind = rdma::QueuePairKind;
  const AdapterModel& model = node.model();
  bool is_xrc = options.kind == Kind::xrc_initiator || options.kind == Kind::xrc_target;
  bool is_dc = options.kind == Kind::dc_initiator || options.kind == Kind::dc_target;
  if (is_xrc && !model.xrc) return lacking(model, "XRC");
  if (is_dc && !model.dc) return lacking(model, "DC");
  if (options.send_depth > model.max_queue_depth || options.receive_depth > model.max_queue_depth ||
      options.inline_bytes > model.max_inline_bytes || options.send_pieces > capabilities_.max_pieces ||
      options.receive_pieces > capabilities_.max_pieces) {
    return Error(ErrorClass::other, "a queue pair of a size that the adapter does not have");
  }
  if (node.pairs.size() >= model.max_queue_pairs) {
    return Error(ErrorClass::no_mem,
                 "the adapter has no queue pair left (" + std::to_string(model.max_queue_pairs) + ")");
  }
  TERN_ASSERT(options.sends || options.kind == Kind::xrc_target || options.kind == Kind::dc_target);
  TERN_ASSERT(options.kind != Kind::dc_target || (options.srq && options.receives));
  strand.charge_ns(model.queue_pair_ns);
  strand.catch_up();
  result = std::make_unique<SimQueuePair>(*this, options, node.next_number++);
  return {};
}

Error SimHca::make_address_handle(const rdma::PortAddress& port, std::unique_ptr<rdma::AddressHandle>& result) {
  auto address_handle = std::make_unique<SimAddressHandle>();
  if (!get_node(port, address_handle->node)) return Error(ErrorClass::other, "an address of another kind of adapter");
  result = std::move(address_handle);
  return {};
}

Error SimHca::register_memory(void* address, size_t bytes, const rdma::Access& access,
                              std::unique_ptr<rdma::MemoryRegion>& result) {
  const AdapterModel& model = node.model();
  // By size only: addresses of memory are not reproducible.
  strand.charge_ns(model.register_ns + bytes / model.page_bytes * model.register_page_ns);
  strand.catch_up();
  result = std::make_unique<SimMemoryRegion>(*this, reinterpret_cast<uintptr_t>(address), bytes, access);
  return {};
}

bool SimHca::take_event(rdma::AsyncEvent& event) {
  strand.catch_up();
  if (events_.empty()) return false;
  event = events_.front();
  events_.pop_front();
  return true;
}

void SimHca::raise(const rdma::AsyncEvent& event) {
  events_.push_back(event);
  strand.wake(0);
}

}  // namespace tern::sim
