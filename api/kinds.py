"""What each kind of parameter is in C, in a body, and which checks its entry point makes.

A kind is a record: `c` the C declaration ("$" stands for the name), `large` that of the _c variant (if different),
`body` the declaration in the body, `arg` what the entry point passes, `local` a declaration before the checks,
`resolve` the checks that always run (they make objects of handles), `check` those of TERN_CHECK_ARGUMENTS,
`after` a statement run when the body succeeded, `failed` one when it did not, `always` one run
in any case. In all of them "$" is the parameter's name.
"""

from dataclasses import dataclass


@dataclass
class Kind:
    c: str
    body: str = ""
    large: str = ""
    arg: str = "$"
    local: str = ""
    resolve: str = ""
    check: str = ""
    after: str = ""
    always: str = ""
    failed: str = ""
    in_loop: bool = False


# short name -> (C type, class in the bodies)
HANDLES = {
    "comm": ("MPI_Comm", "Communicator"),
    "group": ("MPI_Group", "Group"),
    "type": ("MPI_Datatype", "Datatype"),
    "op": ("MPI_Op", "Op"),
    "info": ("MPI_Info", "Info"),
    "errhandler": ("MPI_Errhandler", "ErrorHandler"),
    "request": ("MPI_Request", "Request"),
    "message": ("MPI_Message", "Message"),
    "session": ("MPI_Session", "Session"),
    "file": ("MPI_File", "File"),
    "win": ("MPI_Win", "Window"),
}

