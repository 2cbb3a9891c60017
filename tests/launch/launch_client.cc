// A rank without MPI: talks to whatever launcher started it, through the same code as the library, and does
// what the command says. The tests in this folder judge its output and exit code.
//
//   launch_client exchange          every rank puts values of many sizes, gets everybody's, checks; one line
//   launch_client look-up           every rank looks values up while the last barrier waits for rank 0, and ends
//   launch_client info              prints rank, size, local ranks, application number, universe, share, after a fence
//   launch_client abort RANK CODE   rank RANK aborts, the others wait in a barrier
//   launch_client die RANK SIGNAL   rank RANK kills itself after a fence, the others wait in a barrier
//   launch_client leave RANK CODE   rank RANK exits without finalize, the others wait in a barrier
//   launch_client absent RANK       rank RANK exits before it connects, the others go into a fence
//   launch_client sleep SECONDS     connects, sleeps, finalizes
//   launch_client nothing           connects, one fence, finalizes
//
// A fourth word ("busy") makes the others sleep outside the launcher instead of waiting in the barrier.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "process/launcher.h"

namespace {

using tern::Error;

void check(Error error) {
  if (!error) return;
  fprintf(stderr, "launch_client: %.*s\n", int(error.text().size()), error.text().data());
  exit(3);
}

/// This rank has nothing to do for others meanwhile.
void barrier(tern::Launcher& launcher) {
  Error error;
  check(launcher.enter_barrier());
  while (!launcher.barrier_is_over(error)) {
    pollfd wait{launcher.descriptor(), POLLIN, 0};
    static_cast<void>(poll(&wait, 1, -1));
  }
  check(std::move(error));
}

std::string pattern(int rank, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = char(uint8_t(i * 7 + size_t(rank) * 31 + size));
  return bytes;
}

int exchange(tern::Launcher& launcher) {
  const size_t sizes[] = {0, 1, 2, 3, 63, 700, 740, 760, 1024, 5000};
  for (size_t size : sizes) check(launcher.put("value" + std::to_string(size), pattern(launcher.rank(), size)));
  tern::JobKey key;
  check(tern::get_job_key(launcher, key));
  check(launcher.put("echo", {reinterpret_cast<const char*>(key.data()), key.size()}));
  check(launcher.fence());
  for (int rank = 0; rank < launcher.size(); ++rank) {
    std::string value;
    for (size_t size : sizes) {
      check(launcher.get(rank, "value" + std::to_string(size), value));
      if (value != pattern(rank, size)) {
        fprintf(stderr, "value of %zu bytes of rank %d is spoilt\n", size, rank);
        return 4;
      }
    }
    check(launcher.get(rank, "echo", value));
    if (value.size() != key.size() || memcmp(value.data(), key.data(), key.size()) != 0) {
      fprintf(stderr, "rank %d has another job key\n", rank);
      return 5;
    }
  }
  barrier(launcher);
  printf("rank %d of %d exchanged\n", launcher.rank(), launcher.size());
  return 0;
}

/// As a rank that meets peers while it is in MPI_Finalize: the barrier's end comes in the middle of another answer.
void look_up_in_the_barrier(tern::Launcher& launcher) {
  check(launcher.put("card", pattern(launcher.rank(), 700)));
  check(launcher.fence());
  if (launcher.rank() == 0) usleep(100'000);
  check(launcher.enter_barrier());
  Error error;
  int after = 0;
  for (int i = 0; after < 20; ++i) {
    const int rank = i % launcher.size();
    std::string value;
    check(launcher.get(rank, "card", value));
    if (value != pattern(rank, 700)) check(Error(tern::ErrorClass::other, "another answer than the value"));
    // Not asked again once it is over.
    if (after > 0 || (i % 50 == 49 && launcher.barrier_is_over(error))) ++after;
  }
  check(std::move(error));
  printf("rank %d looked up\n", launcher.rank());
}

void info(tern::Launcher& launcher) {
  std::string local;
  for (int rank : launcher.local_ranks()) local += (local.empty() ? "" : ",") + std::to_string(rank);
  tern::NodeShare share = tern::node_share(launcher);
  printf("rank=%d size=%d local=%s app=%d universe=%d share=%d/%d job=%.*s\n", launcher.rank(), launcher.size(),
         local.c_str(), launcher.app_number(), launcher.universe_size(), share.ranks, share.cores,
         int(launcher.job_id().size()), launcher.job_id().data());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "info";
  const int first = argc > 2 ? atoi(argv[2]) : 0, second = argc > 3 ? atoi(argv[3]) : 0;
  if (what == "absent" && getenv("PMI_RANK") && atoi(getenv("PMI_RANK")) == first) return 0;
  Error error;
  auto launcher = tern::connect_launcher(error);
  check(std::move(error));
  const bool mine = launcher->rank() == first;
  int result = 0;
  if (what == "exchange") {
    result = exchange(*launcher);
  } else if (what == "info") {
    // Nobody leaves before all have come: Open MPI 4.1.4's mpirun (PMIx 4.2.2) sometimes does not watch the connection
    // of a rank that comes while another leaves (its request lies unread, the descriptor is not in the server's epoll
    // set), and the rank stands in PMIx_Init for ever: some 1 of 1,000 such jobs on a crowded machine. MPI_Init has a
    // fence of its own.
    check(launcher->fence());
    info(*launcher);
  } else if (what == "look-up") {
    look_up_in_the_barrier(*launcher);
  } else if (what == "sleep") {
    sleep(unsigned(first));
  } else {
    check(launcher->fence());
    if (what == "abort" && mine) launcher->abort(second, "rank " + std::to_string(first) + " gives up");
    if (what == "die" && mine) raise(second);
    if (what == "leave" && mine) _exit(second);
    if (argc > 4) sleep(100);
    if (what != "nothing") barrier(*launcher);
  }
  check(launcher->finalize());
  return result;
}
