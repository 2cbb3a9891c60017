#include "fabric/scheduler/unconfirmed.h"

#include <cstring>

#include "base/assert.h"

namespace tern::scheduler {
namespace {

// Memory of longer copies is used again. (malloc gives such blocks back to the kernel: 64 KiB over TCP took 7 %
// longer.)
constexpr size_t kSpareBytes = 8 * 1024;
constexpr size_t kMaxSpare = 4;

}  // namespace

Unconfirmed::~Unconfirmed() {
  while (Record* record = records_.pop_front()) recycle(*record);
}

Unconfirmed::Record& Unconfirmed::new_record(const wire::Header& header, size_t bytes) {
  Record& record = *shared_.records.take();
  record.owner = this;
  record.header = header;
  record.bytes = bytes;
  TERN_DEBUG_ASSERT(!record.user && !record.in_path && !record.confirmed && !record.copied && !record.heap);
  records_.push_back(&record);
  return record;
}

void Unconfirmed::add_copy(const wire::Header& header, const void* payload, size_t bytes) {
  Record& record = new_record(header, bytes);
  std::byte* memory = memory_for_copy(record);
  if (bytes != 0) std::memcpy(memory, payload, bytes);
  record.copied = true;
  copied_bytes_ += bytes;
}

SendOperation& Unconfirmed::add(SendOperation& user) {
  TERN_ASSERT(!user.linked());
  Record& record = new_record(user.header, user.total_bytes);
  record.user = &user;
  record.original = user.payload;
  ++shared_.held;
  return prepare(record);
}

// For a path, the first time or again.
SendOperation& Unconfirmed::prepare(Record& record) {
  TERN_ASSERT(!record.in_path && !record.carried.linked() && (record.copied || record.user));
  record.carried.header = record.header;
  record.carried.header_sent = false;
  record.carried.payload = record.copied ? Cursor::bytes(record.data(), record.bytes) : record.original;
  record.in_path = true;
  ++in_paths_;
  return record.carried;
}

void Unconfirmed::path_is_done(SendOperation& operation, Error error) {
  Record& record = *static_cast<Carried&>(operation).record;
  record.owner->returned(record, bool(error));
}

// A path has finished with a message: it has taken all of it, or its lane is lost.
void Unconfirmed::returned(Record& record, bool failed) {
  TERN_ASSERT(record.in_path && in_paths_ != 0);
  record.in_path = false;
  --in_paths_;
  if (record.confirmed) {
    release(record);
  } else if (!failed && record.user && record.bytes <= kCopyBytes && copied_bytes_ < kMaxCopiedBytes) {
    copy(record);
  }
  if (in_paths_ == 0) shared_.returned(pair_);
}

std::byte* Unconfirmed::memory_for_copy(Record& record) {
  TERN_DEBUG_ASSERT(!record.heap);
  if (record.bytes > kSpareBytes && record.bytes <= kCopyBytes) {
    if (shared_.spare.empty()) {
      record.heap = std::make_unique_for_overwrite<std::byte[]>(kCopyBytes);
    } else {
      record.heap = std::move(shared_.spare.back());
      shared_.spare.pop_back();
    }
  } else if (record.bytes > Record::kInlineBytes) {
    record.heap = std::make_unique_for_overwrite<std::byte[]>(record.bytes);
  }
  return record.data();
}

// Copies the payload so that the send completes.
void Unconfirmed::copy(Record& record) {
  TERN_DEBUG_ASSERT(record.user && !record.copied && !record.in_path);
  record.original.pack(memory_for_copy(record), record.bytes);
  record.copied = true;
  copied_bytes_ += record.bytes;
  finish(record);
}

void Unconfirmed::finish(Record& record) {
  TERN_ASSERT(shared_.held != 0);
  --shared_.held;
  shared_.finished.push_back(std::exchange(record.user, nullptr));
  shared_.hints.dormant = false;
}

// The message has arrived. If its path still holds the operation, the record stays until the path returns it.
void Unconfirmed::release(Record& record) {
  if (record.in_path) {
    record.confirmed = true;
    return;
  }
  TERN_ASSERT(!record.copied || copied_bytes_ >= record.bytes);
  if (record.copied) copied_bytes_ -= record.bytes;
  if (record.user) finish(record);
  recycle(record);
}

// It is in no list.
void Unconfirmed::recycle(Record& record) {
  TERN_ASSERT(!record.linked());
  if (record.heap && record.bytes > kSpareBytes && record.bytes <= kCopyBytes && shared_.spare.size() < kMaxSpare)
    shared_.spare.push_back(std::move(record.heap));
  record.heap = nullptr;
  record.user = nullptr;
  record.in_path = record.confirmed = record.copied = false;
  shared_.records.give_back(&record);
}

void Unconfirmed::confirm_up_to(uint64_t count) {
  TERN_DEBUG_ASSERT(!records_.front() || records_.front()->owner == this);
  for (; confirmed_ < count && records_.front(); ++confirmed_) release(*records_.pop_front());
}

bool Unconfirmed::withdraw(SendOperation& user, Path& path) {
  for (Record* record = records_.back(); record; record = records_.previous(record)) {
    if (record->user != &user) continue;
    if (!record->in_path || !path.withdraw(record->carried)) return false;
    TERN_DEBUG_ASSERT(in_paths_ != 0 && shared_.held != 0);
    IntrusiveList<Record>::remove(record);
    --in_paths_;
    --shared_.held;
    recycle(*record);
    user.header_sent = false;
    return true;
  }
  return false;
}

void Unconfirmed::surrender(IntrusiveList<SendOperation>& users) {
  while (Record* record = records_.pop_front()) {
    if (record->user) {
      TERN_DEBUG_ASSERT(shared_.held != 0 && !record->copied);
      --shared_.held;
      users.push_back(std::exchange(record->user, nullptr));
    }
    release(*record);
  }
}

}  // namespace tern::scheduler
