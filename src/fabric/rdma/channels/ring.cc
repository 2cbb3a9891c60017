#include "fabric/rdma/channels/ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

std::unique_ptr<Ring> Ring::make(rdma::Hca& hca, uint32_t entries, size_t entry_bytes, Error& error) {
  TERN_ASSERT(entries != 0 && entry_bytes % 8 == 0);
  std::unique_ptr<Ring> ring(new Ring(entries, entry_bytes));
  const size_t bytes = ring->memory_bytes();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    error = Error(ErrorClass::no_mem, "no memory for a ring of RDMA buffers");
    return nullptr;
  }
  ring->memory_ = static_cast<std::byte*>(memory);
  rdma::Access access;
  access.remote_write = access.polled = true;
  error = hca.register_memory(memory, bytes, access, ring->region_);
  if (error) {
    error = std::move(error).context("registering a ring of " + std::to_string(bytes) + " bytes");
    return nullptr;
  }
  return ring;
}

Ring::~Ring() {
  region_.reset();
  if (memory_) munmap(memory_, memory_bytes());
}

void Ring::clear() {
  for (uint32_t i = 0; i < entries_; ++i) {
    std::memset(memory_ + (i + 1) * entry_bytes_ - wire::kRdmaArrivalBytes, 0, wire::kRdmaArrivalBytes);
  }
  count_ = 1;
  at_ = 0;
}

RingChannel::RingChannel(ChannelKind kind, Channel& carrier, std::unique_ptr<Channel> own_carrier, const Remote& remote,
                         size_t slot_bytes, bool ordered_writes)
    : Channel({.kind = kind,
               .frame_bytes = std::min(slot_bytes, remote.entry_bytes) - 2 * wire::kRdmaArrivalBytes,
               .tail_bytes = 2 * wire::kRdmaArrivalBytes,
               .requests = ordered_writes ? 1u : 2u,
               .keeps_memory = carrier.traits().keeps_memory}),
      own_carrier_(std::move(own_carrier)),
      carrier_(carrier),
      remote_(remote) {}

void RingChannel::post_frame(RdmaPeer& peer, rdma::WorkRequest& work, rdma::Piece& piece) {
  const uint32_t bytes = piece.bytes, rounded = (bytes + 7) / 8 * 8;
  TERN_DEBUG_ASSERT(bytes != 0 &&
                    rounded + 2 * wire::kRdmaArrivalBytes <= remote_.entry_bytes + wire::kRdmaArrivalBytes);
  const uint64_t word = wire::rdma_arrival_word(count_, bytes);
  std::memcpy(reinterpret_cast<std::byte*>(piece.address) + rounded, &word, sizeof word);
  const uint64_t word_at = remote_.address + (at_ + 1) * remote_.entry_bytes - sizeof word;
  work.verb = rdma::Verb::write;
  work.pieces = &piece;
  work.piece_count = 1;
  work.remote_address = word_at - rounded;
  work.remote_key = remote_.key;
  [[maybe_unused]] bool posted = true;
  if (traits().requests == 1) {
    piece.bytes = rounded + sizeof word;
    posted = carrier_.post(peer, work);
  } else {
    // The frame's memory is free when the second write is over, which is over after the first.
    rdma::WorkRequest frame = work;
    frame.id = RdmaAdapter::id_of(RdmaTag::inlined, peer.id);
    posted = carrier_.post(peer, frame);
    rdma::Piece last{piece.address + rounded, sizeof word, piece.local_key};
    work.pieces = &last;
    work.remote_address = word_at;
    posted &= carrier_.post(peer, work);
  }
  TERN_ASSERT(posted);  // the caller has checked for room
  ++count_;
  TERN_DEBUG_ASSERT(at_ < remote_.entries);
  if (++at_ == remote_.entries) at_ = 0;
}

}  // namespace tern
