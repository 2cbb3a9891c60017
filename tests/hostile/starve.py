"""A job short of descriptors, processes and threads, addresses, file sizes, memory: for every amount from none to enough it is
exact, or ends with an error that names the reason and the limit, within a bounded time.

Usage: starve.py [--every K] [-v] [WHAT...]     WHAT: see SCARCE below; by default all that are possible here
  --every K   only each K-th amount (ctest: small; by hand: 1)

overcommit changes what belongs to the whole machine. It is run only where it is named, in a machine that was booted for it:
tests/rdma/machine -e TERN_SANITIZED=emulated -- python3 tests/hostile/starve.py cgroup overcommit"""
import argparse
import collections
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launch"))
from common import (BUILD, MPIEXEC, SANITIZED, SANITIZER_NEEDS_FILES, SANITIZER_NEEDS_THREADS, SLOW, environment,  # noqa: E402
                    marked_processes, new_mark)
import memory_group  # noqa: E402
from isolation import move_to_own_namespaces, remains  # noqa: E402

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/hostile/starved"))
PATHS = ("self,shm", "self,tcp", "self,udp", "self,tcp,udp", "self,shm,tcp")
RANKS, LIMIT_S = 3, 20 * SLOW
ROOT = os.getuid() == 0
NEVER = re.compile(r"wrong:|internal error|bug in Tern|terminate called|assert|MPI_ERR_INTERN|Sanitizer")
CRASH = re.compile(r"SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL|SIGXFSZ")


class Scarce:
    """What is scarce: the amounts to try, the words around mpiexec and the ranks, what an error must say."""

    def __init__(self, amounts, named, ranks=lambda amount: [], program=lambda amount: ["none"], mpiexec=lambda amount: [],
                 variables=None, may_be_killed=False, possible=True, after=lambda: None):
        self.amounts, self.named = list(amounts), re.compile(named)
        self.ranks, self.program, self.mpiexec = ranks, program, mpiexec
        self.variables, self.may_be_killed, self.possible, self.after = variables or {}, may_be_killed, possible, after


def limited(words):
    return ["bash", "-c", f'{words}; exec "$@"', "bash"]  # not every sh has ulimit -u


def geometric(least, most, factor):
    while least < most:
        yield int(least)
        least *= factor


def another_user(amount):
    uid = 40000 + os.getpid() % 20000
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *limited(f"ulimit -u {amount}")]


def in_cgroup(amount):
    return limited(memory_group.join(memory_group.make("starve", amount)))


def set_overcommit(mode):
    with open("/proc/sys/vm/overcommit_memory", "w") as file:
        file.write(mode)


FILES = r"ulimit -n"
MEMORY = r"[mM]emory|ulimit -v|map segment|allocate"
SCARCE = {
    "descriptors": Scarce(range(0, 41), FILES, program=lambda k: ["start", str(k)]),
    "descriptors-later": Scarce(range(0, 31), FILES, program=lambda k: ["later", str(k)]),
    # So few that the loader of programs fails before a rank is there have its words.
    "ulimit-n": Scarce(range(3, 61), FILES + "|Too many open files|open shared object", ranks=lambda k: limited(f"ulimit -n {k}")),
    "ulimit-n-mpiexec": Scarce(range(4, 61), FILES + "|Too many open files|open shared object",
                               mpiexec=lambda k: limited(f"ulimit -n {k}")),
    "processes": Scarce(range(1, 15), r"ulimit -u|fork|Resource temporarily unavailable", mpiexec=another_user,
                        variables={"TERN_PROGRESS": "event"}, possible=ROOT),
    "addresses": Scarce(geometric(4000, 2_000_000, 1.02), MEMORY, ranks=lambda kb: limited(f"ulimit -v {kb}"),
                        possible=not SANITIZED),
    "file-sizes": Scarce((0, 1, 8, 64, 1000, 1_000_000, 1 << 40), r"ulimit -f", ranks=lambda blocks: limited(f"ulimit -f {blocks}"),
                         possible=SANITIZED != "thread"),  # whose runtime writes a file itself
    "shared-memory": Scarce(geometric(4096, 1 << 24, 4), MEMORY + "|No space", possible=ROOT,
                            mpiexec=lambda size: limited(f"mount -o remount,size={size} /dev/shm")),
    "shared-memory-full": Scarce((1,), MEMORY + "|No space", possible=ROOT, mpiexec=lambda _: [
        "sh", "-c", 'mount -o remount,size=64k /dev/shm; head -c 64k /dev/zero >/dev/shm/full; "$@"; code=$?; rm /dev/shm/full; '
        "exit $code", "sh"]),
    "cgroup": Scarce(geometric(1 << 20, 1 << 28, 1.3), MEMORY + "|SIGKILL", mpiexec=in_cgroup, may_be_killed=True,
                     possible=memory_group.possible(), after=lambda: memory_group.remove("starve")),
    "overcommit": Scarce(geometric(1000, 3_000_000, 1.3), MEMORY, possible=False, after=lambda: set_overcommit("0"),
                         mpiexec=lambda kb: limited(f"cd /proc/sys/vm; echo {kb} >overcommit_kbytes; echo 2 >overcommit_memory; cd -")),
}


