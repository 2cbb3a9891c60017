// What three ranks do while rank 1 dies, over any path of a simulated world.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/point_to_point.h"
#include "process/process.h"

namespace tern::sim {

/// The others greet rank 1 (nobody learns of the loss of a rank that he never had to do with); it says something and
/// then waits for its death. Rank 0 only listens to it, rank 2 also sends; both learn of it, by an error that names
/// `path`, get the same answer when they ask again, and can still talk to each other. (Where most packets are lost it
/// may die before its word has arrived.) Returns when this rank learned of it, clock time.
inline uint64_t live_through_a_death(Process& process, std::string_view path) {
  constexpr uint64_t kContext = uint64_t{1} << 2;
  PredefinedTypes types;
  const Datatype& byte = types.get(type_id::kByte);
  PointToPoint& p2p = process.p2p();
  int me = process.world_rank();
  std::vector<std::byte> data(30'000), other(30'000);
  auto send = [&](PeerId to, int tag) -> SendArguments {
    return {data.data(), Count(data.size()), &byte, to, me, tag, kContext, SendMode::standard};
  };
  auto receive = [&](PeerId from, int tag) -> ReceiveArguments {
    return {other.data(), Count(other.size()), &byte, from, int(from), tag, kContext};
  };
  Status status;
  if (me == 1) {
    EXPECT_FALSE(p2p.send(send(0, 1)));
    EXPECT_FALSE(p2p.send(send(2, 1)));
    p2p.progress().wait_until([] { return false; });
  }
  EXPECT_FALSE(p2p.send({nullptr, 0, &byte, 1, me, 0, kContext, SendMode::standard}));
  Error lost = p2p.receive(receive(1, 1), status);
  if (!lost && me == 0) lost = p2p.receive(receive(1, 2), status);
  for (int i = 0; i < 10'000 && !lost; ++i) lost = p2p.send(send(1, 2));
  const uint64_t learned_ns = process.clock().now_ns();
  for (const Error& error : {std::move(lost), p2p.send(send(1, 2)), p2p.receive(receive(1, 2), status)}) {
    EXPECT_EQ(error.error_class(), int(ErrorClass::proc_aborted)) << error.text();
    EXPECT_NE(error.text().find(path), std::string_view::npos) << error.text();
  }
  for (int i = 0; i < 3; ++i) {
    if (me == 0) {
      EXPECT_FALSE(p2p.send(send(2, 3)));
    } else {
      EXPECT_FALSE(p2p.receive(receive(0, 3), status));
    }
  }
  p2p.progress().wait_until([&] { return p2p.quiet(); });
  return learned_ns;
}

}  // namespace tern::sim
