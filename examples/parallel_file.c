/* One file, written by all ranks together: a matrix whose columns are dealt out to the ranks. Each rank's view shows
 * it its own columns only; the collective write joins them to long pieces. Rank 0 reads the file back and checks it.
 *
 *   mpicc parallel_file.c -o parallel_file && mpiexec -n 4 ./parallel_file FILE
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 64, kColumns = 4 }; /* columns of each rank */

static int check(const char *name, int columns) {
  FILE *file = fopen(name, "rb");
  int wrong = 0, value;
  for (int i = 0; file && i < kRows * columns; i++) wrong += fread(&value, sizeof value, 1, file) != 1 || value != i;
  wrong += !file || fgetc(file) != EOF;
  if (file) fclose(file);
  return wrong;
}

int main(int argc, char **argv) {
  int rank, size, part[kRows][kColumns];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) MPI_Abort(MPI_COMM_WORLD, 2);
  const int columns = kColumns * size, first = kColumns * rank;
  for (int i = 0; i < kRows; i++) {
    for (int j = 0; j < kColumns; j++) part[i][j] = i * columns + first + j;
  }

  const int whole[2] = {kRows, columns}, mine[2] = {kRows, kColumns}, start[2] = {0, first};
  MPI_Datatype block;
  MPI_Type_create_subarray(2, whole, mine, start, MPI_ORDER_C, MPI_INT, &block);
  MPI_Type_commit(&block);
  MPI_File file;
  /* Errors of files are returned; here they end the job. */
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  MPI_File_set_size(file, 0);
  MPI_File_set_view(file, 0, MPI_INT, block, "native", MPI_INFO_NULL);
  MPI_File_write_all(file, part, kRows * kColumns, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  MPI_Type_free(&block);

  int wrong = 0;
  if (rank == 0) {
    wrong = check(argv[1], columns);
    printf("%d x %d numbers written by %d ranks, %d wrong\n", kRows, columns, size, wrong);
  }
  MPI_Finalize();
  return wrong != 0;
}
