"""What is done to a job, chosen by chance. An attack changes how the job is started (Job), or acts while it runs (act)."""
import os
import signal
import subprocess
import sys
import time

import memory_group
from common import SANITIZED, SANITIZER_NEEDS_FILES, SANITIZER_NEEDS_THREADS, marked_processes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.getuid() == 0


class Job:
    """How a job is started; attacks add to it."""

    def __init__(self, chance):
        self.chance = chance
        self.path = chance.choice(("shm", "tcp", "udp", "tcp,udp", "hybrid"))
        self.mode = chance.choice(("pingpong", "alltoall", "window", "collectives", "away"))
        self.ranks = chance.choice((1, 2, 2, 3, 3, 4, 5))
        self.seconds = 0.25
        self.options, self.variables = [], {}
        self.around_mpiexec, self.around_ranks = [], []
        self.of_one = None         # around_ranks is for one rank only: its number
        self.redirections = ""     # of mpiexec, in the shell's words
        self.may_fail = False      # a named error is a good end, too
        self.may_be_killed = False  # and the end without a word, of a signal we have sent
        self.output_is_lost = False
        self.errors_are_lost = False
        self.names = []
        self.uid = 0
        for name, values in (("TERN_PROGRESS", ("auto", "polling", "event", "adaptive")), ("TERN_SHM_CMA", ("0", "1")),
                             ("TERN_ENCRYPT", ("0", "0", "1")), ("HOSTILE_THREADS", ("", "1")),
                             ("TERN_TCP_CRC", ("0", "0", "1"))):
            value = chance.choice(values)
            if value:
                self.variables[name] = value
        self.variables.update(TERN_TCP_CONNECT_TIMEOUT_S="2", TERN_UDP_TIMEOUT_S="2", TERN_UDP_KEEPALIVE_MS="300",
                              TERN_CONFIG="")
        if chance.random() < 0.2:
            self.options += chance.choice((["-l"], ["-summary"], ["-trace", "{tmp}/../trace.json"], ["-v"]))

    def one_or_all(self):
        self.of_one = self.chance.choice((None, None, self.chance.randrange(self.ranks)))

    def command(self, mpiexec, program):
        """The words, `{tmp}` in them for the job's folder."""
        paths = ["self,shm,tcp", "self,tcp"] if self.path == "hybrid" else ["self," + self.path] * 2
        groups = []
        for rank in range(self.ranks):
            around = self.around_ranks if self.of_one in (None, rank) else []
            # Hybrid: the upper half of the ranks does without shared memory.
            group = [["-env", "TERN_PATH", paths[2 * rank >= self.ranks]], [*around, program, self.mode, str(self.seconds)]]
            if groups and groups[-1][1] == group:
                groups[-1][0] += 1
            else:
                groups.append([1, group])
        words = [mpiexec, *self.options]
        for i, (count, (options, run)) in enumerate(groups):
            words += ([":"] if i else []) + ["-n", str(count), *options, *run]
        if self.redirections:
            words = ["sh", "-c", f'exec "$@" {self.redirections}', "sh", *words]
        return [*self.around_mpiexec, *words]


def limited(command):
    return ["bash", "-c", command + '; exec "$@"', "bash"]  # not every sh has ulimit -u


