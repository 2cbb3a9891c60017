"""What each parameter is in Fortran, derived from its C declaration (kinds.py) and from the few places where Fortran
sees it in another way. MPI 5.0, chapter 19 and Annex A.4, A.5.

A Dummy has: `f08` and `mpi` (type and attributes in the two modules), `shape` ("(*)" or ""), and how its entry point
receives it (`c`), hands it on (`arg`), prepares (`before`) and gives back (`after`, on success; `always`).
"""

import re
from dataclasses import dataclass

from kinds import kind_of

HANDLE_TYPES = ("Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session", "Win")
KIND_OF_INTEGER = {"int": "", "MPI_Count": "MPI_COUNT_KIND", "MPI_Aint": "MPI_ADDRESS_KIND", "MPI_Offset": "MPI_OFFSET_KIND"}

# Where Fortran sees a parameter in another way than its C declaration says.
AS = {
    ("MPI_Cart_create", "periods"): "logicals", ("MPI_Cart_map", "periods"): "logicals",
    ("MPI_Cart_get", "periods"): "out_logicals", ("MPI_Cart_sub", "remain_dims"): "logicals",
    ("MPI_Dist_graph_neighbors_count", "weighted"): "out_logical",
    ("MPI_Status_set_cancelled", "flag"): "logical", ("MPI_File_set_atomicity", "flag"): "logical",
    ("MPI_Abi_set_fortran_booleans", "logical_true"): "literal", ("MPI_Abi_set_fortran_booleans", "logical_false"): "literal",
    ("MPI_Abi_get_fortran_booleans", "logical_true"): "out_literal",
    ("MPI_Abi_get_fortran_booleans", "logical_false"): "out_literal",
    ("MPI_Dims_create", "dims"): "inout_ints",
    ("MPI_Waitany", "index"): "out_index", ("MPI_Testany", "index"): "out_index",
    ("MPI_Request_get_status_any", "index"): "out_index",
    ("MPI_Waitsome", "array_of_indices"): "out_indices", ("MPI_Testsome", "array_of_indices"): "out_indices",
    ("MPI_Request_get_status_some", "array_of_indices"): "out_indices",
}
AS_BY_NAME = {"attribute_val": {"pointer": "attribute", "out_pointer": "out_attribute"}, "extra_state": {"pointer": "attribute"}}

# Strings that come back: length with the final NUL in C (MPI_MAX_...), and the length of the dummy in mpi_f08.
OUT_STRINGS = {
    "comm_name": "MPI_MAX_OBJECT_NAME", "type_name": "MPI_MAX_OBJECT_NAME", "win_name": "MPI_MAX_OBJECT_NAME",
    "string": "MPI_MAX_ERROR_STRING", "version": "MPI_MAX_LIBRARY_VERSION_STRING", "name": "MPI_MAX_PROCESSOR_NAME",
    "port_name": "MPI_MAX_PORT_NAME",
}
OUT_STRINGS_OF_ANY_LENGTH = {"key": "MPI_MAX_INFO_KEY", "datarep": "MPI_MAX_DATAREP_STRING"}

