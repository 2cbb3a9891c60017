"""Writes a C program from the API description (api/): every function of chapters 3 to 8, 12 to 14 and 16 that takes a
handle or a key value is called with valid arguments but one, which is null, freed, or a valid handle of a kind that
does not belong there. `handles_test.py` runs it.

    python3 handles_emit.py API_FOLDER PROGRAM.c
"""

import re
import sys

# kind of handle -> [(C expression, what the call must return: an error class, "error", "" for anything)]
WRONG = {
    "comm": [("MPI_COMM_NULL", "MPI_ERR_COMM"), ("freed_comm", "MPI_ERR_COMM"), ("inter", ""), ("cart", ""),
             ("graph", ""), ("dist_graph", "")],
    "group": [("MPI_GROUP_NULL", "MPI_ERR_GROUP"), ("freed_group", "MPI_ERR_GROUP"), ("MPI_GROUP_EMPTY", "")],
    "type": [("MPI_DATATYPE_NULL", "MPI_ERR_TYPE"), ("freed_type", "MPI_ERR_TYPE"), ("uncommitted", ""), ("mixed", ""),
             ("strided", ""), ("empty", ""), ("MPI_DOUBLE_INT", ""), ("MPI_PACKED", "")],
    "op": [("MPI_OP_NULL", "MPI_ERR_OP"), ("freed_op", "MPI_ERR_OP"), ("user_op", ""), ("user_op_c", ""),
           ("MPI_REPLACE", ""), ("MPI_NO_OP", ""), ("MPI_MAXLOC", ""), ("MPI_LXOR", "")],
    "info": [("MPI_INFO_NULL", "MPI_ERR_INFO"), ("freed_info", "MPI_ERR_INFO"), ("MPI_INFO_ENV", "")],
    "errhandler": [("MPI_ERRHANDLER_NULL", "error"), ("freed_errhandler", "error"), ("comm_errhandler", ""),
                   ("win_errhandler", ""), ("file_errhandler", "")],
    "request": [("MPI_REQUEST_NULL", "MPI_ERR_REQUEST"), ("freed_request", "MPI_ERR_REQUEST"), ("persistent", ""),
                ("partitioned_send", ""), ("partitioned_receive", ""), ("persistent_barrier", "")],
    "message": [("MPI_MESSAGE_NULL", "error"), ("MPI_MESSAGE_NO_PROC", "")],
    "session": [("MPI_SESSION_NULL", "error"), ("freed_session", "error")],
    "file": [("MPI_FILE_NULL", "MPI_ERR_FILE"), ("freed_file", "MPI_ERR_FILE"), ("read_only", ""), ("sequential", "")],
    "win": [("MPI_WIN_NULL", "MPI_ERR_WIN"), ("freed_win", "MPI_ERR_WIN"), ("created", ""), ("dynamic", ""),
            ("shared", "")],
    "keyval": [("MPI_KEYVAL_INVALID", "MPI_ERR_KEYVAL"), ("freed_keyval", "MPI_ERR_KEYVAL"), ("12345", "MPI_ERR_KEYVAL"),
               ("comm_keyval", ""), ("type_keyval", ""), ("win_keyval", ""), ("MPI_TAG_UB", ""), ("MPI_WIN_SIZE", "")],
}
RIGHT = {
    "comm": "comm", "group": "group", "type": "MPI_INT", "op": "MPI_SUM", "info": "info", "errhandler": "MPI_ERRORS_RETURN",
    "request": "persistent", "message": "MPI_MESSAGE_NO_PROC", "session": "session", "file": "file", "win": "win"}
CTYPES = {"comm": "MPI_Comm", "group": "MPI_Group", "type": "MPI_Datatype", "op": "MPI_Op", "info": "MPI_Info",
          "errhandler": "MPI_Errhandler", "request": "MPI_Request", "message": "MPI_Message", "session": "MPI_Session",
          "file": "MPI_File", "win": "MPI_Win", "keyval": "int"}
CLEAN = {"comm": "MPI_Comm_free", "group": "MPI_Group_free", "type": "MPI_Type_free", "op": "MPI_Op_free",
         "info": "MPI_Info_free", "errhandler": "MPI_Errhandler_free", "file": "MPI_File_close", "win": "MPI_Win_free"}
