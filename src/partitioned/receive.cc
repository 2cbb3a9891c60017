#include "partitioned/receive.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::partitioned {

PartitionedReceive::PartitionedReceive(Environment& environment, const Arguments& arguments)
    : Request(Kind::partitioned),
      environment_(environment),
      arguments_(arguments),
      type_(Ref<Datatype>::share(arguments.type)),
      partition_bytes_(size_t(arguments.count) * size_t(arguments.type->size())),
      total_bytes_(partition_bytes_ * size_t(arguments.partitions)),
      left_(size_t(arguments.partitions)) {
  make_persistent();
  if (arguments.peer == kNoPeer) total_bytes_ = 0;
  else endpoint_ = &environment.endpoints().at(arguments.peer);
}

void PartitionedReceive::destroy() {
  environment_.forget(*this, token_);
  delete this;
}

Error PartitionedReceive::start() {
  restart();
  environment_.began();
  left_bytes_ = total_bytes_;
  TERN_DEBUG_ASSERT(left_.size() == size_t(arguments_.partitions));
  std::fill(left_.begin(), left_.end(), total_bytes_ == 0 ? 0 : partition_bytes_);
  if (endpoint_ && endpoint_->lost()) {
    fail(environment_.endpoints().loss_of(endpoint_->peer));
  } else if (sender_token_ != 0) {
    open();
  } else if (!endpoint_) {
    status = kProcNullStatus;
    environment_.ended();
    set_complete();
  }
  return {};
}

void PartitionedReceive::matched(uint32_t sender_token, uint32_t token, uint64_t bytes) {
  TERN_ASSERT(endpoint_ && sender_token_ == 0 && sender_token != 0 && token != 0);
  sender_token_ = sender_token;
  token_ = token;
  sender_bytes_ = bytes;
  wire::PartitionedAnswerBody body{};
  body.bytes = total_bytes_;
  body.token = token;
  if (bytes == total_bytes_ && bytes != 0 && type_->is_contiguous() && !endpoint_->lost() && endpoint_->can_put()) {
    exposed_ = ExposedMemory(*endpoint_, arguments_.buffer, total_bytes_, {.write = true});
    if (!exposed_.empty()) {
      body.address = reinterpret_cast<uint64_t>(arguments_.buffer);
      body.key[0] = exposed_.key().words[0];
      body.key[1] = exposed_.key().words[1];
    }
  }
  environment_.endpoints().post(*endpoint_, wire::make_control_header(wire::kPartitionedAnswer, sender_token), &body,
                                sizeof body);
  if (!complete()) open();
}

// Started and matched.
void PartitionedReceive::open() {
  TERN_ASSERT(endpoint_ && sender_token_ != 0 && !complete());
  if (sender_bytes_ != total_bytes_) {
    fail(Error(ErrorClass::truncate, "the partitioned receive has " + std::to_string(total_bytes_) +
                                         " bytes, but the send that it matches " + std::to_string(sender_bytes_) +
                                         ". Both sides must describe the same amount of data."));
    return;
  }
  if (sender_gone_) {
    fail(Error(
        ErrorClass::request,
        "the partitioned send that this receive is matched with was freed before it sent: requests are matched in "
        "the order of MPI_Psend_init and MPI_Precv_init. Start or free both sides of a pair."));
    return;
  }
  environment_.endpoints().post(*endpoint_, wire::make_header(wire::kPartitionedOpen, 0, token_, 0, sender_token_));
}

void PartitionedReceive::sender_gone() {
  sender_gone_ = true;
  TERN_DEBUG_ASSERT(sender_token_ != 0);
  if (!complete()) open();
}

bool PartitionedReceive::expects(uint64_t offset, size_t bytes) const {
  return !complete() && bytes <= left_bytes_ && offset <= total_bytes_ && bytes <= total_bytes_ - offset;
}

Cursor PartitionedReceive::target(uint64_t offset, size_t bytes) {
  Cursor target(arguments_.buffer, arguments_.count * arguments_.partitions, *type_);
  target.truncate(size_t(offset) + bytes);
  target.skip(size_t(offset));
  return target;
}

void PartitionedReceive::landed(uint64_t offset, size_t bytes) {
  TERN_ASSERT(!complete() && bytes <= left_bytes_ && offset + bytes <= total_bytes_);
  left_bytes_ -= bytes;
  for (size_t at = size_t(offset), end = at + bytes; at < end;) {
    size_t& left = left_[at / partition_bytes_];
    const size_t here = std::min(end, (at / partition_bytes_ + 1) * partition_bytes_) - at;
    std::atomic_ref(left).store(left - std::min(left, here), std::memory_order_release);
    at += here;
  }
  if (left_bytes_ != 0) return;
  status.source = arguments_.source;
  status.tag = arguments_.tag;
  status.bytes = Count(total_bytes_);
  environment_.ended();
  set_complete();
}

void PartitionedReceive::fail(Error reason) {
  if (complete()) return;
  TERN_DEBUG_ASSERT(bool(reason));
  error = std::move(reason);
  environment_.ended();
  set_complete();
}

std::string PartitionedReceive::report() const {
  if (complete()) return {};
  return "partitioned receive from rank " + std::to_string(endpoint_ ? int(endpoint_->peer) : kProcNull) + " (tag " +
         std::to_string(arguments_.tag) + "): " +
         (sender_token_ == 0 ? "no matching MPI_Psend_init yet"
                             : std::to_string(left_bytes_) + " of " + std::to_string(total_bytes_) + " bytes to come") +
         "\n";
}

}  // namespace tern::partitioned
