// ranks: 2 3 4 8
/* Intercommunicators: made through a peer communicator and from groups; dup, split, create, merge, comparison. */
#include "check.h"

static int rank, size;

/* Rank 0 of each side speaks to all of the other; everybody answers its namesake's rank 0. */
static void talk(MPI_Comm inter) {
  int mine, local, remote, value, flag;
  MPI_Comm_test_inter(inter, &flag);
  CHECK(flag);
  MPI_Comm_rank(inter, &mine);
  MPI_Comm_size(inter, &local);
  MPI_Comm_remote_size(inter, &remote);
  MPI_Request *requests = malloc((size_t)remote * sizeof *requests);
  int word = 1000 + mine;
  for (int to = 0; mine == 0 && to < remote; to++) MPI_Isend(&word, 1, MPI_INT, to, 2, inter, &requests[to]);
  MPI_Status status;
  MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, inter, &status);
  CHECK(value == 1000 && status.MPI_SOURCE == 0);
  if (mine == 0) MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
  free(requests);
}

/* Odd against even ranks of MPI_COMM_WORLD; the local group in reverse order on the odd side. */
static MPI_Comm make(int *odd) {
  MPI_Comm side, inter;
  *odd = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, *odd, *odd ? -rank : rank, &side);
  int local;
  MPI_Comm_size(side, &local);
  /* The leader is the last of the even side, and the last of the odd side, which is world rank 1. */
  int last_even = (size - 1) / 2 * 2;
  MPI_Comm_set_errhandler(side, MPI_ERRORS_RETURN);
  CHECK(MPI_Intercomm_create(side, local - 1, MPI_COMM_WORLD, *odd ? last_even : 1, 12, &inter) == MPI_SUCCESS);
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(inter, &handler);
  CHECK(handler == MPI_ERRORS_RETURN);
  MPI_Comm_free(&side);
  return inter;
}