# What the values of WRONG with "" must do; the first line that fits counts. Elsewhere they may be right.
RULES = [
    # (function, parameter, value, result)
    (r"(R?(get_)?accumulate|Fetch_and_op)$", "op", r"user_op(_c)?", "MPI_ERR_OP"),
    (r"(R?(get_)?accumulate|Fetch_and_op)$", "op", r"MPI_MAXLOC", "MPI_ERR_OP"),
    (r"(Fetch_and_op|Compare_and_swap)$", "type", r"mixed|strided|empty", "MPI_ERR_TYPE"),
    (r"(I?(All)?reduce(_scatter)?(_block)?|I?(Ex)?scan|Reduce_local)(_init)?$", "op",
     r"MPI_REPLACE|MPI_NO_OP|MPI_MAXLOC", "MPI_ERR_OP"),
    (r"Op_free$", "op", r"MPI_.*", "MPI_ERR_OP"),
    (r"Type_free$", "type", r"MPI_.*", "MPI_ERR_TYPE"),
    (r"(Comm|Attr)_\w*(delete|put|set)\w*$", "keyval", r"type_keyval|win_keyval|MPI_.*", "MPI_ERR_KEYVAL"),
    (r"Type_\w*(delete|set|get)\w*$", "keyval", r"comm_keyval|win_keyval|MPI_.*", "MPI_ERR_KEYVAL"),
    (r"Win_(delete|set)\w*$", "keyval", r"comm_keyval|type_keyval|MPI_.*", "MPI_ERR_KEYVAL"),
    (r"(Cart_(create|map)|Graph_(create|map)|Dist_graph_create\w*)$", "comm", "inter", "MPI_ERR_COMM"),
    (r"(Cart_(coords|get|rank|shift|sub)|Cartdim_get)$", "comm", "graph|dist_graph|inter", "MPI_ERR_TOPOLOGY|MPI_ERR_COMM"),
    (r"Graph_(get|neighbors\w*)$|Graphdims_get$", "comm", "cart|dist_graph|inter", "MPI_ERR_TOPOLOGY|MPI_ERR_COMM"),
    (r"Dist_graph_neighbors\w*$", "comm", "cart|graph|inter", "MPI_ERR_TOPOLOGY|MPI_ERR_COMM"),
    (r"I?[Nn]eighbor_\w+$", "comm", "inter", "MPI_ERR_TOPOLOGY|MPI_ERR_COMM"),
    (r"(Win_(create|allocate)\w*|File_open)$", "comm", "inter", "MPI_ERR_COMM"),
    (r"Pready\w*$", "request", r"persistent|partitioned_receive|persistent_barrier", "MPI_ERR_REQUEST"),
    (r"Parrived$", "request", r"persistent|partitioned_send|persistent_barrier", "MPI_ERR_REQUEST"),
    (r"Grequest_complete$", "request", ".*", "MPI_ERR_REQUEST"),
    (r"Win_set_errhandler$", "errhandler", "comm_errhandler|file_errhandler", "error"),
    (r"Comm_set_errhandler$", "errhandler", "win_errhandler|file_errhandler", "error"),
    (r"File_set_errhandler$", "errhandler", "comm_errhandler|win_errhandler", "error"),
    (r"Win_(at|de)tach$", "win", "created|shared", "MPI_ERR_RMA_FLAVOR"),
    (r"Win_shared_query$", "win", "dynamic", "MPI_ERR_RMA_FLAVOR"),
    (r"File_write(_at|_all|_at_all|_shared|_ordered)?$", "file", "read_only",
     "MPI_ERR_READ_ONLY|MPI_ERR_ACCESS|MPI_ERR_OTHER|MPI_ERR_UNSUPPORTED_OPERATION"),
]
# Calls that would block or end the program where the other rank does not take part, or that are no call of MPI's errors.
LEFT_OUT = {"Comm_free", "Comm_disconnect", "Comm_accept", "Comm_connect", "Comm_spawn", "Comm_spawn_multiple", "Comm_join",
            "Abort", "Session_finalize"}
