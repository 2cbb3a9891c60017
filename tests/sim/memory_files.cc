#include "tests/sim/memory_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tern::sim {

// Others run, if they have something to do in that time.
void MemoryFiles::pass_time(uint64_t ns) {
  strand_.charge_ns(1 + rng_.below(ns));
  strand_.catch_up();
}

int MemoryFiles::open(const char* path, int flags, unsigned) {
  pass_time(2000);
  auto found = disk_.files.find(path);
  if (found == disk_.files.end()) {
    if (!(flags & O_CREAT)) return -ENOENT;
    found = disk_.files.emplace(path, std::make_shared<MemoryDisk::Content>()).first;
  } else if ((flags & O_CREAT) && (flags & O_EXCL)) {
    return -EEXIST;
  }
  const int mode = flags & O_ACCMODE;
  const int descriptor = disk_.next_descriptor++;
  disk_.open[descriptor] = {found->second, mode != O_WRONLY, mode != O_RDONLY};
  return descriptor;
}

int MemoryFiles::close(int descriptor) {
  auto found = disk_.open.find(descriptor);
  if (found == disk_.open.end()) return -EBADF;
  std::erase_if(found->second.content->locks, [&](const auto& range) { return range.owner == descriptor; });
  disk_.open.erase(found);
  return 0;
}

int MemoryFiles::remove(const char* path) { return disk_.files.erase(path) != 0 ? 0 : -ENOENT; }

int MemoryFiles::inspect(int descriptor, io::FileFacts& facts) {
  facts.block_bytes = 4096;
  facts.inode = uint64_t(reinterpret_cast<uintptr_t>(disk_.open[descriptor].content.get()));
  return 0;
}

int64_t MemoryFiles::size(int descriptor) { return int64_t(disk_.open[descriptor].content->bytes.size()); }

bool MemoryFiles::room_for(MemoryDisk::Content& content, int64_t bytes) const {
  int64_t used = bytes;
  for (auto& [name, other] : disk_.files) {
    if (other.get() != &content) used += int64_t(other->bytes.size());
  }
  return used <= disk_.faults.room;
}

int MemoryFiles::resize(int descriptor, int64_t bytes) {
  MemoryDisk::Content& content = *disk_.open[descriptor].content;
  if (!room_for(content, bytes)) return -ENOSPC;
  content.bytes.resize(size_t(bytes));
  return 0;
}

int MemoryFiles::reserve(int descriptor, int64_t bytes) {
  MemoryDisk::Content& content = *disk_.open[descriptor].content;
  return bytes > int64_t(content.bytes.size()) ? resize(descriptor, bytes) : 0;
}

/// What happens to a transfer of so many bytes: an error, or perhaps fewer bytes.
int64_t MemoryFiles::before_transfer(size_t& bytes) {
  pass_time(3000);
  if (rng_.chance(disk_.faults.interrupted_in_256, 256)) return -EINTR;
  ++disk_.transfers;
  if (disk_.faults.broken_from != 0 && disk_.transfers >= disk_.faults.broken_from) return -EIO;
  if (bytes > 1 && rng_.chance(disk_.faults.short_in_256, 256)) bytes = 1 + rng_.below(bytes - 1);
  return 0;
}

int64_t MemoryFiles::read(int descriptor, const iovec* pieces, int count, int64_t offset) {
  MemoryDisk::Open open = disk_.open.at(descriptor);
  if (!open.readable) return -EBADF;
  size_t wanted = 0;
  for (int i = 0; i < count; ++i) wanted += pieces[i].iov_len;
  if (const int64_t wrong = before_transfer(wanted)) return wrong;
  size_t done = 0;
  for (int i = 0; i < count && done < wanted; ++i) {
    for (size_t at = 0; at < pieces[i].iov_len && done < wanted;) {
      const auto& bytes = open.content->bytes;
      const size_t from = size_t(offset) + done;
      if (from >= bytes.size()) return int64_t(done);
      size_t n = std::min({pieces[i].iov_len - at, wanted - done, bytes.size() - from});
      if (disk_.faults.torn) n = std::min<size_t>(n, 1 + rng_.below(64));
      std::memcpy(static_cast<unsigned char*>(pieces[i].iov_base) + at, bytes.data() + from, n);
      at += n;
      done += n;
      if (disk_.faults.torn) pass_time(500);
    }
  }
  return int64_t(done);
}

int64_t MemoryFiles::write(int descriptor, const iovec* pieces, int count, int64_t offset) {
  MemoryDisk::Open open = disk_.open.at(descriptor);
  if (!open.writable) return -EBADF;
  size_t wanted = 0;
  for (int i = 0; i < count; ++i) wanted += pieces[i].iov_len;
  if (const int64_t wrong = before_transfer(wanted)) return wrong;
  size_t done = 0;
  for (int i = 0; i < count && done < wanted; ++i) {
    for (size_t at = 0; at < pieces[i].iov_len && done < wanted;) {
      auto& bytes = open.content->bytes;
      const size_t to = size_t(offset) + done;
      size_t n = std::min(pieces[i].iov_len - at, wanted - done);
      if (disk_.faults.torn) n = std::min<size_t>(n, 1 + rng_.below(64));
      if (to + n > bytes.size()) {
        if (!room_for(*open.content, int64_t(to + n))) return done != 0 ? int64_t(done) : -ENOSPC;
        bytes.resize(to + n);
      }
      std::memcpy(bytes.data() + to, static_cast<const unsigned char*>(pieces[i].iov_base) + at, n);
      at += n;
      done += n;
      if (disk_.faults.torn) pass_time(500);
    }
  }
  return int64_t(done);
}

int MemoryFiles::lock(int descriptor, io::Lock kind, int64_t begin, int64_t length, bool) {
  MemoryDisk::Open open = disk_.open.at(descriptor);
  if (kind == io::Lock::shared && !open.readable) return -EBADF;
  if (kind == io::Lock::exclusive && !open.writable) return -EBADF;
  const int64_t end = length == 0 ? INT64_MAX : begin + length;
  auto& locks = open.content->locks;
  if (kind != io::Lock::none) {
    for (const auto& range : locks) {
      const bool excludes = range.kind == io::Lock::exclusive || kind == io::Lock::exclusive;
      if (range.owner != descriptor && excludes && range.begin < end && begin < range.end) return -EAGAIN;
    }
  }
  // What this open had there is replaced.
  std::vector<MemoryDisk::LockedRange> kept;
  for (const auto& range : locks) {
    if (range.owner != descriptor || range.end <= begin || end <= range.begin) {
      kept.push_back(range);
      continue;
    }
    if (range.begin < begin) kept.push_back({range.owner, range.kind, range.begin, begin});
    if (end < range.end) kept.push_back({range.owner, range.kind, end, range.end});
  }
  if (kind != io::Lock::none) kept.push_back({descriptor, kind, begin, end});
  locks = std::move(kept);
  return 0;
}

int DrawnBackground::poll() {
  if (jobs_.empty()) return 0;
  const size_t i = rng_.below(jobs_.size());
  io::Job* job = jobs_[i];
  if (job->work == io::Job::Work::call) {
    const int64_t result = job->call();
    if (result == -EAGAIN) {
      // Somebody else has the lock: time passes until this rank asks again.
      strand_.block(strand_.now_ns() + 1 + rng_.below(5000), "waiting for a lock");
      return 1;  // nothing else would wake this rank
    }
    job->note(result);
  } else {
    job->carry_out();
  }
  jobs_.erase(jobs_.begin() + ptrdiff_t(i));
  job->settle();
  job->set_complete();
  return 1;
}

}  // namespace tern::sim
