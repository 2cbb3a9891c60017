"""Writes what Fortran programs see: mpif.h and the modules mpi and mpi_f08. MPI 5.0, chapter 19 and Annex A."""

from fortran_kinds import CPTR, HANDLE_TYPES, LARGE_BY_NAME, OLD, dummies, exists, has_choice, large_in_f08

BANNER = "Generated from api/; see api/README.md."
STRING_LIMITS = ("MPI_MAX_",)  # one less than in C: no final NUL (19.3.9)
KINDS = (("MPI_ADDRESS_KIND", 8), ("MPI_COUNT_KIND", 8), ("MPI_OFFSET_KIND", 8), ("MPI_INTEGER_KIND", 4))
STATUS = (("MPI_STATUS_SIZE", 8), ("MPI_SOURCE", 1), ("MPI_TAG", 2), ("MPI_ERROR", 3))
# Memory whose address has a meaning: name, type, shape. The symbol is mpi_fort_<x>_, a COMMON block in mpif.h. Those that
# mpi and mpi_f08 share are one entity, so that one file may use both modules.
PLACES = (
    ("MPI_BOTTOM", "integer", ""),
    ("MPI_IN_PLACE", "integer", ""),
    ("MPI_BUFFER_AUTOMATIC", "integer", ""),
    ("MPI_ERRCODES_IGNORE", "integer", "(1)"),
    ("MPI_UNWEIGHTED", "integer", "(1)"),
    ("MPI_WEIGHTS_EMPTY", "integer", "(1)"),
    ("MPI_ARGV_NULL", "character(len=1)", "(1)"),
    ("MPI_ARGVS_NULL", "character(len=1)", "(1, 1)"),
)
STATUS_PLACES = (("MPI_STATUS_IGNORE", "integer", "(MPI_STATUS_SIZE)"), ("MPI_STATUSES_IGNORE", "integer", "(MPI_STATUS_SIZE, 1)"))
STATUS_PLACES_F08 = (("MPI_STATUS_IGNORE", "type(MPI_Status)", ""), ("MPI_STATUSES_IGNORE", "type(MPI_Status)", "(1)"))
FUNCTIONS = {  # name -> (result, arguments)
    "Wtime": ("double precision", ()), "Wtick": ("double precision", ()),
    "Aint_add": ("integer(kind=MPI_ADDRESS_KIND)", ("base", "disp")),
    "Aint_diff": ("integer(kind=MPI_ADDRESS_KIND)", ("addr1", "addr2")),
}
# Predefined callbacks, as real subroutines: name -> the abstract interface whose arguments they have.
PREDEFINED = {f"MPI_{k.upper()}_{what}": f"MPI_{k}_{form}_attr_function"
              for k in ("Comm", "Type", "Win")
              for what, form in (("NULL_COPY_FN", "copy"), ("DUP_FN", "copy"), ("NULL_DELETE_FN", "delete"))}
PREDEFINED |= {"MPI_CONVERSION_FN_NULL": "MPI_Datarep_conversion_function",
               "MPI_CONVERSION_FN_NULL_C": "MPI_Datarep_conversion_function_c"}
OLD_CALLBACKS = ("MPI_NULL_COPY_FN", "MPI_DUP_FN", "MPI_NULL_DELETE_FN")

_A, _C, _O = ("integer(kind=MPI_ADDRESS_KIND)", "integer(kind=MPI_COUNT_KIND)", "integer(kind=MPI_OFFSET_KIND)")


