#include "base/owned_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tern {
namespace {

std::string user(uid_t id) { return id == 0 ? "root" : "user " + std::to_string(id); }

// Empty: this open file may be written.
std::string why_not_to_write(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return std::strerror(EISDIR);
  if (!S_ISREG(status.st_mode)) return {};
  if (status.st_uid != geteuid())
    return "it belongs to " + user(status.st_uid) + ". Name another file, or remove this one";
  if (status.st_nlink > 1) return "it has another name, too (a hard link). Name another file, or remove this one";
  return {};
}

// /dev/stderr and the like are links that nobody but the administrator can make.
bool follows_links(const std::string& path) { return path.starts_with("/dev/") && !path.starts_with("/dev/shm/"); }

std::string why_not_to_read(const struct stat& status, uid_t also) {
  const bool null_device = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);  // Linux, devices.txt
  if (null_device) return {};
  if (!S_ISREG(status.st_mode)) return "it is no ordinary file";
  if (status.st_uid != geteuid() && status.st_uid != 0 && status.st_uid != also)
    return "it belongs to " + user(status.st_uid) + ", who could change it. Make a copy of your own";
  if (status.st_mode & S_IWOTH) return "everybody may change it. Take that right away (chmod o-w)";
  return {};
}

}  // namespace

Descriptor open_own_file(const std::string& path, int flags, std::string& why) {
  // O_NONBLOCK: a pipe without a reader would make this wait. It is taken back below.
  const int common = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (flags & O_APPEND);
  const int no_link = follows_links(path) ? 0 : O_NOFOLLOW;
  // A file that is made here is this user's, whatever its file system says of owners (NFS for root, containers).
  Descriptor file(open(path.c_str(), common | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (!file && errno == EEXIST) {
    file = Descriptor(open(path.c_str(), common | no_link));
    if (!file && errno == ELOOP) {
      why = "it is a symbolic link, which is not followed. Name the file itself";
      return {};
    }
    struct stat status {};
    if (file && fstat(file.get(), &status) == 0) why = why_not_to_write(status);
    if (!why.empty()) return {};
    if (file && S_ISREG(status.st_mode) && (flags & O_TRUNC) && ftruncate(file.get(), 0) != 0) file.reset();
  }
  if (!file) {
    why = std::strerror(errno);
    return {};
  }
  fcntl(file.get(), F_SETFL, flags & O_APPEND);
  return file;
}

bool could_be_own_file(const std::string& path, std::string& why) {
  struct stat status {};
  const bool follow = follows_links(path);
  if ((follow ? stat(path.c_str(), &status) : lstat(path.c_str(), &status)) != 0) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (errno == ENOENT && access(folder.c_str(), W_OK | X_OK) == 0) return true;
    why = std::strerror(errno);
    return false;
  }
  if (S_ISLNK(status.st_mode)) why = "it is a symbolic link, which is not followed. Name the file itself";
  else why = why_not_to_write(status);
  if (why.empty() && access(path.c_str(), W_OK) != 0) why = std::strerror(errno);
  return why.empty();
}

Descriptor open_trusted_file(const std::string& path, uid_t also, std::string& why) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) {
    why = std::strerror(errno);
    return {};
  }
  why = why_not_to_read(status, also);
  if (!why.empty()) {
    errno = EPERM;
    return {};
  }
  return file;
}

bool read_trusted_file(const std::string& path, uid_t also, std::string& text, std::string& why) {
  const Descriptor file = open_trusted_file(path, also, why);
  if (!file) return false;
  char piece[4096];
  ssize_t n;
  while ((n = read(file.get(), piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) text.append(piece, size_t(n));
  }
  if (n < 0) why = std::strerror(errno);
  return n == 0;
}

}  // namespace tern
