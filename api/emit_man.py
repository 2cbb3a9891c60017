#!/usr/bin/env python3
"""Writes the man pages of the MPI functions: MPI_Send.3 and so on, and short pages for the variants that refer to them.

Prototypes and checks come from the description; what a function does from summaries.txt (a line) and details.txt (a paragraph
and related functions), what an argument is from arguments.txt where its kind does not say it, examples from examples.txt.

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
    "logical": ("true or false", ""), "counts": ("numbers of elements", "COUNT"),
    "displs": ("displacements", "ARG"), "ints": ("array of numbers", "ARG"), "ints_large": ("array of numbers", "ARG"),
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
# What is added to the paragraph of the blocking form.
FORM_TEXTS = {
    "begin": "This form only begins the operation and returns at once; MPI_Wait, MPI_Test or one of their relatives completes it. Until "
             "then the buffers must be left alone. All processes begin their collectives on a communicator in the same order.",
    "prepare": "This form makes a persistent request, which does nothing until MPI_Start; it can be started again and again. Making it "
               "is collective: all processes do so in the same order.",
}
# Error classes beyond those of wrong arguments, by what the function does.
ERROR_TEXTS = {
    "BUFFER": "a buffer is null, or may not be what it is (MPI_IN_PLACE, the same memory twice)", "COUNT": "a count is negative",
    "TYPE": "a datatype is null or not committed", "TAG": "a tag is negative or above MPI_TAG_UB", "COMM": "no communicator",
    "RANK": "no such rank", "REQUEST": "no request, or one of another kind or state", "ROOT": "no such root",
    "GROUP": "no group", "OP": "no operation, or one that does not take the datatype", "INFO": "no info object",
    "INFO_KEY": "the key is empty or too long", "INFO_VALUE": "the value is too long", "INFO_NOKEY": "there is no such key",
    "ERRHANDLER": "no error handler, or one of another kind of object", "SESSION": "no session", "FILE": "no file", "WIN": "no window",
    "KEYVAL": "no such key", "DISP": "a displacement or its unit is wrong", "MESSAGE": "no message",
    "ARG": "another argument is wrong", "TOPOLOGY": "the communicator has no such topology", "DIMS": "the numbers of processes do not fit",
    "TRUNCATE": "a message is longer than the buffer for it", "IN_STATUS": "some of the operations failed: see the statuses",
    "RMA_SYNC": "the window is not in an epoch that allows this", "RMA_RANGE": "the target's memory ends before",
    "NO_MEM": "there is not so much memory", "SPAWN": "the processes cannot be started", "PORT": "no such port",
    "SERVICE": "the name is published already, or not by this job", "NAME": "the name is not published",
    "NO_SUCH_FILE": "the file does not exist", "FILE_EXISTS": "the file exists already", "ACCESS": "the rights are missing",
    "AMODE": "the access mode is contradictory", "READ_ONLY": "the file or file system cannot be written", "NO_SPACE": "the disk is full",
    "IO": "the system reports another error of the file", "PROC_ABORTED": "a process that takes part has ended",
    "UNSUPPORTED_OPERATION": "the file's mode does not allow it",
}
MORE_ERRORS = [
    (r"(I?m?recv|Sendrecv|Isendrecv|Mrecv|Precv)", ["TRUNCATE"]), (r"(Wait|Test)(all|some)", ["IN_STATUS"]),
    (r"(Wait|Test)(any)?$", ["TRUNCATE"]), (r"(Cart_|Graph|Dist_graph_neigh|Neighbor_|Ineighbor_)", ["TOPOLOGY"]),
    (r"(Dims_create|Cart_create)", ["DIMS"]), (r"(R?put|R?get|R?accumulate|Rget_accumulate|Get_accumulate|Compare_and_swap|Fetch_and_op)$",
                                             ["RMA_SYNC", "RMA_RANGE"]),
    (r"Win_(fence|start|complete|post|wait|test|lock|unlock|flush|sync)", ["RMA_SYNC"]), (r"(Alloc_mem|Win_allocate)", ["NO_MEM"]),
    (r"Comm_spawn", ["SPAWN"]), (r"(Comm_accept|Comm_connect|Open_port|Close_port)", ["PORT"]), (r"(P|Unp)ublish_name", ["SERVICE"]),
    (r"Lookup_name", ["NAME"]), (r"File_open", ["AMODE", "NO_SUCH_FILE", "FILE_EXISTS", "ACCESS", "NO_SPACE"]),
    (r"File_delete", ["NO_SUCH_FILE", "ACCESS"]), (r"File_i?(write|read)", ["UNSUPPORTED_OPERATION", "IO"]),
    (r"File_(set_size|preallocate|sync)", ["NO_SPACE", "IO"]), (r"Info_set$", ["INFO_KEY", "INFO_VALUE"]),
    (r"Info_(get|get_string|get_valuelen)$", ["INFO_KEY"]), (r"Info_delete$", ["INFO_KEY", "INFO_NOKEY"]),
    (r"(Send|Ssend|Rsend|Recv|Sendrecv|Probe|Mprobe|Wait|Waitall|Waitany|Waitsome)$", ["PROC_ABORTED"]),
]


# Calls that change the object itself though its handle stays: INOUT, as in the standard.
CHANGED = re.compile(r"(Comm|Type|Win|Attr)_(set|delete|put)_?(attr|name|info|errhandler)?$|(File|Session)_set_\w+$|Info_(set|delete)$"
                     r"|Pready|Grequest_complete$|File_(iwrite|write|seek|preallocate|sync)|File_i?read(?!_at)")


class Texts:
    """What is written by hand; every entry belongs to a function, and every function has its line and its paragraph."""

    def __init__(self, folder, functions):
        folder = Path(folder)
        self.lines = dict(self._rows(folder / "summaries.txt"))
        self.arguments = dict(self._rows(folder / "arguments.txt"))
        self.paragraphs, self.related, self.examples = {}, {}, {}
        for names, block in self._blocks(folder / "details.txt"):
            own, _, others = names.partition("|")
            for stem in own.split():
                self.paragraphs[stem] = " ".join(block.split())
                self.related[stem] = [s for s in own.split() + others.split() if s != stem]
        for names, block in self._blocks(folder / "examples.txt"):
            for stem in names.split():
                self.examples[stem] = block.split("\n")
        known = {f.operation or f.stem for f in functions}
        stems = {f.stem for f in functions}
        parameters = {p.name for f in functions for p in f.parameters}
        pairs = {f"{f.stem}.{p.name}" for f in functions for p in f.parameters}
        for what, wrong in (("summaries.txt", set(self.lines) - known), ("details.txt", set(self.paragraphs) - known),
                            ("no paragraph", known - set(self.paragraphs)), ("no line", known - set(self.lines)),
                            ("examples.txt", set(self.examples) - stems), ("arguments.txt", set(self.arguments) - parameters - pairs),
                            ("see also", {s for related in self.related.values() for s in related} - stems)):
            if wrong:
                raise SystemExit(f"emit_man.py: {what}: {sorted(wrong)}")

    @staticmethod
    def _rows(path):
        return [line.split(": ", 1) for line in path.read_text().splitlines() if line and not line.startswith("#")]

    @staticmethod
    def _blocks(path):
        return re.findall(r"^\[([^\]\n]+)\]\n(.*?)(?=\n\n|\n*\Z)", path.read_text(), re.M | re.S)


def summary(function, texts):
    if function.form in FORMS:
        return FORMS[function.form] + texts.lines[function.operation]
    return texts.lines[function.stem]


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


def _own_text(function, parameter, texts):
    """(direction, text) of arguments.txt; empty ones where it has none. A handle's kind says more than its name."""
    own = texts.arguments.get(f"{function.operation or function.stem}.{parameter.name}")
    if own is None and _base(parameter.kind)[0] not in HANDLES:
        own = texts.arguments.get(parameter.name)
    match = re.match(r"(?:\[(IN|OUT|INOUT)\] )?(.*)", own or "")
    return match[1] or "", match[2]


