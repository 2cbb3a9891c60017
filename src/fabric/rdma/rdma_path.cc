// Frames: the way of a message. See rdma_path.h.
#include "fabric/rdma/rdma_path.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"

namespace tern {
namespace {

constexpr uint32_t kSendDepth = 256;
constexpr uint32_t kDatagramSlots = 64;  // each way; what does not fit is lost and repeated
constexpr uint32_t kMostOutstanding = 8192;
constexpr size_t kLongestInlined = 512;  // of what adapters offer
constexpr uint32_t kTimerPolls = 64;     // the clock is read on every so-manieth poll

}  // namespace

std::unique_ptr<RdmaPath> RdmaPath::create(const RdmaOptions& options, const Tunables& tunables,
                                           std::unique_ptr<rdma::Hca> hca, Clock& clock, Sink& sink, Lookup lookup,
                                           Error& error) {
  std::unique_ptr<RdmaPath> path(new RdmaPath(options, tunables, std::move(hca), clock, sink, std::move(lookup)));
  error = path->start();
  if (error) path.reset();
  return path;
}

RdmaPath::RdmaPath(const RdmaOptions& options, const Tunables& tunables, std::unique_ptr<rdma::Hca> hca, Clock& clock,
                   Sink& sink, Lookup lookup)
    : options_(options),
      clock_(clock),
      sink_(sink),
      lookup_(std::move(lookup)),
      hca_(std::move(hca)),
      peers_(options.size) {
  const rdma::Capabilities& able = hca_->capabilities();
  auto at_most = [](int64_t wanted, uint32_t limit) {
    return uint32_t(limit ? std::min<int64_t>(wanted, limit) : wanted);
  };
  slot_bytes_ = (size_t(tunables.rdma_eager_bytes) + wire::kRdmaMaxHeadBytes + 63) / 64 * 64;
  receive_slots_ = at_most(tunables.rdma_receives, able.max_srq_depth);
  send_slots_ = uint32_t(tunables.rdma_sends);
  window_ = std::min(uint32_t(tunables.rdma_window), receive_slots_);
  send_depth_ = at_most(kSendDepth, able.max_queue_depth);
  inline_bytes_ = std::min<size_t>(able.max_inline_bytes, kLongestInlined);
  uint32_t others = receive_slots_ + 2 * kDatagramSlots;
  most_outstanding_ = able.max_completions ? std::min(kMostOutstanding,
                                                      able.max_completions - std::min(others, able.max_completions / 2))
                                           : kMostOutstanding;
  connect_timeout_ns_ = uint64_t(tunables.rdma_connect_timeout_s) * 1'000'000'000;
  keepalive_ns_ = uint64_t(tunables.rdma_keepalive_ms) * 1'000'000;
  greeting_ns_ = uint64_t(tunables.rdma_greeting_ms) * 1'000'000;
  rnr_wait_ns_ = uint64_t(tunables.rdma_rnr_wait_us) * 1000;
  timeout_ns_ = uint64_t(tunables.rdma_timeout_ms) * 1'000'000;
  retries_ = uint8_t(tunables.rdma_retries);
  rdma::Keep keep = options.keep;
  if (tunables.rdma_registration_bytes == 0) keep = rdma::Keep::nothing;
  if (keep == rdma::Keep::watched && !(watch_ = rdma::MemoryWatch::create())) keep = rdma::Keep::nothing;
  registrations_ =
      std::make_unique<rdma::RegistrationCache>(*hca_, keep, watch_.get(), uint64_t(tunables.rdma_registration_bytes));

  tuple_options_.pair.rnr_wait_ns = rnr_wait_ns_;
  tuple_options_.pair.timeout_ns = timeout_ns_;
  tuple_options_.pair.retries = retries_;
  tuple_options_.ways = uint32_t(tunables.tuple_ways);
  tuple_options_.longest_bytes = size_t(tunables.tuple_bytes);
  tuple_options_.inline_bytes = inline_bytes_;
  tuple_options_.copy_bytes = size_t(tunables.tuple_copy_bytes);
  tuple_options_.copy_bytes_per_us = options.copy_bytes_per_us;
  tuple_options_.broken = [this](PeerId peer, const char* trouble) { break_peer(*peers_[peer], trouble); };

  properties_.name = "rdma";
  properties_.eager_bytes = slot_bytes_ - wire::kRdmaMaxHeadBytes;
  properties_.needs_cpu = !able.autonomous;
  remote_properties_.get = remote_properties_.put = true;
  remote_properties_.get_from_bytes = properties_.eager_bytes;
  remote_properties_.autonomous = able.autonomous;
  // RC delivers in the order of posting, and `pump` posts no message before an earlier put.
  remote_properties_.puts_before_messages = true;
  remote_properties_.ordered_writes = able.ordered_writes;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.rdma_hybrid_bytes);
}