KINDS = {
    "buffer": Kind("const void *$", "const void* $"),
    "out_buffer": Kind("void *$", "void* $"),
    "pointer": Kind("void *$", "void* $"),
    "const_pointer": Kind("const void *$", "const void* $"),
    "out_pointer": Kind("void *$", "void* $", check='call.not_null($, "$")'),
    "count": Kind("int $", "Count $", large="MPI_Count $", check='call.count($, "$")'),
    "mpi_count": Kind("MPI_Count $", "Count $", check='call.count($, "$")'),
    "disp_unit": Kind("int $", "Aint $", large="MPI_Aint $"),
    "int": Kind("int $", "int $"),
    "int_large": Kind("int $", "Count $", large="MPI_Count $"),
    "aint": Kind("MPI_Aint $", "Aint $"),
    "aint_large": Kind("MPI_Aint $", "Count $", large="MPI_Count $"),
    "offset": Kind("MPI_Offset $", "Count $"),
    "logical": Kind("int $", "bool $", arg="$ != 0"),
    "counts": Kind("const int $[]", "IntArray $", large="const MPI_Count $[]", arg="IntArray($)"),
    "displs": Kind("const int $[]", "IntArray $", large="const MPI_Aint $[]", arg="IntArray($)"),
    "ints_large": Kind("const int $[]", "IntArray $", large="const MPI_Count $[]", arg="IntArray($)"),
    "aints": Kind("const MPI_Aint $[]", "IntArray $", arg="IntArray($)"),
    "aints_large": Kind("const MPI_Aint $[]", "IntArray $", large="const MPI_Count $[]", arg="IntArray($)"),
    "ints": Kind("const int $[]", "const int* $"),
    # Arrays in whose place a constant may stand (MPI_UNWEIGHTED): compilers warn of it where the prototype has brackets.
    "weights": Kind("const int *$", "const int* $"),
    "out_weights": Kind("int *$", "int* $"),
    "ranges": Kind("int $[][3]", "int (*$)[3]"),
    "keyval": Kind("int $", "int $"),
    "string": Kind("const char *$", "const char* $", check='call.not_null($, "$")'),
    "out_string": Kind("char *$", "char* $", check='call.not_null($, "$")'),
    "out_string?": Kind("char *$", "char* $"),
    "out_int": Kind("int *$", "int& $", arg="*$", resolve='call.not_null($, "$")'),
    "out_int?": Kind("int *$", "int* $"),
    "inout_int": Kind("int *$", "int& $", arg="*$", resolve='call.not_null($, "$")'),
    "out_keyval": Kind("int *$", "int& $", arg="*$", resolve='call.not_null($, "$")'),
    "free_keyval": Kind("int *$", "int& $", arg="*$", resolve='call.not_null($, "$")'),
    "out_logical": Kind("int *$", "bool& $", arg="$_", local="bool $_ = false;", resolve='call.not_null($, "$")',
                        always="*$ = $_;"),
    "out_count": Kind("int *$", "Count& $", large="MPI_Count *$", arg="$_", local="Count $_ = 0;",
                      resolve='call.not_null($, "$")', after="*$ = narrowed<std::remove_pointer_t<decltype($)>>($_);"),
    "inout_count": Kind("int *$", "Count& $", large="MPI_Count *$", arg="$_", local="Count $_ = $ ? *$ : 0;",
                        resolve='call.not_null($, "$")',
                        after="*$ = narrowed<std::remove_pointer_t<decltype($)>>($_);"),
    "out_mpi_count": Kind("MPI_Count *$", "Count& $", arg="*$", resolve='call.not_null($, "$")'),
    "out_aint": Kind("MPI_Aint *$", "Aint& $", arg="*$", resolve='call.not_null($, "$")'),
    "out_aint_large": Kind("MPI_Aint *$", "Count& $", large="MPI_Count *$", arg="*$",
                           resolve='call.not_null($, "$")'),
    "inout_aint_large": Kind("MPI_Aint *$", "Count& $", large="MPI_Count *$", arg="*$",
                             resolve='call.not_null($, "$")'),
    "out_disp_unit": Kind("int *$", "Count& $", large="MPI_Aint *$", arg="$_", local="Count $_ = 0;",
                          resolve='call.not_null($, "$")',
                          after="*$ = static_cast<std::remove_pointer_t<decltype($)>>($_);"),
    "out_offset": Kind("MPI_Offset *$", "Count& $", arg="*$", resolve='call.not_null($, "$")'),
    "out_ints": Kind("int $[]", "int* $"),
    "out_aints": Kind("MPI_Aint $[]", "Aint* $"),
    "out_mpi_counts": Kind("MPI_Count $[]", "Count* $"),
    "out_types": Kind("MPI_Datatype $[]", "MPI_Datatype* $"),
    "infos": Kind("const MPI_Info $[]", "const MPI_Info* $"),
    "status": Kind("MPI_Status *$", "MPI_Status* $"),
    "status_in": Kind("const MPI_Status *$", "const MPI_Status* $", check='call.not_null($, "$")'),
    "status_inout": Kind("MPI_Status *$", "MPI_Status* $", check='call.not_null($, "$")'),
    "statuses": Kind("MPI_Status $[]", "MPI_Status* $"),
    "dest": Kind("int $", "int $", check='call.dest($, *COMM, "$")'),
    "source": Kind("int $", "int $", check='call.source($, *COMM, "$")'),
    "root": Kind("int $", "int $", resolve='call.root($, *COMM, "$")'),
    "target_rank": Kind("int $", "int $"),
    "tag": Kind("int $", "int $", check='call.tag($, "$")'),
    "any_tag": Kind("int $", "int $", check='call.any_tag($, "$")'),
    "varargs": Kind("...", ""),
    # Handles that may be null on the way in.
    "comm?": Kind("MPI_Comm $", "Communicator* $", arg="$_", local="Communicator* $_ = nullptr;",
                  resolve='call.get_or_null($, $_, "$")'),
    "type?": Kind("MPI_Datatype $", "Datatype* $", arg="$_", local="Datatype* $_ = nullptr;",
                  resolve='call.get_or_null($, $_, "$")'),
    "info?": Kind("MPI_Info $", "Info* $", arg="$_", local="Info* $_ = nullptr;",
                  resolve='call.get_or_null($, $_, "$")'),
    "request?": Kind("MPI_Request $", "Request* $", arg="$_", local="Request* $_ = nullptr;",
                     resolve='call.get_or_null($, $_, "$")'),
    "file?": Kind("MPI_File $", "File* $", arg="$_", local="File* $_ = nullptr;",
                  resolve='call.get_or_null($, $_, "$")'),
    "win?": Kind("MPI_Win $", "Window* $", arg="$_", local="Window* $_ = nullptr;",
                 resolve='call.get_or_null($, $_, "$")'),
    "comm_at_leader": Kind("MPI_Comm $", "Communicator* $", arg="call.find($)"),
    "group_at_leader": Kind("MPI_Group $", "Group* $", arg="call.find($)"),
    "committed_type": Kind("MPI_Datatype $", "Datatype& $", arg="*$_", local="Datatype* $_ = nullptr;",
                           resolve='call.get($, $_, "$")', check='call.committed(*$_, "$")'),
    "committed_type?": Kind("MPI_Datatype $", "Datatype* $", arg="$_", local="Datatype* $_ = nullptr;",
                            resolve='call.get_or_null($, $_, "$")', check='(!$_ || call.committed(*$_, "$"))'),
    "type_ref": Kind("MPI_Datatype *$", "Datatype& $", arg="*$_", local="Datatype* $_ = nullptr;",
                     resolve='call.not_null($, "$") && call.get(*$, $_, "$")'),
    "types": Kind("const MPI_Datatype $[]", "TypeArray $", arg="TypeArray(call, $)"),
    "committed_types": Kind("const MPI_Datatype $[]", "TypeArray $", arg="TypeArray(call, $)"),
    "requests": Kind("MPI_Request $[]", "MPI_Request* $"),
    "const_requests": Kind("const MPI_Request $[]", "const MPI_Request* $"),
    # In and out: null when the handle is null; a body that sets it to null consumes the object.
    "inout_request?": Kind("MPI_Request *$", "Request*& $", arg="$_", local="Request* $_ = nullptr;",
                           resolve='call.not_null($, "$") && call.get_or_null(*$, $_, "$")',
                           always="call.retire($, $_);"),
    "inout_request": Kind("MPI_Request *$", "Request*& $", arg="$_", local="Request* $_ = nullptr;",
                          resolve='call.not_null($, "$") && call.get(*$, $_, "$")', always="call.retire($, $_);"),
    "inout_message": Kind("MPI_Message *$", "Message*& $", arg="$_", local="Message* $_ = nullptr;",
                          resolve='call.not_null($, "$") && call.get(*$, $_, "$")', always="call.retire($, $_);"),
}

