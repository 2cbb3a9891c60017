"""Small MPI programs over every path, attacked and starved by a seed: limits, strangers at every socket, signals, stopped
ranks, closed and full streams, wrappers, clocks that jump (attacks.py). A job ends exact, or with an error that names its
reason, within a bounded time, and leaves nothing: no process, no socket, no file in /dev/shm or TMPDIR.

Usage: hostile.py [FIRST [COUNT]]   (seeds; -v as the last word tells of each)
The outcomes are counted; exit code 1 when a seed had another one, 77 where there are no namespaces."""
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launch"))
from common import BUILD, MPIEXEC, SLOW, environment, marked_processes, new_mark  # noqa: E402
from isolation import move_to_own_namespaces, remains  # noqa: E402
from attacks import Job, choose, send  # noqa: E402

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/hostile/hostile_program"))
CLOCK = os.path.abspath(os.path.join(BUILD, "tests/hostile/libhostile_clock.so"))
LIMIT_S = 25 * SLOW

# What no job may say, however it ends.
NEVER = re.compile(r"wrong:|internal error|bug in Tern|terminate called|assert|MPI_ERR_INTERN|Sanitizer")
# What was sent by nobody.
CRASH = re.compile(r"SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL|SIGXFSZ")


class Run:
    """One seed. `trouble`: what was wrong with it, empty when nothing was; `outcome`: its name for the statistics."""

    def __init__(self, seed):
        self.trouble, self.outcome, self.seconds = "", "", 0.0
        self.folder = tempfile.mkdtemp(prefix="tern-hostile-")
        os.chmod(self.folder, 0o777)
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        os.chmod(self.temporary, 0o777)
        subprocess.run(["mount", "-o", "remount,size=50%", "/dev/shm"], stderr=subprocess.DEVNULL)
        self.job = Job(random.Random(seed))
        self.attacks = choose(self.job, CLOCK)
        self.mark = new_mark()
        self.what = f"{self.job.ranks} ranks, {self.job.path}, {self.job.mode}; " + "; ".join(self.job.names)
        self.command = [word.replace("{tmp}", self.temporary) for word in self.job.command(MPIEXEC, PROGRAM)]
        try:
            self.play()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def said(self, name):
        with open(os.path.join(self.folder, name), errors="replace") as file:
            return file.read()

    def play(self):
        with open(os.path.join(self.folder, "out"), "w") as out, open(os.path.join(self.folder, "err"), "w") as err:
            for attack in self.attacks:
                getattr(attack, "before", lambda: None)()
            begin = time.monotonic()
            child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                                     cwd=self.folder,
                                     env=environment(LAUNCH_TEST_MARK=self.mark, TMPDIR=self.temporary, **self.job.variables))
            for attack in self.attacks:
                if hasattr(attack, "act"):
                    attack.act(child, self.mark)
            try:
                code = child.wait(max(1, begin + LIMIT_S - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
                self.end(child)
            self.seconds = time.monotonic() - begin
        for attack in self.attacks:
            getattr(attack, "after", lambda: None)()
        self.judge(code)
        self.look_for_remains()

    def end(self, child):
        """A hang: the ranks say what they wait for, then everything goes."""
        for pid in marked_processes(self.mark):
            if pid != child.pid:
                send(pid, signal.SIGUSR1)
        time.sleep(0.5)
        for number in (signal.SIGTERM, signal.SIGKILL):
            send(child.pid, number)
            time.sleep(1)
        child.wait()
        for pid in marked_processes(self.mark):
            send(pid, signal.SIGKILL)

    def judge(self, code):
        job, out, err = self.job, self.said("out"), self.said("err")
        both = out + err
        sent = [attack.signal for attack in self.attacks if hasattr(attack, "signal")]
        crash = CRASH.search(both)
        if code is None:
            self.trouble = "hangs"
        elif NEVER.search(both):
            self.trouble = "says what no job may say"
        elif crash and not any(number.name == crash[0] for number in sent):
            self.trouble = "crashes"
        elif code == 0:
            self.outcome = "exact"
            if not job.output_is_lost and out.count("exact") != job.ranks:
                self.trouble = "is not exact, with exit code 0"
        elif not job.may_fail:
            self.trouble = "fails without a reason"
        elif sent and (code < 0 or code > 128):
            self.outcome = "ended by a signal"
        elif job.may_be_killed and code in (-9, 137):
            self.outcome = "killed by the kernel"
        else:
            self.outcome = "named error"
            if not err.strip() and not job.errors_are_lost:
                self.trouble = "fails without a word"
        if self.trouble:
            self.trouble += f" (exit code {code})\n" + "\n".join("    | " + line for line in both.splitlines()[:40])

    def look_for_remains(self):
        end = time.monotonic() + 1.0 * SLOW * max(1.0, 0.5 * os.getloadavg()[0])
        while (left := remains(self.mark)) and time.monotonic() < end:
            time.sleep(0.01)
        left += [os.path.join(self.temporary, name) for name in os.listdir(self.temporary)]
        if left:
            self.trouble += "\n  leaves " + ", ".join(left[:10])
            for pid in marked_processes(self.mark):
                send(pid, signal.SIGKILL)
            for name in os.listdir("/dev/shm"):
                os.unlink(os.path.join("/dev/shm", name))


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    first = int(words[0]) if words else 0
    count = int(words[1]) if len(words) > 1 else 1 if words else 50
    reason = move_to_own_namespaces()
    if reason:
        print(reason)
        return 77
    outcomes, failed, slowest = collections.Counter(), [], (0.0, 0)
    for seed in range(first, first + count):
        run = Run(seed)
        outcomes["another" if run.trouble else run.outcome] += 1
        slowest = max(slowest, (run.seconds, seed))
        if run.trouble:
            failed.append(seed)
            print(f"seed {seed}: {run.what}\n  {' '.join(run.command)}\n  {run.trouble}", flush=True)
        elif "-v" in sys.argv:
            print(f"seed {seed}: {run.what}: {run.outcome}, {run.seconds:.2f} s", flush=True)
    print(", ".join(f"{number} {name}" for name, number in outcomes.most_common())
          + f"; slowest {slowest[0]:.1f} s (seed {slowest[1]})")
    if failed:
        print("seeds that failed:", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
