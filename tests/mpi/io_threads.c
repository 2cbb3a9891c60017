// ranks: 1 2
/* Nonblocking and split collective accesses at MPI_THREAD_MULTIPLE, which somebody else than their own thread advances:
 * a second thread inside MPI, the event thread while the application computes, a second access that waits. */
#include <pthread.h>

#include "io_check.h"

enum { kPiece = 50, kPieces = 40, kBytes = kPiece * kPieces, kRounds = 120 };
static int rank, size;
static int over;  // this rank has written all
static MPI_Comm beside;

// Is in MPI all the time, until every rank has ended.
static void *other_thread(void *unused) {
  int all = 0;
  while (!all) {
    int mine = __atomic_load_n(&over, __ATOMIC_ACQUIRE);
    FINE(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, beside));
  }
  return unused;
}

static void compute(int us) {
  for (double end = MPI_Wtime() + 1e-6 * us; MPI_Wtime() < end;) {
  }
}

// Pieces of this rank and of the others by turns, so that ranks send each other what they write.
static MPI_File open_file(const char *name, MPI_Datatype *view) {
  MPI_File file;
  MPI_Datatype pieces;
  FINE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
  MPI_Type_vector(kPieces, kPiece, kPiece * size, MPI_BYTE, &pieces);
  MPI_Type_create_resized(pieces, 0, (MPI_Aint)kBytes * size, view);
  MPI_Type_commit(view);
  MPI_Type_free(&pieces);
  FINE(MPI_File_set_view(file, (MPI_Offset)kPiece * rank, MPI_BYTE, *view, "native", MPI_INFO_NULL));
  return file;
}

static void access_files(int computes) {
  MPI_Datatype view;
  MPI_File file = open_file(new_name(), &view);
  static char out[2][kBytes], in[2][kBytes];
  for (int round = 0; round < kRounds; round++) {
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++) {
      fill(out[i], rank * 1000 + round * 2 + i, kBytes);
      FINE(MPI_File_iwrite_at_all(file, (MPI_Offset)i * kBytes, out[i], kBytes, MPI_BYTE, &requests[i]));
    }
    if (computes) compute(round % 12 * 40);
    FINE(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    memset(in, 0, sizeof in);
    FINE(MPI_File_iread_at_all(file, 0, in[0], kBytes, MPI_BYTE, &requests[0]));
    FINE(MPI_File_read_at_all_begin(file, kBytes, in[1], kBytes, MPI_BYTE));
    if (computes) compute(round % 7 * 40);
    FINE(MPI_File_read_at_all_end(file, in[1], MPI_STATUS_IGNORE));
    FINE(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; i++) CHECK(holds(in[i], rank * 1000 + round * 2 + i, kBytes));
    FINE(MPI_File_write_at_all_begin(file, 0, out[1], kBytes, MPI_BYTE));
    if (computes) compute(round % 5 * 40);
    FINE(MPI_File_write_at_all_end(file, out[1], MPI_STATUS_IGNORE));
  }
  FINE(MPI_File_close(&file));
  MPI_Type_free(&view);
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  access_files(1);
  pthread_t thread;
  MPI_Comm_dup(MPI_COMM_WORLD, &beside);
  pthread_create(&thread, NULL, other_thread, NULL);
  access_files(0);
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  MPI_Comm_free(&beside);
  done();
  return 0;
}
