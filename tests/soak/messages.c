/* Messages between drawn pairs, by all kinds of sends, receives and completions. */
#include "soak.h"

enum { kMost = 24, kOrderedTags = 30000 /* above those of messages, which may still be awaited */ };

typedef struct {
  int source, target, bytes, send, receive;
  unsigned char *data; /* of this member: what it sends, or room for what it receives */
  MPI_Request request;
} Message;

enum { kIsend, kIssend, kSendInit, kSends };
enum { kIrecv, kAnySource, kRecvInit, kMprobe, kReceives };

static void begin_send(const Place *at, Message *message, int tag) {
  void *data = message->data;
  const int bytes = message->bytes, target = message->target;
  switch (message->send) {
    case kIssend: FINE(MPI_Issend(data, bytes, MPI_BYTE, target, tag, at->comm, &message->request)); break;
    case kSendInit:
      FINE(MPI_Send_init(data, bytes, MPI_BYTE, target, tag, at->comm, &message->request));
      FINE(MPI_Start(&message->request));
      break;
    default: FINE(MPI_Isend(data, bytes, MPI_BYTE, target, tag, at->comm, &message->request)); break;
  }
}

static void begin_receive(const Place *at, Message *message, int tag) {
  void *data = message->data;
  const int bytes = message->bytes, source = message->receive == kAnySource ? MPI_ANY_SOURCE : message->source;
  if (message->receive == kRecvInit) {
    FINE(MPI_Recv_init(data, bytes, MPI_BYTE, source, tag, at->comm, &message->request));
    FINE(MPI_Start(&message->request));
  } else if (message->receive != kMprobe) {
    FINE(MPI_Irecv(data, bytes, MPI_BYTE, source, tag, at->comm, &message->request));
  }
}

static void take_probed(const Place *at, Message *message, int tag) {
  MPI_Message found;
  MPI_Status status;
  int bytes;
  FINE(MPI_Mprobe(message->source, tag, at->comm, &found, &status));
  FINE(MPI_Get_count(&status, MPI_BYTE, &bytes));
  CHECK(bytes == message->bytes);
  FINE(MPI_Mrecv(message->data, bytes, MPI_BYTE, &found, &status));
  CHECK(status.MPI_SOURCE == message->source && status.MPI_TAG == tag);
}

/* All of them, in one of the ways to complete several. */
static void complete(Place *at, int count, MPI_Request *requests) {
  MPI_Status statuses[kMost * 2];
  int indices[kMost * 2], some, flag = 0;
  switch (draw(at, 4)) {
    case 0: FINE(MPI_Waitall(count, requests, statuses)); return;
    case 1:
      for (int i = 0; i < count; i++) FINE(MPI_Waitany(count, requests, &some, &statuses[0]));
      return;
    case 2:
      while (!flag) FINE(MPI_Testall(count, requests, &flag, statuses));
      return;
    default:
      for (some = 0; some != MPI_UNDEFINED;) FINE(MPI_Waitsome(count, requests, &some, indices, statuses));
      return;
  }
}

void messages(Place *at) {
  Message list[kMost];
  MPI_Request requests[kMost * 2];
  unsigned char *copies[kMost];
  const int count = 1 + draw(at, kMost), seed = draw(at, 1 << 20), receives_first = draw(at, 2);
  const int first = at->tags;
  int pending = 0;
  at->tags = (first + kMost) % kOrderedTags;
  for (int i = 0; i < count; i++) {
    list[i] =
        (Message){draw(at, at->size), draw(at, at->size), draw_bytes(at), draw(at, kSends), draw(at, kReceives), NULL,
                  MPI_REQUEST_NULL};
    copies[i] = NULL;
  }
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < count; i++) {
      Message *one = &list[i];
      if ((round == 0) == (receives_first != 0)) {
        if (one->target != at->rank) continue;
        copies[i] = calloc(1, (size_t)one->bytes + 1);
        Message mine = *one;
        mine.data = copies[i];
        mine.request = MPI_REQUEST_NULL; /* it may be a message to itself, which is sent already */
        begin_receive(at, &mine, first + i);
        requests[pending++] = mine.request;
      } else if (one->source == at->rank) {
        one->data = malloc((size_t)one->bytes + 1);
        fill(one->data, seed + i, one->bytes);
        begin_send(at, one, first + i);
        requests[pending++] = one->request;
      }
    }
    come_late(at);
  }
  for (int i = 0; i < count; i++) {
    if (list[i].target != at->rank || list[i].receive != kMprobe) continue;
    Message mine = list[i];
    mine.data = copies[i];
    take_probed(at, &mine, first + i);
  }
  complete(at, pending, requests);
  for (int i = 0; i < pending; i++) {
    if (requests[i] != MPI_REQUEST_NULL) FINE(MPI_Request_free(&requests[i])); /* a persistent one */
  }
  for (int i = 0; i < count; i++) {
    if (copies[i]) CHECK(holds(copies[i], seed + i, list[i].bytes) && copies[i][list[i].bytes] == 0);
    free(copies[i]);
    free(list[i].data);
  }
}

/* Each member sends its neighbour messages with tags that are not asked for: they come in their order. */
void ordered_messages(Place *at) {
  const int count = 1 + draw(at, 40), stride = draw(at, at->size), seed = draw(at, 1 << 20);
  const int target = (at->rank + stride) % at->size, source = (at->rank + at->size - stride) % at->size;
  MPI_Request requests[40];
  unsigned char *sent[40];
  Place sizes = *at;
  for (int i = 0; i < count; i++) {
    const int bytes = draw_bytes(at);
    sent[i] = malloc((size_t)bytes + 1);
    fill(sent[i], seed + at->rank * 100 + i, bytes);
    FINE(MPI_Isend(sent[i], bytes, MPI_BYTE, target, kOrderedTags + i, at->comm, &requests[i]));
  }
  come_late(at);
  for (int i = 0; i < count; i++) {
    const int bytes = draw_bytes(&sizes);
    MPI_Status status;
    unsigned char *data = calloc(1, (size_t)bytes + 1);
    FINE(MPI_Recv(data, bytes, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : source, MPI_ANY_TAG, at->comm, &status));
    CHECK(status.MPI_SOURCE == source && status.MPI_TAG == kOrderedTags + i);
    CHECK(holds(data, seed + source * 100 + i, bytes));
    free(data);
  }
  FINE(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < count; i++) free(sent[i]);
  FINE(MPI_Barrier(at->comm)); /* whatever comes next would fit these receives, too */
}
