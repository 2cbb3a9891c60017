// Threads that carry jobs out: where io_uring is not to be had, and for calls that may take long. There are none before
// the first job. Thread rule: begin, take and the destructor by one thread at a time; the rest is inside.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "io/background.h"

namespace tern::io {

class Threads {
 public:
  /// `most`: threads for reads and writes. Calls may wait for long (for a lock, a pipe) and always get a thread.
  explicit Threads(int most);
  /// Idle threads are joined. One that is still busy (its job was not waited for) ends by itself.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void begin(Job& job);
  /// The jobs that are done since the last time, as a list by Job::next; null: none.
  Job* take();
  /// Readable while `take` would return something.
  int descriptor() const;

 private:
  struct Shared;
  static void run(std::shared_ptr<Shared> shared, size_t index);
  static void finish(Shared& shared, Job& job);
  bool start_one();

  std::shared_ptr<Shared> shared_;
  const int most_;
  std::vector<std::thread> threads_;
};

}  // namespace tern::io
