"""Every MPI function has its man page, whose prototypes are mpi.h's own, with all arguments, and which groff can set."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from common import BUILD, main

MAN = pathlib.Path(BUILD) / "share" / "man" / "man3"
SYMBOLS = [s for s in (pathlib.Path(BUILD) / "generated/capi/symbols.txt").read_text().split() if s.startswith("MPI_")]


def words(text):
    return re.sub(r"\s+", " ", text.replace("\\-", "-"))


class Functions(unittest.TestCase):
    def pages(self):
        for symbol in SYMBOLS:
            text = (MAN / f"{symbol}.3").read_text()
            if not text.startswith(".so "):
                yield symbol, text

    def test_every_function_has_one(self):
        self.assertGreater(len(SYMBOLS), 600)
        for symbol in SYMBOLS:
            text = (MAN / f"{symbol}.3").read_text()
            if text.startswith(".so "):
                self.assertIn(f"\n.SH NAME\n{symbol.removesuffix('_c')}, {symbol}", (MAN.parent / text.split()[1]).read_text())

    def test_prototypes_are_those_of_the_header(self):
        header = words(pathlib.Path(BUILD, "include", "mpi.h").read_text())
        for symbol, text in self.pages():
            shown = re.findall(r"^\S+ MPI_\w+\(.*\);$", words(text.split(".SH C SYNTAX")[1].split(".fi")[0]).replace("; ", ";\n"), re.M)
            self.assertTrue(shown or "MPI_" in text, symbol)
            for prototype in shown:
                self.assertIn(prototype, header, symbol)

    def test_arguments_and_errors(self):
        for symbol, text in self.pages():
            inner = re.search(rf" {symbol}\(([^)]*)\)", words(text.split(".SH C SYNTAX")[1]))
            if not inner or "(*" in text.split(".fi")[0]:
                continue
            for declared in inner[1].split(","):
                name = re.findall(r"\w+|\.\.\.", re.sub(r"\[\d*\]", "", declared))[-1]
                if name not in ("void", "..."):
                    self.assertRegex(words(text), rf"\\fB{name}\\fR \((IN|OUT|INOUT)\)", symbol)
            self.assertIn(".SH ERRORS", text)

    def test_each_says_what_it_does(self):
        for symbol, text in self.pages():
            paragraph = text.split("\n.SH DESCRIPTION\n")[1].split("\n.")[0]
            self.assertGreater(len(paragraph), 40, symbol)
            for argument in re.findall(r"^\.TP\n\\fB\S+\\fR \((?:IN|OUT|INOUT)\)\n(.*)", text, re.M):
                self.assertNotIn(argument, ("number", "text", "result", "array of numbers", "numbers"), symbol)
                self.assertNotIn("of the type", argument, symbol)

    def test_other_pages_that_are_named_exist(self):
        for symbol, text in self.pages():
            named = re.findall(r"\\fB(MPI_\w+)\\fR\(3\)", text.split(".SH SEE ALSO")[1])
            self.assertTrue(named, symbol)
            self.assertNotIn(symbol, named)
            for other in named:
                self.assertTrue((MAN / f"{other}.3").exists(), f"{symbol}: {other}")

    def test_directions(self):
        """Where the handle or the C type alone would say something else."""
        for symbol, name, direction in (("MPI_Dims_create", "dims", "INOUT"), ("MPI_Waitany", "array_of_requests", "INOUT"),
                                        ("MPI_Bcast", "buffer", "INOUT"), ("MPI_Comm_spawn", "argv", "IN"), ("MPI_Pack", "position", "INOUT"),
                                        ("MPI_Info_set", "info", "INOUT"), ("MPI_T_cvar_read", "buf", "OUT"), ("MPI_Cart_create", "dims", "IN"),
                                        ("MPI_File_write_all", "fh", "INOUT"), ("MPI_File_read_at", "fh", "IN")):
            self.assertIn(f"\\fB{name}\\fR ({direction})", (MAN / f"{symbol}.3").read_text().replace("\\-", "-"), symbol)
        blocks = (MAN / "MPI_Type_indexed.3").read_text()
        self.assertNotIn("each rank", blocks)
        self.assertIn("MPI_THREAD_SERIALIZED", (MAN / "MPI_Init_thread.3").read_text())

    def test_examples_compile(self):
        """All in one file, each as a function of its own."""
        bodies = {}
        for symbol, text in self.pages():
            if "\n.SH EXAMPLE\n.nf\n" in text:
                body = text.split("\n.SH EXAMPLE\n.nf\n")[1].split("\n.fi")[0]
                bodies.setdefault(body.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\"), symbol)
                self.assertLess(body.count("\n"), 12, symbol)
        self.assertGreater(sum("\n.SH EXAMPLE" in text for _, text in self.pages()), 50)
        source = "#include <mpi.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
        for body, symbol in bodies.items():
            source += f"void example_{symbol}(void) {{\n{body}\n}}\n"
        include = str(pathlib.Path(BUILD, "include"))
        command = ["cc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused", "-Werror", "-I", include, "-xc", "-"]
        done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("lexgrog"), "man-db is not installed")
    def test_apropos_finds_them(self):
        names = [str(MAN.parent / page) for page in ("man3/MPI_Send.3", "man3/MPI_Ineighbor_alltoallw.3", "man7/tern.7", "man1/mpiexec.1")]
        done = subprocess.run(["lexgrog", "-m", *names], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("MPI_Send - send a message", done.stdout)
        self.assertIn("tern - an MPI library", done.stdout)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_sets_them(self):
        names = [str(path) for path in sorted(MAN.glob("*.3")) if not path.read_text().startswith(".so ")]
        names.append(str(MAN.parent / "man7" / "tern.7"))
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *names], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
