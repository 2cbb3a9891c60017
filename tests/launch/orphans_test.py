"""Whatever a rank's program starts is gone within a second of the end of the job, however it left the rank's process
group and however the job ends."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from common import CLIENT, MPIEXEC, SLOW, environment, main, marked_processes, new_mark, wait_until_gone

# A daemon as old books make them: two forks, a session of its own, no standard streams.
DAEMON = """
import os, sys, time
if os.fork():
    os.wait()
    time.sleep(1000)
os.setsid()
if os.fork():
    os._exit(0)
for descriptor in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), descriptor)
time.sleep(1000)
"""

# {mark} is a word of the command line: some programs below have no environment.
WRAPPERS = {
    "plain": ["sh", "-c", "sleep 1000; :", "{mark}"],
    "timeout": ["timeout", "600", "sh", "-c", "sleep 1000; :", "{mark}"],
    "setsid that waits": ["setsid", "-w", "sh", "-c", "sleep 1000; :", "{mark}"],
    "setsid beside a sleep": ["sh", "-c", "setsid sh -c 'sleep 1000; :' {mark} & sleep 1000; :"],
    "shell with job control": ["bash", "-mc", "sleep 1000 & sleep 1000; :", "{mark}"],
    "two of them": ["timeout", "600", "bash", "-mc", "timeout 600 sleep 1000 & sleep 1000; :", "{mark}"],
    "no environment": ["env", "-i", "/usr/bin/timeout", "600", "/bin/sh", "-c", "sleep 1000; :", "{mark}"],
    "daemon": [sys.executable, "-c", DAEMON, "{mark}"],
    "rank in timeout": ["timeout", "600", CLIENT, "sleep", "1000", "{mark}"],
}


def command_lines(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def descendants(pid):
    """Of a process that lives, zombies not counted."""
    children = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{other}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(other))
    found, todo = [], [pid]
    while todo:
        todo += (more := children.get(todo.pop(), []))
        found += more
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Orphans(unittest.TestCase):
    def start(self, words, mark, ranks=2):
        words = [word.replace("{mark}", mark) for word in words]
        return subprocess.Popen([MPIEXEC, "-n", str(ranks), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env=environment(LAUNCH_TEST_MARK=mark))

    def settled(self, child):
        """All processes of the job, once there are no more of them than 0.2 s ago."""
        before, end = [], time.monotonic() + 20
        while time.monotonic() < end:
            now = descendants(child.pid)
            if len(now) > 2 and len(now) == len(before):
                return now
            before = now
            time.sleep(0.2)
        self.fail(f"the job does not settle: {before}")

    def all_gone(self, processes, mark, begin):
        limit = begin + 1.0 * SLOW
        while (left := [pid for pid in processes if alive(pid)]) and time.monotonic() < limit:
            time.sleep(0.01)
        left += marked_processes(mark) + command_lines(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)  # or this test would leave them itself
            except ProcessLookupError:
                pass
        return not left

    def test_every_wrapper_and_every_end(self):
        for name, words in WRAPPERS.items():
            for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
                with self.subTest(wrapper=name, how=how.name):
                    mark = new_mark()
                    child = self.start(words, mark)
                    processes = self.settled(child)
                    child.send_signal(how)
                    begin = time.monotonic()
                    code = child.wait(20)
                    self.assertTrue(self.all_gone(processes, mark, begin))
                    self.assertEqual(code, -9 if how == signal.SIGKILL else 128 + how)
                    child.communicate(timeout=20)

    def test_death_of_another_rank(self):
        for name in ("timeout", "setsid beside a sleep", "daemon", "no environment"):
            with self.subTest(wrapper=name):
                mark = new_mark()
                words = [word.replace("{mark}", mark) for word in WRAPPERS[name]]
                child = self.start(["sh", "-c", "sleep 1; kill -SEGV $$", mark, ":", "-n", "2", *words], mark, 1)
                time.sleep(0.5)
                processes = descendants(child.pid)
                code = child.wait(20)
                self.assertTrue(self.all_gone(processes, mark, time.monotonic()))
                self.assertEqual(code, 128 + signal.SIGSEGV)
                self.assertIn("SIGSEGV", child.communicate(timeout=20)[1])

    def test_end_in_order(self):
        """A rank that ends well has left a daemon."""
        mark = new_mark()
        with tempfile.TemporaryDirectory() as folder:
            gate = os.path.join(folder, "gate")  # ranks end when it is opened for writing, not after a time
            os.mkfifo(gate)
            child = self.start(["sh", "-c", "setsid sh -c 'sleep 1000; :' {mark} >/dev/null 2>&1 & : <\"$0\"", gate], mark)
            processes = self.settled(child)
            with open(gate, "w"):
                self.assertEqual(child.wait(20), 0)
        self.assertTrue(self.all_gone(processes, mark, time.monotonic()))
        self.assertEqual(child.communicate(timeout=20)[1], "")

    def test_sigterm_reaches_what_left_the_group(self):
        """Programs behind a wrapper get the polite signal, too, and the time to act on it."""
        mark = new_mark()
        trap = "trap 'echo cleaned >&2; exit 0' TERM; sleep 1000 & wait"
        child = self.start(["timeout", "600", "bash", "-c", trap, mark], mark)
        self.settled(child)
        child.terminate()
        self.assertEqual(child.wait(20), 128 + signal.SIGTERM)
        self.assertEqual(child.communicate(timeout=20)[1].count("cleaned"), 2)

    def test_everything_named_mpiexec_is_killed(self):
        """pkill -9 mpiexec takes all processes of that name: the keeper has another one, in ps and in top."""
        mark = new_mark()
        child = self.start(WRAPPERS["timeout"], mark)
        processes = self.settled(child)
        for pid in (child.pid, *processes):
            try:
                with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as line:
                    if "mpiexec" in comm.read() + line.read():
                        os.kill(pid, signal.SIGKILL)
            except FileNotFoundError:
                pass  # gone with one that was killed before
        begin = time.monotonic()
        child.wait(20)
        self.assertTrue(self.all_gone(processes, mark, begin))
        child.communicate(timeout=20)

    def test_keeper_killed_first(self):
        """Without its keeper mpiexec ends the job's processes by itself."""
        for name in ("timeout", "daemon"):
            with self.subTest(wrapper=name):
                mark = new_mark()
                child = self.start(WRAPPERS[name], mark)
                processes = self.settled(child)
                keepers = []
                for pid in processes:
                    with open(f"/proc/{pid}/comm") as comm:
                        if comm.read().strip() == "tern-keeper":
                            keepers.append(pid)
                self.assertEqual(len(keepers), 1)
                os.kill(keepers[0], signal.SIGKILL)
                time.sleep(0.2)
                self.assertIsNone(child.poll())
                child.terminate()
                begin = time.monotonic()
                self.assertEqual(child.wait(20), 128 + signal.SIGTERM)
                self.assertTrue(self.all_gone(processes, mark, begin))
                child.communicate(timeout=20)

    def test_many_helpers(self):
        """Hundreds of processes, each in a session of its own."""
        mark = new_mark()
        child = self.start(["sh", "-c", f"for i in $(seq 100); do setsid sleep 1000 {''} & done; sleep 1000; :", "{mark}"],
                           mark)
        end = time.monotonic() + 60 * SLOW
        while len(descendants(child.pid)) < 2 * 101 + 1 and time.monotonic() < end:
            time.sleep(0.1)
        processes = descendants(child.pid)
        self.assertGreater(len(processes), 200)
        child.kill()
        begin = time.monotonic()
        child.wait(20)
        self.assertTrue(self.all_gone(processes, mark, begin))
        child.communicate(timeout=20)


if __name__ == "__main__":
    main()
