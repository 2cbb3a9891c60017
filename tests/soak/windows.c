/* One-sided communication: each member owns a part of every other's window that it puts to and gets from, and all
 * members add to counters. Every kind of window, every kind of synchronisation. */
#include <unistd.h>

#include "soak.h"

enum { kCreate, kAllocate, kShared, kDynamic, kKinds };
enum { kFence, kStartPost, kLock, kLockAll, kSyncs };
enum { kCounters = 4, kMostOps = 16 };

typedef struct {
  MPI_Win win;
  int kind, part; /* bytes of each member's part */
  unsigned char *memory;
  MPI_Aint *bases; /* of a dynamic window: what each member has attached, else 0 */
  MPI_Comm comm;
} Window;

static MPI_Aint place_of_part(const Window *window, int target, int owner) {
  return window->bases[target] + (MPI_Aint)(kCounters * sizeof(int64_t)) + (MPI_Aint)owner * window->part;
}
static MPI_Aint place_of_counter(const Window *window, int target, int counter) {
  return window->bases[target] + counter * (MPI_Aint)sizeof(int64_t);
}

static void make(Place *at, Window *window) {
  const MPI_Aint bytes = (MPI_Aint)(kCounters * sizeof(int64_t)) + (MPI_Aint)at->size * window->part;
  window->bases = calloc((size_t)at->size, sizeof *window->bases);
  window->comm = at->comm;
  if (window->kind == kShared) {
    FINE(MPI_Comm_split_type(at->comm, MPI_COMM_TYPE_SHARED, at->rank, MPI_INFO_NULL, &window->comm));
    int members;
    MPI_Comm_size(window->comm, &members);
    if (members != at->size) { /* on several nodes */
      FINE(MPI_Comm_free(&window->comm));
      window->comm = at->comm;
      window->kind = kAllocate;
    }
  }
  switch (window->kind) {
    case kCreate:
      FINE(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &window->memory));
      FINE(MPI_Win_create(window->memory, bytes, 1, MPI_INFO_NULL, at->comm, &window->win));
      break;
    case kShared:
      FINE(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, window->comm, &window->memory, &window->win));
      break;
    case kDynamic:
      FINE(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &window->memory));
      FINE(MPI_Win_create_dynamic(MPI_INFO_NULL, at->comm, &window->win));
      FINE(MPI_Win_attach(window->win, window->memory, bytes));
      MPI_Aint own;
      MPI_Get_address(window->memory, &own);
      FINE(MPI_Allgather(&own, 1, MPI_AINT, window->bases, 1, MPI_AINT, at->comm));
      break;
    default: FINE(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, at->comm, &window->memory, &window->win)); break;
  }
  FINE(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, at->rank, 0, window->win));
  memset(window->memory, 0, (size_t)bytes);
  FINE(MPI_Win_unlock(at->rank, window->win));
  FINE(MPI_Barrier(at->comm));
}

static void unmake(Place *at, Window *window) {
  if (window->kind == kDynamic) {
    FINE(MPI_Barrier(at->comm));
    FINE(MPI_Win_detach(window->win, window->memory));
  }
  FINE(MPI_Win_free(&window->win));
  if (window->kind == kCreate || window->kind == kDynamic) FINE(MPI_Free_mem(window->memory));
  if (window->kind == kShared) FINE(MPI_Comm_free(&window->comm));
  free(window->bases);
}

static void open_epoch(Window *window, int sync, MPI_Group all, int target) {
  switch (sync) {
    case kFence: FINE(MPI_Win_fence(MPI_MODE_NOPRECEDE, window->win)); break;
    case kStartPost:
      FINE(MPI_Win_post(all, 0, window->win));
      FINE(MPI_Win_start(all, 0, window->win));
      break;
    case kLock: FINE(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window->win)); break;
    default: FINE(MPI_Win_lock_all(0, window->win)); break;
  }
}