for _name, (_ctype, _class) in HANDLES.items():
    KINDS[_name] = Kind(f"{_ctype} $", f"{_class}& $", arg="*$_", local=f"{_class}* $_ = nullptr;",
                        resolve='call.get($, $_, "$")')
    KINDS["out_" + _name] = Kind(f"{_ctype} *$", f"{_class}*& $", arg="$_", local=f"{_class}* $_ = nullptr;",
                                 resolve='call.not_null($, "$")', after="call.give($, $_);",
                                 failed=f"*$ = {_ctype.upper()}_NULL;" if _name in ("comm", "type") else "")
    _drop = " && call.drop_buffer(*$_)" if _name == "comm" else ""
    KINDS["free_" + _name] = Kind(f"{_ctype} *$", f"{_class}*& $", arg="$_", local=f"{_class}* $_ = nullptr;",
                                  resolve='call.not_null($, "$") && call.get(*$, $_, "$")' + _drop,
                                  always="call.retire($, $_);")


def kind_of(parameter):
    """The record of a parameter; raw{T} and callback{T} are made on the spot."""
    if parameter.kind == "raw":
        ctype = parameter.ctype
        declared = ctype.replace("[]", "$[]", 1) if "[]" in ctype else ctype + ("$" if ctype.endswith("*") else " $")
        return Kind(declared, declared)
    if parameter.kind == "callback":
        # Attribute callbacks may be 0 (MPI_COMM_NULL_COPY_FN ...); the others must be there.
        needed = "errhandler" in parameter.ctype or "User_function" in parameter.ctype
        return Kind(f"{parameter.ctype} *$", f"{parameter.ctype}* $",
                    check='call.not_null(reinterpret_cast<const void*>($), "$")' if needed else "")
    if parameter.kind not in KINDS:
        raise SystemExit(f"unknown kind {parameter.kind} of {parameter.name}")
    return KINDS[parameter.kind]


def significance(parameter, function):
    """The condition under which a parameter means something (MPI 5.0, chapter 6), as C++ over `role` and buffers."""
    rooted = any(p.kind == "root" for p in function.parameters)
    if parameter.when == "root":
        return "role.root"
    if parameter.when == "rooted":
        return "role.takes_part"
    if parameter.when in ("sender", "receiver"):
        side = "sendbuf" if parameter.when == "sender" else "recvbuf"
        placed = f"!in_place({side})"
        return f"(role.leaf && {placed})" if rooted else placed
    return ""
