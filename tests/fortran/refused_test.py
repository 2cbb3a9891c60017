#!/usr/bin/env python3
"""What the modules are for: calls with wrong arguments do not compile (refused_cases.txt), the right ones do."""
import pathlib
import re
import subprocess
import sys
import tempfile

compiler, modules = sys.argv[1:3]
cases = [line.split("|") for line in (pathlib.Path(__file__).parent / "refused_cases.txt").read_text().splitlines()
         if line and not line.startswith("#")]
TEXT = "subroutine case{}\nuse {}\nimplicit none\n{}\n{}\nend subroutine\n"  # the statement in question is the fifth line of six


def errors_of(folder, column):
    """The numbers of the cases in which the compiler finds errors, all cases being in one file; and what it says."""
    path = pathlib.Path(folder) / "cases.f90"
    path.write_text("".join(TEXT.format(n, c[0].strip(), c[1].strip(), c[column].strip()) for n, c in enumerate(cases)))
    done = subprocess.run([compiler, "-fsyntax-only", "-fmax-errors=0", f"-I{modules}", str(path)], capture_output=True, text=True)
    return {(int(line) - 1) // 6 for line in re.findall(r"cases\.f90:(\d+):", done.stderr)}, done


with tempfile.TemporaryDirectory() as scratch:
    _, said = errors_of(scratch, 3)
    bad = said.returncode != 0
    if bad:
        print("does not compile, but should:\n" + said.stderr)
    refused, _ = errors_of(scratch, 2)
for number, case in enumerate(cases):
    if number not in refused:
        bad = True
        print("compiles, but should not:", case[2].strip())
print(f"{len(cases)} cases")
sys.exit(bad or len(cases) < 8)
