"""A rank is killed in the middle of a collective write: all others get an error, none waits for ever, and what earlier
accesses have written is there."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

from common import BUILD, SANITIZED_FLAGS, SLOW, environment, main, mpiexec

RANKS = 4
BLOCK = 64 * 1024
PROGRAM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { kBlock = 64 * 1024, kPiece = 4096, kPieces = 512 };

static void die(int number) { kill(getpid(), number == SIGALRM ? SIGKILL : SIGABRT); }

/* FILE METHOD MICROSECONDS KIND */
int main(int argc, char** argv) {
  int rank, size, error = MPI_SUCCESS, error_class, length;
  char text[MPI_MAX_ERROR_STRING], *data = malloc((size_t)kPiece * kPieces);
  MPI_File file;
  MPI_Info info;
  MPI_Datatype pieces;
  signal(SIGTERM, SIG_IGN); /* mpiexec ends the others politely first */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", argv[2]);
  if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file)) abort();
  memset(data, 'a' + rank, kBlock);
  if (MPI_File_write_at_all(file, (MPI_Offset)rank * kBlock, data, kBlock, MPI_BYTE, MPI_STATUS_IGNORE)) abort();
  MPI_Type_vector(kPieces, kPiece, kPiece * size, MPI_BYTE, &pieces);
  MPI_Type_commit(&pieces);
  if (MPI_File_set_view(file, (MPI_Offset)size * kBlock + rank * kPiece, MPI_BYTE, pieces, "native", MPI_INFO_NULL))
    abort();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    struct itimerval once = {{0, 0}, {0, atoi(argv[3])}};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &once, NULL);
  }
  while (!error) {
    if (argv[4][0] == 'b') {
      error = MPI_File_write_at_all(file, 0, data, kPiece * kPieces, MPI_BYTE, MPI_STATUS_IGNORE);
    } else {
      MPI_Request request;
      error = MPI_File_iwrite_at_all(file, 0, data, kPiece * kPieces, MPI_BYTE, &request);
      if (!error) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  MPI_Error_class(error, &error_class);
  MPI_Error_string(error, text, &length);
  printf("rank %d: %s: %s\n", rank, error_class == MPI_ERR_PROC_ABORTED ? "aborted" : "other", text);
  fflush(stdout);
  _exit(3);
}
"""


class Killed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        source = os.path.join(cls.holder.name, "p.c")
        cls.program = os.path.join(cls.holder.name, "p")
        with open(source, "w") as file:
            file.write(PROGRAM)
        subprocess.run([os.path.join(BUILD, "bin/mpicc"), "-w", *SANITIZED_FLAGS, source, "-o", cls.program],
                       env=environment(), check=True)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def play(self, *what):
        # mpiexec kills the others half a second later; on a busy machine not all of them have had a turn by then.
        for _ in range(4):
            told, where = self.kill_one(*what)
            if told == ["rank 0", "rank 2", "rank 3"]:
                return
        self.fail(where)

    def kill_one(self, path, method, microseconds, kind):
        name = os.path.join(self.holder.name, "data")
        began = time.monotonic()
        done = mpiexec("-n", RANKS, self.program, name, method, microseconds, kind, TERN_PATH="self," + path,
                       timeout=60)
        took = time.monotonic() - began
        where = f"{path} {method} {microseconds} us {kind}: {done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, where)
        told = [line for line in done.stdout.splitlines() if line.startswith("rank ")]
        # Who hears of it from another rank instead of the path has that rank's word.
        if len(told) == RANKS - 1:
            self.assertTrue(any(": aborted: " in line and "rank 1" in line for line in told), where)
        self.assertLess(took, 30 * SLOW, where)
        with open(name, "rb") as file:
            for rank in range(RANKS):
                self.assertEqual(file.read(BLOCK), bytes([ord("a") + rank]) * BLOCK, where)
        os.remove(name)
        return sorted(line.split(":")[0] for line in told), where

    def test_shared_memory(self):
        for method, moment, kind in (("enable", 30_000, "b"), ("enable", 70_000, "n"), ("disable", 50_000, "b"),
                                     ("disable", 20_000, "n")):
            self.play("shm", method, moment, kind)

    def test_tcp(self):
        for method, moment, kind in (("enable", 40_000, "b"), ("enable", 80_000, "n"), ("disable", 60_000, "b")):
            self.play("tcp", method, moment, kind)


if __name__ == "__main__":
    main()
