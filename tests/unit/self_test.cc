// Messages to oneself: delivered at once and in order, whatever their shape; done only from poll.
#include <gtest/gtest.h>

#include <vector>

#include "datatype/construct.h"
#include "datatype/predefined.h"
#include "fabric/self/self_path.h"
#include "tests/peer_sink.h"

namespace tern {
namespace {

struct LastSink final : public test::PeerSink {
  std::vector<std::byte> got = std::vector<std::byte>(100000);
  size_t bytes = 0, room = ~size_t{0};
  int messages = 0, landed = 0;
  void on_message(PeerId peer, const wire::Header&, const std::byte* payload, size_t n) override {
    EXPECT_EQ(peer, 3u);
    if (n) std::memcpy(got.data(), payload, n);
    bytes = n;
    ++messages;
  }
  Landing on_header(PeerId, const wire::Header&, size_t n) override {
    Landing landing{Cursor::bytes(got.data(), std::min(n, room)), this, 0};
    return landing;
  }
  void on_landed(PeerId, const wire::Header&, Landing& landing, size_t n, Error error) override {
    EXPECT_FALSE(error);
    EXPECT_EQ(landing.token, this);
    bytes = n;
    ++landed;
  }
  void on_peer_lost(PeerId, Error) override { FAIL(); }
};

struct Operation : SendOperation {
  int finished = 0;
  Operation() {
    done = [](SendOperation& o, Error error) {
      EXPECT_FALSE(error);
      ++static_cast<Operation&>(o).finished;
    };
  }
};

TEST(SelfPath, DeliversAtOnceAndIsDoneInPoll) {
  LastSink sink;
  SelfPath path(3, sink);
  EXPECT_TRUE(path.reaches(3));
  EXPECT_FALSE(path.reaches(2));
  EXPECT_TRUE(path.try_send(path.lane(3), {wire::Kind::eager}, "abcd", 4));
  EXPECT_EQ(sink.bytes, 4u);
  EXPECT_EQ(sink.got[3], std::byte{'d'});
  std::vector<std::byte> data(90000, std::byte{7});
  Operation operation;
  operation.payload = Cursor::bytes(data.data(), data.size());
  path.enqueue(operation);
  EXPECT_EQ(sink.bytes, data.size());
  EXPECT_EQ(sink.got[89999], std::byte{7});
  EXPECT_EQ(operation.finished, 0);
  EXPECT_FALSE(path.arm());
  EXPECT_EQ(path.poll(), 1);
  EXPECT_EQ(operation.finished, 1);
  EXPECT_EQ(path.poll(), 0);
  EXPECT_TRUE(path.arm());
}

TEST(SelfPath, StridedAndTruncated) {
  PredefinedTypes predefined;
  Ref<Datatype> type;
  ASSERT_FALSE(construct::hvector(1000, 3, 5, predefined.get(0x247), type));
  type->commit();
  std::vector<std::byte> data(5000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(uint8_t(i * 7));
  for (size_t room : {~size_t{0}, size_t{100}}) {
    LastSink sink;
    sink.room = room;
    SelfPath path(3, sink);
    Operation operation;
    operation.payload = Cursor(data.data(), 1, *type);
    path.enqueue(operation);
    EXPECT_EQ(sink.landed, 1);
    EXPECT_EQ(sink.bytes, 3000u);
    for (size_t i = 0; i < 3000; ++i) {
      if (i < room) ASSERT_EQ(sink.got[i], data[i / 3 * 5 + i % 3]) << i;
      else ASSERT_EQ(sink.got[i], std::byte{0}) << i;
    }
    path.poll();
    EXPECT_EQ(operation.finished, 1);
  }
}

TEST(SelfPath, GetCopies) {
  LastSink sink;
  SelfPath path(3, sink);
  std::vector<std::byte> from(5000, std::byte{9}), to(5000);
  TransferOperation operation;
  operation.lane = &path.lane(3);
  operation.local = Cursor::bytes(to.data(), to.size());
  operation.remote_address = reinterpret_cast<uint64_t>(from.data());
  operation.key = path.expose(from.data(), from.size(), {.read = true, .write = true});
  operation.bytes = from.size();
  static int done = 0;
  operation.done = [](TransferOperation&, Error error) {
    EXPECT_FALSE(error);
    ++done;
  };
  EXPECT_NE(operation.key.words[0], 0u);
  EXPECT_TRUE(path.can_get(path.lane(3)));
  path.get(operation);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace tern