# Written by hand in src/fortran/ (attributes.cc, callbacks.cc, special.cc): generation would be more text than they are.
BY_HAND = {
    "Comm_create_keyval", "Type_create_keyval", "Win_create_keyval", "Keyval_create", "Comm_set_attr", "Type_set_attr",
    "Win_set_attr", "Attr_put", "Comm_get_attr", "Type_get_attr", "Win_get_attr", "Attr_get", "Grequest_start",
    "Register_datarep", "Register_datarep_c", "Info_get_string", "Info_get", "Session_get_nth_pset", "Comm_spawn",
    "Comm_spawn_multiple", "Abort", "Init", "Init_thread", "Info_create_env", "Pcontrol", "Buffer_detach", "Comm_detach_buffer",
    "Session_detach_buffer",
}
# Not in Fortran at all: the tools interface, the serialisation of handles, names that only early ABI headers had.
ABSENT = re.compile(r"MPI_T_|\w+_(toint|fromint)$|MPI_P(send|recv)_init_c$")
# Deprecated before MPI-3.0: one interface, that of the mpi module, in all three (19.1.2).
OLD = {"Attr_put", "Attr_get", "Attr_delete", "Keyval_create", "Keyval_free"}
# Large counts that the C API spells out, since their parameters differ: still overloads in mpi_f08.
LARGE_BY_NAME = {"Type_get_contents_c", "Type_get_envelope_c"}
# Overloads of the mpi module with a TYPE(C_PTR), as <name>_cptr.
CPTR = {"Alloc_mem", "Win_allocate", "Win_allocate_shared", "Win_shared_query"}
# Choice buffers of which only the address counts, in whatever form the array is.
ADDRESS_ONLY = {"Get_address", "Free_mem", "Win_detach"}
_NONBLOCKING = re.compile(r"I[a-z]+|Buffer_attach|\w+_attach_buffer|"
                          r"\w+_init|File_i(read|write)\w*|\w+_(begin|end)$|(R)?(put|get|accumulate|get_accumulate)$"
                          r"|Fetch_and_op|Compare_and_swap|Win_(create|attach|detach)|Get_address|Free_mem", re.I)


@dataclass
class Dummy:
    name: str
    f08: str
    mpi: str
    shape: str = ""
    c: str = ""
    arg: str = ""
    before: str = ""
    after: str = ""
    always: str = ""
    choice: str = ""      # "in", "inout": a choice buffer
    string: bool = False  # has a hidden length
    width: str = ""       # tells large counts from small ones in a generic interface


def exists(function):
    return not ABSENT.match(function.name)


def nonblocking(function):
    """Whether the buffers are used after the call has returned, or only their addresses count (ASYNCHRONOUS)."""
    stem = function.stem
    if stem in ("Info_get", "Init", "Pack", "Unpack") or stem.startswith(("Type_", "Abi_", "Session_init")):
        return False
    return bool(_NONBLOCKING.match(stem)) and not stem.startswith(("Intercomm", "Is_", "Info"))


def _declared(parameter, large):
    kind = kind_of(parameter)
    return large and kind.large or kind.c


def _integer(ctype):
    kind = KIND_OF_INTEGER[ctype]
    return f"integer(kind={kind})" if kind else "integer"


def _length(parameter, function, handles):
    """The number of elements of an array of handles, as C++ over the entry point's parameters."""
    word = parameter.args[0] if parameter.args else ""
    comm = next((p.name for p in function.parameters if p.kind == "comm"), "")
    special = {"peers": f"peers(*{comm})", "incoming": f"incoming(*{comm})", "outgoing": f"outgoing(*{comm})"}
    if word in special:
        return special[word]
    if not word:
        word = {"out_types": "max_datatypes", "infos": "count"}.get(parameter.kind, "")
        if not word and any(p.name == "count" for p in function.parameters):
            word = "count"
        if not word:
            raise SystemExit(f"{function.name}: the length of {parameter.name} is not described")
    return f"*{word}"


