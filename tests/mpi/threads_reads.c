// ranks: 1 2
// paths: shm
// Calls that only read what does not change take no lock: they return while another thread is inside the library, in a
// callback that waits for them. And they are right while other threads make and free objects.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "stay_inside.h"

static MPI_Comm grid;
static MPI_Group group;
static MPI_Datatype pair;

static void read_all(int rank, int size) {
  int number, flag, dims[1], periods[1], coords[1], source, dest, zero = 0, length;
  char name[MPI_MAX_PROCESSOR_NAME > MPI_MAX_LIBRARY_VERSION_STRING ? MPI_MAX_PROCESSOR_NAME
                                                                    : MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Aint lb, extent;
  MPI_Count count;
  MPI_Status status;

  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  CHECK(number == rank);
  MPI_Comm_size(grid, &number);
  CHECK(number == size);
  MPI_Comm_test_inter(grid, &flag);
  CHECK(!flag);
  MPI_Comm_compare(grid, MPI_COMM_WORLD, &number);
  CHECK(number == MPI_CONGRUENT || size == 1);
  MPI_Group_size(group, &number);
  CHECK(number == size);
  MPI_Group_rank(group, &number);
  CHECK(number == rank);
  MPI_Group_compare(group, group, &number);
  CHECK(number == MPI_IDENT);
  MPI_Group_translate_ranks(group, 1, &zero, group, &number);
  CHECK(number == 0);
  MPI_Topo_test(grid, &number);
  CHECK(number == MPI_CART);
  MPI_Cartdim_get(grid, &number);
  CHECK(number == 1);
  MPI_Cart_get(grid, 1, dims, periods, coords);
  CHECK(dims[0] == size && periods[0] == 1);
  MPI_Cart_rank(grid, &zero, &number);
  CHECK(number == 0);
  MPI_Cart_coords(grid, 0, 1, coords);
  CHECK(coords[0] == 0);
  MPI_Cart_shift(grid, 0, 1, &source, &dest);
  CHECK(dest == (rank + 1) % size);
  MPI_Type_size(pair, &number);
  CHECK(number == 2 * (int)sizeof(int));
  MPI_Type_size(MPI_DOUBLE, &number);
  CHECK(number == (int)sizeof(double));
  MPI_Type_size_x(MPI_INT16_T, &count); /* perhaps its first use */
  CHECK(count == 2);
  MPI_Type_get_extent(pair, &lb, &extent);
  CHECK(lb == 0 && extent == 2 * (MPI_Aint)sizeof(int));
  MPI_Type_get_true_extent(pair, &lb, &extent);
  CHECK(lb == 0 && extent == 2 * (MPI_Aint)sizeof(int));
  memset(&status, 0, sizeof status);
  MPI_Status_set_source(&status, 3);
  MPI_Status_set_tag(&status, 4);
  MPI_Status_set_error(&status, MPI_SUCCESS);
  MPI_Status_set_cancelled(&status, 0);
  MPI_Status_set_elements(&status, pair, 6);
  MPI_Get_elements(&status, pair, &number);
  CHECK(number == 6);
  MPI_Get_count(&status, pair, &number);
  CHECK(number == 3);
  MPI_Status_get_source(&status, &number);
  CHECK(number == 3);
  MPI_Status_get_tag(&status, &number);
  CHECK(number == 4);
  MPI_Test_cancelled(&status, &flag);
  CHECK(!flag);
  MPI_Initialized(&flag);
  CHECK(flag);
  MPI_Finalized(&flag);
  CHECK(!flag);
  MPI_Query_thread(&number);
  CHECK(number == MPI_THREAD_MULTIPLE);
  MPI_Is_thread_main(&flag);
  MPI_Get_version(&number, &flag);
  CHECK(number == MPI_VERSION);
  MPI_Get_library_version(name, &length);
  MPI_Get_processor_name(name, &length);
  CHECK(length > 0);
}

/* Tables grow, and slots are used again. */
static void *make_and_free(void *argument) {
  enum { kObjects = 300 };
  MPI_Datatype types[kObjects];
  MPI_Group groups[kObjects];
  MPI_Comm comms[kObjects];
  (void)argument;
  for (int turn = 0; turn < 10; turn++) {
    for (int i = 0; i < kObjects; i++) {
      MPI_Type_contiguous(i + 1, MPI_INT, &types[i]);
      MPI_Comm_group(MPI_COMM_SELF, &groups[i]);
      MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
    }
    for (int i = 0; i < kObjects; i++) {
      MPI_Type_free(&types[i]);
      MPI_Group_free(&groups[i]);
      MPI_Comm_free(&comms[i]);
    }
  }
  atomic_store(&go_on, 2);
  return NULL;
}

int main(int argc, char **argv) {
  int provided, rank, size, periodic = 1, error, number;
  pthread_t other;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &grid);
  MPI_Comm_group(grid, &group);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Type_size(MPI_DOUBLE, &number);
  MPI_Type_size(MPI_INT16_T, &number);

  pthread_create(&other, NULL, stay_inside, NULL);
  while (!atomic_load(&inside)) sched_yield();
  read_all(rank, size);
  atomic_store(&go_on, 1);
  pthread_join(other, NULL);

  pthread_create(&other, NULL, make_and_free, NULL);
  do read_all(rank, size);
  while (atomic_load(&go_on) != 2);
  pthread_join(other, NULL);

  /* One that fails takes the lock, and tells the error handler as others do. */
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  error = MPI_Type_size(MPI_DATATYPE_NULL, &number);
  MPI_Error_class(error, &number);
  CHECK(number == MPI_ERR_TYPE);
  MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
  error = MPI_Cart_coords(grid, size, 1, &number);
  MPI_Error_class(error, &number);
  CHECK(number == MPI_ERR_RANK);
  MPI_Type_free(&pair);
  MPI_Group_free(&group);
  MPI_Comm_free(&grid);
  MPI_Finalize();
  MPI_Initialized(&number);
  MPI_Finalized(&error);
  CHECK(number && error);
  return 0;
}
