"""Writes mpi.h: the header of the MPI 5.0 standard ABI (chapter 20, Annex A.1)."""

from kinds import kind_of

HEAD = """\
/* mpi.h of Tern: the MPI 5.0 standard ABI (MPI 5.0, chapter 20). Generated from api/; C and C++.
   A program built with this header runs with every library that implements the standard ABI, and the reverse. */
#ifndef MPI_H_ABI
#define MPI_H_ABI

#include <stddef.h>
#include <stdint.h>

/* Of the constants below: C++ programs may be compiled with warnings for casts of C. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define TERN_MPI_POINTER(type, value) (reinterpret_cast<type>(value))
#define TERN_MPI_NULL(type) (static_cast<type>(nullptr))
#define TERN_MPI_INTEGER(type, value) (static_cast<type>(value))
#else
#define TERN_MPI_NULL(type) ((type)0)
#define TERN_MPI_POINTER(type, value) ((type)value)
#define TERN_MPI_INTEGER(type, value) ((type)value)
#endif

#if defined(__cplusplus)
extern "C" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;

typedef struct {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int MPI_internal[5];
} MPI_Status;

"""

HANDLE_TYPES = ("Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session",
                "Win")
TOOL_TYPES = ("T_enum", "T_cvar_handle", "T_pvar_handle", "T_pvar_session", "T_event_registration",
              "T_event_instance")

# name, result, parameters (Annex A.1.3 and A.1.4)
CALLBACKS = (
    ("MPI_User_function", "void", "void *invec, void *inoutvec, int *len, MPI_Datatype *datatype"),
    ("MPI_User_function_c", "void", "void *invec, void *inoutvec, MPI_Count *len, MPI_Datatype *datatype"),
    ("MPI_Grequest_query_function", "int", "void *extra_state, MPI_Status *status"),
    ("MPI_Grequest_free_function", "int", "void *extra_state"),
    ("MPI_Grequest_cancel_function", "int", "void *extra_state, int complete"),
    ("MPI_Comm_copy_attr_function", "int", "MPI_Comm oldcomm, int comm_keyval, void *extra_state, "
     "void *attribute_val_in, void *attribute_val_out, int *flag"),
    ("MPI_Comm_delete_attr_function", "int",
     "MPI_Comm comm, int comm_keyval, void *attribute_val, void *extra_state"),
    ("MPI_Type_copy_attr_function", "int", "MPI_Datatype oldtype, int type_keyval, void *extra_state, "
     "void *attribute_val_in, void *attribute_val_out, int *flag"),
    ("MPI_Type_delete_attr_function", "int",
     "MPI_Datatype datatype, int type_keyval, void *attribute_val, void *extra_state"),
    ("MPI_Win_copy_attr_function", "int", "MPI_Win oldwin, int win_keyval, void *extra_state, "
     "void *attribute_val_in, void *attribute_val_out, int *flag"),
    ("MPI_Win_delete_attr_function", "int",
     "MPI_Win win, int win_keyval, void *attribute_val, void *extra_state"),
    ("MPI_Copy_function", "int", "MPI_Comm oldcomm, int keyval, void *extra_state, void *attribute_val_in, "
     "void *attribute_val_out, int *flag"),
    ("MPI_Delete_function", "int", "MPI_Comm comm, int keyval, void *attribute_val, void *extra_state"),
    ("MPI_Comm_errhandler_function", "void", "MPI_Comm *comm, int *error_code, ..."),
    ("MPI_Win_errhandler_function", "void", "MPI_Win *win, int *error_code, ..."),
    ("MPI_File_errhandler_function", "void", "MPI_File *file, int *error_code, ..."),
    ("MPI_Session_errhandler_function", "void", "MPI_Session *session, int *error_code, ..."),
    ("MPI_Datarep_extent_function", "int", "MPI_Datatype datatype, MPI_Aint *extent, void *extra_state"),
    ("MPI_Datarep_conversion_function", "int", "void *userbuf, MPI_Datatype datatype, int count, void *filebuf, "
     "MPI_Offset position, void *extra_state"),
    ("MPI_Datarep_conversion_function_c", "int", "void *userbuf, MPI_Datatype datatype, MPI_Count count, "
     "void *filebuf, MPI_Offset position, void *extra_state"),
    ("MPI_T_event_cb_function", "void", "MPI_T_event_instance event_instance, "
     "MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, void *user_data"),
    ("MPI_T_event_free_cb_function", "void", "MPI_T_event_registration event_registration, "
     "MPI_T_cb_safety cb_safety, void *user_data"),
    ("MPI_T_event_dropped_cb_function", "void", "MPI_Count count, MPI_T_event_registration event_registration, "
     "int source_index, MPI_T_cb_safety cb_safety, void *user_data"),
)