def describe(function, parameter, texts):
    """(direction, text, error class) of a parameter."""
    own_intent, own = _own_text(function, parameter, texts)
    if parameter.kind == "raw":
        out = "*" in parameter.ctype and "const" not in parameter.ctype
        return own_intent or ("OUT" if out else "IN"), own or f"of the type {parameter.ctype}", "ARG"
    base, intent = _base(parameter.kind)
    if base in HANDLES:
        text, error = NAMES_OF_HANDLES[base], {"comm": "COMM", "type": "TYPE", "errhandler": "ERRHANDLER"}.get(base, base.upper())
    else:
        text, error = KINDS.get(base) or KINDS.get("out_" + base) or ("result", "ARG")
    text = own or text
    changed = function.parameters[-1 if "Pready" in function.stem else 0]
    if intent == "IN" and base in HANDLES and parameter is changed and CHANGED.match(function.stem):
        intent = "INOUT"
    intent = own_intent or intent
    if parameter.kind.endswith("?") and not own:
        text += ", or null"
    if parameter.kind.startswith("free_"):
        text += "; becomes the null handle"
    if parameter.when and "significant" not in text:
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
        intent, text, error = describe(function, parameter, texts)
        yield ".TP"
        yield f"\\fB{_escape(parameter.name)}\\fR ({intent})"
        yield _escape(text)
        if error and error not in errors:
            errors.append(error)
    stem = function.operation or function.stem
    yield ".SH DESCRIPTION"
    yield _escape(texts.paragraphs[stem])
    if function.form in FORM_TEXTS:
        yield ".PP"
        yield _escape(FORM_TEXTS[function.form])
    if function.large:
        yield ".SH LARGE COUNTS"
        yield f"\\fB{function.name}_c\\fR takes MPI_Count (and MPI_Aint for displacements) instead of int; in mpi_f08 both have one name."
    if function.stem in texts.examples:
        yield ".SH EXAMPLE"
        yield from _literal(texts.examples[function.stem])
    yield from _errors(function, errors)
    yield ".SH SEE ALSO"
    yield ", ".join(f"\\fBMPI_{name}\\fR(3)" for name in _related(function, texts)) + ","
    yield f"\\fBtern\\fR(7), \\fBmpiexec\\fR(1), \\fBmpicc\\fR(1); MPI 5.0, chapter {function.chapter} ({_escape(title)})"