static void close_epoch(Window *window, int sync, int target) {
  switch (sync) {
    case kFence: FINE(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win)); break;
    case kStartPost:
      FINE(MPI_Win_complete(window->win));
      FINE(MPI_Win_wait(window->win));
      break;
    case kLock: FINE(MPI_Win_unlock(target, window->win)); break;
    default: FINE(MPI_Win_unlock_all(window->win)); break;
  }
}

/* Puts the whole part in some pieces, and adds to a counter in one of the ways. What is fetched is looked at by the
 * caller, when the epoch is over. */
static void change(const Place *at, Window *window, int target, const unsigned char *data, int pieces, int how,
                   int counter, int64_t *one, int64_t *fetched) {
  for (int i = 0; i < pieces; i++) {
    const int from = (int)((int64_t)window->part * i / pieces), to = (int)((int64_t)window->part * (i + 1) / pieces);
    FINE(MPI_Put(data + from, to - from, MPI_BYTE, target, place_of_part(window, target, at->rank) + from, to - from,
                 MPI_BYTE, window->win));
  }
  const MPI_Aint place = place_of_counter(window, target, counter);
  switch (how) {
    case 0: FINE(MPI_Accumulate(one, 1, MPI_INT64_T, target, place, 1, MPI_INT64_T, MPI_SUM, window->win)); break;
    case 1: FINE(MPI_Fetch_and_op(one, fetched, MPI_INT64_T, target, place, MPI_SUM, window->win)); break;
    default:
      FINE(MPI_Get_accumulate(one, 1, MPI_INT64_T, fetched, 1, MPI_INT64_T, target, place, 1, MPI_INT64_T, MPI_SUM,
                              window->win));
      break;
  }
}

void windows(Place *at) {
  Window window = {.kind = draw(at, kKinds)};
  window.part = draw_bytes(at) / at->size;
  const int rounds = 1 + draw(at, 4);
  int64_t one = 1, sums[kCounters] = {0};
  MPI_Group all;
  make(at, &window);
  MPI_Comm_group(at->comm, &all);
  unsigned char *data = malloc((size_t)window.part + 1), *back = malloc((size_t)window.part + 1);
  for (int round = 0; round < rounds; round++) {
    const int sync = draw(at, kSyncs), stride = draw(at, at->size), pieces = 1 + draw(at, 5), how = draw(at, 3);
    const int counter = draw(at, kCounters), seed = draw(at, 1 << 20);
    const int target = (at->rank + stride) % at->size;
    int64_t fetched[2] = {-1, -1};
    fill(data, seed + at->rank, window.part);
    open_epoch(&window, sync, all, target);
    come_late(at);
    change(at, &window, target, data, pieces, how, counter, &one, fetched);
    close_epoch(&window, sync, target);
    CHECK(how == 0 || fetched[0] == sums[counter]);
    sums[counter]++;
    if (draw(at, 2)) FINE(MPI_Barrier(at->comm));
    memset(back, 1, (size_t)window.part + 1);
    FINE(MPI_Win_lock(draw(at, 2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, window.win));
    FINE(MPI_Get(back, window.part, MPI_BYTE, target, place_of_part(&window, target, at->rank), window.part, MPI_BYTE,
                 window.win));
    FINE(MPI_Win_unlock(target, window.win));
    CHECK(holds(back, seed + at->rank, window.part) && back[window.part] == 1);
    FINE(MPI_Barrier(at->comm));
    FINE(MPI_Win_lock(MPI_LOCK_SHARED, at->rank, 0, window.win));
    const int source = (at->rank + at->size - stride) % at->size;
    CHECK(holds(window.memory + kCounters * sizeof(int64_t) + (size_t)source * (size_t)window.part, seed + source,
                window.part));
    for (int i = 0; i < kCounters; i++) CHECK(((int64_t *)window.memory)[i] == sums[i]);
    FINE(MPI_Win_unlock(at->rank, window.win));
    FINE(MPI_Barrier(at->comm));
  }
  free(data);
  free(back);
  MPI_Group_free(&all);
  unmake(at, &window);
}
