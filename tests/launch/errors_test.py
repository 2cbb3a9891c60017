"""Fatal errors say where the program made them; those of many ranks that say the same are printed once."""
import os
import re
import subprocess
import tempfile
import unittest

import common
from common import MPIEXEC, SANITIZED, environment, mpiexec, run

PROGRAM = os.environ["TERN_HANG_PROGRAM"]


def who_says(what, stderr):
    """The ranks that say it, as often as they do. On a busy machine a rank may speak so late that its words are not folded
    with the others'."""
    said = []
    for ranks in re.findall(rf"\[tern ranks? ([\d,-]+)\] {what}", stderr):
        for part in ranks.split(","):
            first, _, last = part.partition("-")
            said += range(int(first), int(last or first) + 1)
    return sorted(said)


def folded(*arguments):
    """Runs a job whose ranks all say the same; again where some of them have spoken too late, on a busy machine."""
    for _ in range(6):
        done = mpiexec(*arguments)
        if "[tern ranks 0-" in done.stderr and len(re.findall(r"^\[tern rank", done.stderr, re.M)) == 1:
            break
    return done


class Errors(unittest.TestCase):
    def test_the_place(self):
        done = mpiexec("-n", 2, PROGRAM, "truncated")
        self.assertRegex(done.stderr, r"\[tern rank 1\] MPI_Recv: .* 400 bytes.*\nCalled at truncated \(hang_program.c:\d+\)\.\n")

    def test_one_text_for_many_ranks(self):
        done = folded("-n", 8, PROGRAM, "all_alike", "argument")
        lines = done.stderr.splitlines()
        self.assertEqual(lines[0], "[tern ranks 0-7] MPI_Bcast: argument 'count' is -3. A count cannot be negative.")
        self.assertRegex(lines[1], r"Called at all_alike \(hang_program.c:\d+\)\.")
        self.assertIn("MPI_ERRORS_ARE_FATAL", lines[2])
        self.assertRegex(lines[3], r"mpiexec: rank \d+ .* aborted the job with code")
        self.assertEqual(len(lines), 4, done.stderr)

    def test_aborts(self):
        done = folded("-n", 4, PROGRAM, "all_alike", "abort")
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stderr.count("MPI_Abort: called with error code 7"), 1, done.stderr)
        self.assertIn("[tern ranks 0-3] MPI_Abort", done.stderr)

    @unittest.skipIf(SANITIZED, "the sanitizers handle the signals themselves")
    def test_crashes(self):
        done = folded("-n", 4, PROGRAM, "all_alike", "crash")
        self.assertEqual(done.returncode, 139)
        self.assertIn("[tern ranks 0-3] signal 11 (SIGSEGV", done.stderr)
        self.assertEqual(len(re.findall(r"store \(hang_program.c", done.stderr)), 1, done.stderr)

    def test_different_errors_stay_apart(self):
        done = mpiexec("-n", 4, PROGRAM, "all_alike", "two_kinds")
        self.assertEqual(who_says("MPI_Bcast: argument 'count' is -3", done.stderr), [1, 3], done.stderr)
        self.assertEqual(who_says("MPI_Bcast: argument 'count' is -4", done.stderr), [0, 2], done.stderr)

    def test_a_rank_keeps_what_the_user_has_redirected(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "said")
            done = mpiexec("-n", 1, "sh", "-c", f"exec {PROGRAM} all_alike argument 2>{file}")
            with open(file, encoding="utf-8") as said:
                self.assertIn("[tern rank 0] MPI_Bcast: argument 'count' is -3 (rank 0", said.read())
            self.assertNotIn("MPI_Bcast", done.stderr)
            done = mpiexec("-n", 2, "-errfile-pattern", file + ".%r", PROGRAM, "all_alike", "argument")
            for rank in range(2):
                with open(f"{file}.{rank}", encoding="utf-8") as said:
                    text = said.read()
                    self.assertTrue(text == "" or f"[tern rank {rank}] MPI_Bcast" in text)
            self.assertNotIn("MPI_Bcast", done.stderr)

    def test_with_labels(self):
        done = mpiexec("-l", "-n", 3, PROGRAM, "all_alike", "argument")
        self.assertEqual(who_says("MPI_Bcast", done.stderr), [0, 1, 2], done.stderr)

    def test_the_place_for_breakpoints(self):
        library = os.path.join(common.BUILD, "lib", "libmpi_abi.so")
        exported = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True, env=environment()).stdout
        self.assertTrue(re.search(r" [TW] tern_fatal_error\n", exported))
        if not os.access("/usr/bin/gdb", os.X_OK):
            return
        done = run(["gdb", "-q", "-batch", "-ex", "set breakpoint pending on", "-ex", "break tern_fatal_error", "-ex", "run",
                    "-ex", "backtrace", "--args", PROGRAM, "all_alike", "argument"])
        self.assertRegex(done.stdout, r"tern_fatal_error[\s\S]*PMPI_Bcast[\s\S]*all_alike", done.stdout + done.stderr)


if __name__ == "__main__":
    common.main()
