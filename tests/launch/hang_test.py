"""What mpiexec says of a job that does not go on: on request, before a timeout kills, and by itself."""
import os
import re
import select
import signal
import subprocess
import time
import unittest

import common
from common import MPIEXEC, SLOW, mpiexec, new_mark, run, start

PROGRAM = os.environ["TERN_HANG_PROGRAM"]


def page_of(child):
    """Asks mpiexec (SIGUSR1), and returns what it says: up to a pause of half a second after the page has begun."""
    child.send_signal(signal.SIGUSR1)
    said = ""
    while select.select([child.stderr], [], [], 0.5 * SLOW if "what the ranks do" in said else 30 * SLOW)[0]:
        piece = os.read(child.stderr.fileno(), 1 << 16).decode()
        if not piece:
            break
        said += piece
    return said


def asked(*words, ranks=2, after=0.7, until=(), times=1, **options):
    """Starts the program, asks mpiexec until it says all the texts of `until`, ends the job. What mpiexec has said in the
    last `times` answers. On a loaded machine the ranks may not be where they will wait, when they are asked first."""
    child = start(["-n", ranks, PROGRAM, *words], new_mark(), **options)
    child.stdout.readline()
    pages = []
    for _ in range(20):
        time.sleep(after * SLOW if not pages else 0.7)
        pages.append(page_of(child))
        if len(pages) >= times and all(text in pages[-times] for text in until):
            break
    assert child.poll() is None, "a question ends nothing: " + child.communicate()[1]
    child.terminate()
    child.communicate(timeout=20)
    return "".join(pages[-times:])


class OnRequest(unittest.TestCase):
    def test_a_wrong_tag(self):
        said = asked("wrong_tag", ranks=4, until=("ranks 1-3: waiting in MPI_Barrier on MPI_COMM_WORLD", "rank 1 has sent it"))
        self.assertIn("rank 0: waiting in MPI_Recv, called at wrong_tag", said)
        self.assertIn("ranks 1-3: waiting in MPI_Barrier on MPI_COMM_WORLD, called at wrong_tag", said)
        self.assertIn("ranks 1-3 are in MPI_Barrier, rank 0 is not", said)
        self.assertIn("rank 0 asks for a message: MPI_COMM_WORLD, source 1, tag 7, up to 4 bytes", said)
        self.assertIn("rank 1 has sent it: MPI_COMM_WORLD, source 1, tag 8, 4 bytes (tag 7 asked, tag 8 sent)", said)

    def test_a_circle(self):
        said = asked("circle", ranks=3, until=("they wait in a circle",))
        self.assertIn("rank 0 waits for rank 2, which waits for rank 1, which waits for rank 0: they wait in a circle", said)

    def test_collectives_that_do_not_match(self):
        said = asked("other_communicator", ranks=3, until=("TERN_CHECK=1", "on MPI_COMM_WORLD, called"))
        self.assertRegex(said, r"rank 0: waiting in MPI_Allreduce on the communicator of ranks 0-2 that MPI_Comm_split made at "
                               r"other_communicator \(hang_program.c:\d+\), called at")
        self.assertIn("ranks 1-2: waiting in MPI_Allreduce on MPI_COMM_WORLD, called at", said)
        self.assertNotIn("circle", said)
        self.assertNotIn("context", said)
        said = asked("other_root", ranks=2, until=("TERN_CHECK=1",), TERN_PATH="tcp")
        for rank in range(2):
            self.assertIn(f"rank {rank} is in MPI_Reduce on MPI_COMM_WORLD, root {rank}", said)

    def test_spawned_processes(self):
        said = asked("spawned", ranks=1, until=("a spawned job", "tag 5", "tag 6"))
        self.assertIn("what the ranks of a spawned job do", said)
        self.assertIn("what the ranks do", said)

    def test_a_rank_that_computes(self):
        said = asked("missing", ranks=3, times=2, after=4, until=("at compute_for_ever", "ranks 0-1 are in MPI_Barrier"))
        places = re.findall(r"rank 2: not in an MPI call, running for (\d+\.?\d*) s, at compute_for_ever", said)
        self.assertEqual(len(places), 2, said)
        for seconds in places:
            self.assertTrue(2 <= float(seconds) <= 4 * SLOW + 60, said)
        self.assertEqual(said.count("ranks 0-1 are in MPI_Barrier, rank 2 is not"), 2, said)

    def test_the_same_over_tcp_and_with_an_own_handler_of_sigusr1(self):
        said = asked("own_signal", ranks=2, until=("tag 8 sent",), TERN_PATH="tcp")
        self.assertIn("(tag 7 asked, tag 8 sent)", said)

    def test_refused(self):
        self.assertIn("cannot be asked", asked("wrong_tag", until=("cannot be asked",), TERN_HANG_REPORT="0"))

    def test_a_rank_itself(self):
        child = start(["-n", 1, "sh", "-c", f"echo $$; exec {PROGRAM} circle"], new_mark(), TERN_HANG_REPORT="1")
        pid = int(child.stdout.readline())
        child.stdout.readline()
        time.sleep(0.5 * SLOW)
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5 * SLOW)
        child.terminate()
        said = child.communicate(timeout=20)[1]
        self.assertIn("[tern rank 0] waiting in MPI_Recv for", said)
        self.assertIn("receives that no message has matched", said)

    def test_many_ranks_answer_soon(self):
        child = start(["-n", 64, PROGRAM, "circle"], new_mark())
        self.addCleanup(common.end, child)
        child.stdout.readline()
        for _ in range(10):
            time.sleep(2 * SLOW)
            begin = time.monotonic()
            page = page_of(child)
            seconds = time.monotonic() - begin
            if re.search(r"ranks 0-63: \w+ in MPI_Recv", page):
                break
        self.assertRegex(page, r"ranks 0-63: \w+ in MPI_Recv")
        # Alone 0.8 s; the ranks are 64 of so many processes that want the cores.
        self.assertLess(seconds, 12 * SLOW * max(1, os.getloadavg()[0] / 8))
        child.terminate()
        child.communicate(timeout=20)


