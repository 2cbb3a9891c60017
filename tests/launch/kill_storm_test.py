"""Real MPI programs, all ranks busy, killed at random moments: nothing is left, neither process nor TCP or UDP socket nor
abstract Unix socket nor file in /dev/shm.

The test gives itself a network and a /dev/shm of its own (namespaces), so that every socket and file there is the job's.
  LAUNCH_STORM_ROUNDS   rounds for each path (default 20)
  LAUNCH_KILL_SEED      another seed for the moments
"""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from common import MPIEXEC, SLOW, environment, main, marked_processes, new_mark
from isolation import move_to_own_namespaces, network_sockets, remains, unix_sockets

ROUNDS = int(os.environ.get("LAUNCH_STORM_ROUNDS", "20"))
SEED = int(os.environ.get("LAUNCH_KILL_SEED", "1"))
STORM = os.environ.get("TERN_STORM", "")
RANKS = 4


def limit_seconds():
    """Everything is gone within a second (the promise of mpiexec), longer where others compete for the processors."""
    return SLOW * max(1.0, 0.5 * os.getloadavg()[0] / os.cpu_count())


def ranks_of(mark):
    found = []
    for pid in marked_processes(mark):
        try:
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == os.path.basename(STORM):
                    found.append(pid)
        except OSError:
            pass
    return found


class Storm(unittest.TestCase):
    def setUp(self):
        if not STORM:
            self.skipTest("TERN_STORM names no program")

    def end(self, how, child, mark, chance):
        """Ends the job in one of the ways users do; True when the signal went to mpiexec itself."""
        if how == "rank":
            ranks = ranks_of(mark)
            if ranks:
                try:
                    os.kill(chance.choice(ranks), signal.SIGKILL)
                except ProcessLookupError:
                    pass
                return False
            how = signal.SIGKILL
        # Ctrl-C reaches the whole foreground group, kill(1) only mpiexec.
        if how == signal.SIGINT and chance.random() < 0.5:
            os.killpg(child.pid, how)
        else:
            child.send_signal(how)
        return True

    def play(self, path):
        chance = random.Random(SEED)
        slowest, seen = {}, 0
        for turn in range(ROUNDS):
            how = chance.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM, "rank"))
            # Half of the moments fall into the start, the others into the storm.
            moment = chance.uniform(0, 0.08) * SLOW if chance.random() < 0.5 else chance.uniform(0.08, 0.4) * SLOW
            mark = new_mark()
            child = subprocess.Popen([MPIEXEC, "-n", str(RANKS), STORM], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                     env=environment(LAUNCH_TEST_MARK=mark, TERN_PATH="self," + path),
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            time.sleep(moment)
            if network_sockets() or unix_sockets():
                seen += 1
            begin = time.monotonic()
            direct = self.end(how, child, mark, chance)
            name = how if how == "rank" else signal.Signals(how).name
            where = f"turn {turn} of seed {SEED} over {path}: {name} after {moment * 1000:.1f} ms"
            code = child.wait(10 * SLOW)
            limit = limit_seconds()
            while remains(mark) and time.monotonic() - begin < limit:
                time.sleep(0.005)
            took = time.monotonic() - begin
            self.assertEqual(remains(mark), [], where)
            self.assertLess(took, limit, where)
            if direct and how not in (signal.SIGKILL, "rank"):  # "rank" before there is one: SIGKILL to mpiexec
                self.assertIn(code, (-how, 128 + how), where)  # killed before the handlers stood, or ended by us
            elif not direct:
                self.assertNotEqual(code, 0, where)
            slowest[name] = max(slowest.get(name, 0), took)
        # The test would say nothing if the job had never had a socket.
        self.assertGreater(seen, ROUNDS // 4)
        print(f"{path}: {ROUNDS} rounds, {seen} of them with sockets open; slowest "
              + ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in sorted(slowest.items())))

    def test_shm(self):
        self.play("shm")

    def test_tcp(self):
        self.play("tcp")

    def test_udp(self):
        self.play("udp")


if __name__ == "__main__":
    reason = move_to_own_namespaces()
    if reason:
        print(reason)
        sys.exit(77)
    main()
