// Work on files that continues while the rank does something else: reads, writes, and calls that may take long (sync,
// waiting for a lock). A Job is a Request; a Background carries jobs out and completes them from poll.
//
// io/environment.h ties poll and wait_fds to the progress engine. Thread rule: under the rank's lock; each
// implementation defines what runs on other threads.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/tunables.h"
#include "io/file_system.h"
#include "p2p/request.h"

namespace tern::io {

/// One piece of work. `pieces` belong to who began it and are changed: what was moved is taken off them. A transfer is
/// complete when everything is moved, the file has ended, or something is wrong; `status.bytes` says how much was
/// moved. Who began it releases it.
class Job final : public Request {
 public:
  enum class Work : uint8_t { read, write, call };

  /// `path` outlives the job.
  Job(Work kind, FileSystem& system, int descriptor, const std::string& path)
      : Request(Request::Kind::file), work(kind), files(system), file(descriptor), path_(path) {}

  const Work work;
  FileSystem& files;
  const int file;
  iovec* pieces = nullptr;
  int count = 0;
  int64_t offset = 0;  ///< of the rest to be moved; kStream: none
  /// Work::call: the function, called on any thread; returns as FileSystem's functions do.
  std::function<int64_t()> call;
  const char* what = "";  ///< of a call, for its error

  Job* next = nullptr;  ///< Background's

  /// Does all of it now, on this thread. At most `limit` bytes are moved: false when there is more to do.
  bool carry_out(size_t limit = SIZE_MAX);
  /// After a system call with this result: removes what was moved from the pieces. True: the job is over.
  bool note(int64_t result);
  /// Before set_complete: turns the result kept by `note` into status and error.
  void settle();

 protected:
  void destroy() override { delete this; }

 private:
  const std::string& path_;
  int64_t moved_ = 0;
  int number_ = 0;  ///< errno; 0: all is well
};

class Background {
 public:
  virtual ~Background() = default;
  /// The job is completed from poll, never from here.
  virtual void begin(Job& job) = 0;
  /// Jobs that were begun may wait for this.
  virtual void flush() {}
  /// Jobs that are begun and not complete.
  virtual size_t pending() const = 0;

  virtual int poll() = 0;
  /// Readable while there are jobs that poll would complete, and not longer: a rank that sleeps on one that stays
  /// readable does not sleep.
  virtual std::span<const int> wait_fds() const { return {}; }
};

/// With the kernel's means: io_uring where it is allowed and `files` are the kernel's, else (and for calls) threads.
std::unique_ptr<Background> make_background(FileSystem& files, const Tunables& tunables);

}  // namespace tern::io
