#!/usr/bin/env python3
"""Writes the man pages of the MPI functions: MPI_Send.3 and so on, and short pages for the variants that refer to them.

emit_man.py --version VERSION --into DIR
"""

import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from description import read_functions  # noqa: E402
from emit_fortran import FUNCTIONS, _f08_interface, _function, _mpi_interface  # noqa: E402
from emit_header import prototype, variants  # noqa: E402
from fortran_kinds import LARGE_BY_NAME, OLD, exists, large_in_f08  # noqa: E402
from kinds import HANDLES  # noqa: E402

NAMES_OF_HANDLES = {
    "comm": "communicator", "group": "group", "type": "datatype", "op": "reduction operation", "info": "info object",
    "errhandler": "error handler", "request": "request", "message": "message of a matched probe", "session": "session",
    "file": "file", "win": "window",
}
# What a parameter of a kind is, and the error class of a wrong one ("": there is none of its own).
KINDS = {
    "buffer": ("data to send", "BUFFER"), "out_buffer": ("where received data is put", "BUFFER"),
    "pointer": ("address", ""), "const_pointer": ("address", ""), "out_pointer": ("address", "ARG"),
    "count": ("number of elements, not negative", "COUNT"), "mpi_count": ("number of elements, not negative", "COUNT"),
    "disp_unit": ("size in bytes of the unit of displacements", "DISP"), "int": ("number", "ARG"),
    "int_large": ("number", "ARG"), "aint": ("address or displacement in bytes", "ARG"),
    "aint_large": ("address or displacement in bytes", "ARG"), "offset": ("offset in the file", "ARG"),
    "logical": ("true or false", ""), "counts": ("numbers of elements, one for each rank", "COUNT"),
    "displs": ("displacements, one for each rank", "ARG"), "ints": ("array of numbers", "ARG"), "ints_large": ("array of numbers", "ARG"),
    "aints": ("displacements in bytes", "ARG"), "aints_large": ("displacements in bytes", "ARG"),
    "weights": ("weights of the edges, or MPI_UNWEIGHTED", "ARG"), "out_weights": ("weights of the edges", "ARG"),
    "ranges": ("triples of first rank, last rank and stride", "ARG"), "keyval": ("key of an attribute", "KEYVAL"),
    "string": ("text", "ARG"), "out_string": ("text", "ARG"), "status": ("status; MPI_STATUS_IGNORE if it is not wanted", ""),
    "statuses": ("statuses; MPI_STATUSES_IGNORE if they are not wanted", ""), "status_in": ("status", "ARG"),
    "status_inout": ("status", "ARG"), "dest": ("rank of the receiver, or MPI_PROC_NULL", "RANK"),
    "source": ("rank of the sender, MPI_ANY_SOURCE or MPI_PROC_NULL", "RANK"), "root": ("rank of the root", "ROOT"),
    "target_rank": ("rank of the target", "RANK"), "tag": ("tag of the message, from 0 to MPI_TAG_UB", "TAG"),
    "any_tag": ("tag of the message, or MPI_ANY_TAG", "TAG"), "varargs": ("further arguments", ""),
    "types": ("datatypes", "TYPE"), "committed_types": ("committed datatypes", "TYPE"), "type_ref": ("datatype", "TYPE"),
    "committed_type": ("committed datatype", "TYPE"), "requests": ("requests", "REQUEST"), "const_requests": ("requests", "REQUEST"),
    "infos": ("info objects", "INFO"), "comm_at_leader": ("communicator, significant at the leader", "COMM"),
    "group_at_leader": ("group, significant at the leader", "GROUP"), "callback": ("function of the program's own", "ARG"),
    "out_mpi_counts": ("numbers", ""), "out_types": ("datatypes", ""),
}
WHEN = {"root": "significant at the root", "rooted": "not significant at bystanders of an intercommunicator",
        "sender": "significant at senders", "receiver": "significant at receivers"}
FORMS = {"begin": "nonblocking: ", "prepare": "persistent request: "}


