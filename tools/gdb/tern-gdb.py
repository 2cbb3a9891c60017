"""gdb shows MPI handles by what they stand for:

    (gdb) print comm
    $1 = MPI_COMM_WORLD
    (gdb) print type
    $2 = MPI_Datatype 0x12c5 of the program's
    (gdb) tern comm sub
    rank 2 of 4 in 'solver'
    (gdb) tern queues
    MPI_COMM_WORLD: rank 0 of 2
      receive from 1, tag 7, up to 4 bytes
      unexpected message from 1, tag 8, 4 bytes

gdb loads this file by itself with libmpi_abi.so, if its folder is one that gdb trusts (`add-auto-load-safe-path`); else `source` it. Names
come from the mpi.h beside the library. `tern comm` asks the program itself, which must be stopped outside of MPI; `tern queues` reads its
memory by libtern_dbg.so, the library that parallel debuggers load, so the program may be stopped anywhere, also inside of MPI.
"""
import ctypes
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


class Communicator(ctypes.Structure):
    _fields_ = [("id", ctypes.c_ulong), ("rank", ctypes.c_long), ("size", ctypes.c_long), ("name", ctypes.c_char * 64)]


class Operation(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("local", ctypes.c_long), ("world", ctypes.c_long), ("any_tag", ctypes.c_int), ("tag", ctypes.c_long),
                ("bytes", ctypes.c_long), ("system_buffer", ctypes.c_int), ("buffer", ctypes.c_ulong), ("actual_local", ctypes.c_long),
                ("actual_world", ctypes.c_long), ("actual_tag", ctypes.c_long), ("actual_bytes", ctypes.c_long),
                ("words", ctypes.c_char * 64 * 5)]


