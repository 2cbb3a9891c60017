// ranks: 1 4 8
/* Groups through the C API: arithmetic, translation, and which handles come back. */
#include "check.h"

static int rank, size;

static void expect(MPI_Group group, int n, const int *world_ranks) {
  int count, result;
  MPI_Group world;
  MPI_Group_size(group, &count);
  CHECK(count == n);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (int i = 0; i < n; i++) {
    int back;
    MPI_Group_translate_ranks(group, 1, &i, world, &back);
    CHECK(back == world_ranks[i]);
  }
  MPI_Group_rank(group, &result);
  int expected = MPI_UNDEFINED;
  for (int i = 0; i < n; i++)
    if (world_ranks[i] == rank) expected = i;
  CHECK(result == expected);
  MPI_Group_free(&world);
}

static void test_arithmetic(void) {
  MPI_Group world, a, b, result;
  int all[64], compared;
  for (int i = 0; i < size; i++) all[i] = i;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  expect(world, size, all);
  if (size >= 4) {
    int first[] = {3, 0, 2}, second[] = {1, 2, 3}, joined[] = {3, 0, 2, 1}, common[] = {3, 2}, rest[] = {0};
    MPI_Group_incl(world, 3, first, &a);
    MPI_Group_incl(world, 3, second, &b);
    MPI_Group_union(a, b, &result);
    expect(result, 4, joined);
    MPI_Group_free(&result);
    MPI_Group_intersection(a, b, &result);
    expect(result, 2, common);
    MPI_Group_free(&result);
    MPI_Group_difference(a, b, &result);
    expect(result, 1, rest);
    MPI_Group_free(&result);
    MPI_Group_compare(a, b, &compared);
    CHECK(compared == MPI_UNEQUAL);
    int reordered[] = {0, 2, 3};
    MPI_Group_free(&b);
    MPI_Group_incl(world, 3, reordered, &b);
    MPI_Group_compare(a, b, &compared);
    CHECK(compared == MPI_SIMILAR);
    int ranks[] = {2, MPI_PROC_NULL, 0}, translated[3];
    MPI_Group_translate_ranks(a, 3, ranks, b, translated);
    CHECK(translated[0] == 1 && translated[1] == MPI_PROC_NULL && translated[2] == 2);
    int outside = 1;
    MPI_Group_translate_ranks(world, 1, &outside, a, translated);
    CHECK(translated[0] == MPI_UNDEFINED);
    MPI_Group_free(&a);
    MPI_Group_free(&b);
  }
  int ranges[2][3] = {{0, size - 1, 2}, {size - 1, size - 1, 1}}, kept = (size + 1) / 2;
  MPI_Group_range_excl(world, 1, ranges, &result);
  int odd[64];
  for (int i = 0; i < size / 2; i++) odd[i] = 2 * i + 1;
  expect(result, size - kept, odd);
  if (result != MPI_GROUP_EMPTY) MPI_Group_free(&result);
  MPI_Group_free(&world);
  CHECK(world == MPI_GROUP_NULL);
}

static void test_handles(void) {
  MPI_Group world, again, group;
  int compared;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_group(MPI_COMM_WORLD, &again);
  MPI_Group_compare(world, again, &compared);
  CHECK(compared == MPI_IDENT);
  MPI_Group_free(&again);
  MPI_Group_compare(world, world, &compared); /* still alive */
  MPI_Group_difference(world, world, &group);
  CHECK(group == MPI_GROUP_EMPTY);
  MPI_Group_free(&group);
  CHECK(group == MPI_GROUP_NULL);
  MPI_Group_incl(world, 0, NULL, &group);
  CHECK(group == MPI_GROUP_EMPTY);
  MPI_Group_excl(world, 0, NULL, &group);
  MPI_Group_compare(world, group, &compared);
  CHECK(compared == MPI_IDENT);
  MPI_Group_free(&group);
  /* The group outlives its communicator. */
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_group(dup, &group);
  MPI_Comm_free(&dup);
  MPI_Group_compare(world, group, &compared);
  CHECK(compared == MPI_IDENT);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
}

static void test_errors(void) {
  MPI_Group world, group = MPI_GROUP_NULL;
  int twice[] = {0, 0}, beyond = size, stride_zero[1][3] = {{0, 0, 0}}, overlap[2][3] = {{0, 0, 1}, {0, 0, 1}};
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  CHECK(MPI_Group_incl(world, 2, twice, &group) == MPI_ERR_RANK);
  CHECK(MPI_Group_incl(world, 1, &beyond, &group) == MPI_ERR_RANK);
  CHECK(MPI_Group_excl(world, 1, &beyond, &group) == MPI_ERR_RANK);
  CHECK(MPI_Group_incl(world, -1, twice, &group) == MPI_ERR_ARG);
  CHECK(MPI_Group_range_incl(world, 1, stride_zero, &group) == MPI_ERR_ARG);
  CHECK(MPI_Group_range_incl(world, 2, overlap, &group) == MPI_ERR_RANK);
  CHECK(MPI_Group_size(MPI_GROUP_NULL, twice) == MPI_ERR_GROUP);
  CHECK(MPI_Group_free(&group) == MPI_ERR_GROUP);
  MPI_Group_free(&world);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_arithmetic();
  test_handles();
  test_errors();
  done();
  return 0;
}