def _callbacks():
    """name -> [(argument, type)] of the user's functions (Annex A.1.3.2); handles as "=Comm"."""
    out = {}
    for length, suffix in (("integer", ""), (_C, "_c")):
        out["MPI_User_function" + suffix] = [("invec", "type(C_PTR), value"), ("inoutvec", "type(C_PTR), value"),
                                             ("len", length), ("datatype", "=Datatype")]
        out["MPI_Datarep_conversion_function" + suffix] = [
            ("userbuf", "type(C_PTR), value"), ("datatype", "=Datatype"), ("count", length), ("filebuf", "type(C_PTR), value"),
            ("position", _O), ("extra_state", _A), ("ierror", "integer")]
    for kind, handle, stem in (("Comm", "Comm", "comm"), ("Type", "Datatype", "type"), ("Win", "Win", "win")):
        first = {"Comm": "comm", "Type": "datatype", "Win": "win"}[kind]
        out[f"MPI_{kind}_copy_attr_function"] = [
            ("old" + stem, "=" + handle), (stem + "_keyval", "integer"), ("extra_state", _A), ("attribute_val_in", _A),
            ("attribute_val_out", _A), ("flag", "logical"), ("ierror", "integer")]
        out[f"MPI_{kind}_delete_attr_function"] = [
            (first, "=" + handle), (stem + "_keyval", "integer"), ("attribute_val", _A), ("extra_state", _A),
            ("ierror", "integer")]
    for kind in ("Comm", "Win", "File", "Session"):
        out[f"MPI_{kind}_errhandler_function"] = [(kind.lower(), "=" + kind), ("error_code", "integer")]
    out["MPI_Grequest_query_function"] = [("extra_state", _A), ("status", "=Status"), ("ierror", "integer")]
    out["MPI_Grequest_free_function"] = [("extra_state", _A), ("ierror", "integer")]
    out["MPI_Grequest_cancel_function"] = [("extra_state", _A), ("complete", "logical"), ("ierror", "integer")]
    out["MPI_Datarep_extent_function"] = [("datatype", "=Datatype"), ("extent", _A), ("extra_state", _A),
                                          ("ierror", "integer")]
    return out


def _wrapped(text, indent="      "):
    """A statement of free form, continued where it is long."""
    lines, rest = [], text
    while len(rest) > 120:
        cut = rest.rindex(",", 0, 118) + 1
        lines.append(rest[:cut] + " &")
        rest = indent + rest[cut:].lstrip()
    return lines + [rest]


def _procedure(name, arguments, handles_as="type", f08=True):
    out = _wrapped(f"    subroutine {name}({', '.join(a for a, _ in arguments)})")
    out.append("      import")
    for argument, kind in arguments:
        if kind == "=Status" and not f08:
            out.append(f"      integer :: {argument}(MPI_STATUS_SIZE)")
            continue
        if kind.startswith("="):
            kind = f"type(MPI_{kind[1:]})" if f08 else "integer"
        out.append(f"      {kind} :: {argument}")
    return out + [f"    end subroutine {name}"]


def _values(sections):
    """(name, Fortran kind of value, C type, value) of the constants that Fortran has too."""
    by_name = {c.name: c for _, constants in sections for c in constants}
    for _, constants in sections:
        for c in constants:
            if c.name.startswith(("MPI_T_", "MPI_F_")) or "*" in c.ctype or c.ctype.startswith("MPI_T_"):
                continue
            value = by_name[c.alias].value if c.alias else c.value
            if c.name.startswith(STRING_LIMITS):
                value -= 1
            yield c.name, c.ctype, value


def _place(name, kind, shape):
    symbol = f"mpi_fort{'_f08' if 'MPI_Status' in kind else ''}{name[3:].lower()}_"
    return f"  {kind}, bind(C, name=\"{symbol}\"), target :: {name}{shape}"


