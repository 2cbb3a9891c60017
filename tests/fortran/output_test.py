#!/usr/bin/env python3
"""What a program has written before its job is ended is there, also where standard output is a file, which gfortran buffers."""
import os
import pathlib
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
flags = [f"-fsanitize={name}" for name in sys.argv[2:]]
PROGRAM = """program last_words
  use mpi_f08
  implicit none
  integer :: rank
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  write (*, '(a, i0)') 'result of rank ', rank
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) call MPI_Abort(MPI_COMM_WORLD, 3)
  call MPI_Barrier(MPI_COMM_WORLD)
end program last_words
"""


def output_of(command):
    with open("output", "w+") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, timeout=120).returncode
        output.seek(0)
        return code, sorted(output.read().split("\n"))


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    pathlib.Path("last_words.f90").write_text(PROGRAM)
    subprocess.run([build / "bin/mpifort", "last_words.f90", "-o", "last_words", *flags], check=True)
    alone = output_of(["./last_words"])
    both = output_of([build / "bin/mpiexec", "-n", "2", "./last_words"])
print(alone, both)
sys.exit(alone != (3, ["", "result of rank 0"]) or both != (3, ["", "result of rank 0", "result of rank 1"]))
