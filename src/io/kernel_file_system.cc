#include "io/kernel_file_system.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace tern::io {

namespace {

// Magic numbers of statfs(2) that linux/magic.h does not have.
constexpr long kLustre = 0x0bd00bd0, kGpfs = 0x47504653, kBeegfs = 0x19830326, kPvfs2 = 0x20030528, kSmb2 = 0xfe534d42,
               kCifs = 0xff534d42, kFuse = 0x65735546;

bool is_remote(long magic) {
  switch (magic) {
    case NFS_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case V9FS_MAGIC:
    case kLustre:
    case kGpfs:
    case kBeegfs:
    case kPvfs2:
    case kSmb2:
    case kCifs:
    case kFuse: return true;
    default: return false;
  }
}

// These keep pages on every host without telling the others of changes.
bool has_own_cache(long magic) {
  return magic == NFS_SUPER_MAGIC || magic == kSmb2 || magic == kCifs || magic == kFuse || magic == AFS_SUPER_MAGIC ||
         magic == V9FS_MAGIC;
}

/// Lustre tells how a file is striped in an attribute (struct lov_user_md_v1 of lustre_user.h): magic, pattern, two
/// 64-bit ids, then the stripe's size (32 bits) and the number of stripes (16 bits).
void ask_lustre(int descriptor, FileFacts& facts) {
  constexpr uint32_t kVersion1 = 0x0bd10bd0, kVersion3 = 0x0bd30bd0;  // LOV_MAGIC_V1, _V3
  alignas(8) unsigned char layout[4096];
  const ssize_t bytes = fgetxattr(descriptor, "lustre.lov", layout, sizeof layout);
  if (bytes < 32) return;
  const auto word = [&](size_t at) { return *reinterpret_cast<const uint32_t*>(layout + at); };
  if (word(0) != kVersion1 && word(0) != kVersion3) return;
  facts.stripe_bytes = word(24);
  facts.stripes = *reinterpret_cast<const uint16_t*>(layout + 28);
}

template <typename Result>
Result checked(Result result) {
  return result < 0 ? Result(-errno) : result;
}

}  // namespace

int KernelFileSystem::open(const char* path, int flags, unsigned permissions) {
  return checked(::open(path, flags | O_CLOEXEC, permissions));
}

int KernelFileSystem::close(int descriptor) { return checked(::close(descriptor)); }

int KernelFileSystem::remove(const char* path) { return checked(::unlink(path)); }

int KernelFileSystem::inspect(int descriptor, FileFacts& facts) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return -errno;
  if (S_ISDIR(status.st_mode)) return -EISDIR;
  facts.regular = S_ISREG(status.st_mode);
  facts.seekable = facts.regular || S_ISBLK(status.st_mode) || lseek(descriptor, 0, SEEK_CUR) >= 0;
  facts.block_bytes = status.st_blksize;
  facts.device = status.st_dev;
  facts.inode = status.st_ino;
  struct statfs system {};
  if (fstatfs(descriptor, &system) != 0) return 0;
  const long magic = long(uint32_t(system.f_type));
  facts.remote = is_remote(magic);
  facts.own_cache = has_own_cache(magic);
  facts.in_memory = magic == TMPFS_MAGIC || magic == RAMFS_MAGIC;
  if (magic == kLustre) ask_lustre(descriptor, facts);
  return 0;
}

int64_t KernelFileSystem::size(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return -errno;
  if (!S_ISBLK(status.st_mode)) return status.st_size;
  return checked(lseek(descriptor, 0, SEEK_END));
}

int KernelFileSystem::resize(int descriptor, int64_t bytes) { return checked(ftruncate(descriptor, bytes)); }

// posix_fallocate writes a byte into each block where the file system cannot do it by itself, and returns its error.
int KernelFileSystem::reserve(int descriptor, int64_t bytes) {
  int result;
  do result = posix_fallocate(descriptor, 0, bytes);
  while (result == EINTR);
  return -result;
}

int KernelFileSystem::sync(int descriptor) {
  const int result = checked(fsync(descriptor));
  return result == -EINVAL || result == -EROFS ? 0 : result;  // pipes and terminals have nothing to transfer
}

void KernelFileSystem::advise(int descriptor, int advice) { posix_fadvise(descriptor, 0, 0, advice); }

int64_t KernelFileSystem::read(int descriptor, const iovec* pieces, int count, int64_t offset) {
  count = std::min(count, IOV_MAX);
  if (offset == kStream) return checked(int64_t(readv(descriptor, pieces, count)));
  if (count == 1) return checked(int64_t(pread(descriptor, pieces->iov_base, pieces->iov_len, offset)));
  return checked(int64_t(preadv(descriptor, pieces, count, offset)));
}

int64_t KernelFileSystem::write(int descriptor, const iovec* pieces, int count, int64_t offset) {
  count = std::min(count, IOV_MAX);
  if (offset == kStream) return checked(int64_t(writev(descriptor, pieces, count)));
  if (count == 1) return checked(int64_t(pwrite(descriptor, pieces->iov_base, pieces->iov_len, offset)));
  return checked(int64_t(pwritev(descriptor, pieces, count, offset)));
}

int64_t KernelFileSystem::read_cached(int descriptor, const iovec* pieces, int count, int64_t offset) {
  const int64_t result =
      checked(int64_t(preadv2(descriptor, pieces, std::min(count, IOV_MAX), offset, RWF_NOWAIT)));
  return result == -EOPNOTSUPP ? -EAGAIN : result;  // tmpfs and others cannot say what is in memory
}

int KernelFileSystem::lock(int descriptor, Lock kind, int64_t begin, int64_t length, bool wait) {
  struct flock wish {};
  wish.l_type = short(kind == Lock::none ? F_UNLCK : kind == Lock::shared ? F_RDLCK : F_WRLCK);
  wish.l_whence = SEEK_SET;
  wish.l_start = begin;
  wish.l_len = length;
  int result;
  do result = checked(fcntl(descriptor, wait ? F_OFD_SETLKW : F_OFD_SETLK, &wish));
  while (result == -EINTR);
  return result == -EACCES ? -EAGAIN : result;
}

}  // namespace tern::io
