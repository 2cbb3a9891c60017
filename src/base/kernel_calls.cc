#include "base/kernel_calls.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

#include "base/limits.h"

namespace tern {
namespace {

constexpr long kZeros = -2;  // the address of some zeros, among the arguments below

struct KernelCall {
  const char* name;
  long number;
  long arguments[5];
};
// What waiting, sockets and keys are made of, and has no substitute. What has one (memfd_create, process_vm_readv,
// userfaultfd, membarrier, io_uring) is tried where it is used. The arguments are such that nothing is done: a
// descriptor or flags that do not exist, or nothing to do.
constexpr KernelCall kNeeded[] = {{"eventfd2", SYS_eventfd2, {0, -1}},
                                  {"epoll_create1", SYS_epoll_create1, {-1}},
                                  {"epoll_ctl", SYS_epoll_ctl, {-1, EPOLL_CTL_DEL, -1}},
                                  {"epoll_pwait", SYS_epoll_pwait, {-1}},
                                  {"socket", SYS_socket, {-1, -1, -1}},
                                  {"accept4", SYS_accept4, {-1}},
                                  {"connect", SYS_connect, {-1, kZeros, sizeof(sockaddr)}},
                                  {"sendto", SYS_sendto, {-1}},
                                  {"sendmsg", SYS_sendmsg, {-1, kZeros}},
                                  {"recvfrom", SYS_recvfrom, {-1}},
                                  {"recvmsg", SYS_recvmsg, {-1, kZeros}},
                                  {"setsockopt", SYS_setsockopt, {-1}},
                                  {"getrandom", SYS_getrandom, {}},
                                  {"timerfd_create", SYS_timerfd_create, {-1, -1}},
                                  {"timerfd_settime", SYS_timerfd_settime, {-1, 0, kZeros}}};

}  // namespace

Error require_kernel_calls() {
  alignas(16) static const char zeros[sizeof(msghdr) + sizeof(itimerspec)] = {};
  for (const KernelCall& call : kNeeded) {
    long with[5];
    for (int i = 0; i < 5; ++i)
      with[i] = call.arguments[i] == kZeros ? reinterpret_cast<long>(&zeros) : call.arguments[i];
    errno = 0;
    const long result = syscall(call.number, with[0], with[1], with[2], with[3], with[4], 0L);
    if (result >= 0 || (errno != EPERM && errno != ENOSYS && errno != EACCES)) continue;
    return Error(ErrorClass::other, std::string("the system call ") + call.name +
                                        " is forbidden here: " + errno_text(errno) +
                                        ". Allow it in the container's seccomp profile, or the service's "
                                        "SystemCallFilter");
  }
  return {};
}

}  // namespace tern
