/* The parts of jobs_test.py: a server and a client that meet by a published name, programs that spawn themselves. */
#include <dirent.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char *what) {
  fprintf(stderr, "wrong: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void talk(MPI_Comm inter) {
  int rank, size, there, sum = 0, one = 1;
  MPI_Comm_rank(inter, &rank);
  MPI_Comm_size(inter, &size);
  MPI_Comm_remote_size(inter, &there);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
  if (sum != there) fail("allreduce");
  MPI_Comm all;
  MPI_Intercomm_merge(inter, 0, &all);
  int bytes = 3000000, total;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &total);
  char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
  memset(out, rank + 1, (size_t)bytes);
  MPI_Sendrecv(out, bytes, MPI_CHAR, (rank + 1) % total, 0, in, bytes, MPI_CHAR, (rank + total - 1) % total, 0, all,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < bytes; ++i) {
    if (in[i] != (rank + total - 1) % total + 1) fail("data");
  }
  free(in);
  free(out);
  MPI_Comm_free(&all);
}

static void serve(const char *service) {
  int rank;
  char port[MPI_MAX_PORT_NAME];
  MPI_Comm clients;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(service, MPI_INFO_NULL, port);
  }
  MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &clients);
  talk(clients);
  MPI_Comm_disconnect(&clients);
  if (rank == 0) {
    MPI_Unpublish_name(service, MPI_INFO_NULL, port);
    MPI_Close_port(port);
  }
}

static void visit(const char *service) {
  int rank;
  char port[MPI_MAX_PORT_NAME];
  MPI_Comm server;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int tries = 0; rank == 0 && MPI_Lookup_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS; ++tries) {
    if (tries == 3000) fail("the name is never published");
    usleep(20000);
  }
  MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &server);
  talk(server);
  MPI_Comm_disconnect(&server);
}

static int descriptors(void) {
  int n = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) ++n;
  closedir(folder);
  return n;
}

static void spawn_often(char *program, int times) {
  char *words[] = {"child", NULL};
  int before = 0;
  for (int i = 0; i < times; ++i) {
    MPI_Comm children;
    MPI_Comm_spawn(program, words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    int word = i, back = -1;
    MPI_Send(&word, 1, MPI_INT, 0, 0, children);
    MPI_Recv(&back, 1, MPI_INT, 0, 0, children, MPI_STATUS_IGNORE);
    if (back != i + 1) fail("the child's answer");
    MPI_Comm_disconnect(&children);
    if (i == 2) before = descriptors();
  }
  /* The connection of the last child may not be closed yet. */
  if (descriptors() > before + 2) fail("descriptors are left");
}

/* Three children on the hosts of an info key (empty: without it), which say where they are. */
static void spawn_on(char *program, char *hosts) {
  MPI_Info info;
  MPI_Comm children;
  char *words[] = {"child-of-hosts", NULL};
  MPI_Info_create(&info);
  if (hosts[0]) MPI_Info_set(info, "host", hosts);
  MPI_Comm_spawn(program, words, 3, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  MPI_Info_free(&info);
  talk(children);
  MPI_Comm_disconnect(&children);
}

static void child_of_hosts(MPI_Comm parents) {
  int rank, length;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Get_processor_name(host, &length);
  printf("child %d on %s\n", rank, host);
  fflush(stdout);
  talk(parents);
  MPI_Comm_disconnect(&parents);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Comm parent, children;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_get_parent(&parent);
  const char *part = argc > 1 ? argv[1] : "";
  if (parent != MPI_COMM_NULL) {
    if (strcmp(part, "crash") == 0) raise(SIGSEGV);
    if (strcmp(part, "child-of-hosts") == 0) {
      child_of_hosts(parent);
      MPI_Finalize();
      return 0;
    }
    int word;
    MPI_Recv(&word, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    ++word;
    MPI_Send(&word, 1, MPI_INT, 0, 0, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
  }
  if (strcmp(part, "server") == 0) serve(argv[2]);
  if (strcmp(part, "client") == 0) visit(argv[2]);
  if (strcmp(part, "spawn-on") == 0) {
    spawn_on(argv[0], argv[2]);
    MPI_Finalize();
    return 0;
  }
  if (strcmp(part, "spawner") == 0) spawn_often(argv[0], atoi(argv[2]));
  if (strcmp(part, "parent-of-a-failure") == 0) {
    char *words[] = {"crash", NULL};
    int word;
    MPI_Comm_spawn(argv[0], words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Recv(&word, 1, MPI_INT, 0, 0, children, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("ok");
  MPI_Finalize();
  return 0;
}
