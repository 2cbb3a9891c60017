// A provider for tests of the ofi path: ports in one process, joined by a wire that tests may cut, and whose
// capabilities they choose. It registers, matches tags and cancels as libfabric's manual says, and checks that nothing
// is asked that it has not stated. Operations are carried out by polls of their origin.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/ofi/ofi_port.h"

namespace tern::test {

using namespace ofi;

class FakePort;

/// What joins the ports.
struct FakeWire {
  Capabilities able = all();
  std::vector<FakePort*> ports;
  bool cut = false;          ///< every operation fails (fi_strerror: 107, not connected)
  bool silent = false;       ///< messages are lost without an error
  int stuck_from = -1;       ///< what this port sends stays with it, and it takes no second one
  uint64_t fail_tagged = 0;  ///< number of tagged sends that fail next
  static constexpr int kNotConnected = 107;

  static Capabilities all() {
    Capabilities able;
    able.provider = "fake";
    able.domain = "fake0";
    able.rma = able.atomics = able.atomic_swap = able.tagged = true;
    able.multi_receive = able.delivery_complete = able.match_complete = able.send_after_send = able.marks = true;
    able.inject_bytes = 64;
    able.max_bytes = 1 << 20;
    able.sends = able.receives = 64;
    able.receive_pieces = 4;
    able.tag_bits = ~uint64_t{0};
    return able;
  }
};

class FakePort final : public Port {
 public:
  explicit FakePort(FakeWire& wire) : wire_(wire) {
    capabilities_ = wire.able;
    address_ = "fake" + std::string(1, char('0' + wire.ports.size()));
    wire.ports.push_back(this);
  }
  ~FakePort() override { std::replace(wire_.ports.begin(), wire_.ports.end(), this, static_cast<FakePort*>(nullptr)); }

  int insert(std::string_view address, Address& result) override {
    result = Address(address.back() - '0');
    return 0;
  }
  void remove(Address) override {}

