#!/usr/bin/env python3
"""An array that does not fit on the stack: the report names rank, line and remedy, before the Fortran library's handler, which fails
on the full stack, has its turn."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
PROGRAM = """program overflow
  use mpi_f08
  implicit none
  integer :: rank
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  if (rank == 1) call work(3000000)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()
contains
  subroutine work(n)
    integer, intent(in) :: n
    real(8) :: values(n)
    values = 1
    print *, sum(values)
  end subroutine work
end program overflow
"""

if len(sys.argv) > 2:
    sys.exit(0)  # the sanitizers handle the signals themselves
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    pathlib.Path("overflow.f90").write_text(PROGRAM)
    subprocess.run([build / "bin/mpifort", "-g", "-fstack-arrays", "overflow.f90", "-o", "overflow"], check=True)
    done = subprocess.run(["sh", "-c", f"ulimit -s 8192; exec {build}/bin/mpiexec -n 2 ./overflow"], capture_output=True, text=True,
                          timeout=120)
print(done.returncode, done.stderr)
wanted = r"\[tern rank 1\] signal 11 .*stack overflow.*ulimit -s.*\n\[tern rank 1\]   0  work \(overflow.f90:1\d\)\n"
sys.exit(done.returncode != 139 or not re.search(wanted, done.stderr))