class Limit:
    """A limit of descriptors, processes, addresses, file sizes; of the ranks or of mpiexec, too; hard, or soft only."""

    def __init__(self, job):
        chance = job.chance
        kinds = ["n", "n", "v", "f", "s"] + (["u", "u"] if ROOT else [])
        if SANITIZED:  # sanitizers need addresses, and TSan's runtime writes a file itself
            lacking = {"v", "f"} | ({"n"} if SANITIZER_NEEDS_FILES else set()) | ({"u"} if SANITIZER_NEEDS_THREADS else set())
            kinds = [kind for kind in kinds if kind not in lacking]
        kind = chance.choice(kinds)
        amount = {"n": lambda: chance.randrange(3, 48), "v": lambda: int(10 ** chance.uniform(4, 6)),
                  "f": lambda: chance.choice((0, 1, 100)), "s": lambda: chance.choice((64, 256, 1024)),
                  "u": lambda: chance.randrange(1, 3 * job.ranks + 4)}[kind]()
        words = limited(f"ulimit -{chance.choice(('', 'S'))}{kind} {amount}")
        if kind == "u":  # the superuser has no such limit, and it counts all processes of a user
            job.uid = 60000 + os.getpid() % 5000
            job.around_mpiexec = ["setpriv", f"--reuid={job.uid}", f"--regid={job.uid}", "--clear-groups", *words]
        elif chance.random() < 0.25:
            job.around_mpiexec = words
        else:
            job.one_or_all()
            job.around_ranks = words
        if kind == "f":  # ranks write into pipes, not into the driver's file
            job.options += ["-l"]
        job.output_is_lost = job.errors_are_lost = kind == "f" and bool(job.around_mpiexec)
        job.may_fail = True
        job.names.append(f"ulimit -{kind} {amount} of {'mpiexec' if job.around_mpiexec else 'ranks'}")


class SmallMemoryFolder:
    """No room in /dev/shm, or little (the driver's namespace has one of its own)."""

    def __init__(self, job):
        size = job.chance.choice(("4k", "64k", "1m"))
        if subprocess.run(["mount", "-o", f"remount,size={size}", "/dev/shm"], stderr=subprocess.DEVNULL).returncode == 0:
            job.names.append(f"/dev/shm of {size}")
        job.may_fail = True


class MemoryGroup:
    """A memory cgroup, where we may make one: the kernel kills what goes beyond it."""

    def __init__(self, job):
        amount = job.chance.choice((4, 8, 16, 64)) << 20
        job.around_mpiexec = limited(memory_group.join(memory_group.make("tern-hostile", amount)))
        job.may_fail = job.may_be_killed = True
        job.names.append(f"memory cgroup of {amount >> 20} MiB")

    def after(self):
        memory_group.remove("tern-hostile")

    possible = staticmethod(memory_group.possible)