Error RdmaPath::start() {
  const rdma::Capabilities& able = hca_->capabilities();
  if (!able.rc || !able.ud || !able.shared_receive) {
    return Error(ErrorClass::unsupported_operation,
                 "the adapter " + able.device + " lacks RC, UD or shared receive queues, which the rdma path needs");
  }
  if (Error error = hca_->make_channel(channel_)) return error;
  rdma::CompletionQueueOptions queue{receive_slots_ + 2 * kDatagramSlots + most_outstanding_, channel_.get()};
  if (Error error = hca_->make_completion_queue(queue, completions_)) return error;
  if (Error error = hca_->make_srq({receive_slots_, 1, false, nullptr}, receives_)) return error;
  if (Error error = make_memory()) return error;

  rdma::QueuePairOptions datagrams;
  datagrams.kind = rdma::QueuePairKind::ud;
  datagrams.sends = datagrams.receives = completions_.get();
  datagrams.send_depth = datagrams.receive_depth = kDatagramSlots;
  // Keeps strangers' stray datagrams out; what makes a greeting believed is its signature.
  std::memcpy(&datagrams.key, options_.key.data(), 4);
  datagrams.key &= 0x7fffffff;  // the upper half is for privileged consumers
  if (Error error = hca_->make_queue_pair(datagrams, datagrams_)) return error;
  for (uint32_t i = 0; i < kDatagramSlots; ++i) {
    uint32_t in = receive_slots_ + send_slots_ + i;
    rdma::Piece piece = slot_piece(in, slot_bytes_);
    rdma::ReceiveRequest receive{id_of(Tag::greeting_in, in), &piece, 1};
    datagrams_->post_receives({&receive, 1});
    free_greetings_.push_back(in + kDatagramSlots);
  }
  for (uint32_t i = 0; i < receive_slots_; ++i) taken_receives_.push_back(i);
  repost_receives();
  for (uint32_t i = send_slots_; i-- > 0;) free_slots_.push_back(receive_slots_ + i);

  card_ = wire::build_rdma_card(std::bit_cast<wire::RdmaAddress>(datagrams_->address()));
  return {};
}

Error RdmaPath::make_memory() {
  size_t count = receive_slots_ + send_slots_ + 2 * kDatagramSlots;
  memory_bytes_ = count * slot_bytes_;
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error(ErrorClass::no_mem, "no memory for RDMA buffers");
  memory_ = static_cast<std::byte*>(memory);
  slots_.resize(count);
  Error error = hca_->register_memory(memory_, memory_bytes_, rdma::Access{}, memory_region_);
  if (error)
    return std::move(error).context("registering " + std::to_string(memory_bytes_) + " bytes of buffers (ulimit -l?)");
  return {};
}

TupleQueues* RdmaPath::tuple_queues() {
  if (tuples_ || !hca_->capabilities().xrc || adapter_failed_) return tuples_.get();
  Error error;  // of resources: messages go the traditional way
  tuples_ = rdma::RdmaTuples::create(tuple_options_, *hca_, clock_, *channel_, *registrations_, error);
  return tuples_.get();
}

RdmaPath::~RdmaPath() {
  tuples_.reset();
  for (auto& peer : peers_) {
    if (peer) peer->pair.reset();
  }
  datagrams_.reset();
  memory_region_.reset();
  if (memory_) munmap(memory_, memory_bytes_);
}

