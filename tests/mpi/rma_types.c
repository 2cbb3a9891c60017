// ranks: 1 2 3
/* Accumulates of every predefined type with every operator it takes, against MPI_Reduce_local; fetching forms give the
 * value before; compare-and-swap of every type that it takes. Values differ in all bytes, so that a wrong sign or width
 * shows. */
#include <float.h>

#include "check.h"

enum { kElements = 7, kBytes = kElements * 64 };

static int me, ranks;

struct type {
  MPI_Datatype type;
  int integer; /* takes bitwise operators, and compare-and-swap */
};

static void fill_values(char *at, MPI_Datatype type, long seed) {
  MPI_Aint lower, extent;
  int size;
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_size(type, &size);
  memset(at, 0, kBytes);
  for (int i = 0; i < kElements; i++) {
    char *to = at + i * extent;
    long v = (long)pattern(seed, i) - 100;
    if (type == MPI_FLOAT) *(float *)to = v * 0.5f;
    else if (type == MPI_DOUBLE) *(double *)to = v * 0.25;
    else if (type == MPI_LONG_DOUBLE) *(long double *)to = v * 0.125L;
    else if (type == MPI_C_FLOAT_COMPLEX) ((float *)to)[0] = v, ((float *)to)[1] = -v;
    else if (type == MPI_C_DOUBLE_COMPLEX) ((double *)to)[0] = v, ((double *)to)[1] = 2 * v;
    else if (type == MPI_C_LONG_DOUBLE_COMPLEX) ((long double *)to)[0] = v, ((long double *)to)[1] = 3 * v;
    else if (type == MPI_DOUBLE_INT) *(double *)to = v % 3, *(int *)(to + sizeof(double)) = (int)v;
    else if (type == MPI_FLOAT_INT) *(float *)to = v % 3, *(int *)(to + sizeof(float)) = (int)v;
    else if (type == MPI_2INT) ((int *)to)[0] = (int)v % 3, ((int *)to)[1] = (int)v;
    else if (type == MPI_LONG_INT) *(long *)to = v % 3, *(int *)(to + sizeof(long)) = (int)v;
    else if (type == MPI_SHORT_INT) *(short *)to = (short)(v % 3), *(int *)(to + 4) = (int)v;
    else if (type == MPI_C_BOOL) *to = v & 1;
    else fill(to, seed + i, size);
  }
}

/* A long double of the x87 has 16 bytes, of which 10 are its value. */
static void clear_padding(char *packed, int bytes, MPI_Datatype type) {
  if (LDBL_MANT_DIG != 64 || (type != MPI_LONG_DOUBLE && type != MPI_C_LONG_DOUBLE_COMPLEX)) return;
  for (int at = 0; at + 16 <= bytes; at += 16) memset(packed + at + 10, 0, 6);
}

/* Equal elements, holes not looked at. */
static int same(const void *a, const void *b, MPI_Datatype type) {
  char one[kBytes], two[kBytes];
  int at = 0;
  MPI_Pack(a, kElements, type, one, kBytes, &at, MPI_COMM_SELF);
  int end = 0;
  MPI_Pack(b, kElements, type, two, kBytes, &end, MPI_COMM_SELF);
  clear_padding(one, at, type);
  clear_padding(two, end, type);
  return at == end && memcmp(one, two, at) == 0;
}

