#!/usr/bin/env python3
"""Fortran on another library of the standard ABI: one that lacks most functions, one of them under its PMPI_ name, and whose handles
are addresses of objects, for which MPI_X_toint invents numbers. It is told about Fortran once, after MPI_Init,
and of the program's arguments, which Fortran does not pass."""
import os
import pathlib
import subprocess
import sys
import tempfile

build, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
if len(sys.argv) > 3:
    sys.exit(0)  # a library under a sanitizer starts with that sanitizer's alone
LIBRARY = r"""
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static struct object { int kind, number; } *objects[100];
static int made;
static MPI_User_function *reduction;
static MPI_Comm_errhandler_function *handler;
static void *make(int kind) {
  struct object *o = malloc(1 << 20);  /* far from any INTEGER */
  o->kind = kind;
  o->number = made;
  return objects[made++] = o;
}
static int number(void *handle) { return (uintptr_t)handle < 4096 ? (int)(uintptr_t)handle : 5000 + ((struct object *)handle)->number; }
static void *object(int n) { return n >= 5000 && n < 5000 + made ? (void *)objects[n - 5000] : (void *)(intptr_t)n; }
static void want(void *handle, int kind, const char *where) {
  if ((uintptr_t)handle < 4096 || ((struct object *)handle)->kind != kind) printf("%s: no handle of ours: %p\n", where, handle);
}
int PMPI_Comm_toint(MPI_Comm h) { return number(h); }
MPI_Comm PMPI_Comm_fromint(int n) { return object(n); }
int PMPI_Type_toint(MPI_Datatype h) { return number(h); }
MPI_Datatype PMPI_Type_fromint(int n) { return object(n); }
int PMPI_Op_toint(MPI_Op h) { return number(h); }
MPI_Op PMPI_Op_fromint(int n) { return object(n); }
int PMPI_Request_toint(MPI_Request h) { return number(h); }
MPI_Request PMPI_Request_fromint(int n) { return object(n); }
int PMPI_Errhandler_toint(MPI_Errhandler h) { return number(h); }
MPI_Errhandler PMPI_Errhandler_fromint(int n) { return object(n); }
int PMPI_File_toint(MPI_File h) { return number(h); }
MPI_File PMPI_File_fromint(int n) { return object(n); }
int PMPI_Info_toint(MPI_Info h) { return number(h); }
MPI_Info PMPI_Info_fromint(int n) { return object(n); }
static int ready;
int PMPI_Get_library_version(char *version, int *length) { return *length = sprintf(version, "another"), MPI_SUCCESS; }
int PMPI_Init(int *argc, char ***argv) { return ready = 1, MPI_SUCCESS; }
int PMPI_Finalize(void) { return MPI_SUCCESS; }
int PMPI_Abi_get_fortran_booleans(int size, void *yes, void *no, int *known) {
  if (!ready) puts("asked before MPI_Init");
  return *known = 0, MPI_SUCCESS;
}
int PMPI_Abi_set_fortran_booleans(int size, void *yes, void *no) { return MPI_SUCCESS; }
int PMPI_Info_create(MPI_Info *info) { return *info = make(6), MPI_SUCCESS; }
int PMPI_Info_set(MPI_Info info, const char *key, const char *value) { want(info, 6, "Info_set"); return MPI_SUCCESS; }
int PMPI_Info_create_env(int argc, char *argv[], MPI_Info *info) {
  printf("environment %d", argc);
  for (int i = 1; i < argc; ++i) printf(" <%s>", argv[i]);
  puts(argc && !argv[argc] ? "" : " no end");
  return *info = make(6), MPI_SUCCESS;
}
int PMPI_Info_free(MPI_Info *info) { return *info = MPI_INFO_NULL, MPI_SUCCESS; }
int PMPI_Abi_set_fortran_info(MPI_Info info) { want(info, 6, "Abi_set_fortran_info"); puts("told"); return MPI_SUCCESS; }
int PMPI_Comm_dup(MPI_Comm from, MPI_Comm *to) { return *to = make(1), MPI_SUCCESS; }
int PMPI_Type_contiguous(int n, MPI_Datatype from, MPI_Datatype *to) { return *to = make(2), MPI_SUCCESS; }
int PMPI_Op_create(MPI_User_function *f, int commute, MPI_Op *op) { return reduction = f, *op = make(3), MPI_SUCCESS; }
int PMPI_Reduce_local(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op) {
  want(op, 3, "Reduce_local");
  reduction((void *)in, out, &n, &type);
  return MPI_SUCCESS;
}
int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *f, MPI_Errhandler *h) { return handler = f, *h = make(4), MPI_SUCCESS; }
int PMPI_Comm_call_errhandler(MPI_Comm comm, int error) { return handler(&comm, &error), MPI_SUCCESS; }
int PMPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *r) {
  want(comm, 1, "Isend");
  return *r = make(5), MPI_SUCCESS;
}
int PMPI_Waitall(int n, MPI_Request r[], MPI_Status *s) {
  for (int i = 0; i < n; ++i) want(r[i], 5, "Waitall"), r[i] = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
int PMPI_Type_get_contents(MPI_Datatype t, int ints, int addresses, int types, int i[], MPI_Aint a[], MPI_Datatype d[]) {
  want(t, 2, "Type_get_contents");
  for (int k = 1; k < types; ++k) d[k] = (MPI_Datatype)(intptr_t)-1;  /* not part of the answer */
  return d[0] = MPI_INTEGER, MPI_SUCCESS;
}
int PMPI_Type_get_envelope_c(MPI_Datatype t, MPI_Count *ints, MPI_Count *addresses, MPI_Count *large, MPI_Count *types, int *how) {
  return *ints = 1, *addresses = *large = 0, *types = 1, *how = MPI_COMBINER_CONTIGUOUS, MPI_SUCCESS;
}
int PMPI_Comm_delete_attr(MPI_Comm comm, int key) { want(comm, 1, "Comm_delete_attr"); return MPI_SUCCESS; }
int MPI_File_close(MPI_File *file) { puts("closed"); *file = MPI_FILE_NULL; return MPI_SUCCESS; }
"""
PROGRAM = """module functions
  use mpi
  implicit none
  integer :: seen_type = 0, seen_comm = 0
contains
  subroutine add(a, b, n, type)
    integer :: n, type, a(n), b(n)
    seen_type = type
    b = a + b
  end subroutine
  subroutine failed(comm, error)
    integer :: comm, error
    seen_comm = comm
  end subroutine
end module
program other
  use functions
  implicit none
  integer :: comm, type, op, handler, file, requests(40), contents(3), ints(1), a(2) = [1, 2], b(2) = [10, 20], i, info, ierr
  integer(kind=MPI_ADDRESS_KIND) :: addresses(1)
  call MPI_Info_create_env(info, ierr)
  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Type_contiguous(2, MPI_INTEGER, type, ierr)
  call MPI_Op_create(add, .true., op, ierr)
  call MPI_Reduce_local(a, b, 2, type, op, ierr)
  print '(a, 2i3, l2)', 'sum', b, seen_type == type
  call MPI_Comm_create_errhandler(failed, handler, ierr)
  call MPI_Comm_call_errhandler(comm, 7, ierr)
  print '(a, l2)', 'comm', seen_comm == comm
  do i = 1, 40
    call MPI_Isend(a, 1, MPI_INTEGER, 0, 0, comm, requests(i), ierr)
  end do
  call MPI_Waitall(40, requests, MPI_STATUSES_IGNORE, ierr)
  print '(a, l2)', 'requests', all(requests == MPI_REQUEST_NULL)
  contents = -7
  call MPI_Type_get_contents(type, 1, 1, 3, ints, addresses, contents, ierr)
  print '(a, l2, 2i3)', 'contents', contents(1) == MPI_INTEGER, contents(2:)
  call MPI_Attr_delete(comm, 1, ierr)
  file = comm
  call MPI_File_close(file, ierr)
  print '(a, l2)', 'file', file == MPI_FILE_NULL
  call MPI_Finalize(ierr)
end program
"""
WANTED = ["closed", "comm T", "contents T -7 -7", "environment 3 <one> <two words>", "file T", "requests T", "sum 11 22 T", "told"]
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    pathlib.Path("library.c").write_text(LIBRARY)
    pathlib.Path("other.f90").write_text(PROGRAM)
    subprocess.run([build / "bin/mpifort", "-w", "other.f90", "-o", "other"], check=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-I", build / "include", "library.c", "-Wl,-soname,libmpi_abi.so.1",
                    "-o", "libmpi_abi.so.1"], check=True)
    command = ["./other", "one", "two words"]
    done = subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": scratch}, capture_output=True, text=True, timeout=60)
print(done.returncode, done.stdout, done.stderr)
sys.exit(done.returncode or sorted(done.stdout.split("\n"))[1:] != WANTED)
