"""The soak: random programs (soak.c) over every path, with drawn numbers of ranks, threads, and tunables, for as long as one
likes. A wrong value, a crash, a hang or a file left behind ends it with exit code 1 and the command that shows it.

Usage: soak.py [SECONDS [FIRST_SEED]]   (default 20 s, seed 1; -v as the last word tells of each)"""
import os
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
from common import BUILD, MPIEXEC, SLOW, environment  # noqa: E402

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/soak/soak"))
PATHS = ("shm,tcp", "tcp", "udp", "tcp,udp", "udp,tcp", "shm")
LIMIT_S = 120 * SLOW
# Each is drawn once in four jobs.
TUNABLES = {"TERN_PROGRESS": ("event", "adaptive", "polling"), "TERN_OVERSUBSCRIBED": ("0", "1"), "TERN_CHECK": ("1",),
            "TERN_TCP_EAGER_BYTES": ("1024", "65536"), "TERN_SHM_CMA": ("0",), "TERN_TCP_CRC": ("1",),
            "TERN_ENCRYPT": ("1",), "TERN_RMA_LOCK": ("event-thread", "mcs", "test-and-set")}
# A design of locks that a path does not have is named, and another one used.
EXPECTED = re.compile(r"\[tern rank [0-9]+\] warning: TERN_RMA_LOCK .* used instead: [a-z-]+$")


def job_of(seed):
    """What to run: the words behind mpiexec, and the variables."""
    draw = random.Random(seed)
    ranks, threads, path = draw.choice((1, 2, 2, 3, 4, 5, 6)), draw.choice((1, 1, 2, 3)), draw.choice(PATHS)
    variables = {"TERN_PATH": "self," + path, "MPIEXEC_TIMEOUT": str(LIMIT_S), "TERN_CONFIG": ""}
    for name, values in TUNABLES.items():
        if draw.random() < 0.25:
            variables[name] = draw.choice(values)
    return ["-n", str(ranks), PROGRAM, str(seed), str(draw.choice((2, 6, 12, 40))), str(threads)], variables


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    seconds, seed = float(words[0]) if words else 20, int(words[1]) if len(words) > 1 else 1
    end, begun, counts = time.monotonic() + seconds, time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="tern-soak-") as folder:
        while time.monotonic() < end:
            job, variables = job_of(seed)
            done = subprocess.run([MPIEXEC, *job], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  env=environment(TMPDIR=folder, **variables))
            setting = " ".join(f"{name}={value}" for name, value in variables.items())
            if "-v" in sys.argv:
                print(f"{time.monotonic() - begun:.1f} s: {seed}: {setting} {' '.join(job[:2] + job[3:])}", flush=True)
            left = os.listdir(folder)
            errors = [line for line in done.stderr.splitlines() if not EXPECTED.match(line)]
            if done.returncode != 0 or done.stdout != "ok\n" or errors or left:
                print(f"{setting} {MPIEXEC} {' '.join(job)}\nexit code {done.returncode}; left: {left}\n{done.stdout}{done.stderr}")
                return 1
            counts[variables["TERN_PATH"]] = counts.get(variables["TERN_PATH"], 0) + 1
            seed += 1
    print(f"{sum(counts.values())} jobs in {time.monotonic() - begun:.0f} s: "
          + ", ".join(f"{count} over {path}" for path, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
