"""python -m tern_mpi: prints where things are; with the name of a command and arguments, runs it."""
import os
import sys

import tern_mpi


def main():
    if len(sys.argv) > 1:
        path = str(tern_mpi.command(sys.argv[1]))
        os.execv(path, [path] + sys.argv[2:])
    print(f"prefix:   {tern_mpi.prefix()}\nlibrary:  {tern_mpi.library()}\ninclude:  {tern_mpi.prefix() / 'include'}")
    for name in ("mpiexec", "mpicc", "mpicxx", "mpifort"):
        print(f"{name + ':':<10}{tern_mpi.command(name)}")


if __name__ == "__main__":
    main()