NETWORK = """ip link set lo up
tc qdisc add dev lo root tbf rate 20mbit burst 256kb latency 200ms
"$@" & mpiexec=$!
sleep 3
tc qdisc replace dev lo root tbf rate 8bit burst 1kb latency 1ms
sleep 3
kill -USR1 $mpiexec
sleep 2
tc qdisc replace dev lo root tbf rate 4gbit burst 4mb latency 100ms
wait $mpiexec
"""


@unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/usr/sbin/tc") or os.path.exists("/sbin/tc"), "needs tc, as root")
class SilentNetwork(unittest.TestCase):
    def test_it_is_named(self):
        for path in "tcp", "udp":
            done = run(["unshare", "-n", "sh", "-c", NETWORK, "sh", MPIEXEC, "-timeout", "60", "-n", "2", PROGRAM, "long_message"],
                       TERN_PATH="self," + path, timeout=100)
            self.assertNotIn("circle", done.stderr)
            self.assertNotIn("is not received", done.stderr)
            self.assertIn("a message of rank 0 is on its way: MPI_COMM_WORLD, to rank 1", done.stderr)
            self.assertRegex(done.stderr, rf"rank 0: {path} to rank 1: .* not arrived")
            self.assertRegex(done.stderr, rf"rank [01]: {path} to rank [01]: .*; nothing was heard from its host for \d")


class BeforeATimeout(unittest.TestCase):
    def test_the_page_comes_first(self):
        done = mpiexec("-timeout", 1, "-n", 2, PROGRAM, "wrong_tag")
        self.assertEqual(done.returncode, 124)
        lines = done.stderr.splitlines()
        self.assertIn("time is up", lines[0])
        self.assertIn("what the ranks do", lines[1])
        self.assertIn("(tag 7 asked, tag 8 sent)", done.stderr)

    def test_times_are_right_on_a_loaded_machine(self):
        # The ranks sleep at their first empty poll where strangers need the cores.
        load = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
        try:
            done = mpiexec("-timeout", 6, "-n", 4, PROGRAM, "circle", TERN_OVERSUBSCRIBED="1")
        finally:
            for process in load:
                process.kill()
                process.wait()
        waits = [line for line in done.stderr.splitlines() if "nothing has come for" in line]
        self.assertTrue(waits, done.stderr)
        for line in waits:
            shortest = float(line.split("nothing has come for ")[1].split()[0])
            self.assertGreater(shortest, 2.0, done.stderr)


class ByItself(unittest.TestCase):
    """A deadlock, and pauses that are none; at the same time, since all of them mostly sleep."""

    @classmethod
    def setUpClass(cls):
        cls.begin = time.monotonic()
        cls.stuck = start(["-n", 2, PROGRAM, "circle"], new_mark())
        cls.pausing = [start(["-n", 2, PROGRAM, words, 14], new_mark()) for words in ("pause", "threads")]

    def test_a_deadlock_is_said_once_and_ends_nothing(self):
        self.assertIn("all 2 ranks wait in MPI and nothing is on its way", self.stuck.stderr.readline())
        self.assertLess(time.monotonic() - self.begin, 13 * SLOW * max(1, os.getloadavg()[0] / 4))
        time.sleep(2)
        self.assertIsNone(self.stuck.poll())
        self.stuck.terminate()
        self.assertNotIn("all 2 ranks wait", self.stuck.stderr.read())
        self.stuck.communicate(timeout=20)

    def test_no_false_alarm(self):
        for job in self.pausing:
            self.assertEqual((job.communicate(timeout=60)[1], job.returncode), ("", 0), job.args)


if __name__ == "__main__":
    common.main()
