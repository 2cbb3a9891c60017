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

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_sets_them(self):
        names = [str(MAN / f"{name}.3") for name in ("MPI_Send", "MPI_Iallreduce", "MPI_Wtime", "MPI_T_cvar_get_info", "MPI_Win_lock")]
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *names], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
