// ranks: 1 2 3 4 8
/* Making intracommunicators: dup, idup (several at once), split, create, create_group; names, hints, comparison. */
#include "check.h"

static int rank, size;

/* The communicator works, and is apart from MPI_COMM_WORLD: a ring of messages through both with the same tags. */
static void ring(MPI_Comm comm) {
  int r, n, in[2] = {-1, -1}, out[2];
  MPI_Request requests[4];
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &n);
  out[0] = r;
  out[1] = rank + 100;
  MPI_Irecv(&in[1], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&in[0], 1, MPI_INT, (r + n - 1) % n, 1, comm, &requests[1]);
  MPI_Isend(&out[0], 1, MPI_INT, (r + 1) % n, 1, comm, &requests[2]);
  MPI_Isend(&out[1], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  CHECK(in[0] == (r + n - 1) % n && in[1] == rank + 100);
}

static void test_dup(void) {
  MPI_Comm dup, again;
  int result, length;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  ring(dup);
  MPI_Comm_compare(MPI_COMM_WORLD, dup, &result);
  CHECK(result == MPI_CONGRUENT);
  MPI_Comm_compare(dup, dup, &result);
  CHECK(result == MPI_IDENT);
  MPI_Comm_compare(MPI_COMM_SELF, dup, &result);
  CHECK(result == (size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
  CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
  MPI_Comm_get_name(dup, name, &length);
  CHECK(length == 0 && name[0] == 0);
  MPI_Comm_get_name(MPI_COMM_NULL, name, &length);
  CHECK(strcmp(name, "MPI_COMM_NULL") == 0 && length == 13);
  MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length);
  CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0);
  MPI_Comm_set_name(dup, "the duplicate");
  MPI_Comm_get_name(dup, name, &length);
  CHECK(strcmp(name, "the duplicate") == 0 && length == 13);
  MPI_Comm_dup(dup, &again);
  MPI_Comm_free(&dup);
  CHECK(dup == MPI_COMM_NULL);
  ring(again);
  MPI_Comm_free(&again);
  MPI_Comm_dup(MPI_COMM_SELF, &dup);
  MPI_Comm_free(&dup);
}

static void test_info(void) {
  MPI_Info info, used;
  MPI_Comm dup, again;
  char value[32];
  int flag, length = sizeof value;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Info_set(info, "mpi_assert_exact_length", "perhaps");
  MPI_Info_set(info, "nobody_knows_this", "1");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &dup);
  MPI_Info_free(&info);
  MPI_Comm_get_info(dup, &used);
  MPI_Info_get_string(used, "mpi_assert_no_any_tag", &length, value, &flag);
  CHECK(flag && strcmp(value, "true") == 0);
  length = sizeof value;
  MPI_Info_get_string(used, "mpi_assert_exact_length", &length, value, &flag);
  CHECK(flag && strcmp(value, "false") == 0);
  length = sizeof value;
  MPI_Info_get_string(used, "nobody_knows_this", &length, value, &flag);
  CHECK(!flag);
  MPI_Info_free(&used);
  /* Hints are not inherited; set_info changes what it names. */
  MPI_Comm_dup(dup, &again);
  MPI_Comm_get_info(again, &used);
  length = sizeof value;
  MPI_Info_get_string(used, "mpi_assert_no_any_tag", &length, value, &flag);
  CHECK(flag && strcmp(value, "false") == 0);
  MPI_Info_set(used, "mpi_assert_allow_overtaking", "true");
  MPI_Comm_set_info(again, used);
  MPI_Info_free(&used);
  MPI_Comm_get_info(again, &used);
  length = sizeof value;
  MPI_Info_get_string(used, "mpi_assert_allow_overtaking", &length, value, &flag);
  CHECK(flag && strcmp(value, "true") == 0);
  MPI_Info_free(&used);
  MPI_Comm_free(&again);
  MPI_Comm_free(&dup);
}

/* Several at once on one communicator, completed in an order of each rank's own, with traffic meanwhile. */
static void test_idup(void) {
  enum { kMany = 9 };
  MPI_Comm comms[kMany];
  MPI_Request requests[kMany];
  for (int i = 0; i < kMany; i++) {
    if (i % 2) MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]);
    else MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comms[i], &requests[i]);
    if (i == kMany / 2) ring(MPI_COMM_SELF);
  }
  for (int i = 0; i < kMany; i++) {
    int which = (i * 2 + rank) % kMany;
    MPI_Wait(&requests[which], MPI_STATUS_IGNORE);
    CHECK(requests[which] == MPI_REQUEST_NULL);
  }
  for (int i = 0; i < kMany; i++) ring(comms[i]);
  for (int i = 0; i < kMany; i++) MPI_Comm_free(&comms[(i + rank) % kMany]);
}

