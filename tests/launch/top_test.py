"""mpiexec --top shows what the ranks of a running job do: who is in MPI and where, rates, memory; on a terminal a screen with keys. Jobs
of other users are not shown."""
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import time
import unittest
from pathlib import Path

from common import BUILD, MPIEXEC, SANITIZED, SLOW, environment, main, new_mark, run, start, wait_until_gone

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/launch/planted_program"))


class Top(unittest.TestCase):
    def job(self, case, ranks, steps=1000000):
        mark = new_mark()
        child = start(["-n", ranks, PROGRAM, case, steps], mark)

        def end():
            child.terminate()
            child.communicate(timeout=20 * SLOW)
            wait_until_gone(mark, 5 * SLOW)
        self.addCleanup(end)
        return child

    def top(self, child, tries=20):
        for _ in range(tries):
            done = run([MPIEXEC, "--top", str(child.pid)])
            if done.returncode == 0:
                return done.stdout
            time.sleep(0.1)
        self.fail(done.stderr)

    def row(self, text, rank):
        return re.search(rf"^ +{rank} .*$", text, re.M)[0]

    def test_who_waits_and_where(self):
        child = self.job("late_sender", 2)
        text = self.top(child)
        self.assertIn("2 ranks here", text)
        # Rank 1 waits for rank 0 all the time, which sleeps.
        for _ in range(10):
            waits = self.row(text, 1)
            if "MPI_Recv" in waits or "asleep in MPI" in waits:
                break
            text = self.top(child)
        self.assertRegex(waits, r"MPI_Recv|asleep in MPI")
        self.assertLess(float(self.row(text, 0).split()[4]), 60)
        self.assertGreater(float(self.row(text, 0).split()[5]), 10)  # messages a second
        self.assertGreater(float(self.row(text, 1).split()[7]), 1)  # MiB

    def test_a_rank_that_shows_nonsense(self):
        """What a faulty program has written into its page neither ends a rank nor reaches the terminal."""
        child = self.job("polling", 2)
        process = int(self.row(self.top(child), 1).split()[3])
        page = next(file for file in Path(f"/proc/{process}/fd").iterdir() if "memfd:tern-rank" in os.readlink(file))
        with open(page, "r+b", buffering=0) as file:
            file.seek(24)  # base/rank_page.h: what signal to send; the host
            file.write(struct.pack("=i", signal.SIGKILL) + b"\x1b[2J" + b"\xff" * 59)
        for _ in range(3):
            text = self.top(child)
            self.assertNotIn("\x1b", text)
            self.assertIn("?[2J", self.row(text, 1))
        self.assertIsNone(child.poll())

    def test_place_of_a_rank_that_runs(self):
        child = self.job("polling", 2)
        for _ in range(20):
            text = self.top(child)
            if "MPI_Test at polling (planted_program.c:" in self.row(text, 1):
                return
        self.fail(text)

    def test_screen(self):
        child = self.job("late_sender", 2)
        self.top(child)
        screen, other = pty.openpty()
        shown = subprocess.Popen([MPIEXEC, "--top", str(child.pid)], stdin=other, stdout=other, stderr=other,
                                 env=environment(TERM="xterm", LINES="24", COLUMNS="150"), close_fds=True)
        os.close(other)
        text, until, typed = b"", time.monotonic() + 30 * SLOW, False
        while time.monotonic() < until and shown.poll() is None:
            if select.select([screen], [], [], 0.2)[0]:
                try:
                    text += os.read(screen, 65536)
                except OSError:
                    break
            if not typed and b"2 ranks here" in text:
                os.write(screen, b"sq")
                typed = True
        self.assertEqual(shown.wait(10), 0)
        os.close(screen)
        self.assertTrue(typed, text)
        self.assertIn(b"q quit", text)

    def test_which_job(self):
        done = run([MPIEXEC, "--top", "1"])
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "no job of yours|is no mpiexec of yours")
        self.assertEqual(run([MPIEXEC, "--top", "nonsense"]).returncode, 2)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "becomes another user")
    def test_not_of_other_users(self):
        child = self.job("late_sender", 2)
        self.top(child)
        done = run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", MPIEXEC, "--top", str(child.pid)])
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertNotIn(str(child.pid) + "  ", done.stderr)

    @unittest.skipIf(SANITIZED, "slow")
    def test_goes_on_undisturbed(self):
        """The ranks of a job that is looked at end as they would."""
        mark = new_mark()
        child = start(["-n", 2, PROGRAM, "polling", 2000], mark)
        while child.poll() is None:
            run([MPIEXEC, "--top", str(child.pid)])
        self.assertEqual(child.wait(), 0)
        child.communicate()


if __name__ == "__main__":
    main()
