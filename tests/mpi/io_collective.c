// ranks: 1 2 4
/* Files written and read by all ranks together: pieces by turns, pieces that overlap beside a hole, ends of files. */
#include "io_check.h"

static int rank, size;

static MPI_File open_new(void) {
  MPI_File fh;
  FINE(MPI_File_open(MPI_COMM_WORLD, new_name(), MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &fh));
  return fh;
}

/* The bytes of the file from 0 on, as rank 0 sees them afterwards. */
static void look(MPI_File fh, unsigned char *bytes, int count) {
  MPI_Status status;
  FINE(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  FINE(MPI_File_sync(fh));
  MPI_Barrier(MPI_COMM_WORLD);
  FINE(MPI_File_read_at(fh, 0, bytes, count, MPI_BYTE, &status));
  CHECK(count_of(&status, MPI_BYTE) == count);
}

/* Two ranks' bytes overlap, and as many bytes between them belong to nobody: as many are written as the file has there,
 * but the hole keeps what it had.
 *   0: within the first filetypes   rank 0 |0000000000          |    rank 1 |     11111     11111|
 *   1: in a second one, behind first ones that do not overlap; filetype |xxxx....xxxx|, rank 1's from byte 4 on,
 *      without its first piece      rank 0 |0000    00000000    0000    |    rank 1 |            11111111    1111| */
static void test_hole(int second) {
  enum { kBytes = 40 };
  static const int first_at[2][2] = {{0, 0}, {5, 15}}, first_long[2][2] = {{10, 0}, {5, 5}};
  static const int second_at[2] = {0, 8}, second_long[2] = {4, 4};
  unsigned char old[kBytes], mine[kBytes], seen[kBytes];
  MPI_Datatype type;
  MPI_Status status;
  MPI_File fh = open_new();
  memset(old, 0x55, sizeof old);
  memset(mine, rank + 1, sizeof mine);
  if (rank == 0) FINE(MPI_File_write_at(fh, 0, old, kBytes, MPI_BYTE, MPI_STATUS_IGNORE));
  FINE(MPI_File_sync(fh));
  MPI_Barrier(MPI_COMM_WORLD);
  const int who = rank < 2 ? rank : 0;
  const int *at = second ? second_at : first_at[who], *length = second ? second_long : first_long[who];
  MPI_Datatype pieces;
  MPI_Type_indexed(2, length, at, MPI_BYTE, &pieces);
  MPI_Type_create_resized(pieces, 0, second ? 12 : kBytes, &type);
  MPI_Type_commit(&type);
  FINE(MPI_File_set_view(fh, second ? 4 * who : 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
  const int from = second && rank == 1 ? 4 : 0;
  const int bytes = rank > 1 ? 0 : !second ? 10 : rank == 0 ? 16 : 12;
  FINE(MPI_File_write_at_all(fh, from, mine, bytes, MPI_BYTE, &status));
  CHECK(count_of(&status, MPI_BYTE) == bytes);
  look(fh, seen, kBytes);
  for (int i = 0; i < kBytes; i++) {
    int by[2] = {0, 0};
    if (!second) {
      by[0] = i < 10;
      by[1] = (i >= 5 && i < 10) || (i >= 15 && i < 20);
    } else {
      by[0] = i < 4 || (i >= 8 && i < 16) || (i >= 20 && i < 24);
      by[1] = (i >= 12 && i < 20) || (i >= 24 && i < 28);
    }
    if (size == 1) by[1] = 0;
    if (by[0] || by[1]) CHECK((by[0] && seen[i] == 1) || (by[1] && seen[i] == 2));
    else CHECK(seen[i] == 0x55);
  }
  MPI_Type_free(&type);
  MPI_Type_free(&pieces);
  FINE(MPI_File_close(&fh));
}

static unsigned char byte_at(long offset) { return (unsigned char)(offset * 7 + offset / 251 + 1); }

/* Blocks of the ranks by turns, written and read, and read once more when the file ends in the middle. `gap`: bytes
 * between two blocks that belong to nobody. In memory blocks lie with holes, too, if `strided`. */
static void test_turns(long block, long blocks, long gap, int strided) {
  const long mine = block * blocks, stride = (block + gap) * size, far = strided ? block + 3 : block;
  unsigned char *memory = malloc((size_t)(far * blocks));
  MPI_Datatype in_file, in_memory;
  MPI_Status status;
  MPI_File fh = open_new();
  MPI_Type_vector((int)blocks, (int)block, (int)stride, MPI_BYTE, &in_file);
  MPI_Type_vector((int)blocks, (int)block, (int)far, MPI_BYTE, &in_memory);
  MPI_Type_commit(&in_file);
  MPI_Type_commit(&in_memory);
  const long first = rank * (block + gap);
  FINE(MPI_File_set_view(fh, first, MPI_BYTE, in_file, "native", MPI_INFO_NULL));
  for (long i = 0; i < mine; i++) memory[i / block * far + i % block] = byte_at(first + i / block * stride + i % block);
  FINE(MPI_File_write_at_all(fh, 0, memory, 1, in_memory, &status));
  CHECK(count_of(&status, MPI_BYTE) == mine);
  MPI_Offset bytes;
  FINE(MPI_File_get_size(fh, &bytes));
  CHECK(bytes == stride * blocks - gap);
  for (int cut = 0; cut < 2; cut++) {
    if (cut) FINE(MPI_File_set_size(fh, bytes / 2 + 1));
    const long end = cut ? (long)bytes / 2 + 1 : (long)bytes;
    memset(memory, 0, (size_t)(far * blocks));
    long there = 0;
    for (long i = 0; i < mine; i++) there += first + i / block * stride + i % block < end;
    FINE(MPI_File_read_at_all(fh, 0, memory, 1, in_memory, &status));
    CHECK(count_of(&status, MPI_BYTE) == there);
    for (long i = 0; i < mine; i++) {
      const long offset = first + i / block * stride + i % block;
      CHECK(memory[i / block * far + i % block] == (offset < end ? byte_at(offset) : 0));
    }
  }
  MPI_Type_free(&in_file);
  MPI_Type_free(&in_memory);
  FINE(MPI_File_close(&fh));
  free(memory);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_hole(0);
  test_hole(1);
  for (int strided = 0; strided < 2; strided++) {
    test_turns(1, 5, 0, strided);
    test_turns(64, 3000, 0, strided);
    test_turns(100, 2000, 0, strided);
    test_turns(1000, 300, 11, strided);
    test_turns(4096, 70, 0, strided);
    test_turns(5000, 100, 4000, strided);
    test_turns(5000, 100, 70000, strided);
    test_turns(65536, 9, 0, strided);
    test_turns(300000, 2, 1, strided);
    test_turns(1100000, 1, 0, strided);
  }
  MPI_Finalize();
  return 0;
}
