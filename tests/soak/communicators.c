/* A communicator made in a drawn way, something played on it, and its end. */
#include "soak.h"

enum { kDup, kIdup, kSplit, kCreateGroup, kMerged, kCart, kGraph, kWays };

static MPI_Comm merged(const Place *at) {
  MPI_Comm half, inter, made;
  if (at->size == 1) {
    FINE(MPI_Comm_dup(at->comm, &made));
    return made;
  }
  FINE(MPI_Comm_split(at->comm, at->rank % 2, at->rank, &half));
  FINE(MPI_Intercomm_create(half, 0, at->comm, 1 - at->rank % 2, 30100, &inter));
  FINE(MPI_Intercomm_merge(inter, at->rank % 2, &made));
  FINE(MPI_Comm_free(&inter));
  FINE(MPI_Comm_free(&half));
  return made;
}

/* A ring with neighbours on both sides, and what comes from them. */
static void exchange_with_neighbours(MPI_Comm ring, int bytes, int seed) {
  int rank, size;
  MPI_Comm_rank(ring, &rank);
  MPI_Comm_size(ring, &size);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  unsigned char *sent = malloc((size_t)bytes * 2 + 1), *got = calloc(1, (size_t)bytes * 2 + 1);
  fill(sent, seed + rank * 2, bytes);
  fill(sent + bytes, seed + rank * 2 + 1, bytes);
  FINE(MPI_Neighbor_alltoall(sent, bytes, MPI_BYTE, got, bytes, MPI_BYTE, ring));
  CHECK(holds(got, seed + left * 2 + 1, bytes) && holds(got + bytes, seed + right * 2, bytes));
  free(sent);
  free(got);
}

static MPI_Comm make(Place *at, int way) {
  MPI_Comm made;
  MPI_Request request;
  MPI_Group group;
  int whole[1] = {at->size}, around[1] = {1};
  switch (way) {
    case kIdup:
      FINE(MPI_Comm_idup(at->comm, &made, &request));
      collectives(at);
      FINE(MPI_Wait(&request, MPI_STATUS_IGNORE));
      return made;
    case kSplit: {
      const int parts = 1 + draw(at, 3), backwards = draw(at, 2);
      FINE(MPI_Comm_split(at->comm, at->rank % parts, backwards ? -at->rank : at->rank, &made));
      return made;
    }
    case kCreateGroup:
      MPI_Comm_group(at->comm, &group);
      FINE(MPI_Comm_create_group(at->comm, group, 7, &made));
      MPI_Group_free(&group);
      return made;
    case kMerged: return merged(at);
    case kCart: FINE(MPI_Cart_create(at->comm, 1, whole, around, 0, &made)); return made;
    case kGraph: {
      const int neighbours[2] = {(at->rank + at->size - 1) % at->size, (at->rank + 1) % at->size};
      FINE(MPI_Dist_graph_create_adjacent(at->comm, 2, neighbours, MPI_UNWEIGHTED, 2, neighbours, MPI_UNWEIGHTED,
                                          MPI_INFO_NULL, 0, &made));
      return made;
    }
    default: FINE(MPI_Comm_dup(at->comm, &made)); return made;
  }
}

void communicators(Place *at, int depth) {
  const int way = draw(at, kWays), steps = draw(at, 3), bytes = draw_bytes(at), seed = draw(at, 1 << 20);
  MPI_Comm made = make(at, way);
  Place there = place_of(made, (uint64_t)seed);
  if (way == kCart || (way == kGraph && at->size > 2)) exchange_with_neighbours(made, bytes, seed);
  for (int i = 0; i < steps && depth < 2; i++) step(&there, depth + 1);
  FINE(MPI_Comm_free(&made));
}
