/* A random program of messages, collectives, windows, files, communicators and threads, which checks every value.
 * Usage: soak SEED STEPS THREADS   (soak.py draws them, and the paths and tunables; all ranks get the same)
 */
#include <pthread.h>
#include <unistd.h>

#include "soak.h"

int draw(Place *at, int below) {
  at->state = at->state * 6364136223846793005ul + 1442695040888963407ul;
  return (int)((at->state >> 33) % (uint64_t)below);
}

int draw_bytes(Place *at) {
  static const int limits[] = {0, 8, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144};
  const int limit = limits[draw(at, 12)];
  switch (draw(at, 3)) {
    case 0: return limit;
    case 1: return limit + draw(at, 3);
    default: return draw(at, limit + 1);
  }
}

int draw_own(const Place *at, int below) {
  Place own = *at;
  own.state ^= (uint64_t)(at->rank + 1) * 0x9e3779b97f4a7c15ul;
  draw(&own, 2);
  return draw(&own, below);
}

void come_late(Place *at) {
  if (draw(at, 4) == 0) usleep((useconds_t)draw_own(at, 300));
}

Place place_of(MPI_Comm comm, uint64_t seed) {
  Place at = {comm, 0, 0, seed * 0xbf58476d1ce4e5b9ul + 1, 0};
  MPI_Comm_rank(comm, &at.rank);
  MPI_Comm_size(comm, &at.size);
  for (int i = 0; i < 4; i++) draw(&at, 2);
  return at;
}

void step(Place *at, int depth) {
  come_late(at);
  switch (draw(at, 12)) {
    case 0:
    case 1:
    case 2: messages(at); break;
    case 3: ordered_messages(at); break;
    case 4:
    case 5:
    case 6: collectives(at); break;
    case 7:
    case 8: windows(at); break;
    case 9: files(at); break;
    default: communicators(at, depth); break;
  }
}

static int steps;

static void *play(void *place) {
  for (int i = 0; i < steps; i++) step(place, 0);
  return NULL;
}

enum { kMaxThreads = 4 };

int main(int count, char **words) {
  if (count != 4) {
    fprintf(stderr, "usage: soak SEED STEPS THREADS\n");
    return 2;
  }
  const uint64_t seed = strtoull(words[1], NULL, 10);
  const int threads = atoi(words[3]);
  steps = atoi(words[2]);
  int provided;
  MPI_Init_thread(NULL, NULL, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &provided);
  CHECK(threads >= 1 && threads <= kMaxThreads);
  Place places[kMaxThreads];
  pthread_t running[kMaxThreads];
  for (int i = 0; i < threads; i++) {
    MPI_Comm own;
    FINE(MPI_Comm_dup(MPI_COMM_WORLD, &own));
    places[i] = place_of(own, seed * kMaxThreads + (uint64_t)i);
  }
  for (int i = 1; i < threads; i++) CHECK(pthread_create(&running[i], NULL, play, &places[i]) == 0);
  play(&places[0]);
  for (int i = 1; i < threads; i++) pthread_join(running[i], NULL);
  for (int i = 0; i < threads; i++) FINE(MPI_Comm_free(&places[i].comm));
  done();
  return 0;
}