def dummy(parameter, function, large):
    name, stem = parameter.name, function.stem
    old = stem in OLD
    seen = AS.get((function.name, name)) or AS_BY_NAME.get(name, {}).get(parameter.kind) or parameter.kind
    if seen in ("logical", "literal"):
        d = Dummy(name, "logical, intent(in)", "logical, intent(in)", c=f"int* {name}", arg=f"*{name} != 0")
        if seen == "literal":
            d.arg = name
        return d
    if seen in ("out_logical", "out_literal"):
        return Dummy(name, "logical, intent(out)", "logical", c=f"int* {name}", arg=name)
    if seen in ("logicals", "out_logicals"):
        intent = "in" if seen == "logicals" else "out"
        return Dummy(name, f"logical, intent({intent})", "logical", "(*)", c=f"int* {name}", arg=name)
    if seen in ("attribute", "out_attribute"):
        integer = "integer" if old else "integer(kind=MPI_ADDRESS_KIND)"
        return Dummy(name, f"{integer}, intent({'in' if seen == 'attribute' else 'out'})", integer, c="", arg="")
    if seen == "out_index":
        return Dummy(name, "integer, intent(out)", "integer", c=f"int* {name}", before=f"*{name} = MPI_UNDEFINED;", arg=name,
                     always=f"one_based({name}, 1);")
    if seen == "out_indices":
        return Dummy(name, "integer, intent(out)", "integer", "(*)", c=f"int* {name}", arg=name,
                     always=f"if (some_completed(result)) one_based({name}, *outcount);")
    if parameter.kind == "callback":
        return Dummy(name, f"procedure({parameter.ctype})", "external", c=f"{parameter.ctype}* {name}", arg=f"c_function({name})")
    if parameter.kind == "raw":
        return Dummy(name, "", "")

    text = _declared(parameter, large)
    match = re.match(r"(const )?(\w+) (\*?)\$(\[\](?:\[3\])?)?$", text)
    if not match:
        raise SystemExit(f"{function.name}: {name} ({text}) has no Fortran form; say so in api/fortran_kinds.py")
    const, ctype, pointer, array = match.groups()

    if ctype == "void":
        if parameter.kind == "out_pointer":
            # The mpi module declares MPI_BUFFER_DETACH's address as a choice buffer, and so cannot give it (3.6).
            in_mpi = "choice" if name == "buffer_addr" else "integer(kind=MPI_ADDRESS_KIND)"
            return Dummy(name, "type(C_PTR), intent(out)", in_mpi, c=f"void** {name}", arg=name)
        const = bool(const) and stem not in ("Get_address", "Win_detach")
        asynchronous = ", asynchronous" if nonblocking(function) else ""
        if stem == "Free_mem":
            const = True
        intent = ", intent(in)" if const else ""
        return Dummy(name, f"type(*), dimension(..){intent}{asynchronous}", "choice", c=f"void* {name}",
                     arg=f"c_address({name})", choice="in" if const else "inout")
    if ctype == "char":
        if const:
            strip = "Trim::both" if stem.startswith("Info_") else "Trim::right"
            return Dummy(name, "character(len=*), intent(in)", "character(len=*), intent(in)", c=f"const char* {name}",
                         before=f"InString {name}_({name}, {name}_length, {strip});", arg=f"{name}_.c_str()", string=True)
        limit = OUT_STRINGS.get(name) or OUT_STRINGS_OF_ANY_LENGTH.get(name)
        if not limit:
            limit = "1"  # by hand
        length = limit if name in OUT_STRINGS else "*"
        return Dummy(name, f"character(len={length}), intent(out)", "character(len=*)", c=f"char* {name}",
                     before=f"OutString<{limit}> {name}_;", arg=f"{name}_.c_str()",
                     after=f"{name}_.give({name}, {name}_length);", string=True)
    if ctype == "MPI_Status":
        intent = {"status_in": ", intent(in)", "status_inout": ", intent(inout)"}.get(parameter.kind, "")
        several = parameter.kind == "statuses"
        call = f"all_statuses({name})" if several else (f"one_status({name})" if parameter.kind == "status" else name)
        return Dummy(name, f"type(MPI_Status){intent}", "integer", "(*)" if several else "", c=f"MPI_Status* {name}", arg=call)
    if ctype in KIND_OF_INTEGER:
        integer = _integer(ctype)
        size = "8" if KIND_OF_INTEGER[ctype] else "4"
        if array == "[][3]":
            return Dummy(name, f"{integer}, intent(in)", integer, "(3, *)", c=f"int (*{name})[3]", arg=name)
        if array or parameter.kind in ("weights", "out_weights"):
            intent = "in" if const else "out"
            if seen == "inout_ints":
                intent = "inout"
            # Arrays with a constant in their place have no intent that would forbid passing it.
            plain = parameter.kind == "out_weights" or name == "array_of_errcodes"
            attributes = integer if plain else f"{integer}, intent({intent})"
            if nonblocking(function) and const and "weights" not in parameter.kind and function.chapter in (6, 8):
                attributes += ", asynchronous"
            arg = f"c_weights({name})" if "weights" in parameter.kind else name
            return Dummy(name, attributes, integer, "(*)", c=f"{'const ' if const else ''}{ctype}* {name}", arg=arg, width=size)
        if pointer:
            intent = "inout" if parameter.kind.startswith(("inout_", "free_")) else "out"
            return Dummy(name, f"{integer}, intent({intent})", integer, c=f"{ctype}* {name}", arg=name, width=size)
        return Dummy(name, f"{integer}, intent(in)", f"{integer}, intent(in)", c=f"{ctype}* {name}", arg=f"*{name}", width=size)
    if ctype.startswith("MPI_") and ctype[4:] in HANDLE_TYPES:
        # The deprecated routines know handles as INTEGER everywhere.
        f08 = "integer" if old else f"type({ctype})"
        if array:
            intent = "in" if const else ("out" if parameter.kind.startswith("out_") else "inout")
            given = f"{name}, " if intent != "out" else ""
            handles = f"Handles<{ctype}> {name}_({given}{_length(parameter, function, None)});"
            d = Dummy(name, f"{f08}, intent({intent})", "integer", "(*)", c=f"int* {name}", before=handles, arg=f"{name}_.data()")
            if nonblocking(function) and const and function.chapter in (6, 8):
                d.f08 += ", asynchronous"
            if intent == "out":  # of MPI_Type_get_contents alone: as many as there are, which is not the room for them
                d.after = f"{name}_.give({name}, contained_types(*datatype));"
            elif intent != "in":
                d.always = f"{name}_.give({name});"
            return d
        if pointer:
            intent = "out" if parameter.kind.startswith("out_") else "inout"
            first = f"from_int<{ctype}>(*{name})" if intent == "inout" else "nullptr"
            d = Dummy(name, f"{f08}, intent({intent})", "integer", c=f"int* {name}",
                      before=f"{ctype} {name}_ = {first};", arg=f"&{name}_")
            if stem == "Cancel":  # does not change the handle
                d.f08 = f"{f08}, intent(in)"
                return d
            give = f"*{name} = to_int({name}_);"
            if ctype == "MPI_Request" and intent == "inout":
                give = f"land(*{name}, to_int({name}_)); " + give
            if intent == "out":
                d.after = give
                # Started operations write it before they return; MPI_Comm_idup's communicator is given at once.
                if stem.startswith("Comm_idup") and name == "newcomm":
                    d.f08 += ", asynchronous"
            else:
                d.always = give
            return d
        return Dummy(name, f"{f08}, intent(in)", "integer, intent(in)", c=f"int* {name}", arg=f"from_int<{ctype}>(*{name})")
    raise SystemExit(f"{function.name}: {name} ({text}) has no Fortran form; say so in api/fortran_kinds.py")