def emit_mpif(sections):
    """Valid in fixed and free form: no continuations, statements in columns 7 to 72."""
    out = [f"! mpif.h of Tern. {BANNER}", "! For new programs the module mpi_f08 is better: it checks what is passed."]

    def line(text):
        assert len(text) <= 66, text
        out.append("      " + text)

    def constant(kind, name, value):
        line(f"{kind} {name}")
        line(f"PARAMETER ({name}={value})")
    for name, value in KINDS + STATUS:
        constant("INTEGER", name, value)
    for name in ("MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"):
        constant("LOGICAL", name, ".FALSE.")
    for name, ctype, value in _values(sections):
        constant("INTEGER(KIND=8)" if ctype == "MPI_Offset" else "INTEGER", name, value)
    for name, kind, shape in PLACES + STATUS_PLACES:
        line(f"{'CHARACTER*1' if 'char' in kind else 'INTEGER'} {name}{shape.upper().replace(' ', '')}")
        line(f"COMMON /{'MPI_FORT' + name[3:]}/ {name}")
        line(f"SAVE /{'MPI_FORT' + name[3:]}/")
    for prefix in ("", "P"):
        for name in ("WTIME", "WTICK"):
            line(f"DOUBLE PRECISION {prefix}MPI_{name}")
            line(f"EXTERNAL {prefix}MPI_{name}")
        for name in ("AINT_ADD", "AINT_DIFF"):
            line(f"INTEGER(KIND=8) {prefix}MPI_{name}")
            line(f"EXTERNAL {prefix}MPI_{name}")
    for name in (*PREDEFINED, *OLD_CALLBACKS):
        line(f"EXTERNAL {name}")
    return "\n".join(out) + "\n"


def emit_base():
    """Types and kinds that the modules mpi and mpi_f08 share, so that they are the same types in both."""
    out = [f"! What the modules mpi and mpi_f08 have in common. {BANNER}", "module tern_mpi_base",
           "  use, intrinsic :: iso_c_binding, only : c_int64_t, c_intptr_t", "  implicit none", "  public",
           "  private :: c_int64_t, c_intptr_t"]
    kinds = {"MPI_ADDRESS_KIND": "c_intptr_t", "MPI_COUNT_KIND": "c_int64_t", "MPI_OFFSET_KIND": "c_int64_t"}
    out += [f"  integer, parameter :: {n} = {kinds.get(n, v)}" for n, v in KINDS]
    out += [f"  integer, parameter :: {n} = {v}" for n, v in STATUS]
    out += ["  type, bind(C) :: MPI_Status", "    integer :: MPI_SOURCE", "    integer :: MPI_TAG", "    integer :: MPI_ERROR",
            "    integer :: MPI_INTERNAL(5)", "  end type MPI_Status"]
    for t in HANDLE_TYPES:
        out += [f"  type, bind(C) :: MPI_{t}", "    integer :: MPI_VAL", f"  end type MPI_{t}"]
    out += [_place(*place) for place in PLACES]
    for operator, word in (("==", "eq"), ("/=", "ne")):
        out.append(f"  interface operator({operator})")
        out += [f"    module procedure tern_{t.lower()}_{word}" for t in HANDLE_TYPES]
        out.append("  end interface")
    out += [f"  private :: tern_{t.lower()}_{word}" for t in HANDLE_TYPES for word in ("eq", "ne")]
    out.append("contains")
    for t in HANDLE_TYPES:
        for operator, word in (("==", "eq"), ("/=", "ne")):
            name = f"tern_{t.lower()}_{word}"
            out += [f"  elemental logical function {name}(a, b)", f"    type(MPI_{t}), intent(in) :: a, b",
                    f"    {name} = a%MPI_VAL {operator} b%MPI_VAL", f"  end function {name}"]
    return "\n".join(out + ["end module tern_mpi_base", ""])


def _sizes_of(name, of):
    return [f"  interface {name}", f"    subroutine {name}_fts(x, size, ierror)", "      type(*), dimension(..) :: x",
            "      integer, intent(out) :: size", f"      integer{of} :: ierror", f"    end subroutine {name}_fts", "  end interface"]