def trial(scarce, path, amount, mark):
    """(verdict, what was said); verdicts other than "exact", "named error" and "killed by the kernel" are faults."""
    command = [*scarce.mpiexec(amount), MPIEXEC, "-n", str(RANKS), *scarce.ranks(amount), PROGRAM, *scarce.program(amount)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", start_new_session=True,
                             env=environment(TERN_PATH=path, TERN_CONFIG="", TERN_TCP_CONNECT_TIMEOUT_S="2",
                                             LAUNCH_TEST_MARK=mark, **scarce.variables))
    try:
        said, _ = child.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        for pid in [child.pid, *marked_processes(mark)]:
            subprocess.run(["kill", "-9", str(pid)], stderr=subprocess.DEVNULL)
        said, _ = child.communicate()
        return "hangs", said
    killed = scarce.may_be_killed and (child.returncode in (-9, 137))
    if NEVER.search(said):
        return "says what no job may say", said
    if CRASH.search(said):
        return "crashes", said
    if child.returncode == 0:
        return ("exact" if said.count("exact") == RANKS else "wrong, with exit code 0"), said
    if killed:
        explained = child.returncode == -9 or "memory ran out" in said  # mpiexec itself, or one of its ranks
        return ("killed by the kernel" if explained else "killed without its reason"), said
    return ("named error" if scarce.named.search(said) else f"error without its reason ({child.returncode})"), said


def gone(mark):
    """What is left of the job after a second; nothing, if all is well."""
    end = time.monotonic() + 1.0 * SLOW * max(1.0, 0.5 * os.getloadavg()[0])
    while (left := remains(mark)) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=[name for name, scarce in SCARCE.items() if scarce.possible])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("-v", action="store_true", dest="verbose")
    options = parser.parse_args()
    if reason := move_to_own_namespaces():
        print(reason)
        return 77
    if "cgroup" in options.what and not memory_group.possible():
        memory_group.mount()
    faults = 0
    lacking = {"descriptors", "descriptors-later", "ulimit-n"} if SANITIZER_NEEDS_FILES else set()
    lacking |= {"processes"} if SANITIZER_NEEDS_THREADS else set()
    for name in (name for name in options.what if name not in lacking):
        scarce = SCARCE[name]
        for which, path in enumerate(PATHS):
            counted = collections.Counter()
            # Different paths try different amounts where not all are tried; the largest is always there.
            for amount in sorted({*scarce.amounts[which % options.every::options.every], scarce.amounts[-1]}):
                mark = new_mark()
                verdict, said = trial(scarce, path, amount, mark)
                scarce.after()
                if left := gone(mark):
                    verdict = "leaves " + ", ".join(left[:5])
                good = verdict in ("exact", "named error", "killed by the kernel")
                counted[verdict] += 1
                if not good or options.verbose:
                    faults += not good
                    print(f"{name}, {path}, {amount}: {verdict}\n" + "".join(f"  | {line}\n" for line in said.splitlines()[:20]),
                          flush=True)
            if not counted["exact"]:
                faults += 1
                print(f"{name}, {path}: never enough?")
            print(f"{name}, {path}: " + ", ".join(f"{n} {verdict}" for verdict, n in counted.most_common()), flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
