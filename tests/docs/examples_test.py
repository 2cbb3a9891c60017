"""The examples, compiled and run as a user does it, with several numbers of ranks."""
import importlib.util
import os
import pathlib
import re
import struct
import shutil
import sys
import tempfile
import unittest
import zlib

from common import BUILD, SANITIZED, SANITIZED_FLAGS, main, run

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
BIN = pathlib.Path(BUILD).resolve() / "bin"


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def check(self, source, expected, *arguments, wrapper="mpicc"):
        """`expected` gets the number of ranks, and says what is printed."""
        program = os.path.join(self.folder, pathlib.Path(source).stem)
        flags = ["-O2"] + (["-Wall", "-Wextra", "-Werror"] if wrapper == "mpicc" else []) + SANITIZED_FLAGS
        done = run([str(BIN / wrapper), *flags, str(EXAMPLES / source), "-o", program, "-lm"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for ranks in (1, 2, 3, 4):
            done = run([str(BIN / "mpiexec"), "-timeout", "60", "-n", str(ranks), program, *arguments], cwd=self.folder)
            self.printed = done.stdout
            self.assertEqual((done.returncode, done.stdout), (0, expected(ranks)), done.stderr)

    def test_heat(self):
        means = set()

        def expected(ranks):
            """As printed: the times differ. The temperatures must not."""
            lines = self.printed.splitlines()
            self.assertRegex(lines[0], rf"^heat: 40 x 40 points on {ranks} ranks ")
            means.update(re.findall(r"^mean temperature ([\d.]+)", self.printed, re.M))
            return self.printed

        self.check("heat.c", expected, "--size", "40", "--steps", "200")
        self.assertEqual(len(means), 1, means)

    def test_picture(self):
        """As `make run` makes it: a PNG that others can read, of which no tenth of the colours' range is missing."""
        picture = os.path.join(self.folder, "heat.png")
        self.check("heat.c", lambda ranks: self.printed, "--size", "64", "--steps", "4000", "--picture", picture)
        data = pathlib.Path(picture).read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        chunks, at = {}, 8
        while at < len(data):
            length, = struct.unpack(">I", data[at:at + 4])
            content = data[at + 4:at + 8 + length]
            self.assertEqual(struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0], zlib.crc32(content))
            chunks[content[:4]] = content[4:]
            at += 12 + length
        self.assertEqual(struct.unpack(">IIBBBBB", chunks[b"IHDR"]), (512, 512, 8, 3, 0, 0, 0))
        pixels = zlib.decompress(chunks[b"IDAT"])
        self.assertEqual(len(pixels), 512 * 513)
        values = [pixel for y in range(512) for pixel in pixels[y * 513 + 1:(y + 1) * 513] if pixel != 0]
        for tenth in range(10):
            part = sum(tenth * 25.5 <= value < (tenth + 1) * 25.5 for value in values) / len(values)
            self.assertTrue(0.005 < part < 0.7, (tenth, part))

    def test_halo(self):
        self.check("halo.c", lambda ranks: "heat after 50 steps: 10000.000 of 10000.000\n", "100", "50")

    def test_task_farm(self):
        self.check("task_farm.c", lambda ranks: "168 primes up to 1000\n")

    def test_counter(self):
        self.check("counter.c", lambda ranks: "sum of 1000 numbers, each taken once: 499500\n", "1000")

    def test_parallel_file(self):
        self.check("parallel_file.c", lambda ranks: f"64 x {4 * ranks} numbers written by {ranks} ranks, 0 wrong\n", "matrix")

    @unittest.skipIf(SANITIZED or not shutil.which("gfortran"), "needs gfortran, and no sanitizer")
    def test_fortran(self):
        self.check("pi.f90", lambda ranks: "pi is 3.14159265\n", wrapper="mpifort")

    @unittest.skipUnless(importlib.util.find_spec("mpi4py"), "mpi4py is not installed")
    def test_python(self):
        done = run([str(BIN / "mpiexec"), "-n", "4", sys.executable, str(EXAMPLES / "ring.py")],
                   LD_LIBRARY_PATH=str(BIN.parent / "lib"))
        self.assertEqual((done.returncode, done.stdout), (0, "the token has met [0, 1, 2, 3]\n"), done.stderr)

    def test_all_are_tried(self):
        tried = pathlib.Path(__file__).read_text()
        for path in EXAMPLES.iterdir():
            if path.suffix in (".c", ".f90", ".py"):
                self.assertIn(path.name, tried)


if __name__ == "__main__":
    main()
