/* What the machine allows onesided.c and passive.c: the same work of two processes without any library.
 *
 *   cell                us  a cache line with an operand goes to the other process, which adds it to a word, and comes
 *                           back with the word before (created windows, target inside MPI)
 *   tcp-, udp-waiting   us  8 bytes to a process that polls its socket, and 8 bytes back
 *          computing    us  likewise, but the process computes, and a thread of it sleeps in epoll and answers
 *          delay        us  the difference of the medians
 *          delay-99     us  the 99th of 100, less the median of a process that polls
 *
 * --ms: how long each series of sockets lasts (300). --pause: what the origin computes between two, us (200). Every
 * error ends the process. */
#define _GNU_SOURCE 1  /* processors */
#define BENCH_MEMORY 1 /* bench.h without MPI */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "delay.h"

enum { kBytes = 8 };

struct cell {
  _Alignas(64) atomic_uint turn; /* odd: the origin asks */
  uint64_t operand, result;
};

static void need(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(1);
}

/* The origin is process 0, the other one ends with it. */
static int other_process(pid_t *other) {
  *other = fork();
  need(*other >= 0, "fork");
  if (*other == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return *other == 0;
}

static void end_process(pid_t other) {
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
}

/* --- A cache line. */

static void pin(int which) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)which, &one);
  sched_setaffinity(0, sizeof one, &one);
}

static void answer_cell(struct cell *cell) {
  for (uint64_t word = 0;;) {
    const unsigned turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
    if (turn % 2 == 0) {
      bare_pause();
      continue;
    }
    const uint64_t before = word;
    word += cell->operand;
    cell->result = before;
    atomic_store_explicit(&cell->turn, turn + 1, memory_order_release);
  }
}

static double ask_cell(struct cell *cell, int n) {
  const double began = now_us();
  for (int i = 0; i < n; i++) {
    const unsigned turn = atomic_load_explicit(&cell->turn, memory_order_relaxed);
    cell->operand = (uint64_t)i;
    atomic_store_explicit(&cell->turn, turn + 1, memory_order_release);
    while (atomic_load_explicit(&cell->turn, memory_order_acquire) == turn + 1) bare_pause();
  }
  return (now_us() - began) / n;
}

static void measure_cell(void) {
  struct cell *cell = mmap(NULL, sizeof *cell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(cell != MAP_FAILED, "mmap");
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  pid_t other;
  const int me = other_process(&other);
  pin(me);
  if (me == 1) answer_cell(cell);
  double values[BATCHES];
  ask_cell(cell, 20000);
  for (int i = 0; i < BATCHES; i++) values[i] = ask_cell(cell, 3000);
  end_process(other);
  sched_setaffinity(0, sizeof before, &before);
  point("cell", kBytes, median(values, BATCHES), "us");
}

/* --- Sockets. */

static void connect_pair(int datagrams, int sockets[2]) {
  const int type = datagrams ? SOCK_DGRAM : SOCK_STREAM, one = 1;
  struct sockaddr_in at[2];
  socklen_t length = sizeof *at;
  for (int i = 0; i < 2; i++) {
    sockets[i] = socket(AF_INET, type, 0);
    at[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    need(bind(sockets[i], (struct sockaddr *)&at[i], length) == 0, "bind");
    need(getsockname(sockets[i], (struct sockaddr *)&at[i], &length) == 0, "getsockname");
  }
  if (!datagrams) need(listen(sockets[1], 1) == 0, "listen");
  need(connect(sockets[0], (struct sockaddr *)&at[1], length) == 0, "connect");
  if (datagrams) {
    need(connect(sockets[1], (struct sockaddr *)&at[0], length) == 0, "connect");
    return;
  }
  const int accepted = accept(sockets[1], NULL, NULL);
  need(accepted >= 0, "accept");
  close(sockets[1]);
  sockets[1] = accepted;
  for (int i = 0; i < 2; i++) setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void send_all(int socket) {
  const char data[kBytes] = {0};
  need(send(socket, data, sizeof data, 0) == (ssize_t)sizeof data, "send");
}

static void receive_all(int socket, int flags) {
  char data[kBytes];
  for (size_t got = 0; got < sizeof data;) {
    const ssize_t n = recv(socket, data + got, sizeof data - got, flags);
    if (n > 0) got += (size_t)n;
  }
}

static void *answer_asleep(void *socket) {
  const int fd = *(int *)socket, epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  need(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
  for (;;) {
    epoll_wait(epoll, &event, 1, -1);
    receive_all(fd, 0);
    send_all(fd);
  }
  return NULL;
}

static void answer_sockets(int socket, int computes) {
  pthread_t thread;
  if (computes) need(pthread_create(&thread, NULL, answer_asleep, &socket) == 0, "pthread_create");
  while (computes) work(300);
  for (;;) {
    receive_all(socket, MSG_DONTWAIT);
    send_all(socket);
  }
}

static int rounds(int datagrams, int computes, double ms, double pause_us, double *times) {
  int sockets[2], n = 0;
  connect_pair(datagrams, sockets);
  pid_t other;
  if (other_process(&other) == 1) answer_sockets(sockets[1], computes);
  compute_until(now_us() + 20000); /* until the thread sleeps */
  const double end = now_us() + ms * 1e3;
  while (n < kMost && (n == 0 || now_us() < end)) {
    compute_until(now_us() + pause_us);
    const double began = now_us();
    send_all(sockets[0]);
    receive_all(sockets[0], MSG_DONTWAIT);
    times[n++] = now_us() - began;
  }
  end_process(other);
  close(sockets[0]);
  close(sockets[1]);
  qsort(times, (size_t)n, sizeof *times, by_value);
  return n;
}

static void measure_sockets(int datagrams, double ms, double pause_us) {
  static double times[2][kMost];
  int count[2];
  for (int computes = 0; computes < 2; computes++)
    count[computes] = rounds(datagrams, computes, ms, pause_us, times[computes]);
  point_delays(datagrams ? "udp" : "tcp", kBytes, times, count);
}

int main(int argc, char **argv) {
  const double ms = (double)argument(argc, argv, "--ms", 300), pause_us = (double)argument(argc, argv, "--pause", 200);
  measure_cell();
  measure_sockets(0, ms, pause_us);
  measure_sockets(1, ms, pause_us);
  return 0;
}
