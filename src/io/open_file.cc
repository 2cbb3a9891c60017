#include "io/open_file.h"

#include <fcntl.h>

#include <cerrno>

#include "io/environment.h"
#include "io/system_error.h"

namespace tern::io {

Error OpenFile::open(Environment& environment, int amode, bool create, unsigned permissions) {
  FileSystem& files = environment.files();
  int flags = amode & mode::kReadOnly ? O_RDONLY : amode & mode::kWriteOnly ? O_WRONLY : O_RDWR;
  if (create && (amode & mode::kCreate)) flags |= O_CREAT | (amode & mode::kExclusive ? O_EXCL : 0);
  const auto try_open = [&](int with) -> int64_t { return files.open(path.c_str(), with, permissions); };
  int64_t result = -EACCES;
  if (amode & mode::kSequential) {
    // A pipe's other end may be long in coming.
    Request* request = environment.call_elsewhere(
        path, "opening", [&] { return result = try_open(flags); }, true);
    request->release();
  } else {
    // Opens for reading, too, if that is allowed: to change parts of a block.
    const bool reads_too = (flags & O_ACCMODE) == O_WRONLY;
    if (reads_too) result = try_open((flags & ~O_ACCMODE) | O_RDWR);
    readable = result >= 0 || !reads_too;
    if (result == -EACCES || result == -EPERM) result = try_open(flags);
  }
  if (result < 0) return system_error("opening", path, int(-result));
  descriptor = int(result);
  writable = !(amode & mode::kReadOnly);
  if (const int wrong = files.inspect(descriptor, facts); wrong < 0) return system_error("opening", path, -wrong);
  if (!facts.seekable && !(amode & mode::kSequential))
    return Error(ErrorClass::unsupported_operation,
                 "'" + path + "' is a pipe or a terminal. Open it with MPI_MODE_SEQUENTIAL");
  return {};
}

bool OpenFile::open_direct(FileSystem& files) {
  if (!facts.regular) return false;
  direct = files.open(path.c_str(), O_DIRECT | (writable ? O_RDWR : O_RDONLY), 0);
  return direct >= 0;
}

Error OpenFile::close(FileSystem& files) {
  int result = 0;
  if (descriptor >= 0) result = files.close(descriptor);
  if (direct >= 0) files.close(direct);
  descriptor = direct = -1;
  return result < 0 ? system_error("closing", path, -result) : Error();
}

}  // namespace tern::io
