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

namespace {

/// Partitions of one message: as many as fit an eager one, at least one; all, if they have no data.
int partitions_of_group(const Endpoint* endpoint, size_t partition_bytes, int partitions) {
  const size_t fit = endpoint && partition_bytes != 0 ? endpoint->eager_limit() / partition_bytes : size_t(partitions);
  return int(std::clamp<size_t>(fit, 1, size_t(partitions)));
}

Error marked_before(int partition) {
  return Error(ErrorClass::arg, "partition " + std::to_string(partition) +
                                    " was marked ready before. Each partition is marked once "
                                    "for each MPI_Start.");
}

}  // namespace

PartitionedSend::PartitionedSend(Environment& environment, const Arguments& arguments)
    : Request(Kind::partitioned),
      environment_(environment),
      arguments_(arguments),
      type_(Ref<Datatype>::share(arguments.type)),
      endpoint_(arguments.peer == kNoPeer ? nullptr : &environment.endpoints().at(arguments.peer)),
      partition_bytes_(size_t(arguments.count) * size_t(arguments.type->size())),
      total_bytes_(endpoint_ ? partition_bytes_ * size_t(arguments.partitions) : 0),
      group_partitions_(partitions_of_group(endpoint_, partition_bytes_, arguments.partitions)),
      marks_(arguments.partitions, group_partitions_),
      whole_(size_t(marks_.groups())) {
  make_persistent();
  if (endpoint_) {
    token_ = environment.name(*this);
    const wire::PartitionedOfferBody body{total_bytes_};
    environment.endpoints().post(
        *endpoint_,
        wire::make_header(wire::kPartitionedOffer, arguments.source, arguments.context, arguments.tag, token_), &body,
        sizeof body);
  }
}

void PartitionedSend::destroy() {
  if (token_ != 0) environment_.forget_send(token_);
  delete this;
}

Error PartitionedSend::start() {
  TERN_ASSERT(parts_in_flight_ == 0);
  restart();
  marks_.open();
  std::fill(whole_.begin(), whole_.end(), false);
  left_ = marks_.groups();
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
  TERN_DEBUG_ASSERT(endpoint_);
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
  TERN_DEBUG_ASSERT(!complete());
  ++parts_in_flight_;
  for (int group = 0; group < marks_.groups(); ++group) {
    int last = group;
    while (last < marks_.groups() && whole_[size_t(last)]) ++last;
    if (last != group) send(group, last - 1);
    group = last;
  }
  part_done({});
}

// --- Partitions that become ready

PartitionedSend::Marked PartitionedSend::mark(int first, int last) {
  Marked result;
  const auto each_word = [&](auto&& visit) {
    for (int partition = first; partition <= last; ++partition) {
      const int end = std::min(last, marks_.last_beside(partition));
      uint64_t bits = 0;
      for (; partition < end; ++partition) bits |= marks_.bit_of(partition);
      visit(marks_.word_of(end), bits | marks_.bit_of(end));
    }
  };
  result.refused = !exists(first) || !exists(last);
  if (result.refused) return result;
  if (first != last) {
    each_word([&](int word, uint64_t bits) { result.refused |= marks_.marked(word, bits); });
    if (result.refused) return result;
  }
  // Of the groups that the range touches, only the first and the last wait for others: the whole ones are a range.
  each_word([&](int word, uint64_t bits) {
    const ReadyMarks::Marked marked = marks_.mark(word, bits);
    result.refused |= marked.before;
    const int group = marks_.group_of_word(word);
    if (!marked.whole) return;
    if (result.groups == 0) result.first_group = group;
    if (result.first_group + result.groups == group) ++result.groups;
    else result.more_groups.push_back(group);
  });
  return result;
}

PartitionedSend::Marked PartitionedSend::mark(const int* list, int length) {
  Marked result;
  std::vector<uint64_t> bits(size_t(marks_.words()));
  for (int i = 0; i < length; ++i) {
    result.refused = !exists(list[i]);
    if (result.refused) return result;
    uint64_t& word = bits[size_t(marks_.word_of(list[i]))];
    const uint64_t bit = marks_.bit_of(list[i]);
    result.refused = word & bit || marks_.marked(marks_.word_of(list[i]), bit);
    if (result.refused) return result;
    word |= bit;
  }
  for (int word = 0; word < marks_.words(); ++word) {
    if (bits[size_t(word)] == 0) continue;
    const ReadyMarks::Marked marked = marks_.mark(word, bits[size_t(word)]);
    result.refused |= marked.before;
    if (marked.whole) result.more_groups.push_back(marks_.group_of_word(word));
  }
  return result;
}