def summaries(folder):
    lines = (Path(folder) / "summaries.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def summary(function, texts):
    if function.form in FORMS:
        return FORMS[function.form] + texts[function.operation]
    return texts[function.stem]


def _escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def _base(kind):
    """The kind without what only the entry point cares for, and the direction of the parameter."""
    for prefix, intent in (("out_", "OUT"), ("inout_", "INOUT"), ("free_", "INOUT")):
        if kind.startswith(prefix) and kind not in KINDS:
            return kind[len(prefix):].rstrip("?"), intent
    intent = "OUT" if kind.startswith(("out_", "status")) and kind != "status_in" else "IN"
    return kind.rstrip("?"), "INOUT" if kind == "status_inout" else intent


def describe(parameter):
    """(direction, text, error class) of a parameter."""
    if parameter.kind == "raw":
        out = "*" in parameter.ctype and "const" not in parameter.ctype
        return "OUT" if out else "IN", f"of the type {parameter.ctype}", "ARG"
    base, intent = _base(parameter.kind)
    if base in HANDLES:
        text, error = NAMES_OF_HANDLES[base], {"comm": "COMM", "type": "TYPE", "errhandler": "ERRHANDLER"}.get(base, base.upper())
    else:
        text, error = KINDS.get(base) or KINDS.get("out_" + base) or ("result", "ARG")
    if parameter.kind.endswith("?"):
        text += ", or null"
    if parameter.kind.startswith("free_"):
        text += "; becomes the null handle"
    if parameter.when:
        text += ", " + WHEN.get(parameter.when, "")
    if intent == "OUT" and base not in ("status", "statuses"):
        error = ""
    return intent, text, error


def _literal(lines):
    return [".nf", *(_escape(line) for line in lines), ".fi"]


def _fortran(function):
    """The sections of both modules; none for functions that Fortran does not have."""
    if function.stem in FUNCTIONS:
        lines = _strip(_function(function.name, *FUNCTIONS[function.stem]))
        return [".SH FORTRAN 2008 AND FORTRAN 90 SYNTAX", *_literal(["use mpi_f08 ! or mpi", *lines])]
    if not exists(function):
        return []
    out = []
    if function.stem not in OLD:
        name = re.compile(r"(\w+?)(_c)?_f08(ts)?\b")
        lines = []
        for large in (False, True) if large_in_f08(function) else (False,):
            lines += [name.sub(r"\1", line, count=1) if "subroutine" in line else line for line in _strip(_f08_interface(function, "", large))]
        out += [".SH FORTRAN 2008 SYNTAX", *_literal(["use mpi_f08", *lines])]
    if not function.stem.endswith("_c") or function.stem not in LARGE_BY_NAME:
        out += [".SH FORTRAN 90 SYNTAX", *_literal(["use mpi ! or include 'mpif.h'", *_strip(_mpi_interface(function, ""))])]
    return out


def _strip(lines):
    """An interface body without what only the compiler needs; its end is left out."""
    kept = [line[4:] for line in lines if line.strip() != "import" and "ATTRIBUTES" not in line]
    return [line for line in kept if not line.startswith("end ")]


def page(function, title, texts, version):
    names = ", ".join(f"{s}" for s in function.symbols)
    yield ".\\\" Made from api/ (see api/README.md)."
    yield f'.TH {function.name} 3 "" "Tern {version}" "MPI"'
    yield ".SH NAME"
    yield f"{names} \\- {_escape(summary(function, texts))}"
    yield ".SH C SYNTAX"
    yield from _literal(["#include <mpi.h>", *(prototype(function, large) + ";" for large in variants(function))])
    yield from _fortran(function)
    if function.parameters:
        yield ".SH ARGUMENTS"
    errors = []
    for parameter in function.parameters:
        intent, text, error = describe(parameter)
        yield ".TP"
        yield f"\\fB{_escape(parameter.name)}\\fR ({intent})"
        yield _escape(text)
        if error and error not in errors:
            errors.append(error)
    if function.large:
        yield ".SH LARGE COUNTS"
        yield f"\\fB{function.name}_c\\fR takes MPI_Count (and MPI_Aint for displacements) instead of int; in mpi_f08 both have one name."
    yield from _errors(function, errors)
    yield ".SH SEE ALSO"
    yield f"MPI 5.0, chapter {function.chapter} ({_escape(title)}); \\fBmpiexec\\fR(1), \\fBmpicc\\fR(1)"


def _errors(function, errors):
    yield ".SH ERRORS"
    if function.returns != "int":
        yield "None: the result is the function's value."
        return
    yield "Returns MPI_SUCCESS (Fortran: in ierror), or the class of an error after its error handler was called. The default handler"
    yield "ends the job with a message that names function, argument, value and rank. Classes for wrong arguments:"
    yield ", ".join(f"MPI_ERR_{name}" for name in errors or ["ARG"]) + "."
    if not function.any_time:
        yield "Before MPI_Init and after MPI_Finalize it is an error to call it."


def emit_man(functions, titles, folder, version):
    """(file name, text) of every page."""
    texts = summaries(folder)
    unused = set(texts) - {f.operation or f.stem for f in functions}
    if unused:
        raise SystemExit(f"summaries.txt: there is no function {sorted(unused)}")
    for function in functions:
        yield f"{function.name}.3", "\n".join(page(function, titles[function.chapter], texts, version)) + "\n"
        for other in function.symbols[1:]:
            yield f"{other}.3", f".so man3/{function.name}.3\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--into", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    functions, titles = read_functions(HERE)
    for name, text in emit_man(functions, titles, HERE, arguments.version):
        (arguments.into / name).write_text(text)


if __name__ == "__main__":
    main()
