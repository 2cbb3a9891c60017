// A program started alone: a world of one rank, whose key-value space is a map.
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <map>

#include "process/launch/clients.h"

namespace tern {
namespace {

class Singleton final : public Launcher {
 public:
  Singleton() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    // The process id alone comes back after a while; with the time of start it does not on one machine.
    job_id_ = fmt::format("single-{}-{}.{}", getpid(), now.tv_sec, now.tv_nsec / 1000);
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int universe_size() const override { return 1; }
  int app_number() const override { return -1; }
  std::string_view job_id() const override { return job_id_; }
  std::vector<int> local_ranks() const override { return {0}; }
  Error put(std::string_view key, std::string_view value) override {
    values_.insert_or_assign(std::string(key), std::string(value));
    return {};
  }
  Error fence() override { return {}; }
  Error get(int rank, std::string_view key, std::string& value) override {
    auto found = values_.find(key);
    if (rank != 0 || found == values_.end()) {
      return Error(ErrorClass::intern, fmt::format("rank {} has put nothing under '{}'", rank, key));
    }
    value = found->second;
    return {};
  }
  Error enter_barrier() override { return {}; }
  bool barrier_is_over(Error&) override { return true; }
  void abort(int code, std::string_view message) override {
    say_last_words(message);
    flush_standard_streams();
    _exit(exit_status(code));
  }
  Error finalize() override { return {}; }

 private:
  std::string job_id_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::unique_ptr<Launcher> make_singleton() { return std::make_unique<Singleton>(); }

int exit_status(int code) { return code != 0 && (code & 0xff) == 0 ? 1 : code & 0xff; }

void flush_standard_streams() {
  for (FILE* stream : {stdout, stderr}) {
    if (ftrylockfile(stream) == 0) {
      fflush(stream);
      funlockfile(stream);
    }
  }
}

void say_last_words(std::string_view message) {
  if (message.empty()) return;
  std::string line(message);
  if (line.back() != '\n') line += '\n';
  // Nothing is left to do about a stderr that does not take it; nor shall it decide how this process ends.
  signal(SIGPIPE, SIG_IGN);
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

std::string clean_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return name;
}

long environment_number(const char* name, long otherwise) {
  const char* text = getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const long value = strtol(text, &end, 10);
  return *end ? otherwise : value;
}

bool is_socket(int descriptor) {
  struct stat status;
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace tern
