"""What mpiexec and MPI_Comm_spawn tell of a program's start (MPI 5.0, 10.2, 11.5, 11.8.4): MPI_INFO_ENV, the numbers of
ranks that will do, the initial error handler, kinds of memory, arguments with line breaks. MPI_Finalize in a child of fork."""
import os
import unittest

import common
from common import mpiexec

PROGRAM = os.environ["TERN_START_PROGRAM"]


class Start(unittest.TestCase):
    def lines(self, *words, **options):
        done = mpiexec("-timeout", 30, *words, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(done.stdout.splitlines())

    def refused(self, *words):
        done = mpiexec(*words, PROGRAM, "info")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr

    def test_arguments_that_main_does_not_pass_on(self):
        self.assertEqual(self.lines("-n", 1, PROGRAM, "info", "a b", "c"), [
            "0 argv=[info a b c]", f"0 command=[{PROGRAM}]", "0 maxprocs=[1]", "0 mpi_memory_alloc_kinds=[mpi,system]"])

    def test_each_program_has_its_own(self):
        found = self.lines("-n", 1, PROGRAM, "info", "x", ":", "-n", 2, "-soft", "1:9", PROGRAM, "info")
        self.assertEqual([line for line in found if "maxprocs" in line or "soft" in line],
                         ["0 maxprocs=[1]", "1 maxprocs=[2]", "1 soft=[1:9]", "2 maxprocs=[2]", "2 soft=[1:9]"])
        self.assertIn("0 argv=[info x]", found)

    def test_soft(self):
        for soft, n, started in (("1,2,4,8", 5, 4), ("2:10:2,7", 7, 7), ("2:10:2,7", 6, 6), ("9:1:-4", 6, 5), ("0:3", 8, 3), ("3", 3, 3)):
            found = self.lines("-n", n, "-soft", soft, PROGRAM, "info")
            self.assertEqual(sum("maxprocs" in line for line in found), started, soft)
            self.assertIn(f"0 maxprocs=[{n}]", found)
            self.assertIn(f"0 soft=[{soft}]", found)
        self.assertIn("-soft 4:8 allows no number of ranks from 1 to 3", self.refused("-n", 3, "-soft", "4:8"))
        for wrong in ("", "x", "1:2:3:4", "1:5:0", "1:5:-1", "5:1", "1,,2", "1 2"):
            self.assertIn("option -soft takes numbers and triplets", self.refused("-n", 3, "-soft", wrong))

    def test_initial_error_handler(self):
        for value, name in (("mpi_errors_return", "return"), ("MPI_ERRORS_ABORT", "abort"), ("mpi_errors_are_fatal", "fatal")):
            self.assertEqual(self.lines("-n", 2, "-initial-errhandler", value, PROGRAM, "handlers"),
                             [f"{r} handlers: {name} {name} {name}" for r in range(2)])
        self.assertEqual(self.lines("-n", 1, PROGRAM, "handlers"), ["0 handlers: fatal fatal fatal"])
        self.assertEqual(self.lines("-n", 1, "-initial-errhandler", "mpi_errors_return", PROGRAM, "before"), ["before: 1"])
        self.assertNotEqual(mpiexec("-n", 1, PROGRAM, "before").returncode, 0)
        self.assertIn("0 mpi_initial_errhandler=[mpi_errors_return]",
                      self.lines("-n", 1, "-initial-errhandler=mpi_errors_return", PROGRAM, "info"))
        self.assertIn("mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return, not 'mine'",
                      self.refused("-initial-errhandler", "mine"))

    def test_kinds_of_memory(self):
        self.assertIn("0 mpi_memory_alloc_kinds=[system,mpi:alloc_mem]",
                      self.lines("-n", 1, "-memory-alloc-kinds", "system,mpi:alloc_mem", PROGRAM, "info"))
        self.assertEqual(self.lines("-n", 1, "-memory-alloc-kinds", "mpi:alloc_mem,system,gpu:device", PROGRAM, "kinds"),
                         ["0 kinds=[mpi:alloc_mem,system,mpi]"] * 3)
        self.assertEqual(self.lines("-n", 1, PROGRAM, "kinds"), ["0 kinds=[mpi,system]"] * 3)
        self.assertIn("without blanks, not 'system, mpi'", self.refused("-memory-alloc-kinds", "system, mpi"))

    def test_what_a_job_was_told_is_not_for_others(self):
        found = self.lines("-n", 1, PROGRAM, "info", TERN_START_INFO="soft=4;maxprocs=9")
        self.assertIn("0 maxprocs=[1]", found)
        self.assertFalse(any("soft" in line for line in found))

    def test_spawned_processes(self):
        found = self.lines("-n", 2, PROGRAM, "spawn")
        text = "\n".join(mpiexec("-n", 1, PROGRAM, "spawn").stdout.splitlines())
        for rank in range(2):
            # 1, 3, 7, ... of 5: three. Of the second, 0 or 1 of 2, and 3.
            self.assertIn(f"{rank} spawned 3: 0 0 0 1 1", found)
            self.assertIn(f"{rank} spawned 4: 0 1 0 0 0", found)
            self.assertIn(f"{rank} impossible: 1", found)
        self.assertIn("0 argv=[child two words line\nbreak \\n and \\ at the end\n ]", text)
        self.assertEqual(found.count("2 mpi_initial_errhandler=[MPI_Errors_Return]"), 1)
        self.assertEqual(found.count("2 handlers: return return return"), 1)
        self.assertIn("2 mpi_memory_alloc_kinds=[system]", found)
        self.assertIn("0 maxprocs=[5]", found)
        self.assertIn("0 maxprocs=[2]", found)
        self.assertIn("3 maxprocs=[3]", found)

    def test_spawned_by_a_program_that_was_started_alone(self):
        done = common.run([PROGRAM, "spawn"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("0 spawned 3: 0 0 0 1 1", done.stdout)
        self.assertIn("0 argv=[child two words line\nbreak \\n and \\ at the end\n ]", done.stdout)

    def test_finalize_in_a_child_of_fork(self):
        for what in ("fork", "threads"):
            for path in ("shm", "tcp"):
                done = mpiexec("-timeout", 30, "-n", 3, PROGRAM, what, TERN_PATH=path, TERN_PROGRESS="event")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(done.stdout.splitlines()), [f"{r} child: 0, all: 3" for r in range(3)])
                self.assertEqual(done.stderr.count("MPI_Finalize is called by a process that the rank has forked"), 3, done.stderr)


if __name__ == "__main__":
    common.main()
