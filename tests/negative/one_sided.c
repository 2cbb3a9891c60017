/* Wrong calls of one-sided communication: each returns the class it deserves, and names the window, the target, the
 * displacement and the size. */
#include "expect.h"

static void add_nothing(void *in, void *inout, int *n, MPI_Datatype *type) {
  (void)in, (void)inout, (void)n, (void)type;
}

int main(int argc, char **argv) {
  int rank, size;
  begin(&argc, &argv, &rank, &size);
  int memory[8] = {0}, value = 1, got[8];
  MPI_Win win;
  EXPECT(MPI_Win_create(memory, -1, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_SIZE, "MPI_Win_create", "size",
         "-1");
  EXPECT(MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_DISP, "disp_unit");
  EXPECT(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_BUFFER, "base");
  FINE(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  FINE(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  FINE(MPI_Win_set_name(win, "bees"));

  /* No epoch. */
  EXPECT(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Put", "'bees'", "epoch");
  EXPECT(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC, "rank 0");
  EXPECT(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_flush");
  EXPECT(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC, "'bees'");
  EXPECT(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC, "MPI_Win_lock_all");
  EXPECT(MPI_Win_complete(win), MPI_ERR_RMA_SYNC, "MPI_Win_start");
  EXPECT(MPI_Win_wait(win), MPI_ERR_RMA_SYNC, "MPI_Win_post");

  /* Wrong arguments of locks. */
  EXPECT(MPI_Win_lock(7, 0, 0, win), MPI_ERR_LOCKTYPE, "lock_type", "7");
  EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK, "'bees'");
  EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT, "assert");
  EXPECT(MPI_Win_fence(1 << 30, win), MPI_ERR_ASSERT, "assert");

  FINE(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
  EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC, "locked already");
  EXPECT(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_lock");
  EXPECT(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock");
  {
    MPI_Win copy = win;
    EXPECT(MPI_Win_free(&copy), MPI_ERR_RMA_SYNC, "freed");
  }
  EXPECT(MPI_Put(memory, 4, MPI_INT, 0, 6, 4, MPI_INT, win), MPI_ERR_RMA_RANGE, "'bees'", "target 0", "displacement 6",
         "32 bytes");
  EXPECT(MPI_Put(&value, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP, "target_disp", "-1");
  EXPECT(MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win), MPI_ERR_RANK, "MPI_");
  EXPECT(MPI_Put(got, 2, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE, "MPI_");
  EXPECT(MPI_Put(got, -2, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT, "MPI_");
  EXPECT(MPI_Put(got, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE, "MPI_");
  EXPECT(MPI_Get(got, 1, MPI_INT, 0, 8, 1, MPI_INT, win), MPI_ERR_RMA_RANGE, "MPI_Get");
  EXPECT(MPI_Put(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_BUFFER, "MPI_Put", "origin_addr", "null pointer");
  EXPECT(MPI_Get(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_BUFFER, "MPI_Get", "origin_addr", "null pointer");
  EXPECT(MPI_Accumulate(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER, "origin_addr");
  EXPECT(MPI_Get_accumulate(got, 1, MPI_INT, NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER,
         "result_addr");
  FINE(MPI_Put(NULL, 0, MPI_INT, 0, 0, 0, MPI_INT, win));
  EXPECT(MPI_Accumulate(got, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP, "MPI_BAND", "MPI_DOUBLE");
  EXPECT(MPI_Accumulate(got, 2, MPI_FLOAT, 0, 0, 2, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE, "MPI_FLOAT", "MPI_INT");
  MPI_Op mine;
  FINE(MPI_Op_create(add_nothing, 1, &mine));
  EXPECT(MPI_Fetch_and_op(got, got + 1, MPI_INT, 0, 0, mine, win), MPI_ERR_OP, "MPI_Fetch_and_op", "'op'",
         "predefined");
  FINE(MPI_Op_free(&mine));
  EXPECT(MPI_Compare_and_swap(got, got, got, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE, "MPI_DOUBLE");
  /* To nobody. */
  FINE(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
  MPI_Request request;
  FINE(MPI_Rget(got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
  FINE(MPI_Wait(&request, MPI_STATUS_IGNORE));
  FINE(MPI_Win_unlock(0, win));

  /* Attaching. */
  EXPECT(MPI_Win_attach(win, memory, 4), MPI_ERR_RMA_FLAVOR, "MPI_Win_create_dynamic");
  MPI_Win dynamic;
  FINE(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
  FINE(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
  FINE(MPI_Win_attach(dynamic, memory, sizeof memory));
  EXPECT(MPI_Win_attach(dynamic, memory + 1, 4), MPI_ERR_RMA_ATTACH, "overlap");
  EXPECT(MPI_Win_detach(dynamic, memory + 1), MPI_ERR_RMA_ATTACH, "MPI_");
  MPI_Aint unit;
  int disp_unit;
  void *base;
  EXPECT(MPI_Win_shared_query(dynamic, 0, &unit, &disp_unit, &base), MPI_ERR_RMA_FLAVOR, "MPI_");
  /* Only the target knows what is attached: the error comes with the synchronisation. */
  MPI_Aint there;
  MPI_Get_address(got, &there);
  FINE(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, dynamic));
  FINE(MPI_Put(&value, 1, MPI_INT, rank, there, 1, MPI_INT, dynamic));
  EXPECT(MPI_Win_flush(rank, dynamic), MPI_ERR_RMA_RANGE, "attached");
  FINE(MPI_Win_unlock(rank, dynamic));
  FINE(MPI_Barrier(MPI_COMM_WORLD));
  FINE(MPI_Win_detach(dynamic, memory));
  FINE(MPI_Win_free(&dynamic));

  /* Fence, then another kind of epoch. */
  FINE(MPI_Win_fence(0, win));
  FINE(MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win));
  EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_fence");
  FINE(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  TRUE_OR_FAIL(memory[0] == 1);
  FINE(MPI_Win_free(&win));
  EXPECT(MPI_Win_fence(0, win), MPI_ERR_WIN, "MPI_WIN_NULL");
  return end();
}