def emit_mpi(functions, sections):
    out = [f"! The module mpi. {BANNER}", "module mpi", "  use, intrinsic :: iso_c_binding, only : C_PTR",
           "  use tern_mpi_base", "  implicit none", "  public", "  private :: C_PTR",
           "  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false.",
           "  logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .false."]
    for name, ctype, value in _values(sections):
        kind = "integer(kind=MPI_OFFSET_KIND)" if ctype == "MPI_Offset" else "integer"
        out.append(f"  {kind}, parameter :: {name} = {value}")
    out += [_place(*place) for place in STATUS_PLACES]
    calls = _callbacks()
    out.append("  interface")
    for name, kind in PREDEFINED.items():
        # A conversion function is only recognised by its address.
        arguments = [(a, k.replace(", value", "")) for a, k in calls[kind]]
        out += _procedure(name, arguments, f08=False)
    for name in OLD_CALLBACKS:
        kind = calls["MPI_Comm_copy_attr_function" if "NULL_DEL" not in name else "MPI_Comm_delete_attr_function"]
        out += _procedure(name, [(a, "integer" if k == _A else k) for a, k in kind], f08=False)
    out.append("  end interface")
    for prefix in ("", "P"):
        out.append("  interface")
        for f in functions:
            if exists(f) and f.stem not in FUNCTIONS and f.stem not in CPTR and not f.stem.endswith("_c"):
                out += _mpi_interface(f, prefix)
        for name in ("MPI_Status_f2f08", "MPI_Status_f082f"):
            out += _status_conversion(prefix + name, "")
        out += [f"    subroutine {prefix}MPI_F_sync_reg(buf)", "      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf",
                "      type(*), dimension(*) :: buf", f"    end subroutine {prefix}MPI_F_sync_reg"]
        for name, (result, arguments) in FUNCTIONS.items():
            out += _function(f"{prefix}MPI_{name}", result, arguments)
        out.append("  end interface")
        for f in functions:
            if f.stem in CPTR:
                out.append(f"  interface {prefix}MPI_{f.stem}")
                out += _mpi_interface(f, prefix) + _mpi_interface(f, prefix, "_cptr")
                out.append("  end interface")
        out += _sizes_of(prefix + "MPI_Sizeof", "")
    return "\n".join(out + ["end module mpi", ""])


def _mpi_interface(f, prefix, suffix=""):
    arguments = dummies(f)
    has_error = f.stem != "Pcontrol"
    name = prefix + f.name + suffix
    out = _wrapped(f"    subroutine {name}({', '.join([d.name for d in arguments] + ['ierror'] * has_error)})")
    out.append("      import")
    for d in arguments:
        shape = d.shape
        if d.mpi == "choice":
            out += [f"      !GCC$ ATTRIBUTES NO_ARG_CHECK :: {d.name}", f"      type(*), dimension(*) :: {d.name}"]
            continue
        if "MPI_Status)" in d.f08:
            shape = "(MPI_STATUS_SIZE, *)" if d.shape else "(MPI_STATUS_SIZE)"
        kind = "type(C_PTR)" if suffix == "_cptr" and d.name == "baseptr" else d.mpi
        if suffix == "_f08" and d.name == "comm":
            kind = "type(MPI_Comm), intent(in)"
        out.append(f"      {kind} :: {d.name}{shape}")
    if has_error:
        out.append("      integer :: ierror")
    return out + [f"    end subroutine {name}"]


def _status_conversion(name, optional):
    first, second = (("f_status", "f08_status") if name.lower().endswith("f2f08") else ("f08_status", "f_status"))
    out = [f"    subroutine {name}{'_f08' if optional else ''}({first}, {second}, ierror)", "      import"]
    for n, intent in ((first, "in"), (second, "out")):
        kind = "integer" if n == "f_status" else "type(MPI_Status)"
        out.append(f"      {kind}, intent({intent}) :: {n}{'(MPI_STATUS_SIZE)' if n == 'f_status' else ''}")
    return out + [f"      integer{optional} :: ierror", f"    end subroutine {name}{'_f08' if optional else ''}"]


