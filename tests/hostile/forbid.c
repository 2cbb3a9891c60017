/* Runs a program to which one system call is forbidden: it fails with EPERM, as in a container with a strict seccomp
   profile. Usage: forbid NAME PROGRAM ARGUMENTS...; forbid -l lists the names. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char *name;
  unsigned number;
} calls[] = {{"eventfd2", SYS_eventfd2},         {"epoll_create1", SYS_epoll_create1},
             {"epoll_ctl", SYS_epoll_ctl},       {"accept4", SYS_accept4},
             {"getrandom", SYS_getrandom},       {"recvmsg", SYS_recvmsg},
             {"sendmsg", SYS_sendmsg},           {"timerfd_create", SYS_timerfd_create},
             {"memfd_create", SYS_memfd_create}, {"process_vm_readv", SYS_process_vm_readv},
             {"membarrier", SYS_membarrier},     {"sched_getaffinity", SYS_sched_getaffinity}};

int main(int argc, char **argv) {
  const size_t count = sizeof calls / sizeof calls[0];
  size_t i = 0;
  if (argc == 2 && !strcmp(argv[1], "-l")) {
    for (; i < count; ++i) puts(calls[i].name);
    return 0;
  }
  while (argc > 2 && i < count && strcmp(calls[i].name, argv[1])) ++i;
  if (argc < 3 || i == count) return 2;
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return 77;
  execvp(argv[2], argv + 2);
  return 3;
}
