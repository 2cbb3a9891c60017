"""A job to which one system call is forbidden (seccomp), in its ranks or in mpiexec: it is exact, or ends soon with an error that
names the call. No hang, no talk of bugs.

Usage: forbidden.py [CALL...]     by default all that forbid.c knows"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launch"))
from common import BUILD, MPIEXEC, SANITIZED, SLOW, environment  # noqa: E402

FORBID = os.path.abspath(os.path.join(BUILD, "tests/hostile/forbid"))
PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/hostile/starved"))
RANKS, LIMIT_S = 2, 60 * SLOW
NEVER = re.compile(r"wrong:|internal error|bug in Tern|terminate called|MPI_ERR_INTERN|SIGSEGV|SIGABRT")
# What mpiexec says of its own calls names what it wanted, not always the call.
OWN_WORDS = re.compile("not permitted|cannot be had|cannot set up")


def problem(call, where, path):
    """What is wrong with the job; None: nothing."""
    words = [MPIEXEC, "-n", str(RANKS)] + ([FORBID, call] if where == "ranks" else []) + [PROGRAM, "none"]
    if where == "mpiexec":
        words = [FORBID, call] + words
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                              env=environment(TERN_PATH=path))
    except subprocess.TimeoutExpired as late:
        return f"does not end within {LIMIT_S} s: {late.stderr}"
    if done.returncode == 77:
        sys.exit(77)
    said = done.stdout + done.stderr
    if NEVER.search(said):
        return said
    if done.returncode == 0:
        return None if done.stdout.count("exact") == RANKS else "ends with 0, and is not exact: " + said
    return None if call in said or (where == "mpiexec" and OWN_WORDS.search(said)) else f"does not name the call: {said}"


def quiet_leader():
    """The lowest rank of the node lacks the call and says nothing: the others' words name it all the same."""
    leader = ["sh", "-c", f"{FORBID} memfd_create {PROGRAM} none >/dev/null 2>&1; sleep 1"]
    done = subprocess.run([MPIEXEC, "-n", "1", *leader, ":", "-n", "1", PROGRAM, "none"], capture_output=True, text=True,
                          timeout=LIMIT_S, stdin=subprocess.DEVNULL, env=environment(TERN_PATH="self,shm"))
    return None if "memfd_create" in done.stderr else f"only the lowest rank names the call: {done.stderr}"


def main():
    calls = sys.argv[1:] or subprocess.run([FORBID, "-l"], capture_output=True, text=True, check=True).stdout.split()
    if "address" in SANITIZED:  # its runtime asks for the size of stacks
        calls = [call for call in calls if call != "sched_getaffinity"]
    bad = 0
    for call in calls:
        for where, path in (("ranks", "self,shm"), ("ranks", "self,tcp"), ("ranks", "self,udp"), ("mpiexec", "self,shm")):
            if words := problem(call, where, path):
                bad += 1
                print(f"{call} forbidden to {where}, {path}: {words}\n")
    if words := quiet_leader():
        bad += 1
        print(words)
    print(f"{len(calls)} system calls, {bad} problems")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