def _function(name, result, arguments):
    out = [f"    function {name}({', '.join(arguments)}) result(value)", "      import", f"      {result} :: value"]
    out += [f"      integer(kind=MPI_ADDRESS_KIND), intent(in) :: {a}" for a in arguments]
    return out + [f"    end function {name}"]


def emit_f08(functions, sections):
    out = [f"! The module mpi_f08. {BANNER}", "module mpi_f08", "  use, intrinsic :: iso_c_binding, only : C_PTR",
           "  use tern_mpi_base", "  implicit none", "  public", "  private :: C_PTR",
           "  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .true.",
           "  logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .true."]
    for name, ctype, value in _values(sections):
        if ctype[4:] in HANDLE_TYPES:
            out.append(f"  type({ctype}), parameter :: {name} = {ctype}({value})")
        else:
            kind = "integer(kind=MPI_OFFSET_KIND)" if ctype == "MPI_Offset" else "integer"
            out.append(f"  {kind}, parameter :: {name} = {value}")
    out += [_place(*place) for place in STATUS_PLACES_F08]
    calls = _callbacks()
    out.append("  abstract interface")
    for name, arguments in calls.items():
        out += _procedure(name, arguments)
    out += ["  end interface", "  interface"]
    for name, kind in PREDEFINED.items():
        out += _procedure(name, calls[kind])
    for name in OLD_CALLBACKS:
        kind = calls["MPI_Comm_copy_attr_function" if "NULL_DEL" not in name else "MPI_Comm_delete_attr_function"]
        out += _procedure(name, [(a, "integer" if k == _A else k) for a, k in kind], f08=False)
    out.append("  end interface")
    for prefix in ("", "P"):
        for f in functions:
            if not exists(f) or f.stem in FUNCTIONS:
                continue
            if f.stem in OLD:
                # The standard has them with INTEGER handles only; programs exist that pass TYPE(MPI_Comm).
                out += [f"  interface {prefix}{f.name}"] + _mpi_interface(f, prefix)
                if any(d.name == "comm" for d in dummies(f)):
                    out += _mpi_interface(f, prefix, "_f08")
                out += ["  end interface"]
                continue
            out.append(f"  interface {prefix}{f.name.removesuffix('_c') if f.stem in LARGE_BY_NAME else f.name}")
            out += _f08_interface(f, prefix, False)
            if large_in_f08(f):
                out += _f08_interface(f, prefix, True)
            out.append("  end interface")
        for name in ("MPI_Status_f2f08", "MPI_Status_f082f"):
            out += [f"  interface {prefix}{name}"] + _status_conversion(prefix + name, ", optional, intent(out)") + ["  end interface"]
        out += [f"  interface {prefix}MPI_F_sync_reg", f"    subroutine {prefix}MPI_F_sync_reg_f08ts(buf)",
                "      type(*), dimension(..), asynchronous :: buf", f"    end subroutine {prefix}MPI_F_sync_reg_f08ts",
                "  end interface"]
        for name, (result, arguments) in FUNCTIONS.items():
            out += [f"  interface {prefix}MPI_{name}"] + _function(f"{prefix}MPI_{name}_f08", result, arguments) + ["  end interface"]
        out += _sizes_of(prefix + "MPI_Sizeof", ", optional, intent(out)")
    return "\n".join(out + ["end module mpi_f08", ""])


def _f08_interface(f, prefix, large):
    arguments = dummies(f, large)
    has_error = f.stem != "Pcontrol"
    name = f"{prefix}{f.name}{'_c' if large else ''}_f08{'ts' if has_choice(f) else ''}"
    out = _wrapped(f"    subroutine {name}({', '.join([d.name for d in arguments] + ['ierror'] * has_error)})")
    out.append("      import")
    out += [f"      {d.f08} :: {d.name}{d.shape}" for d in arguments]
    if has_error:
        out.append("      integer, optional, intent(out) :: ierror")
    return out + [f"    end subroutine {name}"]