# Values that wait for somebody who does not come, or are consumed by the call that they are right for.
SKIP = [
    (r".*", "request", r"persistent\w*|partitioned\w*", r"(Wait|Test|Start|Cancel|Request_free)\w*$"),
    (r".*", "comm", "inter", r"(I?(all|gather|bcast|barrier|reduce|scatter|exscan|scan|neighbor)\w*|"
                             r"(All|Gather|Bcast|Barrier|Reduce|Scatter|Exscan|Scan)\w*|Comm_\w*|I?(prob|mprob)e|Probe|"
                             r"Mprobe|Intercomm_\w*|I?[a-z]?(send|recv)\w*)$"),
    (r".*", "op", "user_op\\w*", r"Op_free$"),
    (r".*", "type", "uncommitted", r"Type_commit$"),
    (r".*", "type", "empty", r"I?[Nn]eighbor_\w+$"),  # nothing is sent, and something is waited for
    (r".*", "type", "uncommitted|mixed|strided|empty", r"Type_free$"),
    (r".*", "keyval", r"\w*_keyval", r"\w*free\w*$"),
    (r".*", "win", "created|dynamic|shared", r"Win_(free|wait|set_errhandler|\w*call_errhandler)$"),
    (r".*", "file", "read_only|sequential", r"File_(close|set_errhandler|set_view)$"),
    (r".*", "errhandler", r"(comm|win|file)_errhandler", r"(Errhandler_free|Comm_create_from_group|Intercomm_create\w*)$"),
    (r".*", "comm", "inter|cart|graph|dist_graph", r"(Comm_set_errhandler|Comm_call_errhandler|Comm_\w*buffer)$"),
]
BY_NAME = {"ndims": "1", "dims": "ones", "periods": "zeros", "maxdims": "1", "color": "0", "key": "0", "amode": "MPI_MODE_RDONLY",
           "lock_type": "MPI_LOCK_SHARED", "partitions": "1", "size": "8", "disp_unit": "1", "order": "MPI_ORDER_C",
           "split_type": "MPI_COMM_TYPE_SHARED", "array_of_sizes": "ones", "array_of_subsizes": "ones", "nnodes": "1",
           "array_of_gsizes": "ones", "array_of_distribs": "distribs", "array_of_dargs": "dargs", "array_of_psizes": "ones",
           "index": "ones", "n": "1", "degrees": "ones", "filename": '"handles.data"', "datarep": '"native"', "length": "1",
           "indegree": "1", "outdegree": "1", "maxindegree": "1", "maxoutdegree": "1", "position": "&position",
           "stringtag": '"tag"', "pset_name": '"mpi://SELF"', "whence": "MPI_SEEK_SET", "user_data": "memory"}


def expected(stem, kind, value, given):
    if given:
        return given
    for function, of, pattern, result in RULES:
        if of == kind and re.match(function, stem) and re.fullmatch(pattern, value):
            return result
    return ""


def skipped(stem, kind, value):
    return any(of == kind and re.fullmatch(pattern, value) and re.match(function, stem)
               for _, of, pattern, function in SKIP)


def base(kind):
    """The kind of handle of a parameter that brings one; empty: it brings none."""
    plain = kind.rstrip("?")
    for prefix in ("free_", "inout_"):
        if plain.startswith(prefix) and plain[len(prefix):] in WRONG:
            return plain[len(prefix):]
    plain = {"committed_type": "type", "type_ref": "type", "types": "type", "committed_types": "type",
             "requests": "request", "const_requests": "request"}.get(plain, plain)
    return plain if plain in WRONG else ""


def argument(p, function, large, value, before, after):
    """The C expression of a parameter. `value`: of its handle, else the right one."""
    name, kind = p.name, p.kind.rstrip("?")
    handle = base(p.kind)
    if handle:
        if handle == "keyval":
            right = "win_keyval" if function.stem.startswith("Win") else "type_keyval" if function.stem.startswith("Type") \
                else "comm_keyval"
        elif handle == "request" and function.chapter == 4:
            right = "partitioned_receive" if "arrived" in function.stem else "partitioned_send"
        elif handle == "comm" and "eighbor" in function.stem:
            right = "dist_graph" if "Dist_graph" in function.stem else "graph" if "Graph" in function.stem else "cart"
        elif handle == "win" and function.stem in ("Win_attach", "Win_detach"):
            right = "dynamic"
        else:
            right = RIGHT[handle]
        value = value or right
        if kind in ("types", "committed_types", "requests", "const_requests"):
            before.append(f"{CTYPES[handle]} {name}_[4] = {{{value}, {value}, {value}, {value}}};")
            return f"{name}_"
        if kind.startswith(("free_", "inout_")) or kind == "type_ref":
            before.append(f"{CTYPES[handle]} {name}_ = {value};")
            return f"&{name}_"
        return value
    if kind.startswith("out_") and kind[4:] in CTYPES and kind != "out_keyval":
        of = kind[4:]
        null = {"type": "MPI_DATATYPE_NULL", "errhandler": "MPI_ERRHANDLER_NULL"}.get(of, CTYPES[of].upper() + "_NULL")
        before.append(f"{CTYPES[of]} {name}_ = {null};")
        if of == "request":
            after.insert(0, f"{'free' if 'init' in function.stem else 'end'}_request(&{name}_);")
        elif of in CLEAN:
            after.append(f"if ({name}_ != {null}) {{ {CLEAN[of]}(&{name}_); }}")
        return f"&{name}_"
    if name in BY_NAME and not kind.startswith("out_"):
        if name == "position":
            return {"inout_count": "&large_position" if large else "&position",
                    "inout_aint_large": "&large_position" if large else "&aint_position"}[kind]
        return "large_ones" if large and kind == "ints_large" and BY_NAME[name] == "ones" else BY_NAME[name]
    if kind in ("buffer", "out_buffer", "pointer", "const_pointer"):
        return "memory" if name != "recvbuf" and name != "result_addr" and name != "inoutbuf" else "other_memory"
    if kind in ("count", "mpi_count"):
        return "1"
    if kind in ("out_pointer",):
        return "&pointer_out"
    if kind in ("dest", "source"):
        return "MPI_PROC_NULL"
    if kind in ("root", "target_rank", "tag", "any_tag", "int", "int_large", "aint", "aint_large", "offset", "logical"):
        return "0"
    if kind in ("counts", "ints_large"):
        return "large_ones" if large else "ones"
    if kind in ("displs",):
        return "aint_zeros" if large else "zeros"
    if kind in ("aints",):
        return "aint_zeros"
    if kind == "aints_large":
        return "large_zeros" if large else "aint_zeros"
    if kind == "ints":
        return "zeros"
    if kind in ("weights",):
        return "MPI_UNWEIGHTED"
    if kind in ("status", "status_in", "status_inout"):
        return "&status"
    if kind == "statuses":
        return "statuses"
    if kind == "string":
        return '"text"'
    if kind == "out_string":
        return "text"
    if kind in ("comm_at_leader", "group_at_leader"):
        return "MPI_COMM_NULL" if kind[0] == "c" else "MPI_GROUP_NULL"
    if kind == "ranges":
        return "ranges"
    if kind == "callback":
        return callback(p.ctype)
    if kind in ("out_ints", "out_weights"):
        return "ints_out"
    if kind == "out_types":
        return "types_out"
    if kind == "out_mpi_counts":
        return "counts_out"
    if kind == "out_aints":
        return "aints_out"
    if kind in ("out_count", "out_aint_large", "inout_aint_large", "inout_count"):
        return "&count_out" if large else "&int_out" if kind in ("out_count", "inout_count") else "&aint_out"
    if kind == "out_disp_unit":
        return "&aint_out" if large else "&int_out"
    return {"out_int": "&int_out", "inout_int": "&int_out", "out_logical": "&int_out", "out_keyval": "&int_out",
            "out_mpi_count": "&count_out", "out_aint": "&aint_out", "out_offset": "&offset_out"}[kind]


