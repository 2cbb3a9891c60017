"""The n-th allocation of a rank fails: the job goes on and is exact, or ends with an error that says so. Never by an
exception that nobody catches, never by a crash, never not at all.

Usage: allocations.py [--all] [PATH...]   (default: shm tcp udp; --all: every n, not one for each place that allocates)
  --from N   only the N-th and later
  --every K  only each K-th of them
  -v         tell of each"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launch"))
from common import BUILD, MPIEXEC, SLOW, environment  # noqa: E402

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/hostile/hostile_short_of_memory"))
ALLOCATOR = os.path.abspath(os.path.join(BUILD, "tests/hostile/libhostile_allocator.so"))
RANKS, LIMIT_S = 2, 20 * SLOW
BAD = re.compile(r"wrong:|internal error|bug in Tern|terminate called|assert|SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL|Sanitizer")


def job(path, rank, words=(), **variables):
    """(exit code, None for a hang; what was said)"""
    command = [MPIEXEC, "-timeout", str(LIMIT_S), "-n", str(RANKS), "-env", "LD_PRELOAD", ALLOCATOR, PROGRAM, *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=2 * LIMIT_S,
                          env=environment(TERN_PATH="self," + path, FAIL_RANK=str(rank), TERN_CONFIG="", **variables))
    return (None if done.returncode == 124 else done.returncode), done.stdout


def places(path, rank):
    """For each allocation of a run without failures a number for where it comes from."""
    with tempfile.NamedTemporaryFile("r") as file:
        code, said = job(path, rank, FAIL_STACKS=file.name)
        if code != 0:
            sys.exit(f"{path}: the program without failures ends with {code}: {said}")
        return file.read().split()


def chosen(found, everything):
    """Of each place the first allocation and one of the others; a few beyond the last."""
    if everything:
        return range(1, len(found) + 3)
    by_place = collections.defaultdict(list)
    for n, place in enumerate(found, 1):
        by_place[place].append(n)
    chance = random.Random(1)
    return sorted({n for all_n in by_place.values() for n in (all_n[0], chance.choice(all_n))} | {len(found) + 2})


def trial(path, rank, n, all_after, words):
    variables = {"FAIL_AT": str(n), "FAIL_TRACE": "1", "TERN_PROGRESS": "event" if n % 5 == 0 else "auto"}
    if all_after:
        variables["FAIL_ALL"] = "1"
    code, said = job(path, rank, words, **variables)
    if code is None:
        verdict = "hangs"
    elif BAD.search(said):
        verdict = "crashes"
    elif code == 0:
        verdict = "exact" if said.count("exact") == RANKS else "wrong"
    else:
        verdict = "error" if "emory" in said else "error that does not name memory"
    return verdict, code, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", default=["shm", "tcp", "udp"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("-v", action="store_true", dest="verbose")
    options = parser.parse_args()
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in options.paths:
            for rank in range(RANKS):
                found = places(path, rank)
                trials = []
                for n in [n for n in chosen(found, options.all) if n >= options.first][::options.every]:
                    # By turns: errors are fatal, or returned; one allocation fails, or all from then on.
                    words, all_after = (["return"] if n % 2 else []), n % 3 == 0
                    trials.append((n, all_after, words, pool.submit(trial, path, rank, n, all_after, words)))
                counted = collections.Counter()
                for n, all_after, words, future in trials:
                    verdict, code, said = future.result()
                    counted[verdict] += 1
                    if verdict not in ("exact", "error") or options.verbose:
                        lines = "\n".join("  | " + line for line in said.splitlines()[:30])
                        print(f"{path}, rank {rank}, allocation {n}{' and all after it' if all_after else ''} {words}: {verdict} "
                              f"(exit code {code})\n{lines}", flush=True)
                bad += sum(number for verdict, number in counted.items() if verdict not in ("exact", "error"))
                print(f"{path}, rank {rank}: {len(found)} allocations in {len(set(found))} places, {len(trials)} failed: "
                      + ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common()), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
