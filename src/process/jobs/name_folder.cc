#include "process/jobs/name_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/descriptor.h"
#include "base/limits.h"

namespace tern {
namespace {

std::string hex(std::string_view bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  text.pop_back();
  return text;
}

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return *host ? host : "localhost";
}

// When the process began, by the kernel (proc(5), stat, field 22): together with its number it is unique on a host.
std::string start_of(long process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

std::string owner_line() { return fmt::format("{} {} {}\n", host_name(), getpid(), start_of(getpid())); }

bool read_file(const std::string& file, std::string& text) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return false;
  text.assign(std::istreambuf_iterator<char>(in), {});
  return true;
}

// Processes of other hosts cannot be checked: they count as living.
bool lives(const std::string& record) {
  std::istringstream fields(record);
  std::string host, start;
  long process = 0;
  fields >> host >> process >> start;
  return host != host_name() || (process > 0 && start_of(process) == start);
}

}  // namespace

NameFolder::NameFolder(const Tunables& tunables) : folder_(tunables.names_dir) {
  if (!folder_.empty()) return;
  const char* home = secure_getenv("HOME");
  folder_ = home && *home ? std::string(home) + "/.tern" : fmt::format("/tmp/tern-{}", getuid());
}

std::string NameFolder::path(std::string_view kind, std::string_view name) const {
  return fmt::format("{}/{}-{}", folder_, kind, name);
}

Error NameFolder::prepare() {
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error(ErrorClass::port, fmt::format("the folder '{}' for ports and names cannot be made: {}. Set "
                                               "TERN_NAMES_DIR to one that can",
                                               folder_, errno_text(errno)));
  }
  struct stat status;
  if (lstat(folder_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & 077) != 0) {
    return Error(ErrorClass::port, fmt::format("'{}', where ports and names stand, must be a folder that is this "
                                               "user's and nobody else may enter (mode 0700). Change it, or set "
                                               "TERN_NAMES_DIR",
                                               folder_));
  }
  return {};
}

Error NameFolder::write(const std::string& file, std::string_view text, bool replace) {
  if (Error error = prepare()) return error;
  std::string fresh = folder_ + "/new-XXXXXX";
  Descriptor descriptor(mkstemp(fresh.data()));
  bool good = bool(descriptor) && ::write(descriptor.get(), text.data(), text.size()) == ssize_t(text.size());
  // link() fails if the file exists already, rename() replaces it.
  good = good && (replace ? rename(fresh.c_str(), file.c_str()) : link(fresh.c_str(), file.c_str())) == 0;
  const int why = errno;
  if (descriptor && !(good && replace)) unlink(fresh.c_str());
  if (good) return {};
  if (why == EEXIST) return Error(ErrorClass::service, "it exists");
  return Error(ErrorClass::port, fmt::format("'{}' cannot be written: {}", file, errno_text(why)));
}

Error NameFolder::keep_secret(uint64_t port, const TcpKey& secret) {
  const std::string text = hex({reinterpret_cast<const char*>(secret.data()), secret.size()});
  return write(path("port", fmt::format("{:016x}", port)), text, false);
}

void NameFolder::drop_secret(uint64_t port) { unlink(path("port", fmt::format("{:016x}", port)).c_str()); }

Error NameFolder::find_secret(uint64_t port, TcpKey& secret) const {
  const std::string file = path("port", fmt::format("{:016x}", port));
  std::string text;
  size_t length = 0;
  if (!read_file(file, text) ||
      sodium_hex2bin(secret.data(), secret.size(), text.data(), text.size(), nullptr, &length, nullptr) != 0 ||
      length != secret.size()) {
    return Error(ErrorClass::port, fmt::format("the port's secret is not in '{}': the port is closed, or its job has "
                                               "another user or another folder. TERN_NAMES_DIR names a folder that "
                                               "both jobs see",
                                               folder_));
  }
  return {};
}

Error NameFolder::publish(std::string_view service, std::string_view port_name) {
  const std::string file = path("name", hex(service)), record = owner_line() + std::string(port_name);
  Error error = write(file, record, false);
  if (error.error_class() != int(ErrorClass::service)) return error;
  std::string old;
  if (read_file(file, old) && lives(old)) {
    return Error(ErrorClass::service, fmt::format("the service name '{}' is published already, by {}", service,
                                                  old.substr(0, old.find('\n'))));
  }
  return write(file, record, true);
}

Error NameFolder::unpublish(std::string_view service) {
  const std::string file = path("name", hex(service));
  std::string record;
  if (!read_file(file, record) || !record.starts_with(owner_line())) {
    return Error(ErrorClass::service, fmt::format("this process has not published the service name '{}'", service));
  }
  unlink(file.c_str());
  return {};
}

Error NameFolder::look_up(std::string_view service, std::string& port_name) const {
  std::string record;
  const bool there = read_file(path("name", hex(service)), record) && lives(record);
  const size_t line = record.find('\n');
  if (!there || line == std::string::npos) {
    return Error(ErrorClass::name,
                 fmt::format("no job of this user has published the service name '{}' in '{}' (TERN_NAMES_DIR)",
                             service, folder_));
  }
  port_name = record.substr(line + 1);
  return {};
}

}  // namespace tern