# 20.2: the ABI has nothing that was deprecated in MPI-3.1 or earlier. So a program that calls these must need no symbol of theirs:
# they are inline, in terms of the functions that took their place. The library exports them all the same, for programs that were
# compiled before, and declares them (TERN_DECLARES_DEPRECATED) to define them.
DEPRECATED = {
    "Attr_delete": "MPI_Comm_delete_attr(comm, keyval)",
    "Attr_get": "MPI_Comm_get_attr(comm, keyval, attribute_val, flag)",
    "Attr_put": "MPI_Comm_set_attr(comm, keyval, attribute_val)",
    "Keyval_create": "MPI_Comm_create_keyval(copy_fn, delete_fn, keyval, extra_state)",
    "Keyval_free": "MPI_Comm_free_keyval(keyval)",
}

# Chapter 17: what MPI-3 removed and an implementation may still provide. Programs from before still call these (HPL, as it comes
# with HPC Challenge), and are compiled as C of their time (-std=gnu89), too. Inline, so that the library exports what the ABI names
# and nothing else.
REMOVED = """\
/* 17 Removed interfaces: names of MPI-1 that old programs use, in terms of those that took their place */
#if defined(__GNUC__)
typedef MPI_Comm_errhandler_function MPI_Handler_function;
static __inline__ int MPI_Address(void *location, MPI_Aint *address) { return MPI_Get_address(location, address); }
static __inline__ int MPI_Errhandler_create(MPI_Handler_function *handler, MPI_Errhandler *errhandler) {
  return MPI_Comm_create_errhandler(handler, errhandler);
}
static __inline__ int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler) {
  return MPI_Comm_get_errhandler(comm, errhandler);
}
static __inline__ int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler) {
  return MPI_Comm_set_errhandler(comm, errhandler);
}
static __inline__ int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent) {
  MPI_Aint lb;
  return MPI_Type_get_extent(datatype, &lb, extent);
}
static __inline__ int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement) {
  MPI_Aint extent;
  return MPI_Type_get_extent(datatype, displacement, &extent);
}
static __inline__ int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement) {
  MPI_Aint lb = 0, extent = 0;
  int error = MPI_Type_get_extent(datatype, &lb, &extent);
  if (error == MPI_SUCCESS) *displacement = lb + extent;
  return error;
}
static __inline__ int MPI_Type_hindexed(int count, int blocklengths[], MPI_Aint displacements[], MPI_Datatype oldtype,
                                        MPI_Datatype *newtype) {
  return MPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}
static __inline__ int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                       MPI_Datatype *newtype) {
  return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}
static __inline__ int MPI_Type_struct(int count, int blocklengths[], MPI_Aint displacements[], MPI_Datatype types[],
                                      MPI_Datatype *newtype) {
  return MPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
}
#endif
"""

