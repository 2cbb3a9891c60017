"""TERN_CHECK with a program that has instruments for its memory (valgrind, AddressSanitizer, ThreadSanitizer): the library
asks them about the buffers of calls. Parts are skipped, with the reason, where an instrument is not installed."""
import os
import pathlib
import shutil
import tempfile
import unittest

from common import BUILD, SANITIZED, main, mpiexec, run

SOURCE = pathlib.Path(__file__).with_name("instruments_program.c")


@unittest.skipIf(SANITIZED, "a sanitizer is in the library")
class Instruments(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.program = os.path.join(holder.name, "program")

    def build(self, *flags):
        done = run([os.path.join(BUILD, "bin/mpicc"), "-g", "-pthread", *flags, str(SOURCE), "-o", self.program])
        if flags and done.returncode != 0:
            self.skipTest("the compiler has no " + flags[0])
        self.assertEqual(done.returncode, 0, done.stderr)

    def said(self, *words, check="1", **variables):
        return mpiexec("-timeout", 200, "-n", 2, *words, timeout=240, TERN_CHECK=check, **variables).stderr

    def test_valgrind_knows_what_was_written(self):
        if not shutil.which("valgrind"):
            self.skipTest("not installed: valgrind")
        self.build()
        finding = r"rank 0\] TERN_CHECK: the buffer of MPI_Send at exchange \(instruments_program.c:\d+\) holds bytes that the program has never"
        self.assertRegex(self.said("valgrind", "-q", self.program, "unwritten"), finding)
        # Without the check nobody looks into what shared memory takes.
        self.assertEqual(self.said("valgrind", "-q", self.program, "unwritten", check=None), "")
        self.assertEqual(self.said("valgrind", "-q", self.program, "unwritten", "good"), "")
        finding = r"TERN_CHECK: the buffer of MPI_(Send|Recv) at exchange .* reaches behind its variable or block"
        self.assertRegex(self.said("valgrind", "-q", self.program, "behind"), finding)

    def test_address_sanitizer_knows_the_ends_of_memory(self):
        self.build("-fsanitize=address")
        finding = r"TERN_CHECK: the buffer of MPI_(Send|Recv) at exchange .* reaches behind its variable or block"
        self.assertRegex(self.said(self.program, "behind"), finding)
        self.assertEqual(self.said(self.program, "behind", "good"), "")

    def test_thread_sanitizer_knows_what_threads_do(self):
        self.build("-fsanitize=thread")
        said = self.said(self.program, "race")
        self.assertIn("WARNING: ThreadSanitizer: data race", said)
        self.assertIn("write_shared", said)
        self.assertEqual(self.said(self.program, "race", "good"), "")


if __name__ == "__main__":
    main()