RdmaPath::Peer& RdmaPath::peer_at(PeerId id) {
  TERN_DEBUG_ASSERT(reaches(id));
  if (!peers_[id]) {
    peers_[id] = std::make_unique<Peer>(id);
  }
  return *peers_[id];
}

bool RdmaPath::post(Peer& peer, const rdma::WorkRequest& work) {
  if (!room(peer) || peer.pair->post({&work, 1}) == 0) return false;
  ++peer.outstanding;
  ++outstanding_;
  return true;
}

// Payload from `flat`, or packed from `cursor`. False: nothing has happened (no slot, or the send queue is full).
bool RdmaPath::post_frame(Peer& peer, wire::RdmaFrameType type, const wire::Header& header, uint64_t message_bytes,
                          const void* flat, Cursor* cursor, size_t bytes) {
  if (!room(peer)) return false;
  uint16_t credits = uint16_t(std::min<uint32_t>(peer.owed, 0xffff));
  size_t whole = wire::rdma_head_bytes(type) + bytes;
  std::byte small[kLongestInlined];
  std::byte* at = small;
  uint32_t slot = 0;
  bool inlined = whole <= inline_bytes_;
  if (!inlined) {
    if (free_slots_.empty()) return false;
    slot = free_slots_.back();
    at = slot_memory(slot);
  }
  size_t head = wire::build_rdma_frame(type, credits, bytes, header, message_bytes, at);
  if (cursor) {
    cursor->pack(at + head, bytes);
  } else if (bytes != 0) {
    std::memcpy(at + head, flat, bytes);
  }
  charge_copy(bytes);
  charge(options_.send_ns);
  rdma::Piece piece =
      inlined ? rdma::Piece{reinterpret_cast<uint64_t>(small), uint32_t(whole), 0} : slot_piece(slot, whole);
  rdma::WorkRequest work;
  work.verb = rdma::Verb::send;
  work.inlined = inlined;
  work.pieces = &piece;
  work.piece_count = 1;
  work.id = inlined ? id_of(Tag::inlined, peer.id) : id_of(Tag::slot, slot);
  if (!post(peer, work)) {
    TERN_ASSERT(!cursor);  // packed is packed; `room` has been asked, and the queue has what we asked it to have
    return false;
  }
  if (!inlined) {
    free_slots_.pop_back();
    slots_[slot] = {peer.id, nullptr, uint32_t(bytes)};
  }
  peer.owed -= credits;
  if (type != wire::RdmaFrameType::credit) --peer.credits;
  return true;
}

bool RdmaPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto* peer = static_cast<Peer*>(&lane);
  if (peer->state != PeerState::ready || peer->credits == 0 || !peer->queue.empty() || !peer->transfers.empty())
    return false;
  if (wire::rdma_head_bytes(wire::RdmaFrameType::whole) + bytes > peer->frame_bytes) return false;
  return post_frame(*peer, wire::RdmaFrameType::whole, header, bytes, payload, nullptr, bytes);
}

void RdmaPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  if (peer.state == PeerState::lost) {
    unsendable_.push_back(&operation);
    return;
  }
  peer.queue.push_back(&operation);
  ++queued_;
  if (peer.state == PeerState::fresh) contact(peer);
  pump(peer);
}

bool RdmaPath::withdraw(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  if (operation.header_sent || !operation.linked() || peer.state == PeerState::lost) return false;
  IntrusiveList<SendOperation>::remove(&operation);
  --queued_;
  return true;
}

void RdmaPath::block(Peer& peer) {
  if (peer.blocked) return;
  peer.blocked = true;
  blocked_.push_back(&peer);
}

