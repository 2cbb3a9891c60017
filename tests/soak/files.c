/* A file that all members write with one kind of collective access while collective calls are in progress, and read
 * back, each another's part. */
#include <unistd.h>

#include "soak.h"

enum { kWriteAtAll, kIwriteAtAll, kSplit, kWriteAll, kIwriteAll, kWays };

static void write_part(Place *at, MPI_File file, int way, MPI_Offset place, const unsigned char *data, int bytes) {
  MPI_Request request;
  MPI_Status status;
  int written = 0;
  switch (way) {
    case kWriteAtAll: FINE(MPI_File_write_at_all(file, place, data, bytes, MPI_BYTE, &status)); break;
    case kIwriteAtAll:
      FINE(MPI_File_iwrite_at_all(file, place, data, bytes, MPI_BYTE, &request));
      collectives(at);
      FINE(MPI_Wait(&request, &status));
      break;
    case kSplit:
      FINE(MPI_File_write_at_all_begin(file, place, data, bytes, MPI_BYTE));
      collectives(at);
      FINE(MPI_File_write_at_all_end(file, data, &status));
      break;
    case kWriteAll:
      FINE(MPI_File_seek(file, place, MPI_SEEK_SET));
      FINE(MPI_File_write_all(file, data, bytes, MPI_BYTE, &status));
      break;
    default:
      FINE(MPI_File_seek(file, place, MPI_SEEK_SET));
      FINE(MPI_File_iwrite_all(file, data, bytes, MPI_BYTE, &request));
      messages(at);
      FINE(MPI_Wait(&request, &status));
      break;
  }
  MPI_Get_count(&status, MPI_BYTE, &written);
  CHECK(written == bytes);
}

/* Every size-th block is this member's. */
static void interleave(const Place *at, MPI_File file, int block) {
  MPI_Datatype mine, resized;
  FINE(MPI_Type_contiguous(block, MPI_BYTE, &mine));
  FINE(MPI_Type_create_resized(mine, 0, (MPI_Aint)block * at->size, &resized));
  FINE(MPI_Type_commit(&resized));
  FINE(MPI_File_set_view(file, (MPI_Offset)block * at->rank, MPI_BYTE, resized, "native", MPI_INFO_NULL));
  FINE(MPI_Type_free(&mine));
  FINE(MPI_Type_free(&resized));
}

void files(Place *at) {
  const int bytes = draw_bytes(at), way = draw(at, kWays), seed = draw(at, 1 << 20), in_blocks = draw(at, 2);
  const int block = 1 + draw(at, 5000), other = (at->rank + 1) % at->size;
  char name[256] = "";
  static int files_made;
  if (at->rank == 0) {
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/soak.%d.%d", folder ? folder : "/tmp", (int)getpid(),
             __atomic_fetch_add(&files_made, 1, __ATOMIC_RELAXED));
  }
  FINE(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, at->comm));
  MPI_File file;
  FINE(MPI_File_open(at->comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  unsigned char *data = malloc((size_t)bytes + 1);
  fill(data, seed + at->rank, bytes);
  if (in_blocks) interleave(at, file, block);
  write_part(at, file, way, in_blocks ? 0 : (MPI_Offset)bytes * at->rank, data, bytes);
  FINE(MPI_File_sync(file));
  FINE(MPI_Barrier(at->comm));
  FINE(MPI_File_sync(file));
  memset(data, 0, (size_t)bytes + 1);
  MPI_Status status;
  int got = 0, owner = other;
  if (in_blocks) {
    owner = at->rank;
    FINE(MPI_File_read_at_all(file, 0, data, bytes, MPI_BYTE, &status));
  } else {
    FINE(MPI_File_read_at(file, (MPI_Offset)bytes * other, data, bytes, MPI_BYTE, &status));
  }
  MPI_Get_count(&status, MPI_BYTE, &got);
  CHECK(got == bytes && holds(data, seed + owner, bytes));
  free(data);
  FINE(MPI_File_close(&file));
}
