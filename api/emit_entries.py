"""Writes the entry points (PMPI_X with MPI_X as a weak alias) and impl.gen.h."""

import re

from emit_header import prototype, variants
from kinds import kind_of, significance

BANNER = "// Generated from api/; see api/README.md. Do not edit.\n"
# Collective functions that move no data of the program's: TERN_CHECK compares which of them the ranks call. Not those that
# a rank may call later than others (MPI_Comm_free) or that only some members call.
COLLECTIVE_WITHOUT_DATA = {
    "Comm_dup", "Comm_dup_with_info", "Comm_split", "Comm_split_type", "Comm_create", "Cart_create", "Graph_create",
    "Dist_graph_create", "Dist_graph_create_adjacent", "Intercomm_merge", "File_open", "Win_create", "Win_allocate",
    "Win_allocate_shared", "Win_create_dynamic"}
# Functions that have a short call with MPI_THREAD_MULTIPLE (src/capi/without_lock.h).
SHORT_CALLS = {"Send", "Recv", "Isend", "Irecv", "Wait", "Test", "Waitall", "Put", "Get",
               "Win_flush", "Win_flush_local"}
ERROR_OBJECTS = {"comm": "comm", "session": "session"}


def bodies(functions):
    """One function per body, in order."""
    return [f for f in functions if not f.raw and not f.same_as and f.form in ("", "run")]


def signature(function):
    """Of what is written by hand in src/capi: a body, or what makes the operands of a collective."""
    parameters = body_parameters(function)
    if function.form:
        return "operands", f"{function.stem}({parameters}, CallOperands& o)"
    return "body", f"{function.stem}({parameters})"


def body_parameters(function):
    declared = ["Call& call"]
    for parameter in function.parameters:
        text = kind_of(parameter).body.replace("$", parameter.name)
        if significance(parameter, function):
            # Null when the parameter is not significant at this rank.
            text = re.sub(r"^(Datatype|Op)& ", r"\1* ", text)
        declared.append(text)
    return ", ".join(declared)


def emit_impl(functions):
    out = [BANNER + '#pragma once\n\n#include "capi/call.h"\n#include "mpix.h"\n\nnamespace tern::capi {\n\nstruct CallOperands;\n']
    for f in bodies(functions):
        space, declaration = signature(f)
        out.append(f"namespace {space} {{ Error {declaration}; }}")
    out.append("\n}  // namespace tern::capi\n\n// What does not return an error class.\n"
               "namespace tern::capi::raw {\n")
    for f in functions:
        if f.raw and not re.search(r"_(toint|fromint)$", f.name):
            out.append(f"{prototype(f, False, '')};")
    out.append("\n}  // namespace tern::capi::raw\n")
    return "\n".join(out)


def function_numbers(functions):
    """The number of every function, for what is kept by function."""
    return {symbol: number for number, symbol in enumerate(s for f in functions for s in f.symbols)}


def emit_names(functions, sections):
    """Names of predefined handles, for messages. Returns the header and the source."""
    header = BANNER + ('#pragma once\n\n#include <cstdint>\n#include <span>\n\nnamespace tern::capi {\n\n'
                       '/// "MPI_COMM_WORLD" of 0x101; null when the value is no predefined handle.\n'
                       'const char* handle_name(uintptr_t handle);\n'
                       '/// All functions, each at its number.\nstd::span<const char* const> function_names();\n\n}\n')
    functions_listed = "".join(f'    "{symbol}",\n' for symbol in function_numbers(functions))
    handles = sorted((c.value, c.name) for _, constants in sections for c in constants
                     if not c.alias and 32 <= c.value < 4096 and c.ctype.startswith("MPI_")
                     and "function" not in c.ctype and not c.ctype.startswith("MPI_T"))
    rows = "".join(f'    case 0x{value:x}: return "{name}";\n' for value, name in handles)
    source = BANNER + ('#include "names.gen.h"\n\nnamespace tern::capi {\n\n'
                       'const char* handle_name(uintptr_t handle) {\n  switch (handle) {\n' + rows +
                       '    default: return nullptr;\n  }\n}\n\n'
                       'static constexpr const char* kFunctionNames[] = {\n' + functions_listed + '};\n'
                       'std::span<const char* const> function_names() { return kFunctionNames; }\n\n}  // namespace tern::capi\n')
    return header, source


