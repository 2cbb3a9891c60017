"""Writes the entry points of the Fortran bindings: C++ functions with Fortran's names and conventions that call the C ABI.

pmpi_x_          mpif.h and module mpi; where there is no choice buffer, mpi_f08 too (pmpi_x_f08_ is an alias)
pmpi_x_f08ts_    mpi_f08, choice buffers as array descriptors
pmpi_x_c_f08_    the same with large counts (pmpi_x_c_f08ts_)

mpi_... are weak aliases of pmpi_... (19.1.5). LOGICAL needs no conversion: what is not 0 is .TRUE. to C, and 1 and 0 are
.TRUE. and .FALSE. to Fortran (startup.cc checks it).
"""

import re

from fortran_kinds import ADDRESS_ONLY, BY_HAND, CPTR, OLD, dummies, exists, has_choice, nonblocking

BANNER = "// Generated from api/; see api/README.md. Do not edit.\n"
# Functions that take a buffer in equal blocks or by displacements, or combine its elements: a section cannot be
# described by one datatype. Of these, the buffers that are one message after all.
ONE_MESSAGE = {"sendbuf": re.compile(r"I?(neighbor_)?(all)?gatherv?(_init)?$", re.I), "recvbuf": re.compile(r"I?scatterv?(_init)?$", re.I),
               "buffer": re.compile(r"I?bcast(_init)?$", re.I)}


def _counted(d, f):
    """The count and the datatype that describe a choice buffer, "" when it has none."""
    parameter = next(p for p in f.parameters if p.name == d.name)
    if len(parameter.args) == 2:
        return parameter.args
    stem = d.name.removesuffix("_addr")
    names = {p.name for p in f.parameters}
    pair = [stem + "_count", stem + "_datatype"]
    return pair if set(pair) <= names else None


def _choice(d, f):
    """How a descriptor becomes what C gets: (declaration, argument, statement after)."""
    name = d.name
    if f.stem in ADDRESS_ONLY or f.stem in ("Fetch_and_op", "Compare_and_swap") or f.stem.endswith("_end"):
        return "", f"c_address({name}->base)", "", None
    if not nonblocking(f):
        copy = "Copy::in" if d.choice == "in" else "Copy::in_out"
        return f"Packed {name}_({name}, {copy});", f"{name}_.data()", f"{name}_.give();", None
    pair = _counted(d, f)
    if f.chapter in (6, 8):
        if not (name in ONE_MESSAGE and ONE_MESSAGE[name].match(f.stem)):
            pair = None
        elif not pair:
            pair = None
    if not pair and f.chapter in (6, 8) and not f.stem.endswith("_init"):
        copy = "Copy::in" if d.choice == "in" else "Copy::in_out"
        return f"Deferred {name}_({name}, {copy});", f"{name}_.data()", f"if (result == MPI_SUCCESS) {name}_.keep(request_);", None
    if f.chapter == 4 or not pair:
        return f"Contiguous {name}_({name});", f"{name}_.data()", "", None
    count, datatype = pair
    return (f"Section {name}_({name}, *{count}, from_int<MPI_Datatype>(*{datatype}));", f"{name}_.data()", "", pair)


def _names(symbol, signature, aliases):
    return "".join(f'void {alias}({signature}) __attribute__((weak, alias("{symbol}")));\n' for alias in aliases)


def _c_function(f, large):
    if f.stem == "File_close":
        return "close_file"  # bridge.h
    # What is deprecated, by its successor: not every library of the ABI has the old function.
    return "PMPI_" + (f.same_as if f.stem in OLD else f.stem) + ("_c" if large else "")


def _entry(f, large, descriptors):
    arguments = dummies(f, large)
    stem = f.stem.lower()
    symbol = f"pmpi_{stem}{'_c' if large else ''}_{'f08ts_' if descriptors else 'f08_' if large else ''}"
    parameters, before, after, always, values, wrong = [], [], [], [], {}, []
    for d in arguments:
        if descriptors and d.choice:
            parameters.append(f"const Descriptor* {d.name}")
            declaration, argument, give, pair = _choice(d, f)
            if declaration:
                before.append(declaration)
            values[d.name] = argument
            if give:
                always.append(give)
            if declaration.startswith(("Section", "Contiguous")):
                wrong.append(f"{d.name}_.error()")
            if pair:
                ctype = "MPI_Count" if large else "int"
                values[pair[0]] = f"static_cast<{ctype}>({d.name}_.count())"
                values[pair[1]] = f"{d.name}_.type()"
            continue
        parameters.append(d.c)
        if d.before:
            before.append(d.before)
        values.setdefault(d.name, d.arg)
        after += [d.after] if d.after else []
        always += [d.always] if d.always else []
    for d in arguments:  # a count that comes before its buffer's pair was set must not win
        values.setdefault(d.name, d.arg)
    parameters.append("int* ierror")
    parameters += [f"size_t {d.name}_length" for d in arguments if d.string]
    signature = ", ".join(parameters)
    call = f"{_c_function(f, large)}({', '.join(values[d.name] for d in arguments)})"
    out = [f"void {symbol}({signature}) {{"]
    out += ["  " + b for b in before]
    if wrong:
        about = next((d.name for d in arguments if d.c == f"int* {d.name}" and d.arg in
                      tuple(f"from_int<MPI_{k}>(*{d.name})" for k in ("Comm", "Win", "File", "Session"))), None)
        handle = values[about] if about else "MPI_COMM_WORLD"
        out.append(f"  if (int error = first_error({{{', '.join(wrong)}}})) return finish(ierror, report({handle}, error));")
    if not (after or always):
        out.append(f"  finish(ierror, {call});")
    else:
        out.append(f"  int result = {call};")
        out += ["  " + a for a in always]
        if len(after) == 1:
            out.append(f"  if (result == MPI_SUCCESS) {after[0]}")
        elif after:
            out.append("  if (result == MPI_SUCCESS) {")
            out += ["    " + a for a in after]
            out.append("  }")
        out.append("  finish(ierror, result);")
    out.append("}")
    aliases = [symbol[1:]]
    if not descriptors and not large:
        if not has_choice(f):
            aliases += [f"mpi_{stem}_f08_", f"pmpi_{stem}_f08_"]
        if f.stem in CPTR:
            aliases += [f"mpi_{stem}_cptr_", f"pmpi_{stem}_cptr_"]
    return "\n".join(out) + "\n" + _names(symbol, signature, aliases)


def emit_fortran_entries(functions, pieces):
    units = []
    for f in functions:
        if not exists(f) or f.stem in BY_HAND or f.returns != "int":
            continue
        units.append(_entry(f, False, False))
        if has_choice(f):
            units.append(_entry(f, False, True))
        if f.large:
            units.append(_entry(f, True, has_choice(f)))
    # Large counts of what is written by hand come from there too.
    head = BANNER + ('#include "fortran/bridge.h"\n#include "fortran/section.h"\n\nusing namespace tern::fortran;\n\n'
                     '#pragma GCC visibility push(default)\nextern "C" {\n\n')
    share = -(-len(units) // pieces)
    return [head + "\n".join(units[i * share:(i + 1) * share]) + '\n}  // extern "C"\n#pragma GCC visibility pop\n'
            for i in range(pieces)]
