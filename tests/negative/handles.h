/* What the generated calls with wrong handles use (handles_emit.py): objects of every kind, right and wrong. */
#ifndef TERN_TESTS_HANDLES_H
#define TERN_TESTS_HANDLES_H

#include <mpi.h>

extern char memory[1 << 16], other_memory[1 << 16], text[4096];
extern int zeros[16], ones[16], ints_out[64], ranges[1][3], distribs[16], dargs[16], int_out, position;
extern MPI_Count large_zeros[16], large_ones[16], large_dargs[16], counts_out[64], count_out, large_position;
extern MPI_Aint aint_zeros[16], aints_out[64], aint_out, aint_position;
extern MPI_Offset offset_out;
extern MPI_Datatype types_out[64];
extern MPI_Status status, statuses[16];
extern void* pointer_out;

extern MPI_Comm comm, freed_comm, inter, cart, graph, dist_graph;
extern MPI_Group group, freed_group;
extern MPI_Datatype freed_type, uncommitted, mixed, strided, empty;
extern MPI_Op freed_op, user_op, user_op_c;
extern MPI_Info info, freed_info;
extern MPI_Errhandler freed_errhandler, comm_errhandler, win_errhandler, file_errhandler;
extern MPI_Request freed_request, persistent, partitioned_send, partitioned_receive, persistent_barrier;
extern MPI_Session session, freed_session;
extern MPI_File file, freed_file, read_only, sequential;
extern MPI_Win win, freed_win, created, dynamic, shared;
extern int comm_keyval, type_keyval, win_keyval, freed_keyval;

void nothing(void);
/* 0: this run leaves the call out. */
int begin_case(const char* label);
/* `wanted`: error classes up to -1; none of them: any, if `error`. */
void judge(int result, const int* wanted, int error);
void end_request(MPI_Request* request);
void free_request(MPI_Request* request);
void all_cases(void);

#endif