class Queues:
    """The client of libtern_dbg.so: what a parallel debugger does (tools/debugger/mqs.h), for the process that gdb has selected."""
    OK, NONE = 0, 1
    SENDS, RECEIVES, UNEXPECTED = range(3)
    IMAGE, PROCESS = 1, 2  # gdb's names for them
    one = None

    def __init__(self):
        pointer, number, text, address = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_ulong)
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = pointer, [ctypes.c_size_t], [pointer]
        self.kept = {}
        self.library = ctypes.CDLL(self.file())
        for name in ("mqs_version_string", "mqs_dll_error_string"):
            getattr(self.library, name).restype = text

        def table(*rows):
            calls = [ctypes.CFUNCTYPE(*types)(function) for function, *types in rows]
            filled = (pointer * len(calls))(*(ctypes.cast(call, pointer) for call in calls))
            self.kept[id(filled)] = (calls, filled)
            return filled
        self.library.mqs_setup_basic_callbacks(table(
            (libc.malloc, pointer, ctypes.c_size_t), (libc.free, None, pointer),
            (lambda words: None, None, text), (lambda code: None, pointer, number),
            (self.put, None, pointer, pointer), (self.kept.get, pointer, pointer),
            (self.put, None, pointer, pointer), (self.kept.get, pointer, pointer)))
        self.image_calls = table(
            (self.sizes, None, pointer, pointer), (self.find, number, pointer, text, number, address),
            (lambda image, name, to: self.find(image, name, 0, to), number, pointer, text, address),
            (lambda image, name, language: None, pointer, pointer, text, number),
            (lambda kind, name: -1, number, pointer, text), (lambda kind: -1, number, pointer))
        self.process_calls = table(
            (lambda process: -1, number, pointer), (lambda process: self.IMAGE, pointer, pointer),
            (self.fetch, number, pointer, ctypes.c_ulong, number, pointer),
            (lambda process, source, to, count: ctypes.memmove(to, source, count) and None, None, pointer, pointer, pointer, number))
        self.library.mqs_setup_image(pointer(self.IMAGE), self.image_calls)
        self.library.mqs_setup_process(pointer(self.PROCESS), self.process_calls)

    @staticmethod
    def file():
        try:
            return gdb.parse_and_eval("(char *)&MPIR_dll_name").string()
        except gdb.error as error:
            raise gdb.GdbError("no rank of Tern is being debugged (there is no MPIR_dll_name)") from error

    def put(self, key, value):
        self.kept[key] = value

    @staticmethod
    def sizes(process, to):
        ctypes.memmove(to, (ctypes.c_int * 7)(2, 4, 8, 8, 8, 1, 8), 28)

    @staticmethod
    def find(image, name, language, to):
        try:
            to[0] = int(gdb.parse_and_eval(f"(unsigned long)&{name.decode()}"))
            return Queues.OK
        except gdb.error:
            return Queues.NONE

    @staticmethod
    def fetch(process, address, count, to):
        try:
            ctypes.memmove(to, gdb.selected_inferior().read_memory(address, count).tobytes(), count)
            return Queues.OK
        except gdb.error:
            return Queues.NONE

    def communicators(self):
        """Pairs: a communicator, and its operations by queue."""
        process, library, message = ctypes.c_void_p(self.PROCESS), self.library, ctypes.c_char_p()
        if library.mqs_image_has_queues(ctypes.c_void_p(self.IMAGE), ctypes.byref(message)) != self.OK:
            raise gdb.GdbError(message.value.decode().replace("%s", "this program"))
        if library.mqs_process_has_queues(process, ctypes.byref(message)) != self.OK:
            raise gdb.GdbError(message.value.decode())
        library.mqs_update_communicator_list(process)
        more = library.mqs_setup_communicator_iterator(process) == self.OK
        while more:
            found, queues = Communicator(), {}
            library.mqs_get_communicator(process, ctypes.byref(found))
            group = (ctypes.c_int * max(found.size, 1))()
            library.mqs_get_comm_group(process, group)
            for queue in (self.SENDS, self.RECEIVES, self.UNEXPECTED):
                queues[queue] = []
                if library.mqs_setup_operation_iterator(process, queue) != self.OK:
                    continue
                operation = Operation()
                while library.mqs_next_operation(process, ctypes.byref(operation)) == self.OK:
                    queues[queue].append(operation)
                    operation = Operation()
            yield found, list(group)[:found.size], queues
            more = library.mqs_next_communicator(process) == self.OK

    @classmethod
    def show(cls):
        cls.one = cls.one or cls()
        for communicator, group, queues in cls.one.communicators():
            if communicator.size > 1 or any(queues.values()):
                print(f"{communicator.name.decode(errors='replace')}: rank {communicator.rank} of {communicator.size}")
            for queue, operations in queues.items():
                for operation in operations:
                    print("  " + cls.line(queue, operation))

    @classmethod
    def line(cls, queue, operation):
        def rank(local, world):
            return "any" if local < 0 and world < 0 else f"{local}" if local == world or world < 0 else f"{local} ({world} of MPI_COMM_WORLD)"
        tag = "any" if operation.any_tag else operation.tag
        actual = f"{rank(operation.actual_local, operation.actual_world)}, tag {operation.actual_tag}, {operation.actual_bytes} bytes"
        if queue == cls.SENDS:
            line = f"send to {rank(operation.local, operation.world)}, tag {tag}, {operation.bytes} bytes"
        elif queue == cls.RECEIVES:
            line = f"receive from {rank(operation.local, operation.world)}, tag {tag}, up to {operation.bytes} bytes"
            if operation.status != 0:
                line += f"; message from {actual}"
        else:
            line = f"unexpected message from {actual}"
        words = operation.words[0].value.decode()
        return line + (f": {words}" if words else "")


class Tern(gdb.Command):
    """tern comm EXPRESSION asks MPI about a communicator; tern queues shows pending receives, sends and unexpected messages."""

    def __init__(self):
        super().__init__("tern", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        what, _, expression = argument.partition(" ")
        if argument == "queues":
            Queues.show()
            return
        if what != "comm" or not expression:
            raise gdb.GdbError("usage: tern comm EXPRESSION, or tern queues")
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