Error PartitionedSend::check(int partition) const {
  if (!exists(partition)) {
    return Error(ErrorClass::arg, "partition " + std::to_string(partition) + " does not exist: the send has " +
                                      std::to_string(arguments_.partitions));
  }
  if (!active()) {
    return Error(ErrorClass::request,
                 "the partitioned send is not started. Call MPI_Start before its partitions are "
                 "marked ready.");
  }
  const bool failed = complete() && error;  // then all are marked (finish_if_done)
  if (!failed && marks_.marked(marks_.word_of(partition), marks_.bit_of(partition))) return marked_before(partition);
  return {};
}

Error PartitionedSend::why_refused(int first, int last) const {
  for (int partition = first; partition <= last; ++partition) {
    if (Error wrong = check(partition)) return wrong;
  }
  return {};
}

Error PartitionedSend::why_refused(const int* list, int length) const {
  for (int i = 0; i < length; ++i) {
    if (Error wrong = check(list[i])) return wrong;
    if (std::find(list, list + i, list[i]) != list + i) return marked_before(list[i]);
  }
  return {};
}

void PartitionedSend::note_whole(int group) {
  TERN_ASSERT(!whole_[size_t(group)] && left_ > 0);
  whole_[size_t(group)] = true;
  --left_;
}

void PartitionedSend::send_whole(const Marked& marked) {
  if (complete()) return;  // it has failed
  ++parts_in_flight_;
  for (int i = 0; i < marked.groups; ++i) note_whole(marked.first_group + i);
  for (int group : marked.more_groups) note_whole(group);
  if (may_send_) {
    if (marked.groups != 0) send(marked.first_group, marked.first_group + marked.groups - 1);
    for (int group : marked.more_groups) send(group, group);
  }
  part_done({});
}

// --- Data

void PartitionedSend::send(int first, int last) {
  TERN_ASSERT(may_send_ && first <= last && last < marks_.groups());
  TERN_ASSERT(whole_[size_t(first)] && whole_[size_t(last)]);
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
  TERN_DEBUG_ASSERT(message->payload.remaining() == bytes);
  ++parts_in_flight_;
  endpoint_->enqueue(*message);
}

// False: it is better sent, or cannot be put. Puts of point-to-point (p2p/core/transfers.h) are parts of a
// SendRequest's protocol; here there is none, and a put that fails goes as a message.
bool PartitionedSend::put(size_t offset, size_t bytes) {
  Endpoint& peer = *endpoint_;
  if (receiver_.address == 0 || bytes <= peer.eager_limit() || !type_->is_contiguous() || !peer.can_put()) return false;
  const CopySituation part{
      .side = CopySide::sender, .can_put = true, .stream_faster = peer.stream_is_faster(bytes, Traffic::one_way)};
  if (who_copies(part, [&] { return peer.peer_is_polling(); }) != Mover::put) return false;
  auto* put = new Put(*this, offset);
  put->local = Cursor::bytes(static_cast<std::byte*>(arguments_.buffer) + offset, bytes);
  put->remote_address = receiver_.address + offset;
  put->key = RemoteKey{{receiver_.key[0], receiver_.key[1]}};
  put->bytes = bytes;
  TERN_DEBUG_ASSERT(offset + bytes <= total_bytes_);
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
  TERN_DEBUG_ASSERT(receiver_.token != 0);
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
  TERN_DEBUG_ASSERT(error || left_ == 0);
  if (error) marks_.close();  // what is marked from now on does not matter
  environment_.ended();
  set_complete();
}

std::string PartitionedSend::report() const {
  if (complete()) return {};
  std::string line = "partitioned send to rank " + std::to_string(endpoint_ ? int(endpoint_->peer) : kProcNull) +
                     " (tag " + std::to_string(arguments_.tag) + "): ";
  if (left_ != 0) {
    line += std::to_string(arguments_.partitions - marks_.count()) + " of " + std::to_string(arguments_.partitions) +
            " partitions not marked ready";
  } else {
    line += may_send_ ? "on its way" : "the receiver has not started its side";
  }
  return line + "\n";
}

}  // namespace tern::partitioned