def _peers(parameter, function):
    """The rank that decides whether a message of this datatype goes anywhere, as C++; empty: no peer."""
    kinds = {"sendtype": ("dest",), "recvtype": ("source",)}.get(parameter.name, ("dest", "source"))
    names = [p.name for p in function.parameters if p.kind in kinds]
    # MPI_Sendrecv_replace: both must be MPI_PROC_NULL.
    return names[0] if len(names) == 1 else f"{names[0]} == {names[1]} ? {names[0]} : 0" if names else ""


def _checks(function, parameter, kind, comm):
    """(checks that always run, checks that TERN_CHECK_ARGUMENTS=0 skips) of one parameter."""
    name, when = parameter.name, significance(parameter, function)

    def fill(text):
        return text.replace("*COMM", f"*{comm}_").replace("$", name)

    always, optional = fill(kind.resolve), fill(kind.check)
    if parameter.kind == "committed_type":
        peers = _peers(parameter, function)
        if peers:
            # What is sent to nobody may have no datatype.
            always = f'call.get_unless_null_process({peers}, {name}, {name}_, "{name}")'
    if parameter.kind in ("buffer", "out_buffer"):
        if len(parameter.args) == 2:
            count, datatype = parameter.args
            optional = f'call.buffer({name}, {count}, *{datatype}_, "{name}")'
        side = "sendbuf" if parameter.when == "sender" else "recvbuf"
        if parameter.when in ("sender", "receiver") and name == side:
            rooted = any(p.kind == "root" for p in function.parameters)
            allowed = "role.root && !role.inter" if rooted else f"!{comm}_->is_inter()"
            place = f'(!in_place({name}) || call.in_place_allowed({allowed}, "{name}"))'
            optional = f"(!{when} || {optional}) && {place}" if optional else place
            return always, optional
        if function.chapter in (6, 8):
            place = f'call.no_place({name}, "{name}")'
            optional = f"{place} && {optional}" if optional else place
    if parameter.args and parameter.kind in ("counts", "displs", "types", "committed_types", "ints_large", "requests",
                                             "const_requests", "aints", "aints_large", "ints"):
        length = parameter.args[0]
        extent = {"peers": f"peer_count(*{comm}_)", "ranks": f"{comm}_->size()",
                  "incoming": f"incoming(*{comm}_)", "outgoing": f"outgoing(*{comm}_)"}.get(length, length)
        test = {"counts": "counts", "types": "types", "committed_types": "committed_types"}.get(parameter.kind,
                                                                                                "array")
        optional = f'call.{test}({name}, {extent}, "{name}")'
    if when:
        always = always and f"(!{when} || ({always}))"
        optional = optional and f"(!{when} || ({optional}))"
    return always, optional


# Kind of a parameter: (field of CallArguments, its type, the bit that says that it is given). The first of a field counts.
DESCRIBED = {"dest": ("peer", "uint32_t", "kDest"), "target_rank": ("peer", "uint32_t", "kTarget"),
             "source": ("source", "int32_t", "kSource"), "root": ("source", "int32_t", "kRoot"),
             "tag": ("tag", "int32_t", "kTag"), "any_tag": ("tag", "int32_t", "kTag")}


def _described_data(function):
    """The count of a call and the datatype that it is of, and whether it has them, as C++; None: it has no count. In a
    collective the first pair that is significant at this rank."""
    counts = [p for p in function.parameters if p.kind == "count"]
    types = [p for p in function.parameters if p.kind in ("committed_type", "type")]
    if not counts:
        return None
    count, datatype, given = "0", "nullptr", "false"
    for i, p in reversed(list(enumerate(counts))):
        of = f"{types[i].name}_" if i < len(types) else "nullptr"
        when = significance(p, function)
        count = f"{when} ? {p.name} : {count}" if when else p.name
        datatype = f"{when} ? {of} : {datatype}" if when and of != datatype else of
        given = f"{when} || {given}" if when and given not in ("true", "false") else when or "true"
    return count, datatype, given


