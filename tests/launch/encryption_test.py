"""What who records the network sees of a job: with TERN_ENCRYPT=1 nothing that was sent, over any path; a path that cannot
encrypt refuses to start."""
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from common import BUILD, SANITIZED_FLAGS, environment, mpiexec
from isolation import move_to_own_namespaces

PATTERN = b"A sentence that only the two ranks may read."

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  static char text[200000];
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int bytes = 50; bytes < (int)sizeof text; bytes *= 60) {
    for (int i = 0; i + (int)strlen(PATTERN) < bytes && rank == 0; i += strlen(PATTERN)) memcpy(text + i, PATTERN, strlen(PATTERN));
    if (rank == 0) MPI_Send(text, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    else MPI_Recv(text, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (memcmp(text, PATTERN, strlen(PATTERN)) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  printf("exact\n");
  return MPI_Finalize();
}
"""


class Recorder:
    """Everything that crosses the loopback interface, while it is entered."""

    ALL_PROTOCOLS = 0x0003  # <linux/if_ether.h>, ETH_P_ALL

    def __enter__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.ALL_PROTOCOLS))
        self.socket.bind(("lo", 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.setblocking(False)
        self.packets, self.over = [], False
        self.thread = threading.Thread(target=self.record)
        self.thread.start()
        return self

    def record(self):
        while True:
            if select.select([self.socket], [], [], 0.1)[0]:
                self.packets.append(self.socket.recv(1 << 17))
            elif self.over:
                return

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.socket.close()

    def recorded(self):
        return b"".join(self.packets)


@unittest.skipIf(os.getuid() != 0, "packets are recorded by the root user only")
class Encryption(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = os.path.join(cls.folder.name, "program")
        with open(cls.program + ".c", "w") as file:
            file.write(f'#define PATTERN "{PATTERN.decode()}"\n' + PROGRAM)
        subprocess.run([os.path.join(BUILD, "bin", "mpicc"), *SANITIZED_FLAGS, "-O1", cls.program + ".c", "-o", cls.program],
                       check=True, env=environment())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def recorded(self, **variables):
        with Recorder() as recorder:
            result = mpiexec("-n", 2, self.program, **variables)
        self.assertEqual((result.returncode, result.stdout.count("exact")), (0, 2), result.stderr)
        self.assertGreater(len(recorder.recorded()), 180000)
        return recorder.recorded(), result.stderr

    def test_what_is_sent_does_not_show(self):
        for path in ("tcp", "udp", "udp,tcp"):
            with self.subTest(path=path):
                self.assertIn(PATTERN, self.recorded(TERN_PATH="self," + path)[0])
                self.assertNotIn(PATTERN[:16], self.recorded(TERN_PATH="self," + path, TERN_ENCRYPT="1")[0])

    def test_the_former_name(self):
        for path in ("tcp", "udp"):
            with self.subTest(path=path):
                recorded, said = self.recorded(TERN_PATH="self," + path, TERN_TCP_ENCRYPT="1")
                self.assertNotIn(PATTERN[:16], recorded)
                self.assertIn("TERN_TCP_ENCRYPT is called TERN_ENCRYPT now", said)

    def test_a_path_that_cannot(self):
        for path in ("self,rdma", "self,shm,tcp,rdma"):
            for name in ("TERN_ENCRYPT", "TERN_TCP_ENCRYPT"):
                with self.subTest(path=path, name=name):
                    result = mpiexec("-n", 2, self.program, TERN_PATH=path, **{name: "1"})
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn("TERN_ENCRYPT=1, but TERN_PATH names rdma", result.stderr)


if __name__ == "__main__":
    if reason := move_to_own_namespaces():
        print(reason)
        sys.exit(77)
    unittest.main()