class Strangers:
    def __init__(self, job):
        self.kind = job.chance.choice(("idle", "garbage", "half", "storm", "datagrams", "all"))
        self.uid = job.chance.choice((65534, 65534, 0))
        self.child = None
        job.names.append(f"strangers: {self.kind}" + ("" if self.uid else " of the same user"))

    def before(self):
        self.child = subprocess.Popen([sys.executable, os.path.join(HERE, "strangers.py"), self.kind, str(self.uid)],
                                      stdout=subprocess.PIPE)
        self.child.stdout.readline()

    def after(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


class Signal:
    """To a rank (or what stands around it), to mpiexec, or to its keeper; at any moment."""

    def __init__(self, job):
        chance = job.chance
        self.target = chance.choice(("rank", "rank", "mpiexec", "mpiexec", "keeper", "group"))
        self.signal = getattr(signal, chance.choice(("SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGSEGV", "SIGUSR1",
                                                     "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGCHLD", "SIGXCPU")))
        self.moment = chance.choice((chance.uniform(0, 0.08), chance.uniform(0.05, 0.4)))
        self.pick = chance.random()
        job.may_fail = job.may_be_killed = True
        job.names.append(f"{self.signal.name} to {self.target} after {1000 * self.moment:.0f} ms")

    def act(self, child, mark):
        time.sleep(self.moment)
        if self.target == "mpiexec":
            return send(child.pid, self.signal)
        if self.target == "group":
            try:
                os.killpg(child.pid, self.signal)
            except OSError:
                pass
            return None
        found = job_processes(child, mark, self.target)
        return send(found[int(self.pick * len(found))], self.signal) if found else None


class Pause:
    """SIGSTOP, and SIGCONT after longer than every timeout: of a rank, of all, of mpiexec."""

    seconds = 2.6

    def __init__(self, job):
        self.target = job.chance.choice(("one rank", "all ranks", "mpiexec"))
        self.moment, self.pick = job.chance.uniform(0, 0.25), job.chance.random()
        job.seconds = 0.6
        job.names.append(f"{self.target} stopped after {1000 * self.moment:.0f} ms")

    def act(self, child, mark):
        time.sleep(self.moment)
        found = [child.pid] if self.target == "mpiexec" else job_processes(child, mark, "rank")
        if self.target == "one rank" and found:
            found = [found[int(self.pick * len(found))]]
        for pid in found:
            send(pid, signal.SIGSTOP)
        if found:
            time.sleep(self.seconds)
        for pid in found:
            send(pid, signal.SIGCONT)


class Streams:
    """Closed, full, unread standard streams; of mpiexec, or of ranks."""

    def __init__(self, job):
        words, lost, silent = job.chance.choice((
            ("<&-", False, False), (">&-", True, False), ("2>&-", False, True), ("<&- >&- 2>&-", True, True),
            (">/dev/full", True, False), ("2>/dev/full", False, True), (">/dev/full 2>/dev/full", True, True),
            ("| true", True, False), ("2>&1 | true", True, True)))
        job.may_fail = True
        job.names.append(words)
        if job.chance.random() < 0.4 and "|" not in words:
            job.one_or_all()
            job.around_ranks = ["sh", "-c", f'exec "$@" {words}', "sh"]
            job.names[-1] += " of ranks"
            job.output_is_lost = lost
            job.errors_are_lost = silent
            return
        job.output_is_lost, job.errors_are_lost = lost, silent
        if "|" in words:  # a reader that leaves; the exit code is mpiexec's
            redirect = words.replace("| true", "")
            job.around_mpiexec = ["bash", "-c", f'"$@" {redirect} | true; exit ${{PIPESTATUS[0]}}', "bash"]
        else:
            job.redirections = words


class Wrapper:
    def __init__(self, job):
        words = job.chance.choice((["timeout", "100"], ["setsid", "-w"], ["sh", "-c", '"$@"; exit $?', "sh"], ["nohup"],
                                   ["nice"], ["timeout", "100", "sh", "-c", '"$@"; exit $?', "sh"], ["stdbuf", "-oL"],
                                   ["bash", "-mc", '"$@" & wait $!', "bash"], ["env", "-u", "HOME"]))
        job.one_or_all()
        job.around_ranks = words
        job.names.append(f"ranks in {' '.join(words)}")


class Clock:
    """The time of day jumps; or ranks have been started on machines that were booted at different times."""

    def __init__(self, job, library):
        job.one_or_all()
        if ROOT and job.chance.random() < 0.4:
            job.around_ranks = ["unshare", "-T", "--monotonic", str(job.chance.choice((-1, 1)) * 5000 + 10000), "--boottime",
                                "100000"]
            job.of_one = job.chance.randrange(job.ranks)
            job.names.append(f"rank {job.of_one} has another uptime")
        else:
            job.around_ranks = ["env", f"LD_PRELOAD={library}"]
            job.names.append("clock jumps")


class Interrupts:
    def __init__(self, job):
        job.variables["HOSTILE_INTERRUPTS"] = "1"
        job.names.append("interrupted calls")


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def job_processes(child, mark, kind):
    """Ids of the job's processes: "rank" (and what stands around them), "keeper"."""
    keeper = "tern-keeper"
    found = {pid: name_of(pid) for pid in marked_processes(mark) if pid != child.pid}
    return sorted(pid for pid, name in found.items()
                  if (name == keeper if kind == "keeper" else name not in (keeper, "mpiexec", "")))


def choose(job, library):
    """One attack, or two that go together."""
    # Attacks of one row use the same place (around the ranks, the streams), and are not combined.
    rows = [[Limit, Limit, Streams, Wrapper, lambda j: Clock(j, library)] + ([MemoryGroup] if MemoryGroup.possible() else []),
            [Strangers, Strangers, Interrupts, SmallMemoryFolder], [Signal, Signal, Pause]]
    chosen = [job.chance.choice(row) for row in job.chance.sample(rows, job.chance.choice((1, 1, 1, 2, 2, 3)))]
    return [attack(job) for attack in chosen]