# Sections 19.3.4 and 19.3.5, which are no part of the ABI because they depend on Fortran's INTEGER. Tern's Fortran library has
# INTEGERs of the size of int and the handles of MPI_X_toint, so the handles' conversions are other names of those (macros are
# allowed for them): a program that uses them still needs no symbol but the ABI's, and may declare them itself.
FORTRAN_HEAD = """\
/* 19.3 Fortran's handles and statuses in C. Not in the ABI's header: these names stand for the ABI's functions */
#if defined(__GNUC__)
typedef int MPI_Fint;
typedef MPI_Status MPI_F08_status;
"""
FORTRAN_STATUSES = """\
static __inline__ int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status) {
  int i;
  f_status[MPI_F_SOURCE] = c_status->MPI_SOURCE;
  f_status[MPI_F_TAG] = c_status->MPI_TAG;
  f_status[MPI_F_ERROR] = c_status->MPI_ERROR;
  for (i = 0; i < 5; i++) f_status[3 + i] = c_status->MPI_internal[i];
  return MPI_SUCCESS;
}
static __inline__ int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status) {
  int i;
  c_status->MPI_SOURCE = f_status[MPI_F_SOURCE];
  c_status->MPI_TAG = f_status[MPI_F_TAG];
  c_status->MPI_ERROR = f_status[MPI_F_ERROR];
  for (i = 0; i < 5; i++) c_status->MPI_internal[i] = f_status[3 + i];
  return MPI_SUCCESS;
}
static __inline__ int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status) {
  *f08_status = *c_status;
  return MPI_SUCCESS;
}
static __inline__ int MPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status) {
  *c_status = *f08_status;
  return MPI_SUCCESS;
}
#define MPI_Status_f2f08 MPI_Status_f2c
#define MPI_Status_f082f MPI_Status_c2f
#define PMPI_Status_c2f MPI_Status_c2f
#define PMPI_Status_f2c MPI_Status_f2c
#define PMPI_Status_c2f08 MPI_Status_c2f08
#define PMPI_Status_f082c MPI_Status_f082c
#define PMPI_Status_f2f08 MPI_Status_f2c
#define PMPI_Status_f082f MPI_Status_c2f
/* Where Fortran's MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE are; null in a program without Fortran's library. */
extern MPI_Status mpi_fort_status_ignore_ __attribute__((weak)), mpi_fort_statuses_ignore_ __attribute__((weak));
extern MPI_Status mpi_fort_f08_status_ignore_ __attribute__((weak)), mpi_fort_f08_statuses_ignore_ __attribute__((weak));
#define MPI_F_STATUS_IGNORE TERN_MPI_POINTER(MPI_Fint *, &mpi_fort_status_ignore_)
#define MPI_F_STATUSES_IGNORE TERN_MPI_POINTER(MPI_Fint *, &mpi_fort_statuses_ignore_)
#define MPI_F08_STATUS_IGNORE (&mpi_fort_f08_status_ignore_)
#define MPI_F08_STATUSES_IGNORE (&mpi_fort_f08_statuses_ignore_)
#endif
"""


def fortran_conversions():
    names = [f"#define {prefix}_{kind}_{fortran} {prefix}_{kind}_{integer}"
             for kind in ("Type" if n == "Datatype" else n for n in HANDLE_TYPES)
             for fortran, integer in (("c2f", "toint"), ("f2c", "fromint")) for prefix in ("MPI", "PMPI")]
    return FORTRAN_HEAD + "\n".join(names) + "\n" + FORTRAN_STATUSES


def c_parameters(function, large):
    declared = []
    for parameter in function.parameters:
        kind = kind_of(parameter)
        declared.append((large and kind.large or kind.c).replace("$", parameter.name))
    return ", ".join(declared) or "void"


def prototype(function, large, prefix="MPI_"):
    name = prefix.replace("MPI_", function.prefix) + function.stem + ("_c" if large else "")
    return f"{function.returns} {name}({c_parameters(function, large)})".replace("* ", "*")


def variants(function):
    return (False, True) if function.large else (False,)


def _constant(constant):
    if constant.alias:
        return f"#define {constant.name} {constant.alias}"
    if constant.ctype == "int":
        text = str(constant.value) if constant.value >= 0 else f"({constant.value})"
    elif constant.value == 0 and constant.ctype != "MPI_Offset":
        text = f"TERN_MPI_NULL({constant.ctype.replace('_function*', '_function *')})"
    elif "_function" in constant.ctype or constant.ctype.endswith("*"):
        text = f"TERN_MPI_POINTER({constant.ctype.replace('_function*', '_function *')}, {constant.value})"
    elif constant.ctype in ("MPI_Offset",):
        text = f"TERN_MPI_INTEGER({constant.ctype}, {constant.value})"
    else:
        text = f"TERN_MPI_POINTER({constant.ctype}, 0x{constant.value:x})"
    return f"#define {constant.name} {text}"


