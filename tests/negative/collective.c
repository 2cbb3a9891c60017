/* Chapter 6: roots, operators, MPI_IN_PLACE, arrays of counts; arguments that mean nothing at this rank are
 * not looked at. */
#include "expect.h"

int main(int argc, char **argv) {
  int rank, size, x = 1, y = 0, one[8] = {1, 1, 1, 1, 1, 1, 1, 1}, zero[8] = {0}, bad[8] = {1, -2, 1, 1, 1, 1, 1, 1},
                  all[8];
  char here[64];
  MPI_Request request;
  MPI_Datatype pair;
  begin(&argc, &argv, &rank, &size);
  snprintf(here, sizeof here, "(rank %d in MPI_COMM_WORLD)", rank);

  EXPECT(MPI_Bcast(&x, 1, MPI_INT, size, MPI_COMM_WORLD), MPI_ERR_ROOT, "MPI_Bcast: argument 'root' is",
         "'MPI_COMM_WORLD'", here);
  EXPECT(MPI_Bcast(&x, 1, MPI_INT, MPI_ROOT, MPI_COMM_WORLD), MPI_ERR_ROOT, "'root' is -4");
  EXPECT(MPI_Bcast(&x, -1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "'count' is -1");
  EXPECT(MPI_Bcast(NULL, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "'buffer'");
  EXPECT(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_IN_PLACE", "not allowed");
  EXPECT(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "MPI_COMM_NULL");
  EXPECT(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP, "'op' is MPI_OP_NULL");
  EXPECT(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_REPLACE, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_REPLACE", "accumulates");
  EXPECT(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_MINLOC, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_MINLOC", "MPI_INT",
         "not defined");
  EXPECT(MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_BAND", "MPI_FLOAT");
  EXPECT(MPI_Iallreduce(&x, &y, 1, (MPI_Datatype)MPI_COMM_WORLD, MPI_SUM, MPI_COMM_WORLD, &request), MPI_ERR_TYPE,
         "MPI_Iallreduce", "MPI_COMM_WORLD, which is no datatype");
  {
    /* Beyond the table of 6.9.2: logical operators on the multi-language types. */
    MPI_Count flag = rank == 0 ? 7 : 0, all_set = -1, any_set = -1;
    FINE(MPI_Allreduce(&flag, &all_set, 1, MPI_COUNT, MPI_LAND, MPI_COMM_WORLD));
    FINE(MPI_Allreduce(&flag, &any_set, 1, MPI_COUNT, MPI_LOR, MPI_COMM_WORLD));
    TRUE_OR_FAIL((all_set != 0) == (size == 1) && any_set != 0);
    EXPECT(MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_LXOR, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_LXOR", "MPI_FLOAT");
  }
  {
    /* Freeing a nonblocking collective: an error while it runs, all right after a status of complete. */
    int flag = 0, others = 0;
    if (rank == 0) {
      FINE(MPI_Ibarrier(MPI_COMM_WORLD, &request));
      if (size > 1) {
        EXPECT(MPI_Request_free(&request), MPI_ERR_REQUEST, "nonblocking collective operation");
        for (int i = 1; i < size; i++) FINE(MPI_Send(&others, 1, MPI_INT, i, 0, MPI_COMM_WORLD));
      }
    } else {
      FINE(MPI_Recv(&others, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      FINE(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    }
    while (!flag) FINE(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    FINE(MPI_Request_free(&request));
    TRUE_OR_FAIL(request == MPI_REQUEST_NULL);
  }
  FINE(MPI_Type_contiguous(2, MPI_INT, &pair));
  EXPECT(MPI_Scan(&x, &y, 1, pair, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_TYPE, "not committed");
  FINE(MPI_Type_commit(&pair));
  EXPECT(MPI_Scan(&x, &y, 1, pair, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_SUM", "derived datatype",
         "MPI_Op_create");
  FINE(MPI_Type_free(&pair));
  EXPECT(MPI_Allgatherv(&x, 1, MPI_INT, all, NULL, zero, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG,
         "'recvcounts' is a null pointer");
  EXPECT(MPI_Reduce_local(&x, NULL, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER, "'inoutbuf'");
  EXPECT(MPI_Reduce_local(&x, &x, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER, "'inbuf' and 'inoutbuf'", "same memory");
  if (size > 1) {
    EXPECT(MPI_Allgatherv(&x, 1, MPI_INT, all, bad, zero, MPI_INT, MPI_COMM_WORLD), MPI_ERR_COUNT,
           "'recvcounts'[1] is -2");
    EXPECT(MPI_Reduce_scatter(&x, &y, bad, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT, "'recvcounts'[1]");
  }
  EXPECT(MPI_Alltoall(&x, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_BUFFER,
         "'recvbuf' is MPI_IN_PLACE");
  if (rank != 0) {
    EXPECT(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER,
           "'sendbuf' is MPI_IN_PLACE");
  }
  {
    /* Buffers that are the same memory or overlap, and an own block of two sizes, at every rank or in MPI_COMM_SELF. */
    int m[64] = {0}, counts[8] = {2, 2, 2, 2, 2, 2, 2, 2}, places[8] = {0, 2, 4, 6, 8, 10, 12, 14}, bytes[8];
    MPI_Datatype ints[8];
    for (int i = 0; i < 8; i++) bytes[i] = 8 * i, ints[i] = MPI_INT;
    const MPI_Comm w = MPI_COMM_WORLD, s = MPI_COMM_SELF;
#define SAME(call) EXPECT(call, MPI_ERR_BUFFER, "'sendbuf' and 'recvbuf'", "same memory")
#define OVERLAP(call) EXPECT(call, MPI_ERR_BUFFER, "'sendbuf' and 'recvbuf'", "overlap")
#define UNEQUAL(call) EXPECT(call, MPI_ERR_COUNT, "sends 4 bytes to itself, but receives 8")
    SAME(MPI_Allreduce(m, m, 2, MPI_INT, MPI_SUM, w));
    OVERLAP(MPI_Allreduce(m, m + 1, 2, MPI_INT, MPI_SUM, w));
    OVERLAP(MPI_Allreduce(m + 1, m, 2, MPI_INT, MPI_SUM, w));
    FINE(MPI_Allreduce(m, m + 2, 2, MPI_INT, MPI_SUM, w));
    FINE(MPI_Allreduce(m + 2, m, 2, MPI_INT, MPI_SUM, w));
    FINE(MPI_Allreduce(m, m, 0, MPI_INT, MPI_SUM, w));
    SAME(MPI_Scan(m, m, 1, MPI_INT, MPI_SUM, w));
    OVERLAP(MPI_Exscan(m + 1, m, 2, MPI_INT, MPI_SUM, w));
    SAME(MPI_Reduce(m, m, 1, MPI_INT, MPI_SUM, 0, s));
    SAME(MPI_Reduce_scatter(m, m, counts, MPI_INT, MPI_SUM, w));
    SAME(MPI_Reduce_scatter_block(m, m, 1, MPI_INT, MPI_SUM, w));
    SAME(MPI_Allgather(m + rank, 1, MPI_INT, m, 1, MPI_INT, w));
    OVERLAP(MPI_Allgather(m + size - 1, 2, MPI_INT, m + size, 2, MPI_INT, w));
    UNEQUAL(MPI_Allgather(m, 1, MPI_INT, m + 8, 2, MPI_INT, w));
    SAME(MPI_Allgatherv(m + 2 * rank, 2, MPI_INT, m, counts, places, MPI_INT, w));
    UNEQUAL(MPI_Allgatherv(m + 32, 1, MPI_INT, m, counts, places, MPI_INT, w));
    SAME(MPI_Alltoall(m, 1, MPI_INT, m, 1, MPI_INT, w));
    OVERLAP(MPI_Alltoall(m, 2, MPI_INT, m + 1, 2, MPI_INT, w));
    UNEQUAL(MPI_Alltoall(m, 1, MPI_INT, m + 32, 2, MPI_INT, w));
    SAME(MPI_Alltoallv(m, counts, places, MPI_INT, m, counts, places, MPI_INT, w));
    UNEQUAL(MPI_Alltoallv(m, one, places, MPI_INT, m + 32, counts, places, MPI_INT, w));
    SAME(MPI_Alltoallw(m, counts, bytes, ints, m, counts, bytes, ints, w));
    UNEQUAL(MPI_Alltoallw(m, one, bytes, ints, m + 32, counts, bytes, ints, w));
    SAME(MPI_Gather(m, 1, MPI_INT, m, 1, MPI_INT, 0, s));
    OVERLAP(MPI_Gather(m, 2, MPI_INT, m + 1, 2, MPI_INT, 0, s));
    UNEQUAL(MPI_Gather(m, 1, MPI_INT, m + 8, 2, MPI_INT, 0, s));
    SAME(MPI_Gatherv(m, 2, MPI_INT, m, counts, places, MPI_INT, 0, s));
    SAME(MPI_Scatter(m, 1, MPI_INT, m, 1, MPI_INT, 0, s));
    OVERLAP(MPI_Scatter(m + 1, 2, MPI_INT, m, 2, MPI_INT, 0, s));
    UNEQUAL(MPI_Scatter(m, 1, MPI_INT, m + 8, 2, MPI_INT, 0, s));
    SAME(MPI_Scatterv(m, counts, places, MPI_INT, m, 2, MPI_INT, 0, s));
  }
  MPI_Barrier(MPI_COMM_WORLD);

  /* Receive arguments mean something at the root only, the send type nothing with MPI_IN_PLACE. */
  if (rank == 0) {
    int mine[8] = {5};
    FINE(MPI_Gather(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, mine, 1, MPI_INT, 0, MPI_COMM_WORLD));
    TRUE_OR_FAIL(mine[0] == 5 && mine[size - 1] == (size == 1 ? 5 : 40 + size - 1));
    FINE(MPI_Gatherv(&x, 1, MPI_INT, all, one, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, MPI_INT, 0, MPI_COMM_WORLD));
  } else {
    int mine = 40 + rank;
    FINE(MPI_Gather(&mine, 1, MPI_INT, NULL, -7, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
    FINE(MPI_Gatherv(&x, 1, MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
  }
  FINE(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  TRUE_OR_FAIL(x == size);
  return end();
}
