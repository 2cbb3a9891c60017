"""Runs the program of handles_emit.py. A call that ends it is reported, and the rest is run from there on.

    python3 handles_test.py MPIEXEC PROGRAM FOLDER
"""

import os
import subprocess
import sys

mpiexec, program, folder = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
last, first, ended = os.path.join(folder, "last"), 0, []
while True:
    if os.path.exists(last):
        os.remove(last)
    run = subprocess.run([mpiexec, "-n", "2", program, str(first), last], capture_output=True, text=True, cwd=folder,
                         timeout=60, env=dict(os.environ, MPIEXEC_TIMEOUT="30"))
    print(run.stdout[-2000:])
    wrong = [line for line in run.stderr.splitlines() if ": class " in line]
    print("\n".join(wrong))
    if run.returncode == 0 or " calls\n" in run.stdout:
        break
    number, label = open(last).read().strip().split(" ", 1)
    ended.append(label)
    print(f"FAILED: {label}: the program ended with {run.returncode}:\n{run.stderr[:1500]}")
    first = int(number) + 1
    if len(ended) > 8:
        break
if ended:
    print("Calls that ended the program:\n  " + "\n  ".join(ended))
sys.exit(1 if ended or run.returncode != 0 else 0)
