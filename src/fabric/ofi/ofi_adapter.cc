#include "fabric/ofi/ofi_adapter.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/path.h"
#include "wire/ofi.h"

namespace tern {
namespace {

constexpr size_t kFrameAlign = 64;  // of a frame's memory: a cache line
// Buffers that each take many messages. While one is posted again, the others take what comes.
constexpr size_t kManyBuffers = 4;
// What adapters send eagerly, most of them (fi_cxi(7), fi_psm3(7)).
constexpr size_t kPartBytes = 16 * 1024;
constexpr size_t kLeastPayload = kAlwaysWholeBytes;  // protocols count on it

}  // namespace

size_t ofi_part_bytes(const Tunables& tunables, const ofi::Capabilities& able) {
  if (tunables.ofi_eager_bytes != 0) return size_t(tunables.ofi_eager_bytes);
  return able.streams ? ofi::kStreamedPartBytes : kPartBytes;
}

size_t ofi_frame_bytes(const Tunables& tunables, const ofi::Capabilities& able) {
  const size_t wanted = wire::kOfiMaxHeadBytes + std::max(ofi_part_bytes(tunables, able), kLeastPayload);
  return std::min((wanted + kFrameAlign - 1) / kFrameAlign * kFrameAlign, able.max_bytes);
}

OfiAdapter::OfiAdapter(const OfiOptions& its_options, const Tunables& tunables, std::unique_ptr<ofi::Port> its_port,
                       Clock& its_clock)
    : options(its_options),
      clock(its_clock),
      port(std::move(its_port)),
      registrar_(*port),
      registrations(RegistrationCache::create(registrar_, able().pins ? Keep::watched : Keep::nothing,
                                              uint64_t(tunables.rdma_registration_bytes))),
      sends_(std::clamp<size_t>(able().sends, 1, size_t(tunables.ofi_sends))) {
  frame_bytes = ofi_frame_bytes(tunables, able());
  TERN_ASSERT(!able().multi_receive || able().least_room >= frame_bytes);
  const auto all = size_t(tunables.ofi_receive_bytes);
  receive_bytes_ = able().multi_receive ? std::max(all / kManyBuffers, 2 * frame_bytes) : frame_bytes;
  const size_t most = std::max<size_t>(able().receives, 1);
  const size_t count = able().multi_receive ? kManyBuffers : std::max<size_t>(all / frame_bytes, kManyBuffers);
  receives_ = std::vector<Receive>(std::min(count, most));
  buffers_ = std::vector<OfiBuffer>(sends_);
}

Error OfiAdapter::start() {
  if (frame_bytes < wire::kOfiMaxHeadBytes + kLeastPayload) {
    return Error(ErrorClass::unsupported_operation, "provider " + able().provider + ": its messages have at most " +
                                                        std::to_string(able().max_bytes) + " bytes, too few for Tern");
  }
  send_memory_ = std::make_unique_for_overwrite<std::byte[]>(buffers_.size() * frame_bytes);
  receive_memory_ = std::make_unique_for_overwrite<std::byte[]>(receives_.size() * receive_bytes_);
  if (able().needs_local) {
    int error = 0;
    send_region_ = port->register_memory(send_memory_.get(), buffers_.size() * frame_bytes, {}, error);
    if (send_region_)
      receive_region_ = port->register_memory(receive_memory_.get(), receives_.size() * receive_bytes_, {}, error);
    if (!receive_region_) return Error(ErrorClass::no_mem, port->explain("fi_mr_reg", error));
  }
  for (size_t i = buffers_.size(); i-- > 0;) {
    buffers_[i].memory = send_memory_.get() + i * frame_bytes;
    free_.push_back(&buffers_[i]);
  }
  for (size_t i = 0; i < receives_.size(); ++i) {
    receives_[i].memory = receive_memory_.get() + i * receive_bytes_;
    taken_.push_back(&receives_[i]);
  }
  repost();
  return {};
}

const std::byte* OfiAdapter::message_of(const ofi::Completion& completion) const {
  if (completion.error != 0 || !completion.message) return nullptr;
  if (able().multi_receive) return completion.data;
  return static_cast<const Receive*>(completion.context)->memory;
}

void OfiAdapter::receive_handled(const ofi::Completion& completion) {
  if (!able().multi_receive || completion.released) taken_.push_back(static_cast<Receive*>(completion.context));
}

int OfiAdapter::take_stash(ofi::Completion* out, int most) {
  const int count = std::min(most, int(stash_.size()));
  std::copy_n(stash_.begin(), count, out);
  stash_.erase(stash_.begin(), stash_.begin() + count);
  return count;
}

void OfiAdapter::make_room() {
  ofi::Completion completion;
  if (port->poll(&completion, 1) == 1) stash(completion);
}

void OfiAdapter::repost_slow() {
  while (!taken_.empty()) {
    Receive& receive = *taken_.back();
    const ofi::Piece piece{receive.memory, receive_bytes_, receive_region_.get()};
    if (port->receive(piece, able().multi_receive, receive) != 0) return;  // the next poll tries again
    taken_.pop_back();
  }
}

}  // namespace tern