static void check_groups(MPI_Comm inter, int odd) {
  int n, remote;
  MPI_Group local_group, remote_group, world;
  MPI_Comm_size(inter, &n);
  CHECK(n == (odd ? size / 2 : (size + 1) / 2));
  MPI_Comm_remote_size(inter, &remote);
  CHECK(remote == size - n);
  MPI_Comm_group(inter, &local_group);
  MPI_Comm_remote_group(inter, &remote_group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (int i = 0; i < size / 2; i++) {
    int at;
    MPI_Group_translate_ranks(odd ? local_group : remote_group, 1, &i, world, &at);
    CHECK(at == size / 2 * 2 - 1 - 2 * i);
  }
  MPI_Group_free(&local_group);
  MPI_Group_free(&remote_group);
  MPI_Group_free(&world);
}

static void test_merge(MPI_Comm inter, int odd) {
  MPI_Comm merged;
  int r, flag, before;
  MPI_Comm_size(inter, &before);
  MPI_Comm_rank(inter, &r);
  for (int odd_high = 0; odd_high < 2; odd_high++) {
    int merged_rank, merged_size;
    MPI_Intercomm_merge(inter, odd == odd_high, &merged);
    MPI_Comm_test_inter(merged, &flag);
    CHECK(!flag);
    MPI_Comm_rank(merged, &merged_rank);
    MPI_Comm_size(merged, &merged_size);
    CHECK(merged_size == size);
    int high = odd == odd_high;
    CHECK(merged_rank == (high ? size - before : 0) + r);
    MPI_Comm_free(&merged);
  }
  /* The same word on both sides: some order, the same for all. */
  int positions[64], mine;
  MPI_Intercomm_merge(inter, 1, &merged);
  MPI_Comm_rank(merged, &mine);
  MPI_Allgather(&rank, 1, MPI_INT, positions, 1, MPI_INT, merged);
  CHECK(positions[mine] == rank);
  int first_odd = positions[0] % 2, lower = first_odd ? size / 2 : (size + 1) / 2;
  for (int i = 0; i < size; i++) CHECK((positions[i] % 2 == first_odd) == (i < lower));
  MPI_Comm_free(&merged);
}

static void test_dup_and_compare(MPI_Comm inter) {
  MPI_Comm dup, idup;
  MPI_Request request;
  int result;
  MPI_Comm_idup(inter, &idup, &request);
  MPI_Comm_dup(inter, &dup);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_compare(inter, dup, &result);
  CHECK(result == MPI_CONGRUENT);
  MPI_Comm_compare(inter, MPI_COMM_WORLD, &result);
  CHECK(result == MPI_UNEQUAL);
  talk(dup);
  talk(idup);
  MPI_Comm_free(&dup);
  talk(inter);
  MPI_Comm_free(&idup);
}

static void test_split(MPI_Comm inter, int odd) {
  MPI_Comm part;
  int r, n, remote;
  /* Rank 0 of each side together; the others together, if there are any on both sides; colour 2 on one side only. */
  MPI_Comm_rank(inter, &r);
  MPI_Comm_split(inter, r == 0 ? 0 : 1, -r, &part);
  int others_even = (size + 1) / 2 - 1, others_odd = size / 2 - 1;
  if (r == 0) {
    MPI_Comm_size(part, &n);
    MPI_Comm_remote_size(part, &remote);
    CHECK(n == 1 && remote == 1);
  } else if (others_even > 0 && others_odd > 0) {
    int pr;
    MPI_Comm_size(part, &n);
    MPI_Comm_remote_size(part, &remote);
    CHECK(n == (odd ? others_odd : others_even) && remote == (odd ? others_even : others_odd));
    MPI_Comm_rank(part, &pr);
    CHECK(pr == n - r);
  } else {
    CHECK(part == MPI_COMM_NULL);
  }
  if (part != MPI_COMM_NULL) {
    talk(part);
    MPI_Comm_free(&part);
  }
  MPI_Comm_split(inter, odd ? 2 : 3, 0, &part);
  CHECK(part == MPI_COMM_NULL);
  MPI_Comm_split(inter, MPI_UNDEFINED, 0, &part);
  CHECK(part == MPI_COMM_NULL);
}

static void test_create(MPI_Comm inter, int odd) {
  MPI_Group local, chosen;
  MPI_Comm part;
  int r, remote;
  MPI_Comm_group(inter, &local);
  MPI_Comm_rank(inter, &r);
  /* All but rank 0 of the even side (when there are others), rank 0 of the odd side. */
  int zero = 0, others = (size + 1) / 2 - 1;
  if (odd) MPI_Group_incl(local, 1, &zero, &chosen);
  else MPI_Group_excl(local, 1, &zero, &chosen);
  MPI_Comm_create(inter, chosen, &part);
  int member = others > 0 && (odd ? r == 0 : r > 0);
  CHECK((part != MPI_COMM_NULL) == member);
  if (member) {
    MPI_Comm_remote_size(part, &remote);
    CHECK(remote == (odd ? others : 1));
    talk(part);
    MPI_Comm_free(&part);
  }
  MPI_Group_free(&chosen);
  MPI_Group_free(&local);
}

static void test_from_groups(void) {
  MPI_Group world, near, far;
  MPI_Comm inter;
  int upper = rank >= size / 2, remote;
  int low[1][3] = {{0, size / 2 - 1, 1}}, high[1][3] = {{size / 2, size - 1, 1}};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, upper ? high : low, &near);
  MPI_Group_range_incl(world, 1, upper ? low : high, &far);
  for (int round = 0; round < 3; round++) {
    int leader = upper ? size - size / 2 - 1 : 0, far_leader = upper ? 0 : size - size / 2 - 1, r;
    MPI_Group_rank(near, &r);
    MPI_Intercomm_create_from_groups(near, leader, r == leader ? far : MPI_GROUP_NULL, far_leader, "org.example.inter",
                                     MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
    MPI_Comm_remote_size(inter, &remote);
    CHECK(remote == (upper ? size / 2 : size - size / 2));
    talk(inter);
    MPI_Comm_free(&inter);
  }
  MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, far, 0, "org.example.none", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                   &inter);
  CHECK(inter == MPI_COMM_NULL);
  MPI_Group_free(&near);
  MPI_Group_free(&far);
  MPI_Group_free(&world);
}

/* Three groups in a ring, as in the standard's example 7.6.3.2. */
static void test_ring_of_three(void) {
  if (size < 3) return;
  MPI_Comm mine, first, second;
  int key = rank % 3;
  MPI_Comm_split(MPI_COMM_WORLD, key, rank, &mine);
  if (key == 0) {
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 2, 1, &first);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1, 1, &second);
  } else if (key == 1) {
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 0, 1, &first);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 2, 1, &second);
  } else {
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 0, 1, &first);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1, 1, &second);
  }
  talk(first);
  talk(second);
  MPI_Comm_free(&first);
  MPI_Comm_free(&second);
  MPI_Comm_free(&mine);
}

int main(int argc, char **argv) {
  int odd;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm inter = make(&odd);
  check_groups(inter, odd);
  talk(inter);
  test_dup_and_compare(inter);
  test_merge(inter, odd);
  test_split(inter, odd);
  test_create(inter, odd);
  test_from_groups();
  test_ring_of_three();
  MPI_Comm_free(&inter);
  done();
  return 0;
}