static void test_split(void) {
  MPI_Comm half, none;
  int r, n;
  /* Odd and even, in reverse order. */
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_rank(half, &r);
  MPI_Comm_size(half, &n);
  CHECK(n == (size + 1 - rank % 2) / 2);
  CHECK(r == n - 1 - rank / 2);
  ring(half);
  MPI_Comm_free(&half);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 2147483647, 0, &none);
  CHECK((none == MPI_COMM_NULL) == (rank == 0));
  if (none != MPI_COMM_NULL) {
    MPI_Comm_rank(none, &r);
    CHECK(r == rank - 1);
    ring(none);
    MPI_Comm_free(&none);
  }
}

static void test_split_type(void) {
  MPI_Comm node, part, guided;
  MPI_Info info;
  int n, r;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &n);
  MPI_Comm_rank(node, &r);
  CHECK(n == size && r == size - 1 - rank); /* these tests run on one node */
  ring(node);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &guided);
  MPI_Comm_size(guided, &n);
  CHECK(n == size);
  MPI_Comm_free(&guided);
  MPI_Info_set(info, "mpi_hw_resource_type", "no such thing");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &guided);
  CHECK(guided == MPI_COMM_NULL);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &guided);
  CHECK(guided == MPI_COMM_NULL);
  MPI_Info_delete(info, "mpi_hw_resource_type");
  MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &guided);
  CHECK(guided == MPI_COMM_NULL); /* not from a session */
  MPI_Info_delete(info, "mpi_pset_name");
  /* Each level is a strict subset of the one before, so this ends. */
  MPI_Comm level = node;
  for (int i = 0; level != MPI_COMM_NULL; i++) {
    int before, after;
    MPI_Comm_size(level, &before);
    MPI_Comm_split_type(level, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &part);
    if (part != MPI_COMM_NULL) {
      char value[64];
      int flag, length = sizeof value;
      MPI_Comm_size(part, &after);
      CHECK(after < before && i < 20);
      MPI_Info_get_string(info, "mpi_hw_resource_type", &length, value, &flag);
      CHECK(flag && strncmp(value, "hwloc://", 8) == 0);
      ring(part);
    }
    MPI_Comm_free(&level);
    level = part;
  }
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &guided);
  CHECK(guided == MPI_COMM_NULL);
  MPI_Info_free(&info);
}

/* Of all kinds of MPI_Comm_split_type, ranks may give MPI_UNDEFINED while the others do not. */
static void test_split_type_undefined(void) {
  static const int kinds[] = {MPI_COMM_TYPE_SHARED, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED,
                              MPI_COMM_TYPE_RESOURCE_GUIDED};
  MPI_Info info;
  MPI_Info_create(&info);
  for (int kind = 0; kind < 4; kind++) {
    for (int out = 0; out<1 << size; out += size> 4 ? 37 : 1) {
      const int undefined = out >> rank & 1;
      int taking_part = 0, members = 0;
      MPI_Comm part;
      MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
      for (int r = 0; r < size; r++) taking_part += !(out >> r & 1);
      MPI_Comm_split_type(MPI_COMM_WORLD, undefined ? MPI_UNDEFINED : kinds[kind], -rank, info, &part);
      if (undefined) {
        CHECK(part == MPI_COMM_NULL);
      } else if (part != MPI_COMM_NULL) {
        MPI_Comm_size(part, &members);
        CHECK(members <= taking_part);
        if (kinds[kind] == MPI_COMM_TYPE_HW_UNGUIDED) CHECK(members < size); /* a strict part */
        ring(part);
        MPI_Comm_free(&part);
      }
      /* All are on one node. */
      if (!undefined && kinds[kind] != MPI_COMM_TYPE_HW_UNGUIDED) CHECK(members == taking_part);
    }
  }
  MPI_Info_free(&info);
}

