// The shipped machines: every file loads, every number has a source, the model keeps the published figures that the
// files claim; and wrong files are refused by name.
#include "sim/machine_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <filesystem>

#include "tests/sim/adapter_bench.h"

namespace tern::sim {
namespace {

using rdma::Verb;

std::vector<std::string> machine_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(TERN_MACHINES)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Runs two ranks, one on each of two nodes; `body` gives what rank 0 has measured.
uint64_t measure(const MachineModel& machine,
                 const std::function<uint64_t(AdapterBench&, rdma::QueuePair&, int rank)>& body) {
  WorldOptions options;
  options.network = machine.network;
  options.adapter = machine.adapter;
  uint64_t result = 0;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    AdapterBench bench(rank, 1 << 20);
    auto chosen = bench.options();
    chosen.inline_bytes = 64;
    auto pair = join(bench, 1 - int(rank.index()), chosen);
    uint64_t measured = body(bench, *pair, int(rank.index()));
    if (rank.index() == 0) result = measured;
    bench.fence();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  return result;
}

constexpr int kRounds = 50;

uint64_t ping_pong_ns(const MachineModel& machine, size_t bytes) {
  return measure(machine, [&](AdapterBench& bench, rdma::QueuePair& pair, int rank) {
    auto targets = bench.exchange(bench.target());
    for (int i = 0; i < 2 * kRounds; ++i) bench.post_receive(pair, 1, bench.piece(0, 64));
    bench.fence();
    uint64_t begin = bench.strand.now_ns();
    for (int i = 0; i < 2 * kRounds; ++i) {
      if (i % 2 == rank) {
        bool small = bytes <= 64;
        Work request = small ? work(Verb::send, bench.piece(0, bytes))
                             : work(Verb::write_immediate, bench.piece(0, bytes), targets[size_t(1 - rank)], 0);
        request.inlined = small;
        request.signaled = i >= 2 * kRounds - 2;
        bench.post(pair, request);
      } else {
        while (bench.wait().kind < rdma::CompletionKind::receive) {
        }
      }
    }
    return (bench.strand.now_ns() - begin) / (2 * kRounds);
  });
}

uint64_t bandwidth(const MachineModel& machine) {
  constexpr size_t kBytes = 1 << 20, kMessages = 32;
  uint64_t ns = measure(machine, [&](AdapterBench& bench, rdma::QueuePair& pair, int rank) -> uint64_t {
    auto targets = bench.exchange(bench.target());
    if (rank != 0) return 0;
    uint64_t begin = bench.strand.now_ns();
    for (size_t i = 0; i < kMessages; ++i) bench.post(pair, work(Verb::write, bench.piece(0, kBytes), targets[1], 0));
    for (size_t i = 0; i < kMessages; ++i) bench.wait();
    return bench.strand.now_ns() - begin;
  });
  return kBytes * kMessages * 1000 / ns;
}

uint64_t compare_swap_ns(const MachineModel& machine) {
  return measure(machine, [&](AdapterBench& bench, rdma::QueuePair& pair, int rank) -> uint64_t {
    auto targets = bench.exchange(bench.target());
    if (rank != 0) return 0;
    uint64_t begin = bench.strand.now_ns();
    for (int i = 0; i < kRounds; ++i) bench.run(pair, work(Verb::compare_swap, bench.piece(0, 8), targets[1], 64));
    return (bench.strand.now_ns() - begin) / kRounds;
  });
}

TEST(MachineFile, EveryShippedMachineKeepsItsClaims) {
  std::vector<std::string> files = machine_files();
  EXPECT_GE(files.size(), 6u);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    MachineModel machine;
    Error error = load_machine(file, machine);
    ASSERT_FALSE(error) << error.text();
    EXPECT_EQ(machine.name, std::filesystem::path(file).stem());
    EXPECT_FALSE(machine.about.empty());
    EXPECT_TRUE(!machine.claims.empty() || !machine.has_adapter);
    for (const auto& [claim, value] : machine.claims) {
      uint64_t measured = 0;
      if (claim == "small_send_ns") measured = ping_pong_ns(machine, 8);
      if (claim == "write_100KB_ns") measured = ping_pong_ns(machine, 100 * 1024);
      if (claim == "write_400KB_ns") measured = ping_pong_ns(machine, 400 * 1024);
      if (claim == "bandwidth_bytes_per_us") measured = bandwidth(machine);
      if (claim == "compare_swap_ns") measured = compare_swap_ns(machine);
      EXPECT_NEAR(double(measured), double(value), 0.1 * double(value)) << claim;
    }
  }
}

TEST(MachineFile, WrongFilesAreRefusedByName) {
  const std::string good = "[machine]\nname = \"x\"\n";
  auto refused = [&](const std::string& text, const std::string& word) {
    MachineModel machine;
    Error error = parse_machine(text, "here", machine);
    EXPECT_TRUE(bool(error)) << text;
    EXPECT_NE(error.text().find(word), std::string_view::npos) << error.text();
    EXPECT_NE(error.text().find("here"), std::string_view::npos) << error.text();
  };
  MachineModel machine;
  EXPECT_FALSE(parse_machine(good, "here", machine));
  EXPECT_FALSE(machine.has_adapter);
  EXPECT_FALSE(parse_machine(good + "[adapter]\nxrc = { value = false, source = \"s\" }\n", "here", machine));
  EXPECT_TRUE(machine.has_adapter);
  EXPECT_FALSE(machine.adapter.xrc);
  refused("[machine\n", "1");
  refused("# \xc2\xb5s\n" + good, "here:1: a character that is not ASCII");
  refused("", "machine.name");
  refused("name = \"x\"\n", "name");
  refused(good + "[network]\nlatency_ns = 5\n", "network.latency_ns has no source");
  refused(good + "[network]\nlatency_ns = { value = 5 }\n", "source");
  refused(good + "[network]\nlatency_ns = { value = 5, source = \"\" }\n", "source");
  refused(good + "[network]\nlatency_ns = { value = 5, source = \"s\", unit = \"us\" }\n", "more than");
  refused(good + "[network]\nlatency_ns = { value = 5, source = \"s\", fitted = 7 }\n",
          "network.latency_ns.fitted is no text");
  MachineModel fitted;
  EXPECT_FALSE(parse_machine(good + "[network]\nlatency_ns = { value = 5, source = \"s\", fitted = \"Figure 7\" }\n",
                             "", fitted));
  EXPECT_EQ(fitted.fitted.at("network.latency_ns"), "Figure 7");
  refused(good + "[network]\nlatency = { value = 5, source = \"s\" }\n", "network.latency is not known");
  refused(good + "[network]\nlatency_ns = { value = -5, source = \"s\" }\n", "no number");
  refused(good + "[network]\nlatency_ns = { value = 1.5, source = \"s\" }\n", "no number");
  refused(good + "[network]\nadapter_bytes_per_us = { value = 0, source = \"s\" }\n", "must not be 0");
  refused(good + "[adapter]\nmtu_bytes = { value = 5000000000, source = \"s\" }\n", "no number");
  refused(good + "[adapter]\nxrc = { value = 1, source = \"s\" }\n", "neither");
  refused(good + "[fabric]\nlatency_ns = { value = 1, source = \"s\" }\n", "fabric.latency_ns");
  EXPECT_TRUE(bool(load_machine("/does/not/exist.toml", machine)));
}

TEST(MachineFile, EveryNumberOfEveryShippedMachineHasASource) {
  for (const std::string& file : machine_files()) {
    MachineModel machine;
    ASSERT_FALSE(load_machine(file, machine));
    for (const auto& [name, source] : machine.sources) EXPECT_GE(source.size(), 8u) << file << ": " << name;
    EXPECT_GE(machine.sources.size(), 8u) << file;
  }
}

}  // namespace
}  // namespace tern::sim
