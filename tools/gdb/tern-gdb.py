"""gdb shows MPI handles by what they stand for:

    (gdb) print comm
    $1 = MPI_COMM_WORLD
    (gdb) print type
    $2 = MPI_Datatype 0x12c5 of the program's
    (gdb) tern comm sub
    rank 2 of 4 in 'solver'

gdb loads this file by itself with libmpi_abi.so, if its folder is one that gdb trusts (`add-auto-load-safe-path`); else `source` it. Names
come from the mpi.h beside the library. `tern` asks the program itself, which must be stopped outside of MPI.
"""
import os
import re

import gdb

CONSTANT = re.compile(r"#define\s+(MPI_\w+)\s+TERN_MPI_POINTER\((MPI_\w+),\s*(0x[0-9a-fA-F]+|\d+)\)")
HANDLES = ("MPI_Comm", "MPI_Datatype", "MPI_Errhandler", "MPI_File", "MPI_Group", "MPI_Info", "MPI_Message", "MPI_Op", "MPI_Request",
           "MPI_Session", "MPI_Win")


def header():
    """The text of the mpi.h that belongs to the library; empty: it is not there."""
    places = [os.path.dirname(os.path.realpath(file.filename)) for file in gdb.objfiles() if "libmpi_abi" in (file.filename or "")]
    for place in places:
        while place != "/":
            file = os.path.join(place, "include", "mpi.h")
            if os.path.exists(file):
                with open(file, encoding="utf-8") as text:
                    return text.read()
            place = os.path.dirname(place)
    return ""


class Names:
    known = None

    @classmethod
    def of(cls, kind, value):
        if cls.known is None:
            cls.known = {(found[2], int(found[3], 0)): found[1] for found in CONSTANT.finditer(header())}
        return cls.known.get((kind, value))


class Handle:
    def __init__(self, kind, value):
        self.kind, self.value = kind, int(value)

    def to_string(self):
        name = Names.of(self.kind, self.value)
        return name if name else f"{self.kind} {self.value:#x} of the program's" if self.value else f"{self.kind} 0, which is no handle"


def printer(value):
    name = value.type.name
    return Handle(name, value) if name in HANDLES else None


class Tern(gdb.Command):
    """Asks MPI about a handle: tern comm EXPRESSION."""

    def __init__(self):
        super().__init__("tern", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        what, _, expression = argument.partition(" ")
        if what != "comm" or not expression:
            raise gdb.GdbError("usage: tern comm EXPRESSION")
        comm = int(gdb.parse_and_eval(expression))
        rank, size, name = (self.ask(f"(int)PMPI_Comm_{question}((void *){comm}, {{to}}{more})", kind)
                            for question, more, kind in (("rank", "", "int"), ("size", "", "int"), ("get_name", ", {length}", "text")))
        print(f"rank {rank} of {size} in " + (f"'{name}'" if name else "a communicator without a name"))

    def ask(self, call, kind):
        room = int(gdb.parse_and_eval("(long)malloc(512)"))
        try:
            result = int(gdb.parse_and_eval(call.format(to=f"(void *){room}", length=f"(void *){room + 256}")))
            if result != 0:
                raise gdb.GdbError(f"MPI answers with error code {result}")
            memory = gdb.selected_inferior().read_memory(room, 256).tobytes()
            return int.from_bytes(memory[:4], "little", signed=True) if kind == "int" else memory.split(b"\0")[0].decode()
        finally:
            gdb.parse_and_eval(f"(void)free((void *){room})")


gdb.pretty_printers.append(printer)
Tern()