def dummies(function, large=False):
    """The dummy arguments without ierror. MPI_Init and its like have none of C's argc and argv."""
    parameters = [p for p in function.parameters if not (p.kind == "raw" and p.name in ("argc", "argv", "...")
                                                         and function.stem != "Comm_spawn")]
    if function.stem == "Info_create_env":
        parameters = [p for p in parameters if p.name != "argc"]
    if function.stem == "Pcontrol":
        return [Dummy("level", "integer, intent(in)", "integer, intent(in)")]
    out = [dummy(p, function, large) for p in parameters if p.kind != "varargs"]
    for d in out:
        if d.name == "argv":
            d.f08, d.mpi, d.shape = "character(len=*), intent(in)", "character(len=*), intent(in)", "(*)"
        elif d.name == "array_of_commands":
            d.f08, d.mpi, d.shape = "character(len=*), intent(in)", "character(len=*), intent(in)", "(*)"
        elif d.name == "array_of_argv":
            d.f08, d.mpi, d.shape = "character(len=*), intent(in)", "character(len=*), intent(in)", "(count, *)"
    return out


def has_choice(function):
    return any(d.choice for d in dummies(function))


def large_in_f08(function):
    """Whether mpi_f08 has a second specific procedure: not when both would have the same types (19.2)."""
    if not function.large:
        return False
    return [d.width for d in dummies(function)] != [d.width for d in dummies(function, True)]
