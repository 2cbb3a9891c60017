#!/usr/bin/env python3
"""The library exports exactly the functions of the description, MPI_X as a weak alias of PMPI_X; mpi.h declares them,
and mpix.h what MPI does not have."""

import argparse
import re
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
parser.add_argument("--symbols", required=True)
parser.add_argument("--header", required=True)
parser.add_argument("--extensions", required=True)
arguments = parser.parse_args()

described = set(open(arguments.symbols).read().split())
assert len(described) == 1328, f"the standard ABI has 1328 symbols, the description {len(described)}"

extensions = set(re.findall(r"\b(P?MPIX_\w+)\(", re.sub(r"(?m)^(#|typedef|/\*).*", "", open(arguments.extensions).read())))
assert extensions and not extensions & described
described |= extensions

FOR_DEBUGGERS = ("tern_fatal_error", "tern_debug_view", "MPIR_dll_name")
exported = {}
for line in subprocess.run(["nm", "-D", "--defined-only", arguments.library], check=True, capture_output=True,
                           text=True).stdout.splitlines():
    address, kind, name = line.split()
    if kind.islower():
        continue  # local: link-time optimisation leaves such names in the table, nobody can bind to them
    exported[name] = (address, kind)

problems = [f"not exported: {name}" for name in sorted(described - exported.keys())]
problems += [f"exported but not described: {name}" for name in sorted(exported.keys() - described)
             if name not in FOR_DEBUGGERS and not name.startswith(("__asan", "__tsan", "__ubsan", "__odr_asan"))]
for name in sorted(described & exported.keys()):
    if name.startswith("P"):
        continue
    address, kind = exported[name]
    profiled, strong = exported["P" + name]
    if (kind, strong) != ("W", "T"):
        problems.append(f"{name} is {kind} and P{name} is {strong}, not W and T")
    if address != profiled:
        problems.append(f"{name} is not an alias of P{name}")

prototypes = [line for line in open(arguments.header) if not line.startswith(("#", "typedef", "static", "/*", " "))]
declared = re.findall(r"\b(P?MPI_\w+)\(", "".join(prototypes))
problems += [f"not in mpi.h: {name}" for name in sorted(described - extensions - set(declared))]
problems += [f"in mpi.h only: {name}" for name in sorted(set(declared) - described)]
problems += [f"declared twice: {name}" for name in sorted({n for n in declared if declared.count(n) > 1})]

print("\n".join(problems) or f"{len(described)} symbols")
sys.exit(bool(problems))
