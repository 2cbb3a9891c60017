/* What overlap.c needs of MPI, for two processes that share memory, without any library: how much overlap the machine
 * allows. Compiled with -DBENCH_MEMORY. A message is described in shared memory by the side that comes first, and
 * copied by the other one in one cross-memory call, as tuple queues do. Tag 1 is a note without data.
 * Every error ends the process. */
#ifndef TERN_BENCH_MEMORY_H
#define TERN_BENCH_MEMORY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* process_vm_readv */
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned MPI_Request; /* the number of the message */
enum { MPI_COMM_WORLD, MPI_BYTE, MPI_INT, MPI_LONG, MPI_DOUBLE, MPI_MAX };
#define MPI_STATUS_IGNORE NULL

#define BARE_LINE_ _Alignas(128)
struct bare_shared_ {
  BARE_LINE_ atomic_uint came[2];   /* barriers that a rank has reached */
  BARE_LINE_ atomic_uint notes[2];  /* sent to a rank */
  BARE_LINE_ atomic_uint arrived;   /* sides of messages: the second one of each copies */
  void* buffers[2];                 /* of the message that each rank has begun */
  BARE_LINE_ atomic_uint done;      /* messages copied */
  BARE_LINE_ double values[2][8];   /* of collectives */
};

static struct {
  struct bare_shared_* shared;
  int rank;
  pid_t pid[2];
  unsigned barriers, notes, messages; /* reached; received; begun */
} bare_;

static void bare_need_(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static inline int MPI_Init(int* argc, char*** argv) {
  (void)argc, (void)argv;
  bare_.shared = mmap(NULL, sizeof *bare_.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  bare_need_(bare_.shared != MAP_FAILED, "mmap");
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* where Yama restricts cross-memory calls */
  bare_.pid[0] = getpid();
  pid_t child = fork();
  bare_need_(child >= 0, "fork");
  bare_.rank = child == 0;
  bare_.pid[1] = child == 0 ? getpid() : child;
  if (child == 0) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY), prctl(PR_SET_PDEATHSIG, 9);
  return 0;
}
static inline int MPI_Comm_rank(int comm, int* rank) { return (void)comm, *rank = bare_.rank, 0; }
static inline int MPI_Abort(int comm, int code) { return (void)comm, exit(code), 0; }
static inline int MPI_Finalize(void) {
  if (bare_.rank == 0) wait(NULL);
  return 0;
}
static inline double MPI_Wtime(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void bare_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void bare_until_(atomic_uint* count, unsigned reached) {
  while ((int)(atomic_load_explicit(count, memory_order_acquire) - reached) < 0) bare_pause();
}
static inline int MPI_Barrier(int comm) {
  atomic_store_explicit(&bare_.shared->came[bare_.rank], ++bare_.barriers, memory_order_release);
  bare_until_(&bare_.shared->came[!bare_.rank], bare_.barriers);
  return (void)comm, 0;
}
static inline int MPI_Allreduce(const double* in, double* out, int count, int type, int op, int comm) {
  memcpy(bare_.shared->values[bare_.rank], in, (size_t)count * sizeof *in);
  MPI_Barrier(comm);
  for (int i = 0; i < count; i++) {
    const double theirs = bare_.shared->values[!bare_.rank][i];
    out[i] = in[i] > theirs ? in[i] : theirs;
  }
  return (void)type, (void)op, MPI_Barrier(comm);
}
static inline int MPI_Bcast(void* data, int count, int type, int root, int comm) {
  const size_t bytes = (size_t)count * (type == MPI_INT ? sizeof(int) : sizeof(long));
  if (bare_.rank == root) memcpy(bare_.shared->values[root], data, bytes);
  MPI_Barrier(comm);
  if (bare_.rank != root) memcpy(data, bare_.shared->values[root], bytes);
  return MPI_Barrier(comm);
}

/* One side of the next message. */
static inline void bare_begin_(int sends, void* buffer, int bytes, MPI_Request* request) {
  struct bare_shared_* shared = bare_.shared;
  *request = ++bare_.messages;
  shared->buffers[bare_.rank] = buffer;
  if (atomic_fetch_add_explicit(&shared->arrived, 1, memory_order_acq_rel) % 2 == 0) return;
  struct iovec mine = {buffer, (size_t)bytes}, theirs = {shared->buffers[!bare_.rank], (size_t)bytes};
  const pid_t peer = bare_.pid[!bare_.rank];
  const ssize_t moved = sends ? process_vm_writev(peer, &mine, 1, &theirs, 1, 0)
                              : process_vm_readv(peer, &mine, 1, &theirs, 1, 0);
  bare_need_(moved == bytes, "the cross-memory call");
  atomic_store_explicit(&shared->done, *request, memory_order_release);
}
static inline int MPI_Wait(MPI_Request* request, void* status) {
  return (void)status, bare_until_(&bare_.shared->done, *request), 0;
}
static inline int MPI_Isend(void* buffer, int bytes, int type, int to, int tag, int comm, MPI_Request* request) {
  return (void)type, (void)to, (void)tag, (void)comm, bare_begin_(1, buffer, bytes, request), 0;
}
static inline int MPI_Irecv(void* buffer, int bytes, int type, int from, int tag, int comm, MPI_Request* request) {
  return (void)type, (void)from, (void)tag, (void)comm, bare_begin_(0, buffer, bytes, request), 0;
}
static inline int MPI_Send(void* buffer, int bytes, int type, int to, int tag, int comm) {
  MPI_Request request;
  if (tag == 1) return atomic_fetch_add_explicit(&bare_.shared->notes[to], 1, memory_order_release), 0;
  MPI_Isend(buffer, bytes, type, to, tag, comm, &request);
  return MPI_Wait(&request, NULL);
}
static inline int MPI_Recv(void* buffer, int bytes, int type, int from, int tag, int comm, void* status) {
  MPI_Request request;
  if (tag == 1) return bare_until_(&bare_.shared->notes[bare_.rank], ++bare_.notes), 0;
  MPI_Irecv(buffer, bytes, type, from, tag, comm, &request);
  return MPI_Wait(&request, status);
}

#endif
