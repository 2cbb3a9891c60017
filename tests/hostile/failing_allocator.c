/* Preloaded before a rank: one of its allocations fails, counted from begin_counting() on. In its environment:
     FAIL_AT=N      the N-th (from 1 on) fails; 0: none
     FAIL_ALL=1     and so do all after it
     FAIL_RANK=R    in this rank only
     FAIL_TRACE=1   a rank that crashes prints where
     FAIL_STACKS=F  no failure; for each allocation a line in file F: a number for the places it was called from
   Thread rule: any. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long counted;
static long fail_at;
static int fail_all, stacks = -1, counting;
static _Thread_local int inside;

enum { kFrames = 24 };

/* Where the allocation is called from, without what differs between two processes (addresses of libraries). */
static void note_stack(void) {
  void *frames[kFrames];
  uint64_t hash = 14695981039346656037u;
  const int n = backtrace(frames, kFrames);
  for (int i = 2; i < n; ++i) {
    Dl_info about;
    const uintptr_t offset = (uintptr_t)frames[i] - (dladdr(frames[i], &about) ? (uintptr_t)about.dli_fbase : 0);
    hash = (hash ^ offset) * 1099511628211u;
  }
  char line[32];
  const int length = snprintf(line, sizeof line, "%016llx\n", (unsigned long long)hash);
  if (write(stacks, line, (size_t)length) != length) abort();
}

static int fails(void) {
  if (!counting || inside) return 0;
  const long now = atomic_fetch_add(&counted, 1) + 1;
  if (stacks >= 0) {
    inside = 1;
    note_stack();
    inside = 0;
    return 0;
  }
  if (fail_at == 0 || now < fail_at || (now > fail_at && !fail_all)) return 0;
  errno = ENOMEM;
  return 1;
}

static void print_trace(int number) {
  void *frames[kFrames];
  backtrace_symbols_fd(frames, backtrace(frames, kFrames), 2);
  signal(number, SIG_DFL);
  raise(number);
}

__attribute__((visibility("default"))) void begin_counting(void) {
  const char *rank = getenv("FAIL_RANK"), *mine = getenv("PMI_RANK"), *at = getenv("FAIL_AT"),
             *file = getenv("FAIL_STACKS");
  if (rank && mine && strcmp(rank, mine) != 0) return;
  void *frame;
  backtrace(&frame, 1); /* it loads a library the first time */
  if (getenv("FAIL_TRACE")) {
    signal(SIGSEGV, print_trace);
    signal(SIGABRT, print_trace);
  }
  fail_all = getenv("FAIL_ALL") != NULL;
  fail_at = at ? atol(at) : 0;
  if (file) stacks = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  counting = 1;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes) {
  return fails() ? NULL : __libc_calloc(n, bytes);
}
__attribute__((visibility("default"))) void *realloc(void *at, size_t bytes) {
  return fails() ? NULL : __libc_realloc(at, bytes);
}
__attribute__((visibility("default"))) void *memalign(size_t to, size_t bytes) {
  return fails() ? NULL : __libc_memalign(to, bytes);
}
__attribute__((visibility("default"))) void *aligned_alloc(size_t to, size_t bytes) { return memalign(to, bytes); }
__attribute__((visibility("default"))) int posix_memalign(void **at, size_t to, size_t bytes) {
  void *made = memalign(to, bytes);
  if (!made) return ENOMEM;
  *at = made;
  return 0;
}
