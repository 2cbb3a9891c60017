#include "fabric/rdma/memory/rdma_slots.h"
#include "base/assert.h"

#include <sys/mman.h>

#include <string>

namespace tern {

Error RdmaSlots::make(rdma::Hca& hca, uint32_t receives, uint32_t sends, uint32_t greetings, size_t slot_bytes) {
  slot_bytes_ = slot_bytes;
  receives_ = receives;
  sends_ = sends;
  greetings_ = greetings;
  const size_t count = size_t(receives) + sends + 2 * size_t(greetings);
  memory_bytes_ = count * slot_bytes_;
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error(ErrorClass::no_mem, "no memory for RDMA buffers");
  memory_ = static_cast<std::byte*>(memory);
  if (Error error = hca.register_memory(memory_, memory_bytes_, rdma::Access{}, region_)) {
    return std::move(error).context("registering " + std::to_string(memory_bytes_) + " bytes of buffers (ulimit -l?)");
  }
  local_key_ = region_->local_key();
  TERN_DEBUG_ASSERT(slot_bytes_ != 0 && free_.empty());
  uses_.resize(count);
  for (uint32_t i = sends; i-- > 0;) free_.push_back(receives + i);
  return {};
}

RdmaSlots::~RdmaSlots() {
  region_.reset();
  if (memory_) munmap(memory_, memory_bytes_);
}

}  // namespace tern
