/* Collective calls: blocking ones, and several nonblocking ones at a time that are waited for in another order. */
#include "soak.h"

enum { kMost = 6 };
enum {
  kBarrier,
  kBcast,
  kReduce,
  kAllreduce,
  kGather,
  kScatter,
  kAllgather,
  kAlltoall,
  kAlltoallv,
  kReduceScatter,
  kScan,
  kKinds
};

typedef struct {
  int kind, root, count, seed;
  int64_t *in, *out;
  int *counts, *places; /* of alltoallv */
  MPI_Request request;
} Call;

/* The element of `owner`'s part for `target`. */
static int64_t element(const Call *call, int owner, int target, int i) {
  return (int64_t)call->seed * 1000003 + owner * 7919 + target * 131 + i;
}
/* alltoallv: how many elements one rank sends to another. */
static int share(const Call *call, int source, int target) {
  return (call->count + source * 3 + target * 5) % (call->count + 1);
}

static void prepare(const Place *at, Call *call) {
  const size_t all = (size_t)at->size * (size_t)(call->count + 1);
  call->in = calloc(all, sizeof *call->in);
  call->out = calloc(all, sizeof *call->out);
  call->counts = calloc((size_t)at->size * 4, sizeof *call->counts);
  call->places = call->counts + 2 * at->size;
  call->request = MPI_REQUEST_NULL;
  int out = 0, in = 0;
  for (int to = 0; to < at->size; to++) {
    const int here = call->kind == kAlltoallv ? share(call, at->rank, to) : call->count;
    for (int i = 0; i < here; i++) call->in[out + i] = element(call, at->rank, to, i);
    call->counts[to] = here;
    call->places[to] = out;
    out += here;
    call->counts[at->size + to] = share(call, to, at->rank);
    call->places[at->size + to] = in;
    in += call->counts[at->size + to];
  }
  if (call->kind == kBcast) {
    for (int i = 0; i < call->count; i++) call->out[i] = at->rank == call->root ? element(call, call->root, 0, i) : 0;
  }
}

/* The call, or its nonblocking form. */
static void begin(const Place *at, Call *call, int later) {
  int64_t *in = call->in, *out = call->out;
  const int n = call->count, root = call->root, size = at->size;
  MPI_Comm comm = at->comm;
  MPI_Request *request = &call->request;
#define CALL(lower, Upper, ...)                          \
  do {                                                   \
    if (later) FINE(MPI_I##lower(__VA_ARGS__, request)); \
    else FINE(MPI_##Upper(__VA_ARGS__));                 \
  } while (0)
  switch (call->kind) {
    case kBarrier: CALL(barrier, Barrier, comm); break;
    case kBcast: CALL(bcast, Bcast, out, n, MPI_INT64_T, root, comm); break;
    case kReduce: CALL(reduce, Reduce, in, out, n, MPI_INT64_T, MPI_SUM, root, comm); break;
    case kAllreduce: CALL(allreduce, Allreduce, in, out, n, MPI_INT64_T, MPI_MAX, comm); break;
    case kGather: CALL(gather, Gather, in, n, MPI_INT64_T, out, n, MPI_INT64_T, root, comm); break;
    case kScatter: CALL(scatter, Scatter, in, n, MPI_INT64_T, out, n, MPI_INT64_T, root, comm); break;
    case kAllgather: CALL(allgather, Allgather, in, n, MPI_INT64_T, out, n, MPI_INT64_T, comm); break;
    case kAlltoall: CALL(alltoall, Alltoall, in, n, MPI_INT64_T, out, n, MPI_INT64_T, comm); break;
    case kAlltoallv:
      CALL(alltoallv, Alltoallv, in, call->counts, call->places, MPI_INT64_T, out, call->counts + size,
           call->places + size, MPI_INT64_T, comm);
      break;
    case kReduceScatter:
      CALL(reduce_scatter_block, Reduce_scatter_block, in, out, n, MPI_INT64_T, MPI_SUM, comm);
      break;
    default: CALL(scan, Scan, in, out, n, MPI_INT64_T, MPI_SUM, comm); break;
  }
#undef CALL
}

/* What element i of the part `from` of the result must be. */
static int64_t expected(const Place *at, const Call *call, int from, int i) {
  int64_t sum = 0;
  switch (call->kind) {
    case kBcast: return element(call, call->root, 0, i);
    case kAllreduce: return element(call, at->size - 1, 0, i);
    case kReduce:
      for (int rank = 0; rank < at->size; rank++) sum += element(call, rank, 0, i);
      return sum;
    case kReduceScatter:
      for (int rank = 0; rank < at->size; rank++) sum += element(call, rank, at->rank, i);
      return sum;
    case kScan:
      for (int rank = 0; rank <= at->rank; rank++) sum += element(call, rank, 0, i);
      return sum;
    case kScatter: return element(call, call->root, at->rank, i);
    case kAlltoall:
    case kAlltoallv: return element(call, from, at->rank, i);
    default: return element(call, from, 0, i); /* gather, allgather */
  }
}

static void verify(const Place *at, const Call *call) {
  const int only_root = call->kind == kReduce || call->kind == kGather;
  if (call->kind == kBarrier || (only_root && at->rank != call->root)) return;
  const int has_parts =
      call->kind == kGather || call->kind == kAllgather || call->kind == kAlltoall || call->kind == kAlltoallv;
  int64_t *part = call->out;
  for (int from = 0; from < (has_parts ? at->size : 1); from++) {
    const int count = call->kind == kAlltoallv ? call->counts[at->size + from] : call->count;
    for (int i = 0; i < count; i++) CHECK(part[i] == expected(at, call, from, i));
    part += count;
  }
}

void collectives(Place *at) {
  Call calls[kMost];
  const int count = 1 + draw(at, kMost), later = draw(at, 2), backwards = draw(at, 2);
  for (int i = 0; i < count; i++) {
    Call *call = &calls[i];
    call->kind = draw(at, kKinds);
    call->root = draw(at, at->size);
    call->count = draw_bytes(at) / 8 / (call->kind >= kGather ? at->size : 1);
    call->seed = draw(at, 1 << 20);
    prepare(at, call);
    begin(at, call, later);
  }
  come_late(at);
  for (int i = 0; i < count; i++) {
    Call *call = &calls[backwards ? count - 1 - i : i];
    FINE(MPI_Wait(&call->request, MPI_STATUS_IGNORE));
    verify(at, call);
    free(call->in);
    free(call->out);
    free(call->counts);
  }
}