static void test_split_type_undefined_inter(void) {
  MPI_Comm half, inter, part;
  if (size < 2) return;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 5, &inter);
  for (int out = 0; out < 3; out++) { /* who gives MPI_UNDEFINED: nobody, the first half, all but the first two */
    const int undefined = out == 1 ? rank % 2 : out == 2 ? rank > 1 : 0;
    MPI_Comm_split_type(inter, undefined ? MPI_UNDEFINED : MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &part);
    CHECK(!undefined || part == MPI_COMM_NULL);
    CHECK(out != 1 || part == MPI_COMM_NULL);
    if (part != MPI_COMM_NULL) MPI_Comm_free(&part);
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

static void test_create(void) {
  MPI_Group world, group;
  MPI_Comm comm;
  int range[1][3], r;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  /* One group for all. */
  range[0][0] = size - 1;
  range[0][1] = 0;
  range[0][2] = -2;
  MPI_Group_range_incl(world, 1, range, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
  MPI_Group_rank(group, &r);
  CHECK((comm == MPI_COMM_NULL) == (r == MPI_UNDEFINED));
  if (comm != MPI_COMM_NULL) {
    int result;
    MPI_Group made;
    MPI_Comm_group(comm, &made);
    MPI_Group_compare(made, group, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_free(&made);
    ring(comm);
    MPI_Comm_free(&comm);
  }
  MPI_Group_free(&group);
  /* Disjoint groups: the lower and the upper half. */
  range[0][0] = rank < size / 2 ? 0 : size / 2;
  range[0][1] = rank < size / 2 ? size / 2 - 1 : size - 1;
  range[0][2] = 1;
  MPI_Group_range_incl(world, 1, range, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
  ring(comm);
  MPI_Comm_free(&comm);
  /* The same, only by those who want it. */
  if (rank >= size / 2) {
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 2147483647, &comm);
    ring(comm);
    MPI_Comm_free(&comm);
  }
  MPI_Group_free(&group);
  MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm);
  CHECK(comm == MPI_COMM_NULL);
  /* Overlapping pairs, each with the same tag: (0,1), (1,2), ... */
  for (int low = 0; low + 1 < size; low++) {
    if (rank != low && rank != low + 1) continue;
    int pair[2] = {low + 1, low};
    MPI_Group_incl(world, 2, pair, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comm);
    MPI_Comm_rank(comm, &r);
    CHECK(r == (rank == low));
    ring(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
  }
  MPI_Group_free(&world);
}

/* A communicator that is freed with operations under way lives until they are done. */
static void test_free_while_busy(void) {
  enum { kBig = 300000 };
  MPI_Comm comm;
  MPI_Request requests[2], barrier;
  char *in = malloc(kBig), *out = malloc(kBig);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  fill(out, rank, kBig);
  MPI_Irecv(in, kBig, MPI_BYTE, (rank + size - 1) % size, 4, comm, &requests[0]);
  MPI_Isend(out, kBig, MPI_BYTE, (rank + 1) % size, 4, comm, &requests[1]);
  MPI_Ibarrier(comm, &barrier);
  MPI_Comm_free(&comm);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  CHECK(holds(in, (rank + size - 1) % size, kBig));
  free(in);
  free(out);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  ring(comm);
  MPI_Comm_disconnect(&comm);
  CHECK(comm == MPI_COMM_NULL);
}

static int heard;
static void handler(MPI_Comm *comm, int *code, ...) { heard++; }

static void test_handlers_are_inherited(void) {
  MPI_Errhandler mine, found;
  MPI_Comm parent, comms[3];
  int value = 0;
  MPI_Comm_create_errhandler(handler, &mine);
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_set_errhandler(parent, mine);
  MPI_Comm_dup(parent, &comms[0]);
  MPI_Comm_split(parent, 0, 0, &comms[1]);
  MPI_Group group;
  MPI_Comm_group(parent, &group);
  MPI_Comm_create(parent, group, &comms[2]);
  MPI_Group_free(&group);
  MPI_Comm_free(&parent);
  MPI_Errhandler_free(&mine);
  for (int i = 0; i < 3; i++) {
    MPI_Comm_get_errhandler(comms[i], &found);
    CHECK(found != MPI_ERRHANDLER_NULL && found != MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&found);
    heard = 0;
    CHECK(MPI_Send(&value, 1, MPI_INT, size, 0, comms[i]) == MPI_ERR_RANK);
    CHECK(heard == 1);
    MPI_Comm_free(&comms[i]);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_dup();
  test_info();
  test_idup();
  test_split();
  test_split_type();
  test_split_type_undefined();
  test_split_type_undefined_inter();
  test_create();
  test_free_while_busy();
  test_handlers_are_inherited();
  done();
  return 0;
}
