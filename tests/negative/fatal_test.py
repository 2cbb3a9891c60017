#!/usr/bin/env python3
"""Fatal errors: what is printed, the exit code, and that no rank stays behind. Usage: fatal_test.py MPIEXEC PROGRAM"""

import subprocess
import sys
import time

MPIEXEC, PROGRAM = sys.argv[1:3]
failures = 0


def run(what, ranks, code, *texts):
    """`code` is the exit code wanted, or None for any but 0."""
    global failures
    begin = time.monotonic()
    done = subprocess.run([MPIEXEC, "-n", str(ranks), PROGRAM, what], capture_output=True, text=True, timeout=60)
    seconds = time.monotonic() - begin
    said = done.stdout + done.stderr
    problems = []
    if (done.returncode == 0) if code is None else (done.returncode != code):
        problems.append(f"exit code {done.returncode}, not {'an error' if code is None else code}")
    problems += [f"no {text!r} in the output" for text in texts if text not in said]
    if seconds > 10:
        problems.append(f"took {seconds:.1f} s")
    if problems:
        failures += 1
        print(f"{what} with {ranks} ranks: {'; '.join(problems)}\n{said}")


for ranks in (1, 3):
    run("rank", ranks, None, "MPI_Send: argument 'dest' is 100", f"ranks 0..{ranks - 1}", "(rank 0 in MPI_COMM_WORLD)",
        "MPI_ERRORS_ARE_FATAL")
    run("errors_abort", ranks, None, "argument 'dest' is 100", "MPI_ERRORS_ABORT")
    run("abort", ranks, 42, "MPI_Abort", "42", "'MPI_COMM_WORLD'")
    run("return", ranks, 0)
    run("always", ranks, 0, "fine")
run("before", 1, None, "MPI_Send: called before MPI_Init", "MPI_ERRORS_ARE_FATAL")
run("after", 1, None, "MPI_Barrier: called after MPI_Finalize")
print("ok" if not failures else f"{failures} failed")
sys.exit(failures != 0)
