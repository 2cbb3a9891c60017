/* The rooms of the soak: each function plays a drawn mixture of one kind of calls on a communicator, and checks every
 * value. All members draw the same numbers, so what a step does is known to each without a message. */
#ifndef TERN_TESTS_SOAK_H
#define TERN_TESTS_SOAK_H

#include <stdint.h>

#include "../mpi/check.h"

#define FINE(call) CHECK((call) == MPI_SUCCESS)

/* A communicator, and numbers that all its members draw alike. */
typedef struct {
  MPI_Comm comm;
  int rank, size;
  uint64_t state;
  int tags; /* used so far: a step does not take messages of the next one */
} Place;

/* The next number, from 0 to below - 1. */
int draw(Place* at, int below);
/* A size in bytes, from 0 to 256 KiB: small ones and those around the limits of protocols are more likely. */
int draw_bytes(Place* at);
/* A number of this member alone, which need not be the same elsewhere. */
int draw_own(const Place* at, int below);
/* This member comes up to a third of a millisecond late, or not. */
void come_late(Place* at);
Place place_of(MPI_Comm comm, uint64_t seed);

void messages(Place* at);
void ordered_messages(Place* at);
void collectives(Place* at);
void windows(Place* at);
void files(Place* at);
void communicators(Place* at, int depth);
/* One step of any kind. */
void step(Place* at, int depth);

#endif
