// Work on files in the background: a rank that sleeps must be woken by each end of a job, and must not stay awake for
// what it has already been told.
#include "io/background.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/kernel_file_system.h"

namespace tern::io {
namespace {

bool readable(const Background& background, int timeout_ms) {
  std::vector<pollfd> asked;
  for (const int descriptor : background.wait_fds()) asked.push_back({descriptor, POLLIN, 0});
  return poll(asked.data(), asked.size(), timeout_ms) > 0;
}

/// A file of `bytes` bytes that is gone with this object.
struct File {
  explicit File(size_t bytes) : descriptor(mkstemp(path.data())) {
    const std::vector<char> data(bytes, 'x');
    EXPECT_EQ(write(descriptor, data.data(), bytes), ssize_t(bytes));
  }
  ~File() {
    close(descriptor);
    unlink(path.c_str());
  }
  std::string path = "/tmp/tern_background_XXXXXX";
  int descriptor;
};

void read_in_turn(bool uring) {
  Tunables tunables;
  tunables.io_uring = uring;
  KernelFileSystem files;
  constexpr size_t kBytes = 1 << 20;  // so much that a worker reads it
  File file(kBytes);
  std::vector<char> data(kBytes);
  const std::unique_ptr<Background> background = make_background(files, tunables);
  for (int round = 0; round < 100; ++round) {
    iovec piece{data.data(), data.size()};
    Job job(Job::Work::read, files, file.descriptor, file.path);
    job.pieces = &piece;
    job.count = 1;
    background->begin(job);
    background->flush();
    // Every second time the rank does not sleep, and finds the end by looking.
    if (round % 2 == 0) {
      ASSERT_TRUE(readable(*background, 10'000));
    }
    while (background->poll() == 0) {
    }
    ASSERT_EQ(job.status.bytes, int64_t(kBytes));
    ASSERT_EQ(background->pending(), 0u);
    ASSERT_FALSE(readable(*background, round < 10 ? 5 : 0)) << "round " << round;
  }
}

TEST(IoBackground, ThreadsKeepNobodyAwake) { read_in_turn(false); }
TEST(IoBackground, UringKeepsNobodyAwake) { read_in_turn(true); }

TEST(IoBackground, AnotherEndIsToldAfterTheFirst) {
  Tunables tunables;
  KernelFileSystem files;
  const std::unique_ptr<Background> background = make_background(files, tunables);
  std::atomic<int> allowed{0};
  const std::string path = "none";
  Job first(Job::Work::call, files, -1, path), second(Job::Work::call, files, -1, path);
  Job* const jobs[] = {&first, &second};
  for (int i = 0; i < 2; ++i) {
    jobs[i]->call = [&allowed, i] {
      while (allowed <= i) usleep(100);
      return int64_t{0};
    };
    background->begin(*jobs[i]);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(readable(*background, 5));
    ++allowed;
    EXPECT_TRUE(readable(*background, 10'000));
    EXPECT_EQ(background->poll(), 1);
  }
  EXPECT_EQ(background->pending(), 0u);
}

}  // namespace
}  // namespace tern::io
