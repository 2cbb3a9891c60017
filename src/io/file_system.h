// FileSystem: the only way to files, so that tests can put another in its place (one in memory, one that fails).
//
// Results are as the system's: 0 or a number when all is well, -errno when not. read and write may do less than they
// were asked for, and say how much; callers go on with the rest (io/background.h). Units: bytes, from the beginning of
// the file. Thread rule: read, write, sync and lock may be called from any thread and at the same time; everything else
// under the rank's lock.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace tern::io {

/// Properties of an open file.
struct FileFacts {
  bool seekable = true;     ///< false: a pipe, a terminal; offsets mean nothing
  bool regular = true;      ///< has a size that can be changed
  bool remote = false;      ///< on a network file system: an operation costs a message
  bool own_cache = false;   ///< each host keeps a cache that others' writes do not reach without locks (NFS)
  bool in_memory = false;   ///< tmpfs: small pages, a byte more to read costs as much as on its way between ranks
  int64_t block_bytes = 0;  ///< preferred size of an operation
  int64_t stripe_bytes = 0, stripes = 0;  ///< how the file lies on several servers; 0: it does not, or is not told
  uint64_t device = 0, inode = 0;
};

enum class Lock : uint8_t { none, shared, exclusive };

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// `flags` and `permissions` of open(2). Returns a descriptor.
  virtual int open(const char* path, int flags, unsigned permissions) = 0;
  virtual int close(int descriptor) = 0;
  virtual int remove(const char* path) = 0;
  virtual int inspect(int descriptor, FileFacts& facts) = 0;
  virtual int64_t size(int descriptor) = 0;
  virtual int resize(int descriptor, int64_t bytes) = 0;
  /// Makes room for the first `bytes` bytes; the file gets at least that size.
  virtual int reserve(int descriptor, int64_t bytes) = 0;
  virtual int sync(int descriptor) = 0;
  /// The order of accesses, from the hint access_style. Advice only.
  virtual void advise(int descriptor, int advice) {}

  /// `offset` kStream: at the descriptor's own position. 0 from read: the end of the file.
  static constexpr int64_t kStream = -1;
  virtual int64_t read(int descriptor, const iovec* pieces, int count, int64_t offset) = 0;
  virtual int64_t write(int descriptor, const iovec* pieces, int count, int64_t offset) = 0;
  /// Reads only what is in memory already: -EAGAIN when a device must be asked, or when the file system cannot say.
  virtual int64_t read_cached(int descriptor, const iovec* pieces, int count, int64_t offset) {
    return read(descriptor, pieces, count, offset);
  }

  /// A lock on `length` bytes from `begin` (length 0: to the end of all files), which belongs to this open of the file
  /// and goes with it. -EAGAIN: somebody has one that excludes it, and the caller would not `wait`.
  virtual int lock(int descriptor, Lock kind, int64_t begin, int64_t length, bool wait) = 0;

  /// Whether descriptors are the kernel's: io_uring may be used with them.
  virtual bool is_kernel() const { return false; }
};

}  // namespace tern::io
