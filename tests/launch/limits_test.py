"""A rank short of what the system gives (descriptors, file sizes, addresses): it works, or says which limit and what to do."""
import os
import subprocess
import tempfile
import unittest

from common import BUILD, SANITIZED, SANITIZED_FLAGS, environment, main, mpiexec

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, in = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 10; ++i) {
    const int out = rank * 1000 + i, left = (rank + size - 1) % size;
    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 7, &in, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (in != left * 1000 + i) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  printf("exact\n");
  return MPI_Finalize();
}
"""

FORK = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
/* A child of a rank ends in every way a process can; the rank goes on. */
static void talk(MPI_Comm comm) {
  int rank, size, in = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &in, 1, MPI_INT, (rank + size - 1) % size, 7, comm, MPI_STATUS_IGNORE);
  if (in != (rank + size - 1) % size) MPI_Abort(comm, 3);
}
static void bear_children(void) {
  for (int how = 0; how < 4; ++how) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
      if (how == 0) exit(0);
      if (how == 1) _exit(0);
      if (how == 2) { execlp("true", "true", (char *)0); _exit(1); }
      signal(SIGSEGV, SIG_DFL);
      raise(SIGSEGV);
    }
    int status;
    waitpid(child, &status, 0);
  }
}
int main(void) {
  for (int round = 0; round < 2; ++round) {  /* the second while the first session's connections are kept */
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "fork", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    talk(comm);
    bear_children();
    talk(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    bear_children();
  }
  printf("exact\n");
  return 0;
}
"""

PATHS = ("shm", "tcp", "udp")


class Limits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, text in (("ring", PROGRAM), ("forks", FORK)):
            source = os.path.join(cls.folder.name, name + ".c")
            with open(source, "w") as file:
                file.write(text)
            subprocess.run([os.path.join(BUILD, "bin", "mpicc"), *SANITIZED_FLAGS, "-O1", source, "-o", source[:-2]],
                           check=True, env=environment())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ring(self, limit, path):
        result = mpiexec("-n", 3, "sh", "-c", limit + '; exec "$0"', os.path.join(self.folder.name, "ring"), TERN_PATH=path)
        return result, result.stdout.count("exact")

    def test_open_files(self):
        """From too few to plenty: nothing in between is a hang, or another reason."""
        worked = set()
        for path in PATHS:
            for files in (4, 5, 6, 8, 11, 14, 18, 24, 32, 40, 64):
                with self.subTest(path=path, files=files):
                    result, exact = self.ring(f"ulimit -n {files}", path)
                    if result.returncode == 0:
                        self.assertEqual(exact, 3)
                        worked.add(path)
                    else:
                        self.assertIn("ulimit -n", result.stderr + result.stdout)
                        self.assertNotIn("internal error", result.stderr)
        self.assertEqual(worked, set(PATHS))

    def test_the_soft_limit_of_open_files_is_raised(self):
        for path in PATHS:
            result, exact = self.ring("ulimit -Sn 12", path)
            self.assertEqual((result.returncode, exact), (0, 3), result.stderr)

    @unittest.skipIf(SANITIZED == "thread", "its runtime writes a file itself")
    def test_file_sizes(self):
        """A limit for the program's own files is none for the memory that ranks share."""
        for path in PATHS:
            with self.subTest(path=path):
                result, exact = self.ring("ulimit -Sf 0", path)
                self.assertEqual((result.returncode, exact), (0, 3), result.stderr)
                result, exact = self.ring("ulimit -f 1", path)
                if path == "shm":
                    self.assertIn("ulimit -f", result.stderr)
                    self.assertNotIn("SIGXFSZ", result.stderr)
                else:
                    self.assertEqual((result.returncode, exact), (0, 3), result.stderr)

    @unittest.skipIf(SANITIZED, "sanitizers need terabytes of addresses")
    def test_addresses(self):
        for path in PATHS:
            for kilobytes in (20_000, 40_000, 400_000):
                with self.subTest(path=path, kilobytes=kilobytes):
                    result, exact = self.ring(f"ulimit -v {kilobytes}", path)
                    if result.returncode == 0:
                        self.assertEqual(exact, 3)
                    else:
                        said = result.stderr + result.stdout
                        self.assertTrue("emory" in said or "ulimit -v" in said, said)

    def test_forked_children(self):
        for path in PATHS:
            with self.subTest(path=path):
                result = mpiexec("-n", 2, os.path.join(self.folder.name, "forks"), TERN_PATH=path)
                self.assertEqual((result.returncode, result.stdout.count("exact")), (0, 2), result.stderr)


if __name__ == "__main__":
    main()
