// A file system in memory that all ranks of a simulated world share, with faults: transfers that do less than they were
// asked for, interruptions, writes that others see half done, a disk that is full, errors of the device. Byte-range
// locks as the kernel's open file description locks. Thread rule: one thread; other ranks run inside of the calls where
// those take time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "io/background.h"
#include "io/file_system.h"
#include "sim/scheduler.h"

namespace tern::sim {

struct FileFaults {
  uint32_t short_in_256 = 0;        ///< transfers that move only a part
  uint32_t interrupted_in_256 = 0;  ///< EINTR
  bool torn = false;                ///< others run in the middle of a transfer
  int64_t room = INT64_MAX;         ///< bytes of all files together; then ENOSPC
  /// The transfer with this number (from 1, over all ranks) and those after it fail with EIO; 0: none.
  uint64_t broken_from = 0;
};

/// The disk.
struct MemoryDisk {
  struct LockedRange {
    int owner;  ///< an open file
    io::Lock kind;
    int64_t begin, end;
  };
  struct Content {
    std::vector<unsigned char> bytes;
    std::vector<LockedRange> locks;
  };
  struct Open {
    std::shared_ptr<Content> content;
    bool readable, writable;
  };
  FileFaults faults;
  std::map<std::string, std::shared_ptr<Content>> files;
  std::map<int, Open> open;
  int next_descriptor = 100;
  uint64_t transfers = 0;
};

/// One rank's way to the disk.
class MemoryFiles final : public io::FileSystem {
 public:
  MemoryFiles(MemoryDisk& disk, Strand& strand, uint64_t seed) : disk_(disk), strand_(strand), rng_(seed) {}

  int open(const char* path, int flags, unsigned permissions) override;
  int close(int descriptor) override;
  int remove(const char* path) override;
  int inspect(int descriptor, io::FileFacts& facts) override;
  int64_t size(int descriptor) override;
  int resize(int descriptor, int64_t bytes) override;
  int reserve(int descriptor, int64_t bytes) override;
  int sync(int descriptor) override { return 0; }
  int64_t read(int descriptor, const iovec* pieces, int count, int64_t offset) override;
  int64_t write(int descriptor, const iovec* pieces, int count, int64_t offset) override;
  /// Never waits: the caller asks again.
  int lock(int descriptor, io::Lock kind, int64_t begin, int64_t length, bool wait) override;

 private:
  int64_t before_transfer(size_t& bytes);
  void pass_time(uint64_t ns);
  bool room_for(MemoryDisk::Content& content, int64_t bytes) const;

  MemoryDisk& disk_;
  Strand& strand_;
  Rng rng_;
};

/// Jobs are done in polls, in an order that is drawn.
class DrawnBackground final : public io::Background {
 public:
  DrawnBackground(Strand& strand, uint64_t seed) : strand_(strand), rng_(seed) {}
  void begin(io::Job& job) override { jobs_.push_back(&job); }
  size_t pending() const override { return jobs_.size(); }
  int poll() override;

 private:
  Strand& strand_;
  Rng rng_;
  std::vector<io::Job*> jobs_;
};

}  // namespace tern::sim
