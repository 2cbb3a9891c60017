// ranks: 2 4
/* Long accumulates of 8-byte integers, at once and strided, in windows of created memory: every word is changed once by
 * each call, and fetched as it was. Where an adapter carries them out that takes several words at a time (libfabric),
 * a call takes few of its operations. */
#include "check.h"

enum { kWords = 1000, kRounds = 20, kStride = 3 };
static int me, ranks;
static long memory[kWords * kStride], operands[kWords], fetched[kWords];
static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;

static unsigned long long atomics(void) {
  unsigned long long value = 0;
  CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
  return value;
}

/* Rounds of all ranks on rank 0, then one exchange of each word. */
static void accumulate(MPI_Win win, MPI_Datatype there, int stride) {
  MPI_Win_fence(0, win);
  memset(memory, 0, sizeof memory);
  for (int i = 0; i < kWords; i++) operands[i] = 1 + i % 7;
  MPI_Win_fence(0, win);
  for (int round = 0; round < kRounds; round++) {
    MPI_Get_accumulate(operands, kWords, MPI_LONG, fetched, kWords, MPI_LONG, 0, 0, 1, there, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < kWords; i++) {
      CHECK(fetched[i] >= (long)round * ranks * operands[i] && fetched[i] < (long)(round + 1) * ranks * operands[i]);
      CHECK(fetched[i] % operands[i] == 0);
    }
  }
  for (int i = 0; i < kWords * kStride && me == 0; i++)
    CHECK(memory[i] == (i % stride == 0 && i / stride < kWords ? (long)kRounds * ranks * operands[i / stride] : 0));
  MPI_Win_fence(0, win);
  const int next = (me + 1) % ranks;
  for (int i = 0; i < kWords; i++) operands[i] = 1000L * me + i;
  MPI_Accumulate(operands, kWords, MPI_LONG, next, 0, 1, there, MPI_REPLACE, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < kWords; i++) CHECK(memory[(long)i * stride] == 1000L * ((me + ranks - 1) % ranks) + i);
}

int main(int argc, char **argv) {
  int provided, index, count;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_get_index("rma_atomics", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
  CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
  MPI_Win win;
  MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Datatype contiguous, strided;
  MPI_Type_contiguous(kWords, MPI_LONG, &contiguous);
  MPI_Type_commit(&contiguous);
  MPI_Type_vector(kWords, 1, kStride, MPI_LONG, &strided);
  MPI_Type_commit(&strided);
  const unsigned long long before = atomics();
  accumulate(win, contiguous, 1);
  const char *filter = getenv("TERN_OFI_FILTER"), *provider = getenv("TERN_OFI_PROVIDER");
  if (provider && !(filter && strcmp(filter, "cxi") == 0)) CHECK(atomics() - before <= (kRounds + 1) * kWords / 64);
  accumulate(win, strided, kStride);
  MPI_Type_free(&contiguous);
  MPI_Type_free(&strided);
  MPI_Win_free(&win);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  done();
  return 0;
}
