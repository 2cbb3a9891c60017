#include "partitioned/send.h"

#include <algorithm>

#include "base/assert.h"
#include "p2p/core/endpoint.h"
#include "p2p/core/who_copies.h"

namespace tern::partitioned {

/// A run of groups on its way as one message.
struct PartitionedSend::Message : SendOperation {
  explicit Message(PartitionedSend& owner) : send(owner) {
    done = [](SendOperation& operation, Error error) {
      auto& self = static_cast<Message&>(operation);
      PartitionedSend& its = self.send;
      delete &self;
      its.part_done(std::move(error));
    };
  }
  PartitionedSend& send;
};

/// A run of groups that is put.
struct PartitionedSend::Put : TransferOperation {
  Put(PartitionedSend& owner, size_t at) : send(owner), offset(at) {
    done = [](TransferOperation& operation, Error failed) {
      auto& self = static_cast<Put&>(operation);
      self.error = std::move(failed);
      self.finished = true;
      if (!self.in_call) self.end();
    };
  }
  void end() {
    PartitionedSend& owner = send;
    const size_t at = offset, length = bytes;
    const bool untold = !told;
    Error failed = std::move(error);
    delete this;
    // The receiver waits for the data, or for word of it: what was not put goes as a message.
    if (!owner.endpoint_->lost()) {
      if (failed && untold) owner.send_message(at, length);
      else if (untold) owner.tell_landed(at, length);
      if (untold) failed = Error();
    }
    owner.part_done(std::move(failed));
  }
  PartitionedSend& send;
  size_t offset;
  Error error;
  bool finished = false, in_call = false;
  bool told = false;
};

PartitionedSend::PartitionedSend(Environment& environment, const Arguments& arguments)
    : Request(Kind::partitioned),
      environment_(environment),
      arguments_(arguments),
      type_(Ref<Datatype>::share(arguments.type)),
      partition_bytes_(size_t(arguments.count) * size_t(arguments.type->size())),
      total_bytes_(partition_bytes_ * size_t(arguments.partitions)) {
  make_persistent();
  marked_.resize(size_t(arguments.partitions));
  if (arguments.peer == kNoPeer) {
    total_bytes_ = 0;
  } else {
    endpoint_ = &environment.endpoints().at(arguments.peer);
    token_ = environment.name(*this);
    const wire::PartitionedOfferBody body{total_bytes_};
    environment.endpoints().post(
        *endpoint_,
        wire::make_header(wire::kPartitionedOffer, arguments.source, arguments.context, arguments.tag, token_), &body,
        sizeof body);
  }
  const size_t aggregate =
      endpoint_ && partition_bytes_ != 0 ? endpoint_->eager_limit() / partition_bytes_ : size_t(arguments.partitions);
  group_partitions_ = int(std::clamp<size_t>(aggregate, 1, size_t(arguments.partitions)));
  left_in_group_.resize(size_t((arguments.partitions + group_partitions_ - 1) / group_partitions_));
}

void PartitionedSend::destroy() {
  if (token_ != 0) environment_.forget_send(token_);
  delete this;
}

Error PartitionedSend::start() {
  TERN_ASSERT(parts_in_flight_ == 0);
  restart();
  std::fill(marked_.begin(), marked_.end(), false);
  std::fill(left_in_group_.begin(), left_in_group_.end(), group_partitions_);
  const int rest = arguments_.partitions % group_partitions_;
  if (rest != 0) left_in_group_.back() = rest;
  left_ = arguments_.partitions;
  may_send_ = opens_ != 0;
  if (may_send_) --opens_;
  environment_.began();
  if (endpoint_ && endpoint_->lost()) error = environment_.endpoints().loss_of(endpoint_->peer);
  else if (answered_) matched(receiver_);
  finish_if_done();
  return {};
}

void PartitionedSend::matched(const wire::PartitionedAnswerBody& answer) {
  receiver_ = answer;
  answered_ = true;
  if (complete()) return;
  if (receiver_freed()) {
    error =
        Error(ErrorClass::request,
              "the partitioned receive that this send is matched with was freed without a start: requests are matched "
              "in the order of MPI_Psend_init and MPI_Precv_init. Start or free both sides of a pair.");
    finish_if_done();
    return;
  }
  if (answer.bytes == total_bytes_) return;
  error = Error(ErrorClass::truncate, "the partitioned send has " + std::to_string(total_bytes_) +
                                          " bytes, but the receive that it matches " + std::to_string(answer.bytes) +
                                          ". Both sides must describe the same amount of data.");
  finish_if_done();
}

void PartitionedSend::opened() {
  if (complete() || may_send_) {
    ++opens_;
    return;
  }
  may_send_ = true;
  ++parts_in_flight_;
  for (int group = 0; group < groups(); ++group) {
    int last = group;
    while (last < groups() && left_in_group_[size_t(last)] == 0) ++last;
    if (last != group) send(group, last - 1);
    group = last;
  }
  part_done({});
}

// --- Partitions that become ready

Error PartitionedSend::check(int partition) const {
  if (partition < 0 || partition >= arguments_.partitions) {
    return Error(ErrorClass::arg, "partition " + std::to_string(partition) + " does not exist: the send has " +
                                      std::to_string(arguments_.partitions));
  }
  if (!active()) {
    return Error(ErrorClass::request,
                 "the partitioned send is not started. Call MPI_Start before its partitions are "
                 "marked ready.");
  }
  if (marked_[size_t(partition)]) {
    return Error(ErrorClass::arg, "partition " + std::to_string(partition) +
                                      " was marked ready before. Each partition is marked once "
                                      "for each MPI_Start.");
  }
  return {};
}

Error PartitionedSend::ready(int first, int last) {
  for (int partition = first; partition <= last; ++partition) {
    if (Error wrong = check(partition)) return wrong;
  }
  ++parts_in_flight_;
  for (int partition = first; partition <= last; ++partition) mark(partition);
  if (may_send_) {
    // Of the groups that the range touches, only the first and the last may still wait for others.
    int begin = group_of(first), end = group_of(last);
    if (left_in_group_[size_t(begin)] != 0) ++begin;
    if (end >= begin && left_in_group_[size_t(end)] != 0) --end;
    if (begin <= end) send(begin, end);
  }
  part_done({});
  return {};
}

Error PartitionedSend::ready(const int* list, int length) {
  for (int i = 0; i < length; ++i) {
    Error wrong = check(list[i]);
    if (!wrong) {
      marked_[size_t(list[i])] = true;
      continue;
    }
    while (i-- > 0) marked_[size_t(list[i])] = false;
    return wrong;
  }
  ++parts_in_flight_;
  for (int i = 0; i < length; ++i) {
    mark(list[i]);
    const int group = group_of(list[i]);
    if (may_send_ && left_in_group_[size_t(group)] == 0) send(group, group);
  }
  part_done({});
  return {};
}

void PartitionedSend::mark(int partition) {
  int& left_here = left_in_group_[size_t(group_of(partition))];
  TERN_ASSERT(left_here > 0 && left_ > 0);
  marked_[size_t(partition)] = true;
  --left_here;
  --left_;
}

// --- Data

void PartitionedSend::send(int first, int last) {
  TERN_ASSERT(may_send_ && first <= last && last < groups());
  TERN_ASSERT(left_in_group_[size_t(first)] == 0 && left_in_group_[size_t(last)] == 0);
  const size_t group_bytes = partition_bytes_ * size_t(group_partitions_);
  const size_t offset = size_t(first) * group_bytes;
  const size_t end = std::min(size_t(last + 1) * group_bytes, total_bytes_);
  // Partitions without data are one group: its message tells the receiver that all are ready.
  if (!endpoint_ || error || receiver_.token == 0) return;
  if (!put(offset, end - offset)) send_message(offset, end - offset);
}

void PartitionedSend::send_message(size_t offset, size_t bytes) {
  const wire::Header header =
      wire::make_header(wire::kPartitionedData, arguments_.source, offset, arguments_.tag, receiver_.token);
  if (type_->is_contiguous() && bytes <= endpoint_->eager_limit() &&
      endpoint_->try_send(header, static_cast<const std::byte*>(arguments_.buffer) + offset, bytes)) {
    return;
  }
  auto* message = new Message(*this);
  message->header = header;
  message->payload = Cursor(arguments_.buffer, arguments_.count * arguments_.partitions, *type_);
  message->payload.truncate(offset + bytes);
  message->payload.skip(offset);
  ++parts_in_flight_;
  endpoint_->enqueue(*message);
}

// False: it is better sent, or cannot be put. Puts of point-to-point (p2p/core/transfers.h) are parts of a
// SendRequest's protocol; here there is none, and a put that fails goes as a message.
bool PartitionedSend::put(size_t offset, size_t bytes) {
  Endpoint& peer = *endpoint_;
  if (receiver_.address == 0 || bytes <= peer.eager_limit() || !type_->is_contiguous() || !peer.can_put()) return false;
  const CopySituation part{.side = CopySide::sender, .can_put = true, .stream_faster = peer.stream_is_faster(bytes)};
  if (who_copies(part, [&] { return peer.peer_is_polling(); }) != Mover::put) return false;
  auto* put = new Put(*this, offset);
  put->local = Cursor::bytes(static_cast<std::byte*>(arguments_.buffer) + offset, bytes);
  put->remote_address = receiver_.address + offset;
  put->key = RemoteKey{{receiver_.key[0], receiver_.key[1]}};
  put->bytes = bytes;
  put->lane = &peer.lane();
  put->in_call = true;
  ++parts_in_flight_;
  peer.memory->put(*put);
  put->in_call = false;
  if (put->finished) {
    put->end();
  } else if (peer.memory->remote_properties().puts_before_messages) {
    put->told = true;
    tell_landed(offset, bytes);
  }
  return true;
}

void PartitionedSend::tell_landed(size_t offset, size_t bytes) {
  const wire::PartitionedLandedBody body{bytes};
  environment_.endpoints().post(
      *endpoint_,
      wire::make_header(wire::kPartitionedLanded, arguments_.source, offset, arguments_.tag, receiver_.token), &body,
      sizeof body);
}

// --- The end

void PartitionedSend::part_done(Error failed) {
  TERN_ASSERT(parts_in_flight_ > 0);
  --parts_in_flight_;
  if (failed && !error) error = std::move(failed);
  finish_if_done();
}

void PartitionedSend::lost() {
  if (complete()) return;
  if (!error) error = environment_.endpoints().loss_of(endpoint_->peer);
  finish_if_done();
}

void PartitionedSend::finish_if_done() {
  if (complete() || parts_in_flight_ != 0) return;
  if (!error && (left_ != 0 || (endpoint_ && !may_send_))) return;
  environment_.ended();
  set_complete();
}

std::string PartitionedSend::report() const {
  if (complete()) return {};
  std::string line = "partitioned send to rank " + std::to_string(endpoint_ ? int(endpoint_->peer) : kProcNull) +
                     " (tag " + std::to_string(arguments_.tag) + "): ";
  if (left_ != 0) {
    line += std::to_string(left_) + " of " + std::to_string(arguments_.partitions) + " partitions not marked ready";
  } else {
    line += may_send_ ? "on its way" : "the receiver has not started its side";
  }
  return line + "\n";
}

}  // namespace tern::partitioned
