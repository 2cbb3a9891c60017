#!/usr/bin/env python3
"""Makes mpi.h, mpix.h, the entry points, impl.gen.h, the list of symbols, the export map and the coverage table from the description here.

generate.py --include DIR --sources DIR --docs DIR --bodies SRC/CAPI [--pieces N] [--fortran DIR]
With --fortran also the modules, mpif.h and their entry points.
Files are written only when they change, so that nothing is compiled twice for nothing.
"""

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from description import read_constants, read_extensions, read_functions  # noqa: E402
from emit_docs import emit_coverage, written_bodies  # noqa: E402
from emit_entries import emit_entries, emit_impl, emit_names  # noqa: E402
from emit_fortran import emit_base, emit_f08, emit_mpi, emit_mpif  # noqa: E402
from emit_fortran_entries import emit_fortran_entries  # noqa: E402
from emit_header import emit as emit_header, emit_extensions  # noqa: E402

FORTRAN_PIECES = 4


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--bodies", type=Path, required=True)
    parser.add_argument("--pieces", type=int, default=8)
    parser.add_argument("--fortran", type=Path)
    arguments = parser.parse_args()

    functions, titles = read_functions(HERE)
    extensions = read_extensions(HERE)
    everything = functions + extensions
    sections = read_constants(HERE)
    write(arguments.include / "mpi.h", emit_header(functions, titles, sections))
    write(arguments.include / "mpix.h", emit_extensions(extensions))
    write(arguments.sources / "impl.gen.h", emit_impl(everything))
    header, source = emit_names(everything, sections)
    write(arguments.sources / "names.gen.h", header)
    write(arguments.sources / "names.gen.cc", source)
    for number, text in enumerate(emit_entries(everything, arguments.pieces)):
        write(arguments.sources / f"entries{number}.gen.cc", text)
    symbols = sorted(prefix + s[4:] for f in functions for s in f.symbols for prefix in ("MPI_", "PMPI_"))
    write(arguments.sources / "symbols.txt", "\n".join(symbols) + "\n")
    # An anonymous version node: nothing but the API, and what debuggers look for, is exported, and that unversioned.
    added = sorted(prefix + s for f in extensions for s in f.symbols for prefix in ("", "P"))
    exports = [*symbols, *added, "tern_fatal_error", "tern_debug_view", "MPIR_dll_name"]
    write(arguments.sources / "exports.map", "{\n  global:\n" + "".join(f"    {s};\n" for s in exports) + "  local: *;\n};\n")
    if arguments.fortran:
        write(arguments.include / "mpif.h", emit_mpif(sections))
        write(arguments.fortran / "base.gen.f90", emit_base())
        write(arguments.fortran / "mpi.gen.f90", emit_mpi(functions, sections))
        write(arguments.fortran / "mpi_f08.gen.f90", emit_f08(functions, sections))
        for number, text in enumerate(emit_fortran_entries(functions, FORTRAN_PIECES)):
            write(arguments.fortran / f"fortran{number}.gen.cc", text)
    write(arguments.docs / "api-coverage.md", emit_coverage(functions, titles, written_bodies(arguments.bodies)))


main()
