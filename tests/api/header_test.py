#!/usr/bin/env python3
"""Every constant of mpi.h is used, in C and C++, with the warnings for which careful projects compile. Programs that call what was
deprecated before the ABI, or removed, need no symbol but the ABI's (20.2)."""

import argparse
import re
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--include", required=True)
parser.add_argument("--cc", required=True)
parser.add_argument("--cxx", required=True)
arguments = parser.parse_args()

names = re.findall(r"^#define (MPIX?_\w+) \S", open(f"{arguments.include}/mpi.h").read(), re.M)
functions = re.compile(r"_(c2f|f2c|f082c|c2f08|f2f08|f082f)$")
constants = [name for name in names if not functions.search(name)]
assert len(constants) > 350, len(constants)

CXX = ["-std=c++17", "-Wold-style-cast", "-Wuseless-cast", "-Wcast-align", "-Wsign-conversion", "-Wconversion", "-Wredundant-decls",
       "-Wzero-as-null-pointer-constant"]
C = ["-std=c11", "-Wcast-qual", "-Wstrict-prototypes", "-Wconversion", "-Wredundant-decls"]
COMMON = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Werror", "-fsyntax-only", f"-I{arguments.include}"]


def compile_text(compiler, flags, language, text):
    supported = [flag for flag in flags if subprocess.run([compiler, "-Werror", flag, "-fsyntax-only", f"-x{language}", "-"], input="",
                                                          text=True, capture_output=True).returncode == 0]
    done = subprocess.run([compiler, *COMMON, *supported, f"-x{language}", "-"], input=text, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr[:4000])


uses = "".join(f"  auto v{i} = {name}; use(&v{i});\n" for i, name in enumerate(constants))
compile_text(arguments.cxx, CXX, "c++", f"#include <mpi.h>\nvoid use(const void*);\nvoid all();\nvoid all() {{\n{uses}}}\n")
uses = "".join(f"  {{ __typeof__({name}) v = {name}; use(&v); }}\n" for name in constants)
compile_text(arguments.cc, C, "c", f"#include <mpi.h>\nvoid use(const void*);\nvoid all(void);\nvoid all(void) {{\n{uses}}}\n")
old = """#include <mpi.h>
int old(MPI_Comm comm, MPI_Copy_function *copies, MPI_Delete_function *deletes, int *keyval, void *value, MPI_Aint *place);
int old(MPI_Comm comm, MPI_Copy_function *copies, MPI_Delete_function *deletes, int *keyval, void *value, MPI_Aint *place) {
  return MPI_Keyval_create(copies, deletes, keyval, value) + MPI_Attr_put(comm, *keyval, value) + MPI_Attr_get(comm, *keyval, value, keyval) +
         MPI_Attr_delete(comm, *keyval) + MPI_Keyval_free(keyval) + MPI_Address(value, place);
}
"""
with tempfile.NamedTemporaryFile(suffix=".o") as made:
    subprocess.run([arguments.cc, f"-I{arguments.include}", "-xc", "-", "-c", "-o", made.name], input=old, text=True, check=True)
    needed = subprocess.run(["nm", "-u", made.name], capture_output=True, text=True, check=True).stdout.split()
strange = [name for name in needed if re.match(r"MPI_(Attr|Keyval|Address)", name)]
if strange or "MPI_Comm_set_attr" not in needed:
    sys.exit(f"symbols that the ABI has not: {strange} of {needed}")
print(f"{len(constants)} constants")