def callback(ctype):
    return f"({ctype}*)nothing"


def cases(function, large):
    name = function.name + ("_c" if large else "")
    for varied, p in enumerate(function.parameters):
        kind = base(p.kind)
        if not kind:
            continue
        for value, given in WRONG[kind]:
            if p.kind.endswith("?") and "NULL" in value or skipped(function.stem, kind, value):
                continue
            if p.kind in ("comm_at_leader", "group_at_leader"):
                continue
            result = expected(function.stem, kind, value, given)
            if value == "uncommitted" and p.kind.startswith("committed_type") and not p.when:
                result = "MPI_ERR_TYPE"
            if p.kind in ("requests", "const_requests", "inout_request") and value == "MPI_REQUEST_NULL":
                result = "" if p.kind != "inout_request" else result
            if p.when or kind == "type" and "NULL" in value and function.chapter in (3, 4):
                result = ""  # not significant here; of no datatype, since it is sent to nobody
            before, after, arguments = [], [], []
            for i, q in enumerate(function.parameters):
                arguments.append(argument(q, function, large, value if i == varied else None, before, after))
            label = f"{name} {p.name} = {value}"
            classes = result.split("|") if result and result != "error" else []
            wanted = "{" + ", ".join(classes + ["-1"]) + "}"
            body = " ".join(before)
            yield (f'  if (begin_case("{label}")) {{\n    {body}\n'
                   f'    const int wanted[] = {wanted};\n'
                   f'    judge({name}({", ".join(arguments)}), wanted, {1 if result else 0});\n'
                   f'    {" ".join(after)}\n  }}\n')


def main():
    api, out = sys.argv[1:]
    sys.path.insert(0, api)
    from description import read_functions
    functions, _ = read_functions(api)
    blocks = []
    for f in functions:
        raw = f.raw or any(p.kind in ("raw", "varargs", "infos") for p in f.parameters)
        if raw or f.chapter not in (3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 16) or f.stem in LEFT_OUT:
            continue
        lines = [line for large in ([False, True] if f.large else [False]) for line in cases(f, large)]
        if lines:
            blocks.append((f.stem, lines))
    with open(out, "w") as program:
        program.write('/* Generated from api/ by handles_emit.py. */\n#include "handles.h"\n\n')
        for stem, lines in blocks:
            program.write(f"static void {stem}_cases(void) {{\n" + "".join(lines) + "}\n\n")
        program.write("void all_cases(void) {\n" + "".join(f"  {stem}_cases();\n" for stem, _ in blocks) + "}\n")


main()
