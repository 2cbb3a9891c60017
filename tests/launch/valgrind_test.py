"""A program under plain valgrind: no system call or instruction that it does not know, no error of the library's, on each path
that needs no adapter. Skipped, with the reason, without valgrind."""
import os
import shutil
import sys
import unittest

from common import SANITIZED, main, mpiexec

PROGRAM = os.environ["TERN_TRACE_PROGRAM"]
# Of valgrind's own words about what it does not know.
UNKNOWN = ("unhandled", "unrecognised", "WARNING", "unimplemented")


class Valgrind(unittest.TestCase):
    def clean(self, *words, **variables):
        done = mpiexec("-n", 2, "valgrind", "--error-exitcode=9", PROGRAM, *words, timeout=240, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("ERROR SUMMARY: 0 errors"), 2, done.stderr)
        for word in UNKNOWN:
            self.assertNotIn(word, done.stderr)

    def test_shared_memory(self):
        self.clean("traffic")
        self.clean("arguments")

    def test_tcp(self):
        self.clean("traffic", TERN_PATH="self,tcp")

    def test_udp(self):
        self.clean("traffic", TERN_PATH="self,udp")


if __name__ == "__main__":
    if SANITIZED or not shutil.which("valgrind"):
        print("skipped:", "a sanitizer is in the library" if SANITIZED else "not installed: valgrind")
        sys.exit(77)
    main()