static void try_op(MPI_Win win, char *memory, MPI_Datatype type, MPI_Op op, long seed) {
  char before[kBytes], expected[kBytes], value[kBytes], old[kBytes], own[kBytes];
  fill_values(before, type, seed);
  memcpy(expected, before, kBytes);
  MPI_Win_fence(0, win);
  memcpy(memory, before, kBytes);
  MPI_Win_fence(0, win);
  /* From each rank by turns, so that the order is known. */
  fill_values(own, type, seed + 1000 + me);
  const int to = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
  memset(old, 0, kBytes);
  if (seed % 2) MPI_Accumulate(own, kElements, type, to, 0, kElements, type, op, win);
  else MPI_Get_accumulate(own, kElements, type, old, kElements, type, to, 0, kElements, type, op, win);
  MPI_Win_fence(0, win);
  if (seed % 2 == 0) CHECK(same(old, before, type));
  fill_values(value, type, seed + 1000 + from);
  if (op == MPI_REPLACE) memcpy(expected, value, kBytes);
  else if (op != MPI_NO_OP) MPI_Reduce_local(value, expected, kElements, type, op);
  CHECK(same(memory, expected, type));
  /* One element, fetching. */
  char one[64] = {0};
  MPI_Fetch_and_op(own, one, type, to, 0, MPI_NO_OP, win);
  MPI_Win_fence(0, win);
  char theirs[kBytes];
  memset(theirs, 0, kBytes);
  MPI_Get(theirs, kElements, type, to, 0, kElements, type, win);
  MPI_Win_fence(0, win);
  int a = 0, b = 0;
  char pa[64], pb[64];
  MPI_Pack(one, 1, type, pa, 64, &a, MPI_COMM_SELF);
  MPI_Pack(theirs, 1, type, pb, 64, &b, MPI_COMM_SELF);
  CHECK(a == b && memcmp(pa, pb, a) == 0);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char *memory;
  MPI_Win win;
  MPI_Win_allocate(kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  const MPI_Datatype integers[] = {
      MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT,         MPI_UNSIGNED_SHORT, MPI_INT,
      MPI_UNSIGNED,    MPI_LONG,          MPI_UNSIGNED_LONG, MPI_LONG_LONG,      MPI_UNSIGNED_LONG_LONG,
      MPI_INT8_T,      MPI_UINT8_T,       MPI_INT16_T,       MPI_UINT16_T,       MPI_INT32_T,
      MPI_UINT32_T,    MPI_INT64_T,       MPI_UINT64_T,      MPI_AINT,           MPI_COUNT,
      MPI_OFFSET,      MPI_INTEGER,       MPI_INTEGER1,      MPI_INTEGER2,       MPI_INTEGER4,
      MPI_INTEGER8};
  const MPI_Op numbers[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_REPLACE, MPI_NO_OP};
  const MPI_Op bits[] = {MPI_BAND, MPI_BOR, MPI_BXOR};
  const MPI_Op logical[] = {MPI_LAND, MPI_LOR, MPI_LXOR};
  long seed = 1;
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    for (int k = 0; k < 6; k++) try_op(win, memory, integers[i], numbers[k], seed++);
    for (int k = 0; k < 3; k++) try_op(win, memory, integers[i], bits[k], seed++);
    if (i < 21) {
      for (int k = 0; k < 3; k++) try_op(win, memory, integers[i], logical[k], seed++);
    }
    /* Compare-and-swap: once not equal, once equal. */
    char there[8], next[8], wrong[8], result[8];
    int size;
    MPI_Type_size(integers[i], &size);
    fill(there, seed, 8), fill(next, seed + 1, 8), fill(wrong, seed + 2, 8);
    MPI_Win_fence(0, win);
    memcpy(memory, there, 8);
    MPI_Win_fence(0, win);
    const int to = (me + 1) % ranks;
    MPI_Compare_and_swap(next, wrong, result, integers[i], to, 0, win);
    MPI_Win_fence(0, win);
    CHECK(memcmp(result, there, size) == 0 && memcmp(memory, there, 8) == 0);
    MPI_Win_fence(0, win);
    MPI_Compare_and_swap(next, there, result, integers[i], to, 0, win);
    MPI_Win_fence(0, win);
    CHECK(memcmp(result, there, size) == 0 && memcmp(memory, next, size) == 0);
    seed++;
  }
  const MPI_Datatype floating[] = {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION};
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 6; k++) try_op(win, memory, floating[i], numbers[k], seed++);
  }
  const MPI_Datatype complexes[] = {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX};
  const MPI_Op for_complex[] = {MPI_SUM, MPI_PROD, MPI_REPLACE, MPI_NO_OP};
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 4; k++) try_op(win, memory, complexes[i], for_complex[k], seed++);
  }
  const MPI_Datatype pairs[] = {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT};
  const MPI_Op for_pairs[] = {MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP};
  for (int i = 0; i < 5; i++) {
    for (int k = 0; k < 4; k++) {
      try_op(win, memory, pairs[i], for_pairs[k], seed);
      try_op(win, memory, pairs[i], for_pairs[k], seed + 1);
      seed += 2;
    }
  }
  for (int k = 0; k < 3; k++) try_op(win, memory, MPI_C_BOOL, logical[k], seed++);
  for (int k = 0; k < 3; k++) try_op(win, memory, MPI_BYTE, bits[k], seed++);
  MPI_Win_free(&win);
  done();
  return 0;
}
