// std::thread, std::mutex, thread_local and exceptions in threads of a simulated rank.
#include <mpi.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

thread_local std::string name = "nobody";
std::mutex mutex;
std::condition_variable arrived;
int there = 0, caught = 0;

void work(int me) {
  if (name != "nobody") std::printf("a thread begins as %s\n", name.c_str());
  name = "thread " + std::to_string(me);
  std::unique_lock lock(mutex);
  if (++there == 3) arrived.notify_all();
  arrived.wait(lock, [] { return there == 3; });
  lock.unlock();
  try {
    std::this_thread::yield();
    throw std::runtime_error(name);
  } catch (const std::exception& one) {
    std::this_thread::yield();
    const std::lock_guard again(mutex);
    caught += one.what() == "thread " + std::to_string(me);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work, i);
  for (std::thread& one : threads) one.join();
  std::printf("rank %d: %d caught, %s\n", rank, caught, name.c_str());
  MPI_Finalize();
}
