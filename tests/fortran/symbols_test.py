#!/usr/bin/env python3
"""Every procedure that mpif.h, mpi and mpi_f08 declare is in the library, under MPI's specific name and as PMPI_; and
nothing but Fortran's names is exported."""
import pathlib
import re
import subprocess
import sys

library, generated = sys.argv[1:3]
listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1]: line.split()[-2] for line in listed.splitlines()}
declared = set()
for module in ("mpi", "mpi_f08"):
    text = (pathlib.Path(generated) / f"{module}.gen.f90").read_text()
    in_abstract = False
    for line in text.splitlines():
        in_abstract = (in_abstract or line.strip() == "abstract interface") and line.strip() != "end interface"
        match = re.match(r"\s+(?:subroutine|function) (P?MPI_\w+)\(", line)
        if match and not in_abstract:
            declared.add(match.group(1).lower() + "_")
problems = [f"declared but not in the library: {name}" for name in sorted(declared - exported.keys())]
for name in sorted(declared):
    if name.startswith("mpi_") and not name.endswith(("null_copy_fn_", "dup_fn_", "null_delete_fn_", "fn_null_", "fn_null_c_")):
        if "p" + name not in declared:
            problems.append(f"no profiling name: {name}")
problems += [f"exported: {name}" for name in sorted(exported) if not re.match(r"p?mpi_\w+_$|__(mpi|mpi_f08|tern_mpi_base)_MOD_", name)
             and not name.startswith(("__asan", "__tsan", "__ubsan", "__odr_asan"))]
print("\n".join(problems) or f"{len(declared)} procedures")
sys.exit(bool(problems) or len(declared) < 2000)