def _described(function, comm):
    """Lines that give the arguments of the call to its event in a trace; none when it has no arguments worth it."""
    fields, given = {}, []
    for p in function.parameters:
        field, ctype, bit = DESCRIBED.get(p.kind, ("", "", ""))
        if field and field not in fields:
            fields[field] = f"{ctype}({p.name})"
            given.append("record::" + bit)
    data, datatype = _described_data(function), "nullptr"
    if data:
        count, datatype, has_count = data
        fields["count"] = f"uint64_t({count})"
        given.append("record::kCount" if has_count == "true" else f"({has_count} ? record::kCount : record::kNone)")
    lines = []
    of = next((p.name for p in function.parameters if p.kind in ("win", "file")), "")  # has a communicator of its own
    on = f"{comm}_" if comm else f"&comm_of(*{of}_)" if of else "nullptr"
    if fields or comm or of:
        text = ", ".join(f".{name} = {fields[name]}" for name in ("count", "peer", "source", "tag") if name in fields)
        bits = f", .given = uint16_t({' | '.join(given)})" if given else ""
        lines.append(f"  if (call.timed()) [[unlikely]]\n    call.record_arguments({{{text}{bits}}}, "
                     f"{on}, {datatype});")
    for p in function.parameters:
        if p.kind in ("inout_request", "inout_request?"):
            lines.append(f"  if (call.timed()) [[unlikely]]\n    call.record_request(*{p.name});")
    return lines


def _about_files(function):
    """Whether errors go to a file's error handler, or without a file to the default one of files (14.7)."""
    return function.chapter == 14 or any(p.kind in ("file", "file?") for p in function.parameters)


def _order(functions_parameters):
    """Handles first (they decide who hears of an error), communicators before everything."""
    rank = {"comm": 0, "session": 0, "file": 0, "file?": 0, "free_file": 0, "win": 0, "win?": 0, "free_win": 0}
    return sorted(functions_parameters, key=lambda p: (rank.get(p.kind, 1 if p.kind != "root" else 0.5)))


