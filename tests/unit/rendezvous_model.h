// The model for rendezvous_model_test.cc: a path whose every step is one of an explorer's choices. Units: bytes.
// Thread rule: one thread.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fabric/path.h"
#include "tests/unit/choices.h"

namespace tern::test {

inline constexpr size_t kEager = 8, kHybrid = 16, kPiece = 10;

struct Kind {
  const char* name;
  bool get, put, autonomous;
  bool ordered;  ///< messages come after the puts before them
  bool watched;  ///< and the bytes of a put come in address order
};
inline constexpr Kind kKinds[] = {
    {"messages only", false, false, false, false, false},
    {"copies by the CPU", true, true, false, false, false},
    {"adapter, in address order", true, true, true, true, true},
    {"adapter, messages after puts", true, true, true, true, false},
    {"adapter, unordered", true, true, true, false, false},
};

class ModelPath;

struct Item {
  wire::Header header{};
  std::vector<std::byte> bytes;
  TransferOperation* put = nullptr;  ///< ordered puts travel among the messages
};

struct Model {
  Explorer& explorer;
  const Kind& kind;
  ModelPath* ends[2] = {};
  std::deque<Item> toward[2];
  std::vector<TransferOperation*> flying;  ///< gets and unordered puts
  std::vector<bool> flying_is_put;
};

class ModelPath final : public Path, public RemoteMemory, public CopyArbiter {
 public:
  ModelPath(Model& model, PeerId me, Sink& sink) : model_(model), me_(me), lane_(1 - me), sink_(sink) {
    properties_.name = "model";
    properties_.eager_bytes = kEager;
    remote_properties_.get = model.kind.get;
    remote_properties_.put = model.kind.put;
    remote_properties_.autonomous = model.kind.autonomous;
    remote_properties_.puts_before_messages = model.kind.ordered;
    remote_properties_.ordered_writes = model.kind.watched;
    arbiter_properties_.copy_locks = model.kind.get && !model.kind.autonomous;
    arbiter_properties_.piece_bytes = model.kind.autonomous ? 0 : kPiece;
    properties_.announce_from_bytes = kEager + 1;
    properties_.hybrid_bytes = model.kind.get ? kHybrid : 0;
    model.ends[me] = this;
  }
  bool reaches(PeerId peer) const override { return peer != me_; }
  Lane& lane(PeerId) override { return lane_; }
  RemoteMemory* remote_memory() override { return this; }
  CopyArbiter* copy_arbiter() override { return this; }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override {
    auto* data = static_cast<const std::byte*>(payload);
    model_.toward[lane.id].push_back({header, std::vector<std::byte>(data, data + bytes), nullptr});
    return true;
  }
  void enqueue(SendOperation& operation) override {
    Item item{operation.header, std::vector<std::byte>(operation.payload.remaining()), nullptr};
    operation.payload.pack(item.bytes.data(), item.bytes.size());
    model_.toward[operation.lane->id].push_back(std::move(item));
    sent_.push_back(&operation);
  }
  RemoteKey expose(const void* address, size_t bytes, RemoteAccess) override {
    exposed_[++next_key_] = {static_cast<const std::byte*>(address), bytes};
    return {{next_key_, 1}};
  }
  void conceal(const RemoteKey& key) override {
    EXPECT_EQ(exposed_.erase(key.words[0]), 1u);
    locks_.erase(key.words[0]);
  }
  bool add_copy_lock(RemoteKey& key) override {
    locks_.insert(key.words[0]);
    key.words[1] = 2;
    return true;
  }
  bool try_lock_copy(Lane* owner, const RemoteKey& key) override {
    ModelPath& of = owner ? *model_.ends[owner->id] : *this;
    return key.words[1] != 2 || of.locks_.erase(key.words[0]) == 1;
  }
  bool can_get(Lane&) override { return model_.kind.get; }
  bool can_put(Lane&) override { return model_.kind.put; }
  bool can_get_lent(Lane&) override { return model_.kind.get; }
  bool peer_is_polling(Lane&, bool) override { return model_.explorer.choose(2) == 0; }
  void get(TransferOperation& operation) override { begin(operation, false); }
  void put(TransferOperation& operation) override { begin(operation, true); }
  bool has_unsent() const override { return false; }

  /// A poll from inside of the library finds all or nothing; the explorer's own finds one message.
  int poll() override {
    int done = 0;
    bool all = !allowed_ && busy() && model_.explorer.choose(2) == 1;
    while (all || allowed_ > 0) {
      if (allowed_ > 0) --allowed_;
      if (SendOperation* operation = sent_.pop_front()) {
        operation->done(*operation, Error());
      } else if (TransferOperation* transfer = confirmed_.pop_front()) {
        transfer->done(*transfer, Error());
      } else if (!deliver()) {
        break;
      }
      ++done;
    }
    return done;
  }
  bool busy() { return !sent_.empty() || !confirmed_.empty() || !model_.toward[me_].empty(); }
  void allow_one() { allowed_ = 1; }

  /// The bytes of a put or get move.
  void move(TransferOperation& operation, bool put) {
    auto found = exposed_.find(operation.key.words[0]);
    ASSERT_NE(found, exposed_.end()) << (put ? "put into" : "get of") << " memory that is not exposed";
    auto* memory = const_cast<std::byte*>(found->second.first);
    ASSERT_GE(operation.remote_address, uint64_t(uintptr_t(memory)));
    size_t offset = operation.remote_address - uint64_t(uintptr_t(memory));
    ASSERT_LE(offset + operation.bytes, found->second.second);
    memory += offset;
    if (put) operation.local.pack(memory, operation.bytes);
    else operation.local.unpack(memory, operation.bytes);
    model_.ends[1 - me_]->confirmed_.push_back(&operation);
  }
  size_t exposed() const { return exposed_.size(); }

 private:
  void begin(TransferOperation& operation, bool put) {
    ModelPath& owner = *model_.ends[operation.lane->id];
    if (!model_.kind.autonomous) {
      owner.move(operation, put);
      if (model_.explorer.choose(2) == 0) {  // done at once, or at the next poll
        IntrusiveList<TransferOperation>::remove(&operation);
        operation.done(operation, Error());
      }
    } else if (put && model_.kind.ordered) {
      model_.toward[operation.lane->id].push_back({{}, {}, &operation});
    } else {
      model_.flying.push_back(&operation);
      model_.flying_is_put.push_back(put);
    }
  }
  bool deliver() {
    auto& queue = model_.toward[me_];
    if (queue.empty()) return false;
    Item item = std::move(queue.front());
    queue.pop_front();
    if (item.put) {
      move(*item.put, true);
    } else {
      sink_.on_message(lane_, item.header, item.bytes.data(), item.bytes.size());
    }
    return true;
  }

  Model& model_;
  PeerId me_;
  struct PeerLane : Lane {
    using Lane::Lane;
  } lane_;
  Sink& sink_;
  IntrusiveList<SendOperation> sent_;
  IntrusiveList<TransferOperation> confirmed_;
  std::map<uint64_t, std::pair<const std::byte*, size_t>> exposed_;
  std::set<uint64_t> locks_;  ///< keys whose copy lock is open
  uint64_t next_key_ = 0;
  int allowed_ = 0;
};

}  // namespace tern::test
