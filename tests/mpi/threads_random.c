// ranks: 1 2
// paths: shm tcp
/* MPI_THREAD_MULTIPLE: random programs of several threads against a model of what must happen. Every thread has a
 * communicator of its own (of this rank alone, and of all ranks), and all share one. Short and long messages, with and
 * without wildcards, blocking or not, posted before or after their message, tested, waited for, probed, matched,
 * cancelled, truncated, buffered, synchronous, persistent, between other calls on the same communicators.
 *
 * threads_random [SEEDS [FIRST [THREADS]]] */
#include <pthread.h>

#include "check.h"

enum { kThreads = 4, kSteps = 250, kMost = 24, kTags = 3, kLong = 70000, kWindow = 20, kEach = 25 };
static int rank, size, threads = 3;
static MPI_Comm shared, own[kThreads], all[kThreads];

typedef struct {
  long seed;
  int tag, bytes;
} Message;

typedef struct {
  MPI_Request request;
  unsigned char *buffer;
  int tag, matched;
  Message message;
} Posted;

/* Messages of a rank to itself that one thread sends and receives: those that wait, and receives that wait. */
typedef struct {
  MPI_Comm comm;
  int to, base, wild, waiting, posted;
  Message messages[kMost];
  Posted receives[kMost];
} Lane;

typedef struct {
  unsigned long state;
  long seeds;
  int me;
  unsigned char *out, *in;
} Thread;

static int draw(Thread *t, int below) {
  t->state = t->state * 6364136223846793005ul + 1442695040888963407ul;
  return (int)((t->state >> 33) % (unsigned long)below);
}

static int draw_bytes(Thread *t) {
  static const int kinds[] = {0, 1, 8, 8, 8, 32, 33, 64, 200, 5000};
  return kinds[draw(t, (int)(sizeof kinds / sizeof *kinds))];
}

static int tag_of(const Lane *lane, int tag) { return tag == MPI_ANY_TAG ? MPI_ANY_TAG : lane->base + tag; }

static int draw_tag(Thread *t, const Lane *lane) {
  return lane->wild && draw(t, 3) == 0 ? MPI_ANY_TAG : draw(t, kTags);
}

static int find_waiting(const Lane *lane, int tag) {
  for (int i = 0; i < lane->waiting; i++) {
    if (tag == MPI_ANY_TAG || lane->messages[i].tag == tag) return i;
  }
  return -1;
}

static Message take(Lane *lane, int i) {
  const Message message = lane->messages[i];
  memmove(lane->messages + i, lane->messages + i + 1, (size_t)(--lane->waiting - i) * sizeof message);
  return message;
}

static int find_posted(const Lane *lane, int tag) {
  for (int i = 0; i < lane->posted; i++) {
    const Posted *p = &lane->receives[i];
    if (!p->matched && (p->tag == MPI_ANY_TAG || p->tag == tag)) return i;
  }
  return -1;
}

static void drop(Lane *lane, int i) {
  free(lane->receives[i].buffer);
  memmove(lane->receives + i, lane->receives + i + 1, (size_t)(--lane->posted - i) * sizeof *lane->receives);
}

static void check_arrived(const Lane *lane, const Message *m, const void *buffer, const MPI_Status *status) {
  int count;
  MPI_Get_count(status, MPI_BYTE, &count);
  CHECK(count == m->bytes && status->MPI_TAG == lane->base + m->tag && status->MPI_SOURCE == lane->to);
  CHECK(holds(buffer, m->seed, m->bytes));
}

