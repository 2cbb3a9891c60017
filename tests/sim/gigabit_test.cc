// The Gigabit testbed of Majumder 2004 (machines/gigabit.toml), in virtual time: the paper's UDP protocol (here as
// there with its copies, acknowledgements and requests) beside TCP (SimPath with that file's costs). What is checked
// are the orderings of figures 3.2 to 3.5, and the sizes of effect. Six of the file's costs were chosen so that the
// three gaps come out (12, 80 and 30 % here; 13, 80 and 29 in the paper); the latencies themselves are within 6 % up to
// 2 KB (TCP 65, 99, 123 us for 4 B, 1 KB, 2 KB, there 65, 100, 130; UDP 73, 108, 222, there 74, 103, 234) and 10 % at
// 128 KB (1731 and 2254, there 1928 and 2487), 20 % too long at 16 KB by TCP. Where the model is not the testbed: at 1
// KB streams are half as fast as there, for what makes a message late also keeps the CPU busy here; and at 32 KB TCP's
// stream, 15 % above UDP's there, is 15 % below, since LA-MPI sends the first 16 KB with the request. TERN_SHOW=1
// prints the curves. The window of fragments is not in the paper; two keep UDP at its 500 Mbit/s, three do not.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "datatype/predefined.h"
#include "sim/machine_file.h"
#include "sim/world.h"

namespace tern::sim {
namespace {

constexpr uint64_t kContext = uint64_t{1} << 2;

/// `body` on two ranks over TCP or the paper's UDP; gives rank 0's figure.
double measure(bool udp, const std::function<double(Process&)>& body) {
  MachineModel machine;
  EXPECT_FALSE(load_machine(TERN_MACHINES "/gigabit.toml", machine));
  WorldOptions options;
  options.network = machine.network;
  options.udp = udp;
  options.tunables.udp = "paper";
  options.tunables.udp_paper_window = 2;
  options.datagrams.buffer_bytes = 512 * 1024;  // the paper's limit for socket buffers
  options.datagrams.call_ns = 0;                // the machine's poll_ns has it
  double result = 0;
  Report report = World(options).run([&](Process& process) {
    const double figure = body(process);
    if (process.world_rank() == 0) result = figure;
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  return result;
}

struct Pair {
  Process& process;
  PredefinedTypes types;
  std::vector<std::byte> out, in;
  explicit Pair(Process& p, size_t bytes) : process(p), out(bytes + 1), in(bytes + 1) {}
  void send(size_t bytes, int tag) {
    EXPECT_FALSE(
        process.p2p().send({out.data(), Count(bytes), &types.get(type_id::kByte), PeerId(1 - process.world_rank()),
                            process.world_rank(), tag, kContext, SendMode::standard}));
  }
  void receive(size_t bytes, int tag) {
    Status status;
    EXPECT_FALSE(process.p2p().receive({in.data(), Count(bytes), &types.get(type_id::kByte),
                                        PeerId(1 - process.world_rank()), 1 - process.world_rank(), tag, kContext},
                                       status));
  }
};

double latency_us(bool udp, size_t bytes) {
  return measure(udp, [bytes](Process& process) {
    constexpr int kRounds = 20;
    Pair pair(process, bytes);
    uint64_t begin = 0;
    for (int i = -2; i < kRounds; ++i) {
      if (i == 0) begin = process.clock().now_ns();
      if (process.world_rank() == 0) pair.send(bytes, 1);
      pair.receive(bytes, 1);
      if (process.world_rank() == 1) pair.send(bytes, 1);
    }
    return double(process.clock().now_ns() - begin) / 2e3 / kRounds;
  });
}

// Blocking sends one after the other, the receives posted by a rank that waits for nothing else.
double bandwidth_mbit(bool udp, size_t bytes) {
  return measure(udp, [bytes](Process& process) {
    const int messages = int(std::min<size_t>(200, 4'000'000 / bytes + 4));
    Pair pair(process, bytes);
    const uint64_t begin = process.clock().now_ns();
    for (int i = 0; i < messages; ++i) {
      if (process.world_rank() == 0) {
        pair.send(bytes, 1);
      } else {
        pair.receive(bytes, 1);
      }
    }
    if (process.world_rank() == 0) {
      pair.receive(0, 2);
    } else {
      pair.send(0, 2);
    }
    return double(bytes) * messages * 8e3 / double(process.clock().now_ns() - begin);
  });
}

TEST(Gigabit, LatencyOfUdpIsAboveThatOfTcp) {
  std::map<size_t, double> gap;
  for (size_t bytes : {4, 1024, 2048, 8192, 32768, 131072}) {
    const double tcp = latency_us(false, bytes), udp = latency_us(true, bytes);
    gap[bytes] = udp / tcp - 1;
    if (std::getenv("TERN_SHOW"))
      std::printf("latency %zu B: TCP %.1f us, UDP %.1f us, gap %.0f %%\n", bytes, tcp, udp, 100 * gap[bytes]);
    EXPECT_GT(gap[bytes], 0) << bytes;
  }
  // The paper: 13 %, 80 %, 29 %; between 4 B and 1 KB it falls, at 2 KB the request's round trip shows, and falls off
  // again.
  EXPECT_GT(gap[4], 0.11);
  EXPECT_LT(gap[4], 0.15);
  EXPECT_LT(gap[1024], gap[4]);
  EXPECT_GT(gap[2048], 0.76);
  EXPECT_LT(gap[2048], 0.84);
  EXPECT_GT(gap[32768], 0.04) << "the paper: more than 4 %";
  EXPECT_LT(gap[32768], 0.10);
  EXPECT_GT(gap[131072], 0.26);
  EXPECT_LT(gap[131072], 0.33);
  EXPECT_GT(gap[2048], 3 * gap[1024]) << "the request costs a round trip";
}

TEST(Gigabit, UdpNeverReachesHalfOfTheLinkBeyondOneKilobyte) {
  for (size_t bytes : {1024, 2048, 8192, 32768, 131072, 524288, 2097152}) {
    const double tcp = bandwidth_mbit(false, bytes), udp = bandwidth_mbit(true, bytes);
    if (std::getenv("TERN_SHOW")) std::printf("bandwidth %zu B: TCP %.0f Mbit/s, UDP %.0f Mbit/s\n", bytes, tcp, udp);
    if (bytes != 32768) {
      EXPECT_LT(udp, tcp) << bytes;
    }
    if (bytes > 1024) {
      EXPECT_LT(udp, 500) << bytes;
    }
    if (bytes == 2048) {
      EXPECT_LT(udp, 100) << "every message waits for its request";
    }
    // TCP's own requests begin beyond 16 KB; the paper's 910 Mbit/s are reached at 2 MB.
    if (bytes == 8192 || bytes == 2097152) {
      EXPECT_GT(tcp, 900) << bytes;
    }
  }
}

}  // namespace
}  // namespace tern::sim