def emit_entry(function, large, numbers):
    name = function.stem + ("_c" if large else "")
    head = prototype(function, large, "PMPI_")
    full = function.prefix + name
    alias = f'{prototype(function, large)} __attribute__((weak, alias("P{full}")));'
    if re.search(r"_(toint|fromint)$", name):
        p = function.parameters[0].name
        return f"{head} {{ return handle_cast<{function.returns}>({p}); }}\n{alias}\n"
    if function.raw:
        names = ", ".join(p.name for p in function.parameters if p.kind != "varargs")
        return f"{head} {{ return tern::capi::raw::{name}({names}); }}\n{alias}\n"
    out = [head + " {"]
    comm = next((p.name for p in function.parameters if p.kind == "comm"), "")
    out.append(f'  Call call("{full}", {numbers[full]});\n  try {{')
    if _about_files(function):
        out.append("  call.blame_files();")
    locals_, always, optional, after, arguments = [], [], [], [], []
    rooted = any(p.kind == "root" for p in function.parameters)
    for p in _order(function.parameters):
        kind = kind_of(p)
        if kind.local:
            locals_.append("  " + kind.local.replace("$", p.name))
        a, o = _checks(function, p, kind, comm)
        if a:
            always.append(a)
        if o:
            # The buffer is looked at last: what it needs (count, datatype) must be right first.
            optional.append((p.kind in ("buffer", "out_buffer"), o))
        if p.kind == "root":
            locals_.append("  Role role;")
            always.append(f"call.role({p.name}, *{comm}_, role)")
        if p.kind == "op":
            types = [q.name for q in function.parameters if q.kind in ("type", "committed_type")]
            if types and function.chapter == 6:
                when = significance(p, function)
                test = f'call.op_applies(*{p.name}_, *{types[0]}_, "{p.name}")'
                optional.append((False, f"(!{when} || {test})" if when else test))
            if function.chapter == 12:
                optional.append((False, f'call.op_accumulates(*{p.name}_, "{p.name}")'))
        if kind.after:
            after.append("  " + kind.after.replace("$", p.name))
    for p in function.parameters:
        arg = kind_of(p).arg.replace("$", p.name)
        if significance(p, function) and kind_of(p).body.startswith(("Datatype&", "Op&")):
            arg = arg.lstrip("*")
        arguments.append(arg)
    out += locals_
    optional = [text for _, text in sorted(optional, key=lambda pair: pair[0])]
    short = function.stem in SHORT_CALLS
    enter = "call.enter" + ("_reading" if function.reads else "") + ("_any_time" if function.any_time else "")
    if function.reads:
        always = [re.sub(r"call\.(get|get_or_null)\(", r"call.\1_unlocked(", check) for check in always]
    entering = enter + "()"
    if short:
        names = ", ".join(["call.world()"] + [p.name for p in function.parameters])
        message = f"{comm}, tag" if comm else "MPI_COMM_NULL, 0"
        entering = f"call.enter_shortly({message}, [&] {{ return short_calls::{function.stem}({names}); }})"
        always = [re.sub(r"call\.get\((?=comm\b)", "call.get_visited(", check) for check in always]
    conditions = [entering] + always
    # Functions of the tools interface tell no error handler, and have codes of their own (15.3.10).
    tool = function.stem.startswith("T_")
    fail = "call.fail_tool" if tool else "call.fail"
    if tool and function.stem not in ("T_init_thread", "T_finalize"):
        conditions.insert(1, "call.tools_ready()")
    text = "".join(f" &&\n        {c}" for c in conditions)[12:]
    out.append(f"  if (!({text}))\n    return {'call.end' if short else fail}();")
    if optional:
        text = "".join(f" &&\n        {c}" for c in optional)[12:]
        out.append(f"  if (call.checking() && !({text}))\n    return {fail}();")
    out += _described(function, comm)
    if function.stem in COLLECTIVE_WITHOUT_DATA:
        out.append(f"  if (call.checks()) [[unlikely]] {{\n    if (Error error = call.check_collective(*{comm}_)) "
                   "return call.fail(std::move(error));\n  }")
    # A communicator or datatype that was not made has the null handle, as with MPICH and Open MPI.
    null_handles = "".join(kind_of(p).failed.replace("$", p.name) + " " for p in function.parameters if kind_of(p).failed)
    failed = f"return {fail}(std::move(error));"
    if null_handles:
        failed = f"{{ {null_handles}{failed} }}"
    if function.form:
        # What a form has beyond the blocking one (info, request) is no operand.
        operands = arguments[:len(arguments) - {"run": 0, "begin": 1, "prepare": 2}[function.form]]
        out.append("  CallOperands o;")
        making = f"operands::{function.operation}({', '.join(['call'] + operands + ['o'])})"
        out.append(f"  if (Error error = {making}; __builtin_expect(bool(error), 0)) {failed}")
        arguments = ["call", f"*{comm}_", f"Operation::{function.operation.lower()}", "o"]
        arguments += [] if function.form == "run" else ["request_"]
        call = f"{function.form}({', '.join(arguments)})"
    else:
        call = f"body::{function.body}({', '.join(['call'] + arguments)})"
    always_after = ["  " + kind_of(p).always.replace("$", p.name) for p in function.parameters if kind_of(p).always]
    if always_after:
        out += [f"  Error error = {call};"] + always_after
        out.append(f"  if (__builtin_expect(bool(error), 0)) {failed}")
    else:
        out.append(f"  if (Error error = {call}; __builtin_expect(bool(error), 0)) {failed}")
    out += after
    out.append(f"  return MPI_SUCCESS;\n  }} catch (...) {{\n    return {fail}_caught();\n  }}\n}}\n{alias}\n")
    return "\n".join(out)


def emit_entries(functions, pieces):
    """`pieces` files of about equal size."""
    numbers = function_numbers(functions)
    units = [emit_entry(f, large, numbers) for f in functions for large in variants(f)]
    total, files, current, size = sum(map(len, units)), [], [], 0
    for unit in units:
        current.append(unit)
        size += len(unit)
        if size >= total * (len(files) + 1) / pieces:
            files.append(current)
            current = []
    if current:
        files.append(current)
    head = BANNER + ('#define TERN_DECLARES_DEPRECATED\n'
                     '#pragma GCC visibility push(default)\n#include "mpi.h"\n#include "mpix.h"\n#pragma GCC visibility pop\n\n'
                     '#include <type_traits>\n#include <utility>\n\n#include "capi/coll_operands.h"\n#include "capi/without_lock.h"\n'
                     '#include "impl.gen.h"\n\n'
                     'using namespace tern;\nusing namespace tern::capi;\n\nextern "C" {\n\n')
    return [head + "\n".join(units) + "\n}  // extern \"C\"\n" for units in files]
