// Two ranks that talk by tuple queues: the calls of one of them, all of bytes. For tests in the simulated world.
#pragma once

#include <gtest/gtest.h>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/point_to_point.h"
#include "process/process.h"
#include "sim/world.h"

namespace tern::sim {

inline constexpr uint64_t kContext = uint64_t{1} << 2;

inline WorldOptions tuple_world(int64_t copy_bytes = 0) {
  WorldOptions options;
  options.rdma = true;
  options.ranks = 2;
  options.keep_registrations = true;
  options.tunables.rendezvous = "tupleq";
  options.tunables.tuple_copy_bytes = copy_bytes;
  options.tunables.rdma_keepalive_ms = 0;
  return options;
}

inline uint64_t sent_by_queue(Process& process) {
  uint64_t sum = 0;
  for (uint64_t messages : process.progress().counters().sent_tuple) sum += messages;
  return sum;
}

/// Calls of one rank of two, all of bytes.
struct Side {
  explicit Side(Process& p)
      : process(p), p2p(p.p2p()), byte(types.get(type_id::kByte)), me(p.world_rank()), other(1 - me) {}
  SendArguments to(const void* data, size_t bytes, int tag) const {
    return {data, Count(bytes), &byte, PeerId(other), me, tag, kContext, SendMode::standard};
  }
  ReceiveArguments from(void* data, size_t bytes, int tag) const {
    return {data, Count(bytes), &byte, PeerId(other), other, tag, kContext};
  }
  void send(const void* data, size_t bytes, int tag) { EXPECT_FALSE(p2p.send(to(data, bytes, tag))); }
  Status receive(void* data, size_t bytes, int tag) {
    Status status;
    EXPECT_FALSE(p2p.receive(from(data, bytes, tag), status));
    return status;
  }
  void finish(Request* request) {
    p2p.wait(*request);
    EXPECT_FALSE(request->error) << request->error.text();
    request->release();
  }
  // Messages of this tag go by a queue from now on.
  void open(int tag) {
    char c = 0;
    for (int i = 0; i < 6; ++i) {
      if (me == 0) {
        send(&c, 1, tag);
        receive(&c, 1, 99);
      } else {
        receive(&c, 1, tag);
        send(&c, 1, 99);
      }
    }
  }

  Process& process;
  PointToPoint& p2p;
  PredefinedTypes types;
  const Datatype& byte;
  const int me, other;
};

}  // namespace tern::sim
