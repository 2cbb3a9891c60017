#include "fabric/shm/node_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/recorder.h"

namespace tern::shm {
namespace {

/// The kernel translates a pidfd into this process's pid namespace in /proc/self/fdinfo.
pid_t pid_of_life_line(int life_line) {
  if (life_line < 0) return 0;
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", life_line);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* field = strstr(text, "\nPid:");
  return field ? std::max(0, atoi(field + 5)) : 0;
}

pid_t probe_cross_memory(const RankBlock& block, int life_line, bool& writable) {
  struct stat info;
  const bool same_namespace = stat("/proc/self/ns/pid", &info) == 0 && info.st_ino == block.pid_namespace;
  const pid_t pid = same_namespace ? block.pid : pid_of_life_line(life_line);
  if (pid <= 0) return 0;
  uint64_t found = 0;
  const iovec local{&found, sizeof found};
  const iovec remote{reinterpret_cast<void*>(block.probe_address), sizeof found};
  writable = false;
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != sizeof found || found != block.probe_value) return 0;
  const iovec second{reinterpret_cast<void*>(block.probe_address + sizeof found), sizeof found};
  writable = process_vm_writev(pid, &local, 1, &second, 1, 0) == sizeof found;
  found = 0;
  writable = writable && process_vm_readv(pid, &local, 1, &second, 1, 0) == sizeof found && found == block.probe_value;
  return pid;
}

/// The loop of both directions. `Move` is process_vm_readv or process_vm_writev.
template <typename Move>
Error transfer(Move move, const char* what, pid_t pid, Cursor& local, uint64_t address, size_t bytes) {
  iovec pieces[64];
  while (bytes != 0) {
    size_t covered = 0;
    const size_t count = local.segments(std::span<iovec>(pieces), bytes, covered);
    if (covered == 0) return Error(ErrorClass::intern, std::string(what) + ": the buffer is shorter than the transfer");
    const iovec remote{reinterpret_cast<void*>(address), covered};
    ssize_t got;
    do got = move(pid, pieces, count, &remote, 1, 0);
    while (got < 0 && errno == EINTR);
    // A single remote piece is copied as a whole or up to a fault: a short copy means an invalid address.
    if (got != ssize_t(covered)) {
      return Error(ErrorClass::other, std::string(what) + ": " + (got < 0 ? strerror(errno) : "short"));
    }
    address += covered;
    bytes -= covered;
  }
  return {};
}

class KernelPort final : public NodePort {
 public:
  pid_t probe(uint32_t, const RankBlock& block, int life_line, bool& writable) override {
    return probe_cross_memory(block, life_line, writable);
  }
  Error read(pid_t pid, Cursor& local, uint64_t address, size_t bytes) override {
    return transfer(process_vm_readv, "cross-memory read", pid, local, address, bytes);
  }
  Error write(pid_t pid, Cursor& local, uint64_t address, size_t bytes) override {
    return transfer(process_vm_writev, "cross-memory write", pid, local, address, bytes);
  }
  uint64_t now_ns() override { return Recorder::now_ns(); }
};

}  // namespace

std::shared_ptr<NodePort> kernel_port() { return std::make_shared<KernelPort>(); }

}  // namespace tern::shm
