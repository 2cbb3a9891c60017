// The shared-memory path alone, without MPI above it: one-way latency, streaming bandwidth, hand-over with
// more processes than cores. Where the constants of src/fabric/shm/ come from.
//   shm_pair latency|stream|get [-p PAIRS] [-r RANKS_SENDING_TO_0] [-o] [-s SIZE]
// Times are the median and the least of many short bursts, so that a busy machine disturbs less.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fabric/shm/shm_path.h"
#include "progress/engine.h"
#include "progress/kernel_wait.h"

using namespace tern;

namespace {

struct CountingSink final : Sink {
  std::vector<std::byte> buffer = std::vector<std::byte>(size_t{8} << 20);
  uint64_t messages = 0;
  void on_message(Lane&, const wire::Header&, const std::byte* payload, size_t bytes) override {
    std::memcpy(buffer.data(), payload, bytes);
    ++messages;
  }
  Landing on_header(Lane&, const wire::Header&, size_t bytes) override {
    return {Cursor::bytes(buffer.data(), bytes), nullptr, 0};
  }
  void on_landed(Lane&, const wire::Header&, Landing&, size_t, Error) override { ++messages; }
  void on_peer_lost(Lane&, Error error) override { fprintf(stderr, "%s\n", std::string(error.text()).c_str()); }
};

struct Shared {
  std::atomic<int> arrived{0}, generation{0};
  std::atomic<uint64_t> address{0};
};
Shared* shared;
int ranks = 2;

Error fence() {
  const int generation = shared->generation;
  if (++shared->arrived == ranks) {
    shared->arrived = 0;
    ++shared->generation;
  }
  while (shared->generation == generation) sched_yield();
  return {};
}

struct Rank {
  Tunables tunables;
  RealClock clock;
  CountingSink sink;
  std::unique_ptr<ShmPath> path;
  Driving driving;
  KernelWait port;
  std::unique_ptr<ProgressEngine> engine;
  int rank;

