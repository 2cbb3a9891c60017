// The kernel's file systems. Sources: open(2), preadv2(2), fallocate(2), fcntl(2) (open file description locks),
// statfs(2). Thread rule: as FileSystem.
#pragma once

#include "io/file_system.h"

namespace tern::io {

class KernelFileSystem final : public FileSystem {
 public:
  int open(const char* path, int flags, unsigned permissions) override;
  int close(int descriptor) override;
  int remove(const char* path) override;
  int inspect(int descriptor, FileFacts& facts) override;
  int64_t size(int descriptor) override;
  int resize(int descriptor, int64_t bytes) override;
  int reserve(int descriptor, int64_t bytes) override;
  int sync(int descriptor) override;
  void advise(int descriptor, int advice) override;
  int64_t read(int descriptor, const iovec* pieces, int count, int64_t offset) override;
  int64_t write(int descriptor, const iovec* pieces, int count, int64_t offset) override;
  int64_t read_cached(int descriptor, const iovec* pieces, int count, int64_t offset) override;
  int lock(int descriptor, Lock kind, int64_t begin, int64_t length, bool wait) override;
  bool is_kernel() const override { return true; }
};

}  // namespace tern::io
