// Groups of one job that meet by ports, by published names, and by a socket. (Two jobs: tests/launch/jobs_test.py.)
// ranks: 2 3 4
// paths: tcp
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static void talk(MPI_Comm inter) {
  int rank, there, sum = 0, one = 1;
  MPI_Comm_rank(inter, &rank);
  MPI_Comm_remote_size(inter, &there);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
  CHECK(sum == there);
}

static int class_of(int error) {
  int class;
  MPI_Error_class(error, &class);
  return class;
}

// The two ends of a connection between ranks 0 and 1.
static int connected_socket(int rank) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (rank == 0) {
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0);
    getsockname(fd, (struct sockaddr *)&address, &length);
    MPI_Send(&address.sin_port, sizeof address.sin_port, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    int accepted = accept(fd, NULL, NULL);
    close(fd);
    return accepted;
  }
  MPI_Recv(&address.sin_port, sizeof address.sin_port, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
  return fd;
}

int main(int argc, char **argv) {
  int rank, size;
  char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "", service[64];
  MPI_Comm half, inter;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int accepts = rank % 2 == 0;
  MPI_Comm_split(MPI_COMM_WORLD, accepts, rank, &half);
  int here;
  MPI_Comm_rank(half, &here);

  // By a published name, three times over one port.
  int process = getpid();
  MPI_Bcast(&process, 1, MPI_INT, 0, MPI_COMM_WORLD);
  snprintf(service, sizeof service, "tern test %d", process);
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(service, MPI_INFO_NULL, port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!accepts && here == 0) {
    MPI_Lookup_name(service, MPI_INFO_NULL, found);
    CHECK(strlen(found) > 20);
  }
  for (int i = 0; i < 3; ++i) {
    if (accepts) MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    else MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, &inter);
    talk(inter);
    MPI_Comm_disconnect(&inter);
  }

  // What is not there.
  MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    CHECK(class_of(MPI_Publish_name(service, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    MPI_Unpublish_name(service, MPI_INFO_NULL, port);
    CHECK(class_of(MPI_Unpublish_name(service, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    CHECK(class_of(MPI_Lookup_name(service, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
    // Any text can be published.
    MPI_Publish_name(service, MPI_INFO_NULL, "otherhost:122");
    MPI_Lookup_name(service, MPI_INFO_NULL, found);
    CHECK(strcmp(found, "otherhost:122") == 0);
    MPI_Unpublish_name(service, MPI_INFO_NULL, "otherhost:122");
    char long_name[MPI_MAX_PORT_NAME + 1];
    memset(long_name, 'x', MPI_MAX_PORT_NAME);
    long_name[MPI_MAX_PORT_NAME] = 0;
    CHECK(class_of(MPI_Publish_name(service, MPI_INFO_NULL, long_name)) == MPI_ERR_PORT);
    MPI_Close_port(port);
    CHECK(class_of(MPI_Close_port(port)) == MPI_ERR_PORT);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!accepts) CHECK(class_of(MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, &inter)) == MPI_ERR_PORT);
  else CHECK(class_of(MPI_Comm_connect("no port", MPI_INFO_NULL, 0, half, &inter)) == MPI_ERR_PORT);

  // Two processes with a socket.
  if (rank < 2) {
    int fd = connected_socket(rank);
    MPI_Comm_join(fd, &inter);
    close(fd);
    talk(inter);
    MPI_Comm_disconnect(&inter);
  }
  MPI_Comm_free(&half);
  done();
  return 0;
}