def deprecated(functions):
    """Those that the ABI leaves out, behind everything that their bodies call."""
    own = [prototype(function, False) for function in functions if function.stem in DEPRECATED]
    bodies = [DEPRECATED[function.stem] for function in functions if function.stem in DEPRECATED]
    return "\n".join(["/* 16 Deprecated before the ABI, which has no symbols for them */",
                      "#if defined(TERN_DECLARES_DEPRECATED) || !defined(__GNUC__)", *[one + ";" for one in own], "#else",
                      *[f"static __inline__ {one} {{ return {body}; }}" for one, body in zip(own, bodies)], "#endif", ""])


def emit(functions, titles, sections):
    out = [HEAD]
    out += [f"typedef struct MPI_ABI_{n} *MPI_{n};" for n in HANDLE_TYPES]
    out += [f"typedef struct MPI_ABI_{n} *MPI_{n};" for n in TOOL_TYPES]
    enums = {"MPI_T_cb_safety": [], "MPI_T_source_order": []}
    for _, constants in sections:
        for c in constants:
            if c.ctype in enums:
                enums[c.ctype].append(f"  {c.name} = {c.value}")
    for name, members in enums.items():
        out.append(f"\ntypedef enum {name} {{\n" + ",\n".join(members) + f"\n}} {name};")
    out.append("")
    out += [f"typedef {result} ({name})({parameters});" for name, result, parameters in CALLBACKS]
    for title, constants in sections:
        lines = [_constant(c) for c in constants if c.ctype not in enums]
        if lines:
            out += [f"\n/* {title} */"] + lines
    for prefix in ("MPI_", "PMPI_"):
        chapter = None
        for function in functions:
            if prefix == "MPI_" and function.chapter != chapter:
                chapter = function.chapter
                out.append(f"\n/* {chapter} {titles[chapter]} */")
            if prefix == "MPI_" and function.stem in DEPRECATED:
                continue
            out += [prototype(function, large, prefix) + ";" for large in variants(function)]
        out.append("")
    out += [deprecated(functions), fortran_conversions(), REMOVED]
    out += ["#if defined(__cplusplus)", "}", "#endif", "", "#endif /* MPI_H_ABI */", ""]
    return "\n".join(out)


EXTENSIONS_HEAD = """\
/* mpix.h of Tern: what MPI 5.0 does not have. Generated from api/; C and C++. */
#ifndef TERN_MPIX_H
#define TERN_MPIX_H

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Continuations: docs/continuations.md. Flags of MPIX_Continue and MPIX_Continueall: */
#define MPIX_CONT_REQBUF_VOLATILE (1 << 0) /* the array of requests is not accessed after the call, as ever in Tern */
#define MPIX_CONT_REQUESTS_FREE (1 << 1)   /* its newer name */
#define MPIX_CONT_DEFER_COMPLETE (1 << 3)  /* not called by this call itself, though all operations are complete */
#define MPIX_CONT_INVOKE_FAILED (1 << 4)   /* called with an error class if an operation has failed */
/* and of MPIX_Continue_init: */
#define MPIX_CONT_POLL_ONLY (1 << 2) /* called only by threads that test, or wait for, the continuation request */

/* `rc`: MPI_SUCCESS, or an error class (MPIX_CONT_INVOKE_FAILED). Returns MPI_SUCCESS, or an error: it has failed. */
typedef int(MPIX_Continue_cb_function)(int rc, void *cb_data);

"""


def emit_extensions(extensions):
    out = [EXTENSIONS_HEAD.rstrip("\n"), ""]
    out += [prototype(f, large, prefix) + ";" for prefix in ("MPI_", "PMPI_") for f in extensions for large in variants(f)]
    return "\n".join(out + ["", "#if defined(__cplusplus)", "}", "#endif", "", "#endif /* TERN_MPIX_H */", ""])
