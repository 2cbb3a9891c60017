/* What background.c needs of MPI, for two processes, over bare TCP sockets and one thread: how much overlap the machine
 * allows without any MPI. Compiled with -DBENCH_SOCKETS. BENCH_PEER: empty for rank 0, which listens; rank 0's address
 * for rank 1. Every error ends the process. */
#ifndef TERN_BENCH_SOCKETS_H
#define TERN_BENCH_SOCKETS_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef int MPI_Request;
enum { MPI_REQUEST_NULL, MPI_COMM_WORLD, MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_MAX, MPI_SUM };
#define MPI_STATUS_IGNORE NULL

static struct {
  int rank, control, data; /* sockets */
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  char* buffer; /* NULL: nothing to do */
  size_t bytes;
} bare_ = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void bare_need_(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static void bare_move_(int socket, int sends, void* buffer, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = sends ? send(socket, (char*)buffer + done, bytes - done, 0)
                      : recv(socket, (char*)buffer + done, bytes - done, 0);
    bare_need_(n > 0, "the other side");
    done += (size_t)n;
  }
}

static void* bare_thread_(void* unused) {
  pthread_mutex_lock(&bare_.mutex);
  for (;;) {
    while (!bare_.buffer) pthread_cond_wait(&bare_.changed, &bare_.mutex);
    pthread_mutex_unlock(&bare_.mutex);
    bare_move_(bare_.data, bare_.rank == 0, bare_.buffer, bare_.bytes);
    pthread_mutex_lock(&bare_.mutex);
    bare_.buffer = NULL;
    pthread_cond_broadcast(&bare_.changed);
  }
  return unused;
}

static int bare_socket_(int listener, const char* peer, struct sockaddr_in* at) {
  int one = 1, made = -1;
  if (listener >= 0) {
    made = accept(listener, NULL, NULL);
  } else {
    for (int i = 0; i < 500; i++) { /* 5 s for the other side to listen */
      made = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(made, (struct sockaddr*)at, sizeof *at) == 0) break;
      close(made), made = -1, usleep(10000);
    }
  }
  bare_need_(made >= 0, peer);
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return made;
}

static inline int MPI_Init(int* argc, char*** argv) {
  const char* peer = getenv("BENCH_PEER");
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7471)};
  int listener = -1, one = 1;
  (void)argc, (void)argv;
  bare_.rank = peer && *peer;
  if (bare_.rank == 0) {
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bare_need_(bind(listener, (struct sockaddr*)&at, sizeof at) == 0 && listen(listener, 2) == 0, "listen");
  } else {
    bare_need_(inet_pton(AF_INET, peer, &at.sin_addr) == 1, peer);
  }
  bare_.control = bare_socket_(listener, peer, &at);
  bare_.data = bare_socket_(listener, peer, &at);
  return pthread_create(&bare_.thread, NULL, bare_thread_, NULL);
}

static inline int MPI_Comm_rank(int comm, int* rank) { return (void)comm, *rank = bare_.rank, 0; }
static inline int MPI_Comm_size(int comm, int* size) { return (void)comm, *size = 2, 0; }
static inline int MPI_Finalize(void) { return 0; }
static inline int MPI_Abort(int comm, int code) { return (void)comm, exit(code), 0; }
static inline double MPI_Wtime(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* What this rank gives, and what it gets. */
static void bare_exchange_(const void* mine, void* theirs, size_t bytes) {
  bare_move_(bare_.control, 1, (void*)mine, bytes);
  bare_move_(bare_.control, 0, theirs, bytes);
}
static inline int MPI_Barrier(int comm) {
  char byte = 0;
  bare_exchange_(&byte, &byte, 1);
  return (void)comm, 0;
}
static inline int MPI_Bcast(void* data, int count, int type, int root, int comm) {
  size_t bytes = (size_t)count * (type == MPI_DOUBLE ? sizeof(double) : type == MPI_INT ? sizeof(int) : 1);
  bare_move_(bare_.control, bare_.rank == root, data, bytes);
  return (void)comm, 0;
}
static inline int MPI_Allreduce(const double* in, double* out, int count, int type, int op, int comm) {
  bare_exchange_(in, out, (size_t)count * sizeof *in);
  for (int i = 0; i < count; i++) out[i] = op == MPI_SUM ? in[i] + out[i] : in[i] > out[i] ? in[i] : out[i];
  return (void)type, (void)comm, 0;
}

static inline int bare_begin_(void* buffer, int bytes) {
  pthread_mutex_lock(&bare_.mutex);
  bare_.buffer = buffer, bare_.bytes = (size_t)bytes;
  pthread_cond_broadcast(&bare_.changed);
  return pthread_mutex_unlock(&bare_.mutex);
}
static inline int MPI_Isend(void* buffer, int bytes, int type, int to, int tag, int comm, MPI_Request* request) {
  return (void)type, (void)to, (void)tag, (void)comm, (void)request, bare_begin_(buffer, bytes);
}
static inline int MPI_Irecv(void* buffer, int bytes, int type, int from, int tag, int comm, MPI_Request* request) {
  return (void)type, (void)from, (void)tag, (void)comm, (void)request, bare_begin_(buffer, bytes);
}
static inline int MPI_Wait(MPI_Request* request, void* status) {
  pthread_mutex_lock(&bare_.mutex);
  while (bare_.buffer) pthread_cond_wait(&bare_.changed, &bare_.mutex);
  return (void)request, (void)status, pthread_mutex_unlock(&bare_.mutex);
}
static inline int MPI_Send(void* buffer, int bytes, int type, int to, int tag, int comm) {
  MPI_Request request;
  MPI_Isend(buffer, bytes, type, to, tag, comm, &request);
  return MPI_Wait(&request, NULL);
}
static inline int MPI_Recv(void* buffer, int bytes, int type, int from, int tag, int comm, void* status) {
  MPI_Request request;
  MPI_Irecv(buffer, bytes, type, from, tag, comm, &request);
  return MPI_Wait(&request, status);
}

#endif
