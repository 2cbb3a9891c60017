// std::thread, std::mutex, thread_local and exceptions in threads of a simulated rank.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

thread_local std::string name = "nobody";
std::mutex mutex;
std::condition_variable arrived;
int there = 0, caught = 0, sum = 0;
std::shared_mutex shared;
std::counting_semaphore<> finished(0);
std::atomic<int> turn = 0;

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
  for (int i = 0; i < 20; ++i) {
    {
      const std::shared_lock reads(shared);
      const int before = sum;
      std::this_thread::yield();
      if (before != sum) std::puts("written while it is read");
    }
    const std::unique_lock writes(shared);
    const int before = sum;
    std::this_thread::yield();
    sum = before + 1;
  }
  for (int now = turn; now != me; now = turn) turn.wait(now);
  turn = me + 1;
  turn.notify_all();
  finished.release();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work, i);
  for (int i = 0; i < 3; ++i) finished.acquire();
  for (std::thread& one : threads) one.join();
  std::unique_lock lock(mutex);
  if (arrived.wait_for(lock, std::chrono::milliseconds(100)) != std::cv_status::timeout) std::puts("nobody calls");
  lock.unlock();
  std::printf("rank %d: %d caught, %d, %s\n", rank, caught, sum, name.c_str());
  MPI_Finalize();
}
