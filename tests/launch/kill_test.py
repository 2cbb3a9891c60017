"""Whatever happens to mpiexec, at whatever moment, nothing of the job is left a second later.

The moments are drawn from a fixed seed; LAUNCH_KILL_ROUNDS sets their number, LAUNCH_KILL_SEED another seed."""
import glob
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

from common import (BUILD, CLIENT, SANITIZED_FLAGS, SLOW, environment, main, mpiexec, new_mark, run, start,
                    wait_until_gone)

ROUNDS = int(os.environ.get("LAUNCH_KILL_ROUNDS", "40"))
SEED = int(os.environ.get("LAUNCH_KILL_SEED", "1"))

DIES = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank, token = 0;
  char look[100];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&rank, &token, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  snprintf(look, sizeof look, "ls /dev/shm | grep -q '^%d:' && echo named", (int)getpid());
  if (rank == 1) system(look);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1 && argv[1][0] == 'k') kill(getpid(), SIGKILL);
  if (rank == 1 && argv[1][0] == 'a') MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
"""

# Two threads of rank 0 wait in message engines for rank 1.
ENGINES = r"""
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static MPI_Comm comms[2];
static void* await_rank_1(void* comm) {
  int token;
  MPI_Recv(&token, 1, MPI_INT, 1, 2, *(MPI_Comm*)comm, MPI_STATUS_IGNORE);
  return NULL;
}

int main(int argc, char** argv) {
  int rank, provided, token = 0;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  if (rank == 0) pthread_create(&thread, NULL, await_rank_1, &comms[1]);
  for (int i = 0; i < 100; ++i) {
    if (rank == 0) MPI_Send(&token, 1, MPI_INT, 1, 1, comms[0]);
    MPI_Recv(&token, 1, MPI_INT, 1 - rank, 1, comms[0], MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 1, comms[0]);
  }
  if (rank == 0) puts("ready"), fflush(stdout);
  if (rank == 1 && argv[1][0] == 'k') kill(getpid(), SIGKILL);
  if (rank == 1 && argv[1][0] == 'a') MPI_Abort(MPI_COMM_WORLD, 3);
  if (rank == 1 && argv[1][0] == 'l') _exit(5);
  if (rank == 1) pause();
  await_rank_1(&comms[0]);
  return MPI_Finalize();
}
"""

JOBS = (
    ["-n", 4, CLIENT, "sleep", 1000],
    ["-n", 4, CLIENT, "exchange"],
    # Ranks that start helpers of their own and ignore polite requests.
    ["-n", 2, "sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000 & wait"],
    ["-l", "-n", 3, "sh", "-c", "yes"],
    ["-n", 16, CLIENT, "nothing"],
)


def heed_interrupts():
    """A shell's background job starts with SIGINT ignored; such a mpiexec would miss one that comes before main()."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Killing(unittest.TestCase):
    def play(self, how):
        chance = random.Random(SEED)
        shared = set(glob.glob("/dev/shm/*"))
        slowest = 0
        for turn in range(ROUNDS):
            job = chance.choice(JOBS)
            # Most moments fall into the start, where there is most to get wrong (16 ranks take 20 ms).
            moment = chance.choice((chance.uniform(0, 0.01), chance.uniform(0, 0.04), chance.uniform(0, 0.3)))
            mark = new_mark()
            child = subprocess.Popen([os.path.join(os.environ["TERN_BUILD"], "bin", "mpiexec"), *map(str, job)],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     env=environment(LAUNCH_TEST_MARK=mark), preexec_fn=heed_interrupts)
            time.sleep(moment)
            child.send_signal(how)
            begin = time.monotonic()
            where = f"turn {turn} of seed {SEED}: {job} after {moment * 1000:.1f} ms"
            code = child.wait(10 * SLOW)
            self.assertTrue(wait_until_gone(mark, 1.0 * SLOW - (time.monotonic() - begin)), where)
            slowest = max(slowest, time.monotonic() - begin)
            if how != signal.SIGKILL:
                # Killed before the handlers stood, finished by itself, or ended by us.
                self.assertIn(code, (-how, 0, 128 + how), where)
        self.assertEqual(set(glob.glob("/dev/shm/tern*")) - shared, set())
        print(f"{signal.Signals(how).name}: {ROUNDS} rounds, slowest {slowest * 1000:.0f} ms")

    def test_kill_9(self):
        self.play(signal.SIGKILL)

    def test_interrupt(self):
        self.play(signal.SIGINT)

    def test_terminate(self):
        self.play(signal.SIGTERM)

    def test_keeper_killed(self):
        """The death of the keeper changes nothing while mpiexec lives."""
        mark = new_mark()
        child = start(["-n", 2, CLIENT, "sleep", 1], mark)
        time.sleep(0.3)
        with open(f"/proc/{child.pid}/task/{child.pid}/children") as file:
            children = file.read().split()
        keepers = []
        for pid in children:
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == "tern-keeper":
                    keepers.append(int(pid))
        self.assertEqual(len(keepers), 1)
        os.kill(keepers[0], signal.SIGKILL)
        out, err = child.communicate(timeout=30)
        self.assertEqual((child.returncode, err), (0, ""))
        self.assertTrue(wait_until_gone(mark, 0.5))

    def compiled(self, folder, text):
        source, program = os.path.join(folder, "killed.c"), os.path.join(folder, "killed")
        with open(source, "w") as file:
            file.write(text)
        subprocess.run([os.path.join(BUILD, "bin/mpicc"), "-w", *SANITIZED_FLAGS, source, "-o", program, "-lpthread"], check=True)
        return program

    def test_message_engines(self):
        """Threads that wait in engines of their own keep nothing alive, and leave nothing."""
        shared = set(glob.glob("/dev/shm/tern*"))
        with tempfile.TemporaryDirectory() as folder:
            program = self.compiled(folder, ENGINES)
            for how, code in (("kill", 137), ("abort", 3), ("leave", 5)):
                mark = new_mark()
                done = mpiexec("-n", 2, program, how, TERN_ENGINES="4", LAUNCH_TEST_MARK=mark)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertTrue(wait_until_gone(mark, 1.0 * SLOW), how)
            mark = new_mark()
            child = start(["-n", 2, program, "stay"], mark, TERN_ENGINES="4")
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.kill()
            child.communicate(timeout=30)
            self.assertTrue(wait_until_gone(mark, 1.0 * SLOW))
        self.assertEqual(set(glob.glob("/dev/shm/tern*")) - shared, set())

    def test_libfabrics_shared_memory(self):
        """A killed rank cannot remove what libfabric's provider shm has named after it; one that aborts need not."""
        info = run([os.path.join(BUILD, "bin", "tern-info")], TERN_OFI_PROVIDER="shm").stdout
        if not re.search(r"^  ofi +shm on .*(can|yes):", info, re.M):
            self.skipTest("libfabric has no provider shm here")
        # The kernel's numbers of processes are not used twice so soon.
        shared = set(glob.glob("/dev/shm/*:*:*"))
        with tempfile.TemporaryDirectory() as folder:
            program = self.compiled(folder, DIES)
            for how in ("kill", "abort", "end"):
                done = mpiexec("-n", 3, program, how, TERN_PATH="self,ofi", TERN_OFI_PROVIDER="shm")
                self.assertIn("named", done.stdout)  # else this test would prove nothing
                self.assertEqual(done.returncode == 0, how == "end", done.stderr)
                self.assertEqual(set(glob.glob("/dev/shm/*:*:*")) - shared, set(), how)


if __name__ == "__main__":
    main()