def _related(function, texts):
    """At most a dozen: the other forms of the operation first."""
    stem = function.operation or function.stem
    names = [stem] if function.form in FORMS else []
    if function.operation:
        forms = [stem, "I" + stem[0].lower() + stem[1:], stem + "_init"]
        names = [name for name in forms if name != function.stem]
    most = 12  # more than that nobody reads
    return (names + [name for name in texts.related[stem] if name not in names and name != function.stem])[:most]


def _errors(function, errors):
    yield ".SH ERRORS"
    if function.returns != "int":
        yield "None: the result is the function's value."
        return
    yield "Returns MPI_SUCCESS (Fortran: in ierror), or the class of an error after its error handler was called. The default handler"
    yield "ends the job with a message that names function, argument, value and rank."
    classes = list(errors)
    for pattern, more in MORE_ERRORS:
        if re.match(pattern, function.stem):
            classes += [name for name in more if name not in classes]
    tools = function.stem.startswith("T_")
    for name in classes if classes and not tools else [] if tools else ["ARG"]:
        yield ".TP"
        yield f"MPI_ERR_{name}"
        yield _escape(ERROR_TEXTS[name])
    if tools:
        yield ".PP"
        yield "Functions of the tools interface return MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_INVALID_HANDLE and"
        yield "the like, and call no error handler."
    elif not function.any_time:
        yield ".PP"
        yield "Before MPI_Init and after MPI_Finalize it is an error to call it."


def emit_man(functions, titles, folder, version):
    """(file name, text) of every page."""
    texts = Texts(folder, functions)
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
