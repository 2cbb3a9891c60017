/* Chapter 3: every argument of the sends, receives, probes and completions. */
#include "expect.h"

int main(int argc, char **argv) {
  int rank, size, x = 0, y = 0, flag, index;
  char here[64], range[64];
  MPI_Status status, statuses[2];
  MPI_Request request = MPI_REQUEST_NULL, requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Message message;
  MPI_Datatype type;
  begin(&argc, &argv, &rank, &size);
  snprintf(here, sizeof here, "(rank %d in MPI_COMM_WORLD)", rank);
  snprintf(range, sizeof range, "ranks 0..%d", size - 1);

  /* Ranks. */
  EXPECT(MPI_Send(&x, 1, MPI_INT, 7, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Send: argument 'dest' is 7",
         "'MPI_COMM_WORLD'", range, here, "MPI_PROC_NULL");
  EXPECT(MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "'dest' is -1");
  EXPECT(MPI_Recv(&x, 1, MPI_INT, -9, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "MPI_Recv: argument 'source' is -9",
         "MPI_ANY_SOURCE");
  EXPECT(MPI_Irecv(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK, "MPI_Irecv", "source", range);
  EXPECT(MPI_Probe(size, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "MPI_Probe", "source");
  EXPECT(MPI_Iprobe(MPI_ROOT, 0, MPI_COMM_WORLD, &flag, &status), MPI_ERR_RANK, "'source' is -4");
  EXPECT(MPI_Sendrecv(&x, 1, MPI_INT, 99, 0, &y, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK,
         "MPI_Sendrecv: argument 'dest' is 99");
  EXPECT(MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, 0, -7, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "'source' is -7");

  /* Tags. */
  EXPECT(MPI_Send(&x, 1, MPI_INT, 0, -1, MPI_COMM_WORLD), MPI_ERR_TAG, "argument 'tag' is -1", "MPI_TAG_UB", here);
  EXPECT(MPI_Isend(&x, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &request), MPI_ERR_TAG, "argument 'tag' is -2");
  EXPECT(MPI_Recv(&x, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, &status), MPI_ERR_TAG, "argument 'tag' is -5", "MPI_ANY_TAG");

  /* Counts and buffers. */
  EXPECT(MPI_Send(&x, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "argument 'count' is -1", here);
  EXPECT(MPI_Recv_c(&x, -3, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_COUNT,
         "MPI_Recv_c: argument 'count' is -3");
  EXPECT(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "argument 'buf' is a null pointer",
         "count is 1");
  EXPECT(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "argument 'buf' is MPI_IN_PLACE");
  EXPECT(MPI_Irecv(MPI_BUFFER_AUTOMATIC, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
         "MPI_BUFFER_AUTOMATIC");
  FINE(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));

  /* Datatypes. */
  EXPECT(MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
         "argument 'datatype' is MPI_DATATYPE_NULL", here);
  EXPECT(MPI_Send(&x, 1, (MPI_Datatype)0, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "never a handle");
  EXPECT(MPI_Send(&x, 1, (MPI_Datatype)(void *)&x, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "is no datatype",
         "initialised");
  EXPECT(MPI_Send(&x, 1, (MPI_Datatype)MPI_SUM, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
         "is MPI_SUM, which is no datatype");
  FINE(MPI_Type_contiguous(3, MPI_INT, &type));
  EXPECT(MPI_Send(&x, 0, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "not committed", "MPI_Type_commit");
  {
    MPI_Datatype copy = type;
    FINE(MPI_Type_free(&type));
    EXPECT(MPI_Send(&x, 0, copy, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype that was freed");
    EXPECT(MPI_Type_free(&copy), MPI_ERR_TYPE, "MPI_Type_free", "freed");
  }

  /* With MPI_PROC_NULL no datatype is used: the null handle passes, anything else that is none does not. */
  FINE(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
  FINE(MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
  TRUE_OR_FAIL(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  FINE(MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
  FINE(MPI_Wait(&request, &status));
  TRUE_OR_FAIL(status.MPI_SOURCE == MPI_PROC_NULL);
  FINE(MPI_Ssend_init(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
  FINE(MPI_Start(&request));
  FINE(MPI_Wait(&request, &status));
  FINE(MPI_Request_free(&request));
  FINE(MPI_Sendrecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0,
                    MPI_COMM_WORLD, &status));
  FINE(MPI_Sendrecv_replace(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
  EXPECT(MPI_Sendrecv(&x, 1, MPI_DATATYPE_NULL, rank, 0, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status),
         MPI_ERR_TYPE, "'sendtype' is MPI_DATATYPE_NULL");
  EXPECT(MPI_Sendrecv_replace(&x, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, rank, 0, MPI_COMM_WORLD, &status),
         MPI_ERR_TYPE, "'datatype' is MPI_DATATYPE_NULL");
  EXPECT(MPI_Recv(&x, 1, MPI_DATATYPE_NULL, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status), MPI_ERR_TYPE,
         "'datatype' is MPI_DATATYPE_NULL");
  EXPECT(MPI_Send(&x, 1, (MPI_Datatype)MPI_SUM, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
         "is MPI_SUM, which is no datatype");

  /* Communicators: the error handler of MPI_COMM_SELF hears of it, since there is no communicator to ask. */
  EXPECT(MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, "argument 'comm' is MPI_COMM_NULL", here);
  EXPECT(MPI_Send(&x, 1, MPI_INT, 0, 0, (MPI_Comm)(void *)0x12345678), MPI_ERR_COMM, "is no communicator");
  EXPECT(MPI_Send(&x, 1, MPI_INT, 0, 0, (MPI_Comm)MPI_INT), MPI_ERR_COMM, "is MPI_INT, which is no communicator");
  {
    MPI_Comm dup, old;
    FINE(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    old = dup;
    FINE(MPI_Comm_free(&dup));
    TRUE_OR_FAIL(dup == MPI_COMM_NULL);
    EXPECT(MPI_Send(&x, 1, MPI_INT, 0, 0, old), MPI_ERR_COMM, "communicator that was freed");
  }

  /* Out-parameters. */
  EXPECT(MPI_Isend(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "argument 'request' is a null pointer");
  EXPECT(MPI_Iprobe(0, 0, MPI_COMM_WORLD, NULL, &status), MPI_ERR_ARG, "argument 'flag' is a null pointer");
  EXPECT(MPI_Get_count(&status, MPI_INT, NULL), MPI_ERR_ARG, "argument 'count'");
  EXPECT(MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &x), MPI_ERR_ARG, "argument 'status'");

  /* Requests. */
  request = (MPI_Request)(void *)0x7654321;
  EXPECT(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "argument 'request'", "is no request");
  EXPECT(MPI_Start(&requests[0]), MPI_ERR_REQUEST, "MPI_REQUEST_NULL");
  EXPECT(MPI_Cancel(&requests[0]), MPI_ERR_REQUEST, "MPI_REQUEST_NULL");
  EXPECT(MPI_Request_free(&requests[0]), MPI_ERR_REQUEST, "MPI_REQUEST_NULL");
  EXPECT(MPI_Waitall(-1, requests, statuses), MPI_ERR_COUNT, "argument 'count' is -1");
  EXPECT(MPI_Waitall(2, NULL, statuses), MPI_ERR_ARG, "argument 'array_of_requests'");
  FINE(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
  requests[1] = request;
  EXPECT(MPI_Waitall(2, requests, statuses), MPI_ERR_REQUEST, "element 1 of argument 'array_of_requests'");
  EXPECT(MPI_Testany(2, requests, &index, &flag, &status), MPI_ERR_REQUEST, "element 1");
  requests[1] = MPI_REQUEST_NULL;
  FINE(MPI_Irecv(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request));
  EXPECT(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start: the request is not persistent");
  FINE(MPI_Cancel(&request));
  {
    MPI_Request old = request;
    FINE(MPI_Wait(&request, &status));
    EXPECT(MPI_Wait(&old, &status), MPI_ERR_REQUEST, "request that was completed or freed before");
  }
  FINE(MPI_Recv_init(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request));
  FINE(MPI_Start(&request));
  EXPECT(MPI_Start(&request), MPI_ERR_REQUEST, "already active");
  FINE(MPI_Send(&y, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
  FINE(MPI_Wait(&request, &status));
  FINE(MPI_Request_free(&request));
  EXPECT(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST, "MPI_REQUEST_NULL");

  /* Truncation: blocking, nonblocking, one of many, matched. */
  {
    int two[2] = {1, 2}, one = 0;
    FINE(MPI_Isend(two, 2, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]));
    EXPECT(MPI_Recv(&one, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &status), MPI_ERR_TRUNCATE, "MPI_Recv", "8", "4");
    FINE(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));

    FINE(MPI_Irecv(&one, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &request));
    FINE(MPI_Isend(two, 2, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]));
    EXPECT(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE, "MPI_Wait");
    TRUE_OR_FAIL(request == MPI_REQUEST_NULL);
    FINE(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));

    FINE(MPI_Irecv(&one, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[1]));
    FINE(MPI_Isend(two, 2, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]));
    statuses[0].MPI_ERROR = statuses[1].MPI_ERROR = -1;
    TRUE_OR_FAIL(MPI_Waitall(2, requests, statuses) == MPI_ERR_IN_STATUS);
    TRUE_OR_FAIL(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[1].MPI_ERROR == MPI_ERR_TRUNCATE);
    TRUE_OR_FAIL(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);

    FINE(MPI_Isend(two, 2, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]));
    FINE(MPI_Mprobe(0, 5, MPI_COMM_SELF, &message, &status));
    {
      MPI_Message old = message;
      EXPECT(MPI_Mrecv(&one, 1, MPI_INT, &message, &status), MPI_ERR_TRUNCATE, "MPI_Mrecv");
      TRUE_OR_FAIL(message == MPI_MESSAGE_NULL);
      EXPECT(MPI_Mrecv(&one, 1, MPI_INT, &old, &status), MPI_ERR_REQUEST, "matched message that was freed");
    }
    EXPECT(MPI_Mrecv(&one, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST, "MPI_MESSAGE_NULL");
    FINE(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  }

  /* Attached buffers. */
  {
    char memory[1000], *back = NULL;
    int bytes = 0;
    EXPECT(MPI_Bsend(&x, 1, MPI_INT, 0, 6, MPI_COMM_SELF), MPI_ERR_BUFFER, "no buffer is attached",
           "MPI_Buffer_attach");
    EXPECT(MPI_Buffer_detach(&back, &bytes), MPI_ERR_BUFFER, "no buffer is attached");
    EXPECT(MPI_Comm_detach_buffer(MPI_COMM_WORLD, &back, &bytes), MPI_ERR_BUFFER, "no buffer is attached");
    EXPECT(MPI_Buffer_flush(), MPI_ERR_BUFFER, "no buffer is attached");
    EXPECT(MPI_Buffer_attach(memory, -1), MPI_ERR_COUNT, "argument 'size' is -1");
    FINE(MPI_Buffer_attach(memory, sizeof memory));
    EXPECT(MPI_Buffer_attach(memory, sizeof memory), MPI_ERR_BUFFER, "already a buffer");
    EXPECT(MPI_Bsend(memory, 1001, MPI_CHAR, 0, 6, MPI_COMM_SELF), MPI_ERR_BUFFER, "no room", "1001", "1000");
    FINE(MPI_Buffer_detach(&back, &bytes));
    TRUE_OR_FAIL(back == memory && bytes == (int)sizeof memory);
    EXPECT(MPI_Buffer_detach(&back, &bytes), MPI_ERR_BUFFER, "no buffer is attached"); /* twice */
  }
  return end();
}
