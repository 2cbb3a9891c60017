// Processes that processes start: messages, collectives, a job of two programs, and what cannot be started.
// ranks: 1 2 3
// paths: tcp
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { kLarge = 1 << 20 };

static void exchange(MPI_Comm inter) {
  int rank, there, sum = -1, root = 0;
  MPI_Comm_rank(inter, &rank);
  MPI_Comm_remote_size(inter, &there);
  // Everybody to everybody on the other side.
  int mine[8], theirs[8];
  MPI_Request requests[16];
  for (int i = 0; i < there; ++i) {
    mine[i] = 100 * rank + i;
    MPI_Irecv(&theirs[i], 1, MPI_INT, i, 5, inter, &requests[i]);
    MPI_Isend(&mine[i], 1, MPI_INT, i, 5, inter, &requests[there + i]);
  }
  MPI_Waitall(2 * there, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < there; ++i) CHECK(theirs[i] == 100 * i + rank);
  int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
  CHECK(sum == there);

  MPI_Comm all;
  int is_child, size, total;
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  is_child = parent != MPI_COMM_NULL;
  MPI_Intercomm_merge(inter, is_child, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, all);
  CHECK(total == size * (size - 1) / 2);
  // Large, around the ring: crosses between the jobs twice.
  char *out = malloc(kLarge), *in = malloc(kLarge);
  memset(out, 'a' + rank, kLarge);
  MPI_Sendrecv(out, kLarge, MPI_CHAR, (rank + 1) % size, 1, in, kLarge, MPI_CHAR, (rank + size - 1) % size, 1, all,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < kLarge; ++i) CHECK(in[i] == 'a' + (rank + size - 1) % size);
  MPI_Bcast(&root, 1, MPI_INT, size - 1, all);
  free(out);
  free(in);
  MPI_Comm_free(&all);
}

static int child(int argc, char **argv, MPI_Comm parent) {
  int size, there, number = 0;
  void *value;
  int found;
  CHECK(argc == 4 && strcmp(argv[1], "child") == 0 && strcmp(argv[2], "two words") == 0);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(size == atoi(argv[3]));
  MPI_Comm_remote_size(parent, &there);
  CHECK(there >= 1);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &found);
  if (found) number = *(int *)value;
  // Those who started this job are of the same universe, so it is larger than this world.
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &found);
  if (found) CHECK(*(int *)value >= size + there);
  MPI_Bcast(&there, 1, MPI_INT, 0, parent);
  CHECK(there == 4711);
  exchange(parent);
  if (number == 1) CHECK(size == 3);
  MPI_Comm_disconnect(&parent);
  MPI_Comm again;
  MPI_Comm_get_parent(&again);
  CHECK(again == MPI_COMM_NULL);
  return 0;
}

static void greet(MPI_Comm children, int root, int rank) {
  int word = 4711;
  MPI_Bcast(&word, 1, MPI_INT, rank == root ? MPI_ROOT : MPI_PROC_NULL, children);
}

int main(int argc, char **argv) {
  MPI_Comm parent, children;
  int rank, size, remote, codes[4] = {-1, -1, -1, -1};
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    int code = child(argc, argv, parent);
    MPI_Finalize();
    return code;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  char *two[] = {"child", "two words", "2", NULL};
  MPI_Comm_spawn(argv[0], two, 2, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &children, codes);
  MPI_Comm_remote_size(children, &remote);
  CHECK(remote == 2 && codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS);
  greet(children, 0, rank);
  exchange(children);
  MPI_Comm_disconnect(&children);

  // Two programs, which are one job; only the root says which.
  char *three[] = {"child", "two words", "3", NULL};
  char *commands[] = {argv[0], argv[0]}, **arguments[] = {three, three};
  int counts[] = {1, 2};
  MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Info_create(&infos[1]);
  MPI_Info_set(infos[1], "wdir", "/");
  MPI_Info_set(infos[1], "path", "/usr/bin:/bin");  // the name has a slash
  // Reserved keys that do nothing here (docs/info-keys.md).
  const char *ignored[] = {"arch", "file", "appnum"};
  for (int i = 0; i < 3; i++) MPI_Info_set(infos[1], ignored[i], "1");
  char absolute[4096];
  CHECK(realpath(argv[0], absolute) != NULL);
  commands[1] = absolute;
  if (rank == 0)
    MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  else MPI_Comm_spawn_multiple(0, NULL, NULL, NULL, NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  MPI_Info_free(&infos[1]);
  MPI_Comm_remote_size(children, &remote);
  CHECK(remote == 3);
  greet(children, 0, rank);
  exchange(children);
  MPI_Comm_disconnect(&children);

  // What cannot be: an error at all ranks, and the job goes on.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const char *bad[] = {"/no/such/program", "/bin/true"};
  for (int i = 0; i < 2; ++i) {
    codes[0] = -1;
    int error = MPI_Comm_spawn(bad[i], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes), class;
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_SPAWN);
    if (rank == 0) CHECK(codes[0] == MPI_ERR_SPAWN);
  }
  int too_many =
      MPI_Comm_spawn(argv[0], two, 1 << 30, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  MPI_Error_class(too_many, &too_many);
  CHECK(too_many == MPI_ERR_SPAWN);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == size * (size - 1) / 2);
  done();
  return 0;
}
