"""A token around a ring, in Python with mpi4py (built with MPICC=mpicc pip install --no-binary mpi4py mpi4py).

mpiexec -n 4 python3 ring.py
"""
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
if rank == 0:
    comm.send([0], dest=(rank + 1) % size)
    print("the token has met", comm.recv(source=size - 1))
else:
    token = comm.recv(source=rank - 1)
    comm.send(token + [rank], dest=(rank + 1) % size)