static void send(Thread *t, Lane *lane) {
  Message m = {++t->seeds * kThreads + t->me, draw(t, kTags), draw_bytes(t)};
  const int posted = find_posted(lane, m.tag), tag = lane->base + m.tag;
  MPI_Request request;
  if (posted < 0 && lane->waiting == kMost) return;
  if (posted >= 0 && draw(t, 4) == 0) m.bytes = kLong;
  fill(t->out, m.seed, m.bytes);
  switch (draw(t, posted >= 0 ? 7 : 6)) {
    case 0:
      MPI_Isend(t->out, m.bytes, MPI_BYTE, lane->to, tag, lane->comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    case 1: {
      int flag = 0;
      MPI_Isend(t->out, m.bytes, MPI_BYTE, lane->to, tag, lane->comm, &request);
      while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      break;
    }
    case 2:
      if (draw(t, 8) == 0) {
        MPI_Send_init(t->out, m.bytes, MPI_BYTE, lane->to, tag, lane->comm, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        break;
      } /* fall through */
    case 6:
      if (posted >= 0) {
        MPI_Ssend(t->out, m.bytes, MPI_BYTE, lane->to, tag, lane->comm);
        break;
      } /* fall through */
    default: MPI_Send(t->out, m.bytes, MPI_BYTE, lane->to, tag, lane->comm);
  }
  if (posted >= 0) {
    lane->receives[posted].matched = 1;
    lane->receives[posted].message = m;
  } else {
    lane->messages[lane->waiting++] = m;
  }
}

static void receive(Thread *t, Lane *lane) {
  const int wanted = draw_tag(t, lane), found = find_waiting(lane, wanted), tag = tag_of(lane, wanted);
  const int source = draw(t, 3) == 0 ? MPI_ANY_SOURCE : lane->to;
  MPI_Status status;
  MPI_Message matched;
  MPI_Request request;
  int flag = 0;
  if (found < 0) {
    MPI_Iprobe(source, tag, lane->comm, &flag, &status);
    CHECK(!flag);
    return;
  }
  const Message m = take(lane, found);
  switch (draw(t, 9)) {
    case 0:
      MPI_Probe(source, tag, lane->comm, &status);
      CHECK(status.MPI_TAG == lane->base + m.tag);
      MPI_Recv(t->in, kLong, MPI_BYTE, source, tag, lane->comm, &status);
      break;
    case 1:
      MPI_Mprobe(source, tag, lane->comm, &matched, &status);
      MPI_Mrecv(t->in, kLong, MPI_BYTE, &matched, &status);
      break;
    case 2:
      MPI_Irecv(t->in, kLong, MPI_BYTE, source, tag, lane->comm, &request);
      MPI_Wait(&request, &status);
      break;
    case 3:
      MPI_Irecv(t->in, kLong, MPI_BYTE, source, tag, lane->comm, &request);
      while (!flag) MPI_Test(&request, &flag, &status);
      break;
    case 4:
      if (m.bytes > 1) {
        CHECK(MPI_Recv(t->in, m.bytes - 1, MPI_BYTE, source, tag, lane->comm, &status) == MPI_ERR_TRUNCATE);
        return;
      } /* fall through */
    default: MPI_Recv(t->in, kLong, MPI_BYTE, source, tag, lane->comm, &status);
  }
  check_arrived(lane, &m, t->in, &status);
}

static void post(Thread *t, Lane *lane) {
  if (lane->posted == kMost) return;
  Posted *p = &lane->receives[lane->posted++];
  p->tag = draw_tag(t, lane);
  p->buffer = malloc(kLong);
  const int found = find_waiting(lane, p->tag);
  p->matched = found >= 0;
  if (found >= 0) p->message = take(lane, found);
  MPI_Irecv(p->buffer, kLong, MPI_BYTE, draw(t, 3) == 0 ? MPI_ANY_SOURCE : lane->to, tag_of(lane, p->tag), lane->comm,
            &p->request);
}

static void complete_one(Thread *t, Lane *lane) {
  for (int i = 0; i < lane->posted; i++) {
    Posted *p = &lane->receives[i];
    MPI_Status status;
    int flag = 0;
    if (!p->matched || draw(t, 3) == 0) continue;
    switch (draw(t, 3)) {
      case 0: MPI_Wait(&p->request, &status); break;
      case 1:
        while (!flag) MPI_Test(&p->request, &flag, &status);
        break;
      default: {
        int index;
        MPI_Waitany(1, &p->request, &index, &status);
        CHECK(index == 0);
      }
    }
    CHECK(p->request == MPI_REQUEST_NULL);
    check_arrived(lane, &p->message, p->buffer, &status);
    drop(lane, i);
    return;
  }
}

static void complete_all(Lane *lane) {
  MPI_Request requests[kMost];
  MPI_Status statuses[kMost];
  int which[kMost], n = 0;
  for (int i = 0; i < lane->posted; i++) {
    if (!lane->receives[i].matched) continue;
    which[n] = i;
    requests[n++] = lane->receives[i].request;
  }
  MPI_Waitall(n, requests, statuses);
  for (int i = n; i-- > 0;) {
    Posted *p = &lane->receives[which[i]];
    CHECK(requests[i] == MPI_REQUEST_NULL);
    check_arrived(lane, &p->message, p->buffer, &statuses[i]);
    drop(lane, which[i]);
  }
}

static void cancel_one(Lane *lane) {
  for (int i = 0; i < lane->posted; i++) {
    Posted *p = &lane->receives[i];
    MPI_Status status;
    int flag;
    if (p->matched) continue;
    MPI_Test(&p->request, &flag, &status);
    CHECK(!flag);
    MPI_Cancel(&p->request);
    MPI_Wait(&p->request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    drop(lane, i);
    return;
  }
}

/* Other calls on the same communicator; of the shared one no collectives, which two threads must not call at a time. */
static void other(Thread *t, Lane *lane) {
  int n;
  MPI_Comm copy;
  switch (draw(t, lane->wild ? 4 : 1)) {
    case 0: MPI_Comm_size(lane->comm, &n); break;
    case 1: MPI_Barrier(lane->comm); break;
    case 2: {
      MPI_Status status;
      MPI_Comm_dup(lane->comm, &copy);
      fill(t->out, 1, 8);
      MPI_Send(t->out, 8, MPI_BYTE, 0, 7, copy);
      MPI_Recv(t->in, 8, MPI_BYTE, 0, 7, copy, &status);
      CHECK(holds(t->in, 1, 8) && status.MPI_TAG == 7);
      MPI_Comm_free(&copy);
      break;
    }
    default: {
      MPI_Request request;
      int one = 1, sum = 0;
      MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, lane->comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(sum == 1);
    }
  }
}

static void step(Thread *t, Lane *lane) {
  switch (draw(t, 16)) {
    case 0:
    case 1: post(t, lane); break;
    case 2: complete_one(t, lane); break;
    case 3: complete_all(lane); break;
    case 4:
      if (draw(t, 3) == 0) cancel_one(lane);
      break;
    case 5:
      if (draw(t, 4) == 0) other(t, lane);
      break;
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: send(t, lane); break;
    default: receive(t, lane);
  }
}

/* With the next thread of this rank, over the communicator that all share. */
static void pass_round(Thread *t, int n) {
  const int from = (t->me + threads - 1) % threads;
  unsigned char in[100], out[100];
  MPI_Request request;
  MPI_Status status;
  fill(out, t->me * 1000 + n, sizeof out);
  MPI_Isend(out, sizeof out, MPI_BYTE, rank, 1000 + t->me, shared, &request);
  MPI_Recv(in, sizeof in, MPI_BYTE, rank, 1000 + from, shared, &status);
  CHECK(holds(in, from * 1000 + n, sizeof in));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* With the same thread of another rank, which draws the same: a message that does not leave at once. */
static void exchange_long(Thread *t) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size, way = draw(t, 4);
  MPI_Comm comm = all[t->me];
  MPI_Request request;
  MPI_Status status;
  fill(t->out, t->seeds, kLong);
  if (way == 0) {
    MPI_Isend(t->out, kLong, MPI_BYTE, to, 6, comm, &request);
    MPI_Probe(MPI_ANY_SOURCE, 6, comm, &status);
    MPI_Recv(t->in, kLong, MPI_BYTE, from, 6, comm, &status);
  } else if (way == 1) {
    MPI_Issend(t->out, kLong, MPI_BYTE, to, 6, comm, &request);
    MPI_Recv(t->in, kLong, MPI_BYTE, from, MPI_ANY_TAG, comm, &status);
  } else {
    MPI_Irecv(t->in, kLong, MPI_BYTE, way == 2 ? from : MPI_ANY_SOURCE, 6, comm, &request);
    MPI_Send(t->out, kLong, MPI_BYTE, to, 6, comm);
  }
  MPI_Wait(&request, way < 2 ? MPI_STATUS_IGNORE : &status);
  CHECK(status.MPI_SOURCE == from && status.MPI_TAG == 6);
  CHECK(holds(t->in, t->seeds, kLong));
  t->seeds++;
}

/* With the same thread of another rank, which draws the same: so many messages each way. */
static void exchange(Thread *t) {
  static const int kinds[] = {8, 8, 32, 200, 3000};
  const int to = (rank + 1) % size, from = (rank + size - 1) % size, n = 1 + draw(t, kWindow);
  const int bytes = kinds[draw(t, 5)], way = draw(t, 4), wild = draw(t, 3) == 0;
  MPI_Comm comm = all[t->me];
  MPI_Request requests[2 * kWindow];
  MPI_Status statuses[2 * kWindow];
  for (int i = 0; i < n; i++) {
    if (way != 3)
      MPI_Irecv(t->in + i * bytes, bytes, MPI_BYTE, wild ? MPI_ANY_SOURCE : from, wild ? MPI_ANY_TAG : 5, comm,
                &requests[i]);
  }
  for (int i = 0; i < n; i++) {
    fill(t->out + i * bytes, t->seeds + i, bytes);
    MPI_Isend(t->out + i * bytes, bytes, MPI_BYTE, to, 5, comm, &requests[n + i]);
  }
  if (way == 0) {
    MPI_Waitall(2 * n, requests, statuses);
  } else if (way == 1) {
    for (int i = 0; i < 2 * n; i++) MPI_Wait(&requests[i], &statuses[i]);
  } else if (way == 2) {
    for (int i = 0, flag; i < 2 * n; i++) {
      do MPI_Test(&requests[i], &flag, &statuses[i]);
      while (!flag);
    }
  } else {
    for (int i = 0; i < n; i++) MPI_Recv(t->in + i * bytes, bytes, MPI_BYTE, from, 5, comm, &statuses[i]);
    MPI_Waitall(n, requests + n, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < n; i++) {
    CHECK(statuses[i].MPI_SOURCE == from && statuses[i].MPI_TAG == 5);
    CHECK(holds(t->in + i * bytes, t->seeds + i, bytes));
  }
  t->seeds += n;
}

static unsigned long seed;

static void *run(void *argument) {
  Thread t = {.me = (int)(long)argument, .seeds = 1000};
  Lane lanes[2] = {{.comm = own[t.me], .wild = 1}, {.comm = shared, .to = rank, .base = 100 * (1 + t.me)}};
  t.out = malloc(kLong);
  t.in = malloc(kLong);
  t.state = seed * 1000 + (unsigned long)t.me;
  for (int i = 0; i < kSteps; i++) {
    const int others = draw(&t, 4) == 0;
    /* What follows is drawn by all ranks alike, whatever the steps draw. */
    Thread aside = t;
    aside.state ^= (unsigned long)rank << 40;
    step(&aside, &lanes[others]);
    t.seeds = aside.seeds;
    if (i % kEach == kEach - 1) {
      pass_round(&t, i);
      t.seeds = 1000000l + i * 1000;
      exchange(&t);
      if (draw(&t, 3) == 0) exchange_long(&t);
    }
    draw(&t, 2);
  }
  for (int i = 0; i < 2; i++) {
    Lane *lane = &lanes[i];
    while (lane->waiting != 0) receive(&t, lane);
    complete_all(lane);
    while (lane->posted != 0) cancel_one(lane);
  }
  free(t.out);
  free(t.in);
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  pthread_t all_threads[kThreads];
  setenv("TERN_ENGINES", "4", 0); /* also where a rank has one core */
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long seeds = argc > 1 ? atol(argv[1]) : 8, first = argc > 2 ? atol(argv[2]) : 1;
  if (argc > 3) threads = atoi(argv[3]);
  CHECK(threads >= 1 && threads <= kThreads);
  MPI_Info no_any_tag; /* of the communicator that all threads share: each has tags of its own */
  MPI_Info_create(&no_any_tag);
  MPI_Info_set(no_any_tag, "mpi_assert_no_any_tag", "true");
  for (long s = first; s < first + seeds; s++) {
    seed = (unsigned long)s;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, s % 2 == 0 ? no_any_tag : MPI_INFO_NULL, &shared);
    for (int i = 0; i < threads; i++) {
      MPI_Comm_dup(MPI_COMM_SELF, &own[i]);
      MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
      MPI_Comm_set_errhandler(own[i], MPI_ERRORS_RETURN);
    }
    MPI_Comm_set_errhandler(shared, MPI_ERRORS_RETURN);
    for (long i = 0; i < threads; i++) pthread_create(&all_threads[i], NULL, run, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(all_threads[i], NULL);
    for (int i = 0; i < threads; i++) {
      MPI_Comm_free(&own[i]);
      MPI_Comm_free(&all[i]);
    }
    MPI_Comm_free(&shared);
  }
  MPI_Info_free(&no_any_tag);
  done();
  return 0;
}
