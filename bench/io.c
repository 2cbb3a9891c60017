/* Files, in the folder FOLDER (--folder F, default "."): data stay in the page cache, so that the library's work shows
 * rather than the disk's.
 *
 *   write, read   x: block bytes; us for 4 MiB of each rank in blocks that the ranks have by turns (all ranks together)
 *   alone         x: bytes of one call; us for 16 MiB of each rank in one piece of the file, by MPI_File_write_at;
 *                 series *-pwrite: the same by pwrite
 *   cube          x: 0 write, 1 read; us for a cube of 96^3 doubles in blocks of ranks, by subarrays
 *   small         x: bytes; us to create a file, write so much, close and delete it, each rank its own; *-posix: by
 * open, pwrite, close, unlink open          x: ranks; us of MPI_File_open and MPI_File_close of an existing file,
 * together
 *
 * The file exists and has its size before anything is measured. */
#include <fcntl.h>
#include <unistd.h>
#include "bench.h"

#define SHARE (4l << 20)
#define ALONE (16l << 20)
#define EDGE 96
#define ROUNDS 7

static int rank, size;
static char path[600], *memory;

static MPI_File open_file(MPI_Comm comm, const char* name) {
  MPI_File file;
  if (MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) MPI_Abort(MPI_COMM_WORLD, 1);
  return file;
}

/* Of the slowest rank. */
static double slowest_us(double began) {
  double mine = (MPI_Wtime() - began) * 1e6, all;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

static void must(int good) {
  if (!good) MPI_Abort(MPI_COMM_WORLD, 2);
}

static void together(MPI_File file, long bytes, int write, const char* series, long x) {
  double times[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Status status;
    int count;
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    if (write) MPI_File_write_at_all(file, 0, memory, (int)bytes, MPI_BYTE, &status);
    else MPI_File_read_at_all(file, 0, memory, (int)bytes, MPI_BYTE, &status);
    times[i] = slowest_us(began);
    MPI_Get_count(&status, MPI_BYTE, &count);
    must(count == (int)bytes);
  }
  if (rank == 0) point(series, x, median(times, ROUNDS), "us");
}

static void interleaved(void) {
  for (long block = 64; block <= 1 << 20; block *= 4) {
    MPI_File file = open_file(MPI_COMM_WORLD, path);
    MPI_Datatype type;
    MPI_Type_vector((int)(SHARE / block), (int)block, (int)(block * size), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_File_set_view(file, rank * block, MPI_BYTE, type, "native", MPI_INFO_NULL);
    together(file, SHARE, 1, "write", block);
    together(file, SHARE, 0, "read", block);
    MPI_Type_free(&type);
    MPI_File_close(&file);
  }
}

static void cube(void) {
  int parts[3] = {0, 0, 0}, all[3] = {EDGE, EDGE, EDGE}, mine[3], from[3], at = rank;
  MPI_Dims_create(size, 3, parts);
  for (int d = 2; d >= 0; d--) {
    mine[d] = EDGE / parts[d];
    from[d] = at % parts[d] * mine[d];
    at /= parts[d];
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(3, all, mine, from, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  MPI_File file = open_file(MPI_COMM_WORLD, path);
  MPI_File_set_view(file, 0, MPI_DOUBLE, type, "native", MPI_INFO_NULL);
  const long bytes = 8l * mine[0] * mine[1] * mine[2];
  together(file, bytes, 1, "cube", 0);
  together(file, bytes, 0, "cube", 1);
  MPI_File_close(&file);
  MPI_Type_free(&type);
}

static void alone(void) {
  MPI_File file = open_file(MPI_COMM_WORLD, path);
  const int descriptor = open(path, O_RDWR);
  must(descriptor >= 0);
  for (long piece = 64 << 10; piece <= 16 << 20; piece *= 4) {
    double times[2][ROUNDS];
    for (int i = 0; i < 2 * ROUNDS; i++) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double began = MPI_Wtime();
      for (long at = 0; at < ALONE; at += piece) {
        const long offset = rank * ALONE + at;
        if (i % 2) must(pwrite(descriptor, memory + at, (size_t)piece, offset) == piece);
        else MPI_File_write_at(file, offset, memory + at, (int)piece, MPI_BYTE, MPI_STATUS_IGNORE);
      }
      times[i % 2][i / 2] = slowest_us(began);
    }
    if (rank != 0) continue;
    point("alone", piece, median(times[0], ROUNDS), "us");
    point("alone-pwrite", piece, median(times[1], ROUNDS), "us");
  }
  close(descriptor);
  MPI_File_close(&file);
}

static void small_files(void) {
  enum { kFiles = 40, kBytes = 4096 };
  char name[640];
  double times[2][ROUNDS];
  for (int i = 0; i < 2 * ROUNDS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    for (int n = 0; n < kFiles; n++) {
      snprintf(name, sizeof name, "%s.%d.%d", path, rank, n);
      if (i % 2) {
        const int descriptor = open(name, O_CREAT | O_RDWR, 0666);
        must(descriptor >= 0 && pwrite(descriptor, memory, kBytes, 0) == kBytes);
        close(descriptor);
        unlink(name);
      } else {
        MPI_File file = open_file(MPI_COMM_SELF, name);
        MPI_File_write_at(file, 0, memory, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
        MPI_File_delete(name, MPI_INFO_NULL);
      }
    }
    times[i % 2][i / 2] = slowest_us(began) / kFiles;
  }
  if (rank != 0) return;
  point("small", kBytes, median(times[0], ROUNDS), "us");
  point("small-posix", kBytes, median(times[1], ROUNDS), "us");
}

static void open_and_close(void) {
  double times[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    for (int n = 0; n < 20; n++) {
      MPI_File file = open_file(MPI_COMM_WORLD, path);
      MPI_File_close(&file);
    }
    times[i] = slowest_us(began) / 20;
  }
  if (rank == 0) point("open", size, median(times, ROUNDS), "us");
}

int main(int argc, char** argv) {
  const char* folder = ".";
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--folder")) folder = argv[i + 1];
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(path, sizeof path, "%s/bench-io.data", folder);
  memory = touched((size_t)ALONE);
  if (rank == 0) {
    const int descriptor = open(path, O_CREAT | O_TRUNC | O_RDWR, 0666);
    must(descriptor >= 0);
    for (int i = 0; i < size; i++) must(pwrite(descriptor, memory, (size_t)ALONE, i * ALONE) == ALONE);
    close(descriptor);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  interleaved();
  cube();
  alone();
  small_files();
  open_and_close();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(path);
  free(memory);
  MPI_Finalize();
  return 0;
}
