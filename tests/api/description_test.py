#!/usr/bin/env python3
"""Rules that hold for the whole description, and mistakes that its reader must refuse."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
API = Path(__file__).resolve().parents[2] / "api"
sys.path.insert(0, str(API))

import description  # noqa: E402
import emit_header  # noqa: E402
import kinds  # noqa: E402


class Description(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.functions, cls.titles = description.read_functions(API)
        cls.by_name = {f.name: f for f in cls.functions}
        cls.constants = {c.name: c for _, cs in description.read_constants(API) for c in cs}

    def test_size(self):
        self.assertEqual(sum(len(f.symbols) for f in self.functions), 664)
        self.assertEqual(sum(f.large for f in self.functions), 155)
        self.assertEqual(len(self.constants), 364)

    def test_every_parameter_has_a_known_kind(self):
        for function in self.functions:
            for parameter in function.parameters:
                kinds.kind_of(parameter)

    def test_references_between_parameters(self):
        """The count and datatype that a buffer names exist and are such."""
        for function in self.functions:
            parameters = {p.name: p for p in function.parameters}
            for parameter in function.parameters:
                if parameter.kind in ("buffer", "out_buffer") and parameter.args:
                    count, datatype = parameter.args
                    self.assertEqual(parameters[count].kind in ("count", "mpi_count"), True, function.name)
                    self.assertEqual(parameters[datatype].kind, "committed_type", function.name)

    def test_a_shared_body_has_the_same_parameters(self):
        for function in self.functions:
            if not function.same_as:
                continue
            other = self.by_name["MPI_" + function.same_as]
            mine = [kinds.kind_of(p).body.split("$")[0] for p in function.parameters]
            theirs = [kinds.kind_of(p).body.split("$")[0] for p in other.parameters]
            self.assertEqual(len(mine), len(theirs), function.name)
            for a, b in zip(mine, theirs):
                # MPI_Keyval_create's callback types are the same function types under older names.
                self.assertTrue(a == b or "_function" in a, f"{function.name}: {a} and {b}")

    def test_prototypes_known_by_heart(self):
        def prototype(name, large=False):
            return emit_header.prototype(self.by_name[name], large)

        self.assertEqual(prototype("MPI_Send"), "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, "
                                                "int dest, int tag, MPI_Comm comm)")
        self.assertEqual(prototype("MPI_Send", True), "int MPI_Send_c(const void *buf, MPI_Count count, "
                                                      "MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)")
        self.assertEqual(prototype("MPI_Wtime"), "double MPI_Wtime(void)")
        self.assertEqual(prototype("MPI_Comm_fromint"), "MPI_Comm MPI_Comm_fromint(int comm)")
        self.assertEqual(prototype("MPI_Gatherv", True),
                         "int MPI_Gatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, "
                         "void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[], "
                         "MPI_Datatype recvtype, int root, MPI_Comm comm)")
        self.assertEqual(prototype("MPI_Win_shared_query", True),
                         "int MPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit, "
                         "void *baseptr)")

    def test_handle_values(self):
        """Huffman code of section 20.5: categories by prefix; fixed-size datatypes carry log2 of their size."""
        values = {name: c.value for name, c in self.constants.items()}
        self.assertEqual(values["MPI_COMM_WORLD"], 0x101)
        self.assertEqual(values["MPI_ERRORS_ABORT"], 0x142)
        self.assertEqual(values["MPI_ERRORS_RETURN"], 0x143)
        self.assertEqual(values["MPI_C_FLOAT_COMPLEX"], 0x212)
        for name, bits in (("MPI_INT8_T", 0), ("MPI_INT16_T", 1), ("MPI_UINT32_T", 2), ("MPI_INT64_T", 3),
                           ("MPI_COMPLEX32", 5), ("MPI_BYTE", 0)):
            self.assertEqual(values[name] >> 3 & 7, bits, name)


class Reader(unittest.TestCase):
    def refuse(self, text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "03-x.api").write_text('chapter 3 "X"\n' + text)
            with self.assertRaises(SystemExit):
                functions, _ = description.read_functions(folder)
                for function in functions:
                    for parameter in function.parameters:
                        kinds.kind_of(parameter)

    def test_mistakes(self):
        self.refuse("MPI_X(a: nosuchkind)\n")
        self.refuse("MPI_X(a int)\n")
        self.refuse("MPI_X(a: int) larg\n")
        self.refuse("MPI_X(a: int\n")
        self.refuse("MPI_X(a: int)\nMPI_X(b: int)\n")

    def test_continuation(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "03-x.api").write_text('chapter 3 "X"\nMPI_X(a: int,\n    b: comm) large\n')
            functions, titles = description.read_functions(folder)
            self.assertEqual(functions[0].symbols, ["MPI_X", "MPI_X_c"])
            self.assertEqual([p.kind for p in functions[0].parameters], ["int", "comm"])
            self.assertEqual(titles, {3: "X"})


unittest.main()
