// ranks: 1 2
// paths: shm
/* Generalized requests: callbacks in the right order, once each, and errors that reach the caller (13.2). */
#include "check.h"

struct state {
  int queries, frees, cancels, complete_at_cancel, query_code;
};

static int query(void *extra, MPI_Status *status) {
  struct state *s = extra;
  s->queries++;
  MPI_Status_set_elements(status, MPI_INT, 3);
  MPI_Status_set_cancelled(status, s->cancels > 0);
  MPI_Status_set_source(status, 5);
  MPI_Status_set_tag(status, 6);
  return s->query_code;
}
static int release(void *extra) {
  ((struct state *)extra)->frees++;
  return MPI_SUCCESS;
}
static int cancel(void *extra, int complete) {
  struct state *s = extra;
  s->cancels++;
  s->complete_at_cancel = complete;
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  struct state s = {0}, t = {0};
  MPI_Request request, pair[2];
  MPI_Status status, statuses[2];
  int flag = -1, count = -1, x = 0;
  MPI_Init(&argc, &argv);

  MPI_Grequest_start(query, release, cancel, &s, &request);
  MPI_Test(&request, &flag, &status);
  CHECK(!flag && s.queries == 0);
  MPI_Grequest_complete(request);
  MPI_Request_get_status(request, &flag, &status);
  CHECK(flag && s.queries == 1 && s.frees == 0);
  MPI_Wait(&request, &status);
  CHECK(request == MPI_REQUEST_NULL && s.queries == 2 && s.frees == 1);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(status.MPI_SOURCE == 5 && status.MPI_TAG == 6 && count == 3);

  /* Without a status the query function is called all the same. */
  memset(&s, 0, sizeof s);
  MPI_Grequest_start(query, release, cancel, &s, &request);
  MPI_Cancel(&request);
  CHECK(s.cancels == 1 && !s.complete_at_cancel);
  MPI_Grequest_complete(request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(s.queries == 1 && s.frees == 1);

  /* Freed before it is complete: the state goes when it is. */
  memset(&s, 0, sizeof s);
  MPI_Grequest_start(query, release, cancel, &s, &request);
  MPI_Request copy = request;
  MPI_Grequest_complete(copy);
  MPI_Request_free(&request);
  CHECK(s.queries == 0 && s.frees == 1);

  /* Among others, with an error from the query function. */
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  memset(&s, 0, sizeof s);
  s.query_code = MPI_ERR_OTHER;
  MPI_Grequest_start(query, release, cancel, &s, &pair[0]);
  MPI_Grequest_start(query, release, cancel, &t, &pair[1]);
  MPI_Grequest_complete(pair[0]);
  MPI_Grequest_complete(pair[1]);
  CHECK(MPI_Waitall(2, pair, statuses) == MPI_ERR_IN_STATUS);
  CHECK(statuses[0].MPI_ERROR == MPI_ERR_OTHER && statuses[1].MPI_ERROR == MPI_SUCCESS);
  CHECK(s.frees == 1 && t.frees == 1);

  MPI_Irecv(&x, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
  CHECK(MPI_Grequest_complete(request) == MPI_ERR_REQUEST);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  done();
  return 0;
}
