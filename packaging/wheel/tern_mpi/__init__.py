"""Where the MPI library Tern lies in this environment: tern_mpi.prefix(), .library(), .command(name)."""
import pathlib
from importlib.metadata import PackageNotFoundError, distribution


def _file(ending):
    try:
        files = distribution("tern-mpi").files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.name == pathlib.PurePath(ending).name:  # the rest of the name is relative to this module's folder
            path = pathlib.Path(file.locate()).resolve()
            if path.match(ending):
                return path
    raise FileNotFoundError(f"tern_mpi: no {ending} among the files of the package tern-mpi; install it again with pip")


def library():
    """The path of libmpi_abi.so.1."""
    return _file("lib/libmpi_abi.so.1")


def prefix():
    """The folder that has Tern's bin, lib and include."""
    return library().parents[1]


def command(name):
    """The path of mpiexec, mpicc, mpicxx, mpifort or another command."""
    return _file(f"bin/{name}")
