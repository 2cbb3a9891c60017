#include "io/background.h"

#include <cerrno>

#include "io/system_error.h"

namespace tern::io {

bool Job::note(int64_t result) {
  if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) return false;
  if (result < 0) {
    number_ = int(-result);
    return true;
  }
  if (work == Work::call) return true;
  moved_ += result;
  if (offset != FileSystem::kStream) offset += result;
  size_t left = size_t(result);
  while (count > 0 && left >= pieces->iov_len) {
    left -= pieces->iov_len;
    ++pieces;
    --count;
  }
  if (count == 0) return true;
  pieces->iov_base = static_cast<std::byte*>(pieces->iov_base) + left;
  pieces->iov_len -= left;
  // Nothing read is the end of the file. Nothing written is no error of write(2) for files, but it would never end.
  if (result == 0 && work == Work::write) number_ = EIO;
  return result == 0;
}

void Job::settle() {
  status = kEmptyStatus;
  status.bytes = moved_;
  if (number_ != 0)
    error = system_error(work == Work::call ? what : work == Work::read ? "read" : "write", path_, number_);
}

bool Job::carry_out(size_t limit) {
  const int64_t most = limit > size_t(INT64_MAX) ? INT64_MAX : int64_t(limit);
  for (const int64_t before = moved_; moved_ - before < most;) {
    int64_t result;
    if (work == Work::call) {
      result = call();
    } else if (size_t(most - (moved_ - before)) < pieces->iov_len) {
      const iovec part{pieces->iov_base, size_t(most - (moved_ - before))};
      result = work == Work::read ? files.read(file, &part, 1, offset) : files.write(file, &part, 1, offset);
    } else {
      result = work == Work::read ? files.read(file, pieces, count, offset) : files.write(file, pieces, count, offset);
    }
    if (note(result)) return true;
  }
  return false;
}

}  // namespace tern::io