  int send(Address to, const Piece& piece, bool inject, Context& context) override {
    EXPECT_TRUE(!inject || piece.bytes <= capabilities_.inject_bytes);
    return begin({Verb::send, to, 0, piece, copy_of(piece), {}, 0, 0, {}, &context});
  }
  int receive(const Piece& piece, bool many, Context& context) override {
    EXPECT_TRUE(!many || capabilities_.multi_receive);
    receives_.push_back({piece, many, 0, &context});
    return 0;
  }
  int send_tagged(Address to, uint64_t tag, const Piece& piece, bool marked, Context& context) override {
    EXPECT_TRUE(capabilities_.tagged);
    return begin({Verb::tagged, to, tag, piece, copy_of(piece), {}, 0, 0, {}, &context, marked || !wire_.able.marks});
  }
  int receive_tagged(Address from, uint64_t tag, const Piece* pieces, size_t count, Context& context) override {
    EXPECT_LE(count, capabilities_.receive_pieces);
    tagged_.push_back({pieces[0], count > 1 ? pieces[1].bytes : 0, from, tag, &context});
    const auto kept = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Unexpected& message) {
      return message.from == from && message.tag == tag;
    });
    if (kept == unexpected_.end()) return 0;
    const Unexpected its = std::move(*kept);
    unexpected_.erase(kept);
    EXPECT_TRUE(take_tagged(from, tag, its.bytes, its.marked));
    return 0;
  }
  int write(Address to, const Piece& piece, uint64_t remote, uint64_t key, Context& context) override {
    return begin({Verb::write, to, 0, piece, {}, {}, remote, key, {}, &context});
  }
  int read(Address from, const Piece& piece, uint64_t remote, uint64_t key, Context& context) override {
    return begin({Verb::read, from, 0, piece, {}, {}, remote, key, {}, &context});
  }
  int atomic(Address to, AtomicOperation::Kind kind, const Piece& operands, const Piece& result, uint64_t remote,
             uint64_t key, Context& context) override {
    EXPECT_LE(result.bytes, capabilities_.atomic_words * sizeof(uint64_t));
    ++atomics;
    return begin({Verb::atomic, to, 0, operands, {}, result, remote, key, kind, &context});
  }

  std::unique_ptr<Region> register_memory(const void* address, size_t bytes, const MemoryRights&, int& error) override {
    error = 0;
    const uint64_t key = ++last_key_;
    auto* begin = static_cast<std::byte*>(const_cast<void*>(address));
    regions_[key] = {begin, begin + bytes};
    ++registered;
    return std::make_unique<FakeRegion>(*this, key);
  }

  void cancel(Context& context) override {
    for (auto receive = tagged_.begin(); receive != tagged_.end(); ++receive) {
      if (receive->context != &context) continue;
      tagged_.erase(receive);
      complete(&context, kCancelled);
      return;
    }
  }

  int poll(Completion* out, int most) override {
    for (size_t i = pending_.size(); i > 0; --i) {
      Operation operation = std::move(pending_.front());
      pending_.pop_front();
      if (!carry_out(operation)) pending_.push_back(std::move(operation));  // (a message that finds no receive)
    }
    int count = 0;
    for (; count < most && !completions_.empty(); ++count) {
      out[count] = completions_.front();
      completions_.pop_front();
    }
    return count;
  }

  std::string explain(const char* call, int error) const override {
    return "provider fake: " + std::string(call) + ": error " + std::to_string(std::abs(error));
  }

  size_t registered = 0, atomics = 0;  ///< ever
  size_t posted_tagged() const { return tagged_.size(); }
  void strange_message(const std::string& bytes) { (void)take_message(bytes); }
  const std::deque<std::string>& heard() const { return heard_; }

 private:
  enum class Verb : uint8_t { send, tagged, write, read, atomic };
  struct Operation {
    Verb verb;
    Address peer;
    uint64_t tag;
    Piece piece;
    std::string bytes;
    Piece answer;
    uint64_t remote, key;
    AtomicOperation::Kind kind;
    Context* context;
    bool marked = false;
  };
  struct Receive {
    Piece piece;
    bool many;
    size_t used;
    Context* context;
  };
  struct TaggedReceive {
    Piece piece;
    size_t more;  ///< bytes of a second piece
    Address from;
    uint64_t tag;
    Context* context;
  };
  struct Unexpected {
    Address from;
    uint64_t tag;
    std::string bytes;
    bool marked;
  };
  struct FakeRegion final : Region {
    FakeRegion(FakePort& port, uint64_t key) : owner(port) { key_ = key; }
    ~FakeRegion() override { owner.regions_.erase(key()); }
    FakePort& owner;
  };

  std::string copy_of(const Piece& piece) {
    EXPECT_TRUE(!capabilities_.needs_local || piece.region || piece.bytes == 0);
    return {static_cast<const char*>(piece.data), piece.bytes};
  }
  bool is_stuck() const { return wire_.stuck_from == address_.back() - '0'; }
  int begin(Operation operation) {
    if (pending_.size() >= (is_stuck() ? 1 : capabilities_.sends)) return kAgain;
    pending_.push_back(std::move(operation));
    return 0;
  }
  void complete(Context* context, int error, size_t bytes = 0, const std::byte* data = nullptr, bool released = true) {
    Completion its;
    its.context = context;
    its.error = error;
    its.bytes = bytes;
    its.data = data;
    its.released = released;
    completions_.push_back(its);
  }

  // False: it waits.
  bool carry_out(Operation& operation) {
    FakePort* peer = operation.peer < wire_.ports.size() ? wire_.ports[operation.peer] : nullptr;
    const bool fails = operation.verb == Verb::tagged && wire_.fail_tagged != 0;
    if (fails) --wire_.fail_tagged;
    if (wire_.cut || !peer || fails) {
      complete(operation.context, FakeWire::kNotConnected);
      return true;
    }
    int error = 0;
    switch (operation.verb) {
      case Verb::send:
        if (is_stuck()) return false;
        if (!wire_.silent && !peer->take_message(operation.bytes)) return false;
        break;
      case Verb::tagged:
        if (!peer->take_tagged(Address(address_.back() - '0'), operation.tag, operation.bytes, operation.marked))
          return false;
        break;
      case Verb::write:
      case Verb::read:
      case Verb::atomic: error = peer->access(operation); break;
    }
    complete(operation.context, error);
    return true;
  }
  bool take_message(const std::string& bytes) {
    if (receives_.empty()) return false;
    Receive& receive = receives_.front();
    auto* at = static_cast<std::byte*>(receive.piece.data) + receive.used;
    std::memcpy(at, bytes.data(), bytes.size());
    receive.used += bytes.size();
    if (heard_.size() < 1000) heard_.push_back(bytes);
    const bool over = !receive.many || receive.piece.bytes - receive.used < capabilities_.least_room;
    complete(receive.context, 0, bytes.size(), at, over);
    if (over) receives_.pop_front();
    return true;
  }
  bool take_tagged(Address from, uint64_t tag, const std::string& bytes, bool marked) {
    for (auto receive = tagged_.begin(); receive != tagged_.end(); ++receive) {
      if (receive->from != from || receive->tag != tag) continue;
      std::memcpy(receive->piece.data, bytes.data(), std::min(bytes.size(), receive->piece.bytes));
      complete(receive->context, bytes.size() > receive->piece.bytes + receive->more ? kTruncated : 0, bytes.size());
      completions_.back().marked = marked;
      tagged_.erase(receive);
      return true;
    }
    if (!capabilities_.match_complete) unexpected_.push_back({from, tag, bytes, marked});
    return !capabilities_.match_complete;
  }
  int access(Operation& operation) {
    constexpr int kBadKey = 266;
    const auto found = regions_.find(operation.key);
    if (found == regions_.end()) return kBadKey;
    auto* at = capabilities_.virtual_addresses ? reinterpret_cast<std::byte*>(operation.remote)
                                               : found->second.first + operation.remote;
    const size_t bytes = operation.verb == Verb::atomic ? operation.answer.bytes : operation.piece.bytes;
    if (at < found->second.first || at + bytes > found->second.second) return kBadKey;
    if (operation.verb == Verb::write) std::memcpy(at, operation.piece.data, bytes);
    if (operation.verb == Verb::read) std::memcpy(operation.piece.data, at, bytes);
    if (operation.verb == Verb::atomic) apply(operation, reinterpret_cast<uint64_t*>(at));
    return 0;
  }
  static void apply(const Operation& operation, uint64_t* words) {
    const auto* operands = static_cast<const uint64_t*>(operation.piece.data);
    std::memcpy(operation.answer.data, words, operation.answer.bytes);
    for (size_t i = 0; i < operation.answer.bytes / sizeof(uint64_t); ++i) {
      if (operation.kind == AtomicOperation::Kind::fetch_add) words[i] += operands[i];
      if (operation.kind == AtomicOperation::Kind::swap) words[i] = operands[i];
      if (operation.kind == AtomicOperation::Kind::compare_swap && words[i] == operands[1]) words[i] = operands[0];
    }
  }

  FakeWire& wire_;
  std::deque<Operation> pending_;
  std::deque<Receive> receives_;
  std::deque<TaggedReceive> tagged_;
  std::deque<Unexpected> unexpected_;  ///< buffered here: their senders have completed, unless able.match_complete
  std::deque<Completion> completions_;
  std::deque<std::string> heard_;
  std::map<uint64_t, std::pair<std::byte*, std::byte*>> regions_;
  uint64_t last_key_ = 0;
};

}  // namespace tern::test