  Rank(int r, bool oversubscribed) : rank(r) {
    if (Error error = tunables.read_environment(environ)) {
      fprintf(stderr, "%s\n", std::string(error.text()).c_str());
      exit(1);
    }
    ShmSetup setup;
    setup.rank = r;
    for (int i = 0; i < ranks; ++i) setup.candidates.push_back(i);
    setup.job_key.fill(uint8_t(getppid()));
    setup.ring_bytes = size_t(tunables.shm_ring_bytes);
    Error error;
    auto node = ShmNode::create(setup, fence, error);
    if (error) {
      fprintf(stderr, "%s\n", std::string(error.text()).c_str());
      exit(1);
    }
    path = std::make_unique<ShmPath>(std::move(node), sink, tunables);
    engine = std::make_unique<ProgressEngine>(clock, driving, port, WaitPolicy::Setup::of(tunables, oversubscribed));
    engine->add(*path);
  }
  void send(PeerId to, const void* data, size_t bytes) {
    wire::Header header{wire::Kind::eager};
    if (bytes <= path->properties().eager_bytes && path->try_send(path->lane(to), header, data, bytes)) return;
    SendOperation operation;
    operation.lane = &path->lane(to);
    operation.header = header;
    operation.payload = Cursor::bytes(const_cast<void*>(data), bytes);
    bool done = false;
    operation.done = [](SendOperation& o, Error) { *reinterpret_cast<bool**>(&o.header.context)[0] = true; };
    bool* flag = &done;
    std::memcpy(&operation.header.context, &flag, sizeof flag);
    path->enqueue(operation);
    engine->wait_until([&] { return done; });
  }
  void wait(uint64_t messages) {
    engine->wait_until([&] { return sink.messages >= messages; });
  }
};

void report(const char* what, size_t bytes, std::vector<double>& times, double per) {
  std::sort(times.begin(), times.end());
  const double least = times.front() / per, median = times[times.size() / 2] / per;
  printf("%-8s %8zu B  least %9.1f ns  median %9.1f ns  %8.2f GB/s (least)\n", what, bytes, least, median,
         double(bytes) / least);
  fflush(stdout);
}

/// Both ranks of a pair agree on whether there is time for another burst; also lines them up.
bool more(Rank& me, uint64_t begin) {
  const PeerId partner = PeerId(me.rank ^ 1);
  const uint64_t got = me.sink.messages;
  std::byte go{me.clock.now_ns() - begin < 150'000'000};
  if (me.rank % 2 == 0) {
    me.send(partner, &go, 1);
    me.wait(got + 1);
  } else {
    me.wait(got + 1);
    go = me.sink.buffer[0];
    me.send(partner, &go, 1);
  }
  return go == std::byte{1};
}

void latency(Rank& me, size_t bytes) {
  std::vector<std::byte> data(bytes + 1);
  const PeerId partner = PeerId(me.rank ^ 1);
  const int loops = bytes > 100000 ? 2 : bytes > 4000 ? 10 : 50;
  std::vector<double> times;
  for (const uint64_t begin = me.clock.now_ns(); more(me, begin);) {
    const uint64_t start = me.clock.now_ns();
    for (int i = 0; i < loops; ++i) {
      const uint64_t got = me.sink.messages;
      if (me.rank % 2 == 0) me.send(partner, data.data(), bytes);
      me.wait(got + 1);
      if (me.rank % 2 == 1) me.send(partner, data.data(), bytes);
    }
    times.push_back(double(me.clock.now_ns() - start));
  }
  if (me.rank == 0) report("latency", bytes, times, 2.0 * loops);
}

void stream(Rank& me, size_t bytes) {
  std::vector<std::byte> data(bytes + 1);
  const PeerId partner = PeerId(me.rank ^ 1);
  const int window = bytes > 100000 ? 16 : 64;
  std::vector<double> times;
  for (const uint64_t begin = me.clock.now_ns(); more(me, begin);) {
    const uint64_t start = me.clock.now_ns();
    const uint64_t got = me.sink.messages;
    if (me.rank % 2 == 0) {
      for (int i = 0; i < window; ++i) me.send(partner, data.data(), bytes);
      me.wait(got + 1);
    } else {
      me.wait(got + uint64_t(window));
      me.send(partner, data.data(), 4);
    }
    times.push_back(double(me.clock.now_ns() - start));
  }
  if (me.rank == 0) report("stream", bytes, times, window);
}

void get(Rank& me, size_t bytes) {
  static std::byte* data = nullptr;
  data = static_cast<std::byte*>(malloc(bytes));
  memset(data, 1, bytes);
  if (me.rank == 1) shared->address = reinterpret_cast<uint64_t>(data);
  (void)fence();
  std::vector<double> times;
  if (me.rank == 0 && me.path->remote_memory()->can_get(me.path->lane(1))) {
    for (int i = 0; i < 100; ++i) {
      TransferOperation operation;
      operation.lane = &me.path->lane(1);
      operation.local = Cursor::bytes(data, bytes);
      operation.remote_address = shared->address;
      operation.key.words[0] = 1;
      operation.bytes = bytes;
      operation.done = [](TransferOperation&, Error error) {
        if (error) abort();
      };
      const uint64_t start = me.clock.now_ns();
      me.path->remote_memory()->get(operation);
      times.push_back(double(me.clock.now_ns() - start));
    }
    report("get", bytes, times, 1);
  }
  (void)fence();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string what = argv[1];
  size_t only = 0;
  int pairs = 1;
  for (int option; (option = getopt(argc - 1, argv + 1, "p:s:")) != -1;) {
    if (option == 'p') pairs = atoi(optarg);
    else if (option == 's') only = size_t(atol(optarg));
  }
  ranks = 2 * pairs;
  shared = new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  const bool oversubscribed = ranks > sysconf(_SC_NPROCESSORS_ONLN);
  for (int r = 0; r < ranks; ++r) {
    if (fork() != 0) continue;
    if (!oversubscribed) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(r, &set);
      sched_setaffinity(0, sizeof set, &set);
    }
    Rank me(r, oversubscribed);
    for (size_t bytes : {8, 32, 64, 256, 1024, 2048, 4096, 8192, 16384, 65536, 262144, 1048576, 4194304}) {
      if (only && bytes != only) continue;
      if (what == "latency") latency(me, bytes);
      if (what == "stream") stream(me, bytes);
      if (what == "get" && ranks == 2) get(me, bytes);
    }
    (void)fence();
    if (r == 0) printf("sleeps %lu\n", (unsigned long)me.engine->counters().sleeps);
    me.path.reset();
    exit(0);
  }
  while (wait(nullptr) > 0) {
  }
}
