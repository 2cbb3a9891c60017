"""Writes the coverage table: every function, its chapter, and whether it works."""

import re
from pathlib import Path


def written_bodies(folder):
    """Names of the bodies that stand in src/capi."""
    found = set()
    for path in Path(folder).glob("*.cc"):
        found |= set(re.findall(r"^Error (\w+)\(Call& ", path.read_text(), re.M))
    return found


def emit_coverage(functions, titles, written):
    done, out, rows = 0, [], {}
    for f in functions:
        works = f.raw or f.body in written
        done += works * len(f.symbols)
        rows.setdefault(f.chapter, []).append((f, works))
    total = sum(len(f.symbols) for f in functions)
    out.append(f"# Coverage of MPI 5.0\n\n{done} of {total} C functions work (each also as PMPI_).\n")
    for chapter, entries in sorted(rows.items()):
        good = sum(w * len(f.symbols) for f, w in entries)
        out.append(f"## {chapter} {titles[chapter]} ({good} of {sum(len(f.symbols) for f, _ in entries)})\n")
        out.append("| function | large count | state |\n|---|---|---|")
        for f, works in entries:
            out.append(f"| `{f.name}` | {'yes' if f.large else ''} | {'done' if works else 'not yet'} |")
        out.append("")
    return "\n".join(out)
