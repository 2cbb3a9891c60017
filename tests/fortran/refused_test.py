#!/usr/bin/env python3
"""What the modules are for: calls with wrong arguments do not compile (refused_cases.txt), the right ones do."""
import pathlib
import subprocess
import sys
import tempfile

compiler, modules = sys.argv[1:3]
cases = [line.split("|") for line in (pathlib.Path(__file__).parent / "refused_cases.txt").read_text().splitlines()
         if line and not line.startswith("#")]
bad = 0
with tempfile.TemporaryDirectory() as folder:
    # All right statements in one file; every wrong one in its own.
    sources, rights = [], []
    for number, (module, declarations, wrong, right) in enumerate(cases):
        text = "subroutine case{}\nuse {}\nimplicit none\n{}\n{}\nend subroutine\n"
        sources.append((text.format(number, module.strip(), declarations.strip(), wrong.strip()), wrong.strip()))
        rights.append(text.format(number, module.strip(), declarations.strip(), right.strip()))

    def compiles(source):
        path = pathlib.Path(folder) / "case.f90"
        path.write_text(source)
        return subprocess.run([compiler, "-fsyntax-only", f"-I{modules}", str(path)], capture_output=True, text=True)

    done = compiles("".join(rights))
    if done.returncode != 0:
        bad += 1
        print("does not compile, but should:\n" + done.stderr)
    for source, statement in sources:
        if compiles(source).returncode == 0:
            bad += 1
            print("compiles, but should not:", statement)
print(f"{len(cases)} cases, {bad} bad")
sys.exit(bool(bad) or len(cases) < 8)
