#include "base/limits.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/fatal.h"

namespace tern {
namespace {

// ~0: not known.
uint64_t limit_of(int resource) {
  rlimit limit{};
  return getrlimit(__rlimit_resource(resource), &limit) == 0 ? uint64_t(limit.rlim_cur) : ~uint64_t{0};
}

// At least how many descriptors are open; the limit itself when no descriptor is left to count with.
uint64_t open_descriptors(uint64_t limit) {
  DIR* directory = opendir("/proc/self/fd");
  if (!directory) return errno == EMFILE ? limit : 0;
  uint64_t count = 0;
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] != '.';
  closedir(directory);
  return count - 1;  // without the directory's own
}

// Raises the soft limit of file sizes to the hard one, and blocks the signal that exceeding it raises.
class WithoutFileSizeLimit {
 public:
  explicit WithoutFileSizeLimit(uint64_t bytes) {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &mask_);
    if (getrlimit(RLIMIT_FSIZE, &limit_) != 0 || limit_.rlim_cur >= bytes) return;
    const rlimit lifted{limit_.rlim_max, limit_.rlim_max};
    lifted_ = setrlimit(RLIMIT_FSIZE, &lifted) == 0;
  }
  ~WithoutFileSizeLimit() {
    if (lifted_) (void)setrlimit(RLIMIT_FSIZE, &limit_);
    const timespec at_once{};
    (void)sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  WithoutFileSizeLimit(const WithoutFileSizeLimit&) = delete;
  WithoutFileSizeLimit& operator=(const WithoutFileSizeLimit&) = delete;

 private:
  sigset_t signal_, mask_;
  rlimit limit_{};
  bool lifted_ = false;
};

}  // namespace

void raise_descriptor_limit(uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

Error require_descriptors(size_t more) {
  const uint64_t open = open_descriptors(limit_of(RLIMIT_NOFILE));
  raise_descriptor_limit(open + more);
  const uint64_t limit = limit_of(RLIMIT_NOFILE);
  if (open + more <= limit) return {};
  return Error(ErrorClass::other, "this rank needs some " + std::to_string(more) + " file descriptors, and only " +
                                      std::to_string(limit - std::min(limit, open)) + " of " + std::to_string(limit) +
                                      " are left: raise the limit of open files (ulimit -n, RLIMIT_NOFILE)");
}

std::string errno_text(int error) {
  char buffer[128] = "";
  // The GNU strerror_r: thread-safe, may return a static text instead of filling the buffer.
  std::string text = std::string(strerror_r(error, buffer, sizeof buffer)) + " (errno " + std::to_string(error) + ")";
  const auto number = [](int resource) { return std::to_string(limit_of(resource)); };
  switch (error) {
    case EMFILE: return text + "; at most " + number(RLIMIT_NOFILE) + " may be open: raise that limit with ulimit -n";
    case ENFILE: return text + ": the whole system's limit of open files is reached (fs.file-max)";
    case EFBIG: return text + "; files may have " + number(RLIMIT_FSIZE) + " bytes: raise that limit with ulimit -f";
    case ENOMEM:
      if (limit_of(RLIMIT_AS) != RLIM_INFINITY)
        text += "; this process may have " + number(RLIMIT_AS) + " bytes of addresses: raise that limit with ulimit -v";
      return text;
    default: return text;
  }
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

void end_without_memory(const char* what) {
  char line[200];
  const int bytes = std::snprintf(line, sizeof line, "[tern] %s: memory has run out. The job ends.\n", what);
  tern_fatal_error(line);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, std::min(size_t(bytes), sizeof line - 1));
  _exit(int(ErrorClass::no_mem));
}

int resize_file(int descriptor, uint64_t bytes) {
  const WithoutFileSizeLimit lifted(bytes);
  return ftruncate(descriptor, off_t(bytes)) == 0 ? 0 : errno;
}

int reserve_file(int descriptor, uint64_t at, uint64_t bytes) {
  const WithoutFileSizeLimit lifted(at + bytes);
  return posix_fallocate(descriptor, off_t(at), off_t(bytes));
}

}  // namespace tern