// Sends of the queue what credit, slots and the send queue allow; nothing while a put waits to be posted, which
// messages must not overtake.
void RdmaPath::pump(Peer& peer) {
  using Type = wire::RdmaFrameType;
  if (peer.state != PeerState::ready || !peer.transfers.empty()) return;
  while (SendOperation* operation = peer.queue.front()) {
    if (peer.credits == 0) return;  // an arrival brings us here again
    size_t left = operation->payload.remaining();
    Type type = Type::more;
    if (!operation->header_sent) {
      bool fits = wire::rdma_head_bytes(Type::whole) + left <= peer.frame_bytes;
      type = fits ? Type::whole : Type::first;
    }
    size_t part = std::min(left, peer.frame_bytes - wire::rdma_head_bytes(type));
    if (!post_frame(peer, type, operation->header, operation->total_bytes, nullptr, &operation->payload, part)) {
      block(peer);
      return;
    }
    operation->header_sent = true;
    if (part < left) continue;
    IntrusiveList<SendOperation>::remove(operation);
    --queued_;
    finished_.push_back(operation);
  }
}

int RdmaPath::complete_finished() {
  int handled = 0;
  while (SendOperation* operation = finished_.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  while (SendOperation* operation = unsendable_.pop_front()) {
    ++handled;
    operation->done(*operation, reason(static_cast<Peer&>(*operation->lane)));
  }
  while (TransferOperation* operation = untransferable_.pop_front()) {
    ++handled;
    operation->done(*operation, reason(static_cast<Peer&>(*operation->lane)));
  }
  return handled;
}

int RdmaPath::poll() {
  bool timers = ++polls_ % kTimerPolls == 0;
  if (armed_) {
    armed_ = false;
    timers = true;
    channel_->drain();
    take_events();
  }
  int handled = adapter_failed_ ? 0 : take_completions();
  if (tuples_ && !adapter_failed_) handled += tuples_->poll();
  if (!taken_receives_.empty() && !adapter_failed_) repost_receives();
  handled += complete_finished();
  if (!blocked_.empty()) {
    std::vector<Peer*> blocked;
    blocked.swap(blocked_);
    for (Peer* peer : blocked) {
      peer->blocked = false;
      if (peer->owed >= peer->window / 2) give_credit(*peer);
      pump_transfers(*peer);
      pump(*peer);
    }
  }
  if (!broken_.empty()) handled += bury_broken();
  if (timers && (!greeted_.empty() || keepalive_due_ns_ != ~uint64_t{0})) run_timers(clock_.now_ns());
  return handled;
}

int RdmaPath::take_completions() {
  int handled = 0;
  for (size_t i = 0, count = std::exchange(stashed_, 0); i < count; ++i, ++handled) {
    rdma::Completion completion = stash_[i];
    handle(completion);
  }
  rdma::Completion batch[kBatch];
  size_t count = completions_->poll(batch, kBatch);
  for (size_t i = 0; i < count; ++i) handle(batch[i]);
  return handled + int(count);
}

void RdmaPath::handle(const rdma::Completion& completion) {
  auto tag = Tag(completion.id & 7);
  uint64_t value = completion.id >> 3;
  bool ok = completion.status == rdma::Status::success;
  auto returned = [&](Peer& peer) {
    --peer.outstanding;
    --outstanding_;
    if (!ok) break_peer(peer, rdma::status_name(completion.status));
  };
  switch (tag) {
    case Tag::receive: {
      auto found = ok ? by_number_.find(completion.queue_pair) : by_number_.end();
      if (found != by_number_.end()) {
        if (completion.kind == rdma::CompletionKind::receive_write) on_written(*found->second);
        else on_frame(*found->second, slot_memory(value), completion.bytes);
      }
      taken_receives_.push_back(uint32_t(value));
      return;
    }
    case Tag::slot: {
      Slot slot = slots_[value];
      Peer& peer = *peers_[slot.peer];
      returned(peer);
      if (slot.transfer) part_done(peer, *slot.transfer, &slots_[value], ok);
      free_slots_.push_back(uint32_t(value));
      return;
    }
    case Tag::inlined: returned(*peers_[value]); return;
    case Tag::transfer: {
      auto& transfer = *reinterpret_cast<Transfer*>(value << 3);
      auto& peer = static_cast<Peer&>(*transfer.operation->lane);
      returned(peer);
      part_done(peer, transfer, nullptr, ok);
      return;
    }
    case Tag::greeting_in: {
      if (ok && completion.bytes >= rdma::kUdHeaderBytes) {
        on_greeting(slot_memory(value) + rdma::kUdHeaderBytes, completion.bytes - rdma::kUdHeaderBytes);
      }
      rdma::Piece piece = slot_piece(value, slot_bytes_);
      rdma::ReceiveRequest receive{completion.id, &piece, 1};
      datagrams_->post_receives({&receive, 1});
      return;
    }
    case Tag::greeting_out: free_greetings_.push_back(uint32_t(value)); return;
  }
}

void RdmaPath::on_frame(Peer& peer, const std::byte* data, size_t bytes) {
  peer.heard = true;
  charge(options_.receive_ns);
  if (peer.state == PeerState::answered) become_ready(peer);
  wire::RdmaFrame frame;
  if (!wire::parse_rdma_frame(data, bytes, frame)) {
    break_peer(peer, "the peer sent what is no frame");
    return;
  }
  bool starved = peer.credits == 0;
  peer.credits += frame.credits;
  if (frame.type != wire::RdmaFrameType::credit) {
    on_message_frame(peer, frame);
    if (++peer.owed >= peer.window / 2) give_credit(peer);
  }
  if (starved && frame.credits != 0) pump(peer);
}

// A put that wakes: what it means is seen in the memory it has filled, by whoever waits for that.
void RdmaPath::on_written(Peer& peer) {
  peer.heard = true;
  if (peer.state == PeerState::answered) become_ready(peer);
  if (++peer.owed >= peer.window / 2) give_credit(peer);
}

void RdmaPath::on_message_frame(Peer& peer, const wire::RdmaFrame& frame) {
  Reception& reception = peer.reception;
  if (reception.active != (frame.type == wire::RdmaFrameType::more) ||
      (reception.active && frame.payload_bytes > reception.bytes - reception.received)) {
    break_peer(peer, "the peer's frames are out of step");
    return;
  }
  charge_copy(frame.payload_bytes);
  if (frame.type == wire::RdmaFrameType::whole) {
    sink_.on_message(peer, frame.header, frame.payload, frame.payload_bytes);
    return;
  }
  if (frame.type == wire::RdmaFrameType::first) {
    reception.active = true;
    reception.header = frame.header;
    reception.bytes = frame.message_bytes;
    reception.received = 0;
    reception.landing = sink_.on_header(peer, frame.header, frame.message_bytes);
  }
  reception.landing.target.unpack(frame.payload, frame.payload_bytes);
  reception.received += frame.payload_bytes;
  if (reception.received < reception.bytes) return;
  reception.active = false;
  sink_.on_landed(peer, reception.header, reception.landing, reception.bytes, Error());
}

void RdmaPath::give_credit(Peer& peer) {
  if (peer.owed == 0 || peer.state != PeerState::ready) return;
  if (!post_frame(peer, wire::RdmaFrameType::credit, {}, 0, nullptr, nullptr, 0)) block(peer);
}

void RdmaPath::repost_receives() {
  constexpr size_t kMost = 64;
  rdma::Piece pieces[kMost];
  rdma::ReceiveRequest requests[kMost];
  while (!taken_receives_.empty()) {
    size_t count = std::min(kMost, taken_receives_.size());
    for (size_t i = 0; i < count; ++i) {
      uint32_t slot = taken_receives_[taken_receives_.size() - 1 - i];
      pieces[i] = slot_piece(slot, slot_bytes_);
      requests[i] = {id_of(Tag::receive, slot), &pieces[i], 1};
    }
    size_t posted = receives_->post({requests, count});
    taken_receives_.resize(taken_receives_.size() - posted);
    if (posted < count) return;  // the next poll tries again
  }
}

bool RdmaPath::arm() {
  if (!adapter_failed_) {
    completions_->arm(false);
    armed_ = true;
    take_events();
  }
  if (stashed_ != 0 || !finished_.empty() || !unsendable_.empty() || !untransferable_.empty()) return false;
  for (const Peer* peer : broken_) {
    if (peer->outstanding == 0) return false;
  }
  if (adapter_failed_) return true;
  stashed_ = completions_->poll(stash_, kBatch);
  return (!tuples_ || tuples_->arm()) && stashed_ == 0;
}

}  // namespace tern
