#include "capi/attached_buffer.h"

#include <algorithm>
#include <string>

#include "datatype/cursor.h"

namespace tern::capi {

/// MPI_Buffer_iflush and its siblings: complete when the messages that were in the buffer have left.
class FlushRequest final : public Request {
 public:
  FlushRequest(uint64_t before, size_t outstanding) : Request(Kind::done), before_(before), outstanding_(outstanding) {}

  bool waits_for(uint64_t number) const { return number < before_; }
  /// One message left; true when it was the last.
  bool left() { return --outstanding_ == 0; }

 private:
  void destroy() override { delete this; }
  uint64_t before_;
  size_t outstanding_;
};

AttachedBuffer::~AttachedBuffer() { reap(); }

void AttachedBuffer::attach(void* memory, Count bytes) {
  TERN_ASSERT(!attached_);
  attached_ = true;
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

void AttachedBuffer::detach(ProgressEngine& progress, void*& memory, Count& bytes) {
  flush(progress);
  memory = memory_;
  bytes = bytes_;
  attached_ = false;
  memory_ = nullptr;
  bytes_ = 0;
}

void AttachedBuffer::on_sent(Request& request) {
  auto& held = *static_cast<Held*>(request.watcher);
  auto& flushes = held.buffer->flushes_;
  // A flush that completes may be destroyed at once, so it leaves the list first.
  std::vector<FlushRequest*> finished;
  std::erase_if(flushes, [&](FlushRequest* flush) {
    bool done = flush->waits_for(held.number) && flush->left();
    if (done) finished.push_back(flush);
    return done;
  });
  for (FlushRequest* flush : finished) flush->set_complete();
  if (held.user && !held.user->complete()) held.user->answered(request);
}

void AttachedBuffer::reap() {
  for (auto held = held_.begin(); held != held_.end();) {
    if (!held->request->complete()) {
      ++held;
      continue;
    }
    if (BufferedSend* user = held->user) {
      user->held_ = nullptr;
      user->left_ = held->request;
      user->left_->on_complete = nullptr;
    } else {
      held->request->release();
    }
    held = held_.erase(held);
  }
}

bool AttachedBuffer::find_room(size_t bytes, std::list<Held>::iterator& before, size_t& begin) {
  reap();
  before = held_.end();
  begin = 0;
  if (memory_ == nullptr) return true;
  for (before = held_.begin(); before != held_.end(); ++before) {
    if (before->begin - begin >= bytes) return true;
    begin = before->end;
  }
  return static_cast<size_t>(bytes_) - begin >= bytes;
}

Error AttachedBuffer::send(Communicator& comm, const void* data, Count count, const Datatype& type, int dest, int tag,
                           const Datatype& bytes_type, BufferedSend* user) {
  size_t bytes = static_cast<size_t>(count * type.size()), begin = 0;
  std::list<Held>::iterator before;
  if (!find_room(bytes, before, begin)) {
    // Messages may have left without a call that noticed it.
    comm.p2p(tag).progress().poll_all();
    if (!find_room(bytes, before, begin)) {
      return Error(ErrorClass::buffer, "the attached buffer of " + std::to_string(bytes_) +
                                           " bytes has no room for a message of " + std::to_string(bytes) + " bytes (" +
                                           std::to_string(held_.size()) +
                                           " messages are in it). Attach a larger buffer, or "
                                           "MPI_BUFFER_AUTOMATIC.");
    }
  }
  Held& held = *held_.insert(before, Held{this, next_number_++, begin, begin + bytes, nullptr, nullptr,
                                          Ref<Communicator>::share(&comm), user});
  std::byte* place = memory_ + begin;
  if (memory_ == nullptr) {
    held.own.reset(new std::byte[bytes ? bytes : 1]);
    place = held.own.get();
  }
  Cursor(const_cast<void*>(data), count, type).pack(place, bytes);
  held.request = comm.p2p(tag).isend(comm.send_arguments(place, static_cast<Count>(bytes), bytes_type, dest, tag));
  if (!held.request->complete()) {
    held.request->watcher = &held;
    held.request->on_complete = on_sent;
  }
  if (user) user->held_ = &held;
  return {};
}

void BufferedSend::cancel() {
  // Messages that have left then belong to this request, so that a flush counts them once.
  if (held_) held_->buffer->reap();
  Request* message = held_ ? held_->request : left_;
  if (!message || !complete_) return;
  complete_ = false;
  message->cancel();
  if (message->complete()) {
    if (!complete_) answered(*message);  // else on_sent has been here
    return;
  }
  if (held_) return;  // on_sent calls answered
  message->watcher = this;
  message->on_complete = [](Request& r) { static_cast<BufferedSend*>(r.watcher)->answered(r); };
  message->release();  // destroys itself after the answer
  left_ = nullptr;
}

void BufferedSend::answered(const Request& message) {
  status.cancelled = message.status.cancelled;
  set_complete();
}

void BufferedSend::forget() {
  if (held_) held_->user = nullptr;
  if (left_) left_->release();
  held_ = nullptr;
  left_ = nullptr;
}

void AttachedBuffer::flush(ProgressEngine& progress) {
  uint64_t before = next_number_;
  progress.wait_until([&] {
    reap();
    return std::none_of(held_.begin(), held_.end(), [&](const Held& held) { return held.number < before; });
  });
}

bool AttachedBuffer::holds(const Communicator& comm) {
  reap();
  return std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return held.comm.get() == &comm; });
}

Request* AttachedBuffer::iflush() {
  reap();
  auto* flush = new FlushRequest(next_number_, held_.size());
  if (held_.empty()) {
    flush->set_complete();
  } else {
    flushes_.push_back(flush);
  }
  return flush;
}

}  // namespace tern::capi
