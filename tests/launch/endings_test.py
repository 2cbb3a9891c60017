"""What mpiexec says when a job ends otherwise than by MPI_Finalize of all ranks, or was never one of Tern."""
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import common
from common import SLOW, mpiexec

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../hostile"))
import memory_group  # noqa: E402

PROGRAM = os.environ["TERN_HANG_PROGRAM"]


class Endings(unittest.TestCase):
    def test_a_missing_finalize_is_named(self):
        for ranks in (1, 2, 4):
            for code in (0, 7):
                done = mpiexec("-n", ranks, PROGRAM, "leave", code)
                self.assertEqual(done.returncode, code or 1, done.stderr)
                self.assertRegex(done.stderr, rf"mpiexec: rank \d .* ended with exit code {code} after MPI_Init, without MPI_Finalize")

    def test_a_failed_init_is_called_that(self):
        done = mpiexec("-n", 2, PROGRAM, "leave", 0, TERN_PATH="self")  # no way to the other rank
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TERN_PATH allows no other path", done.stderr)
        self.assertRegex(done.stderr, r"mpiexec: rank \d .* ended with exit code \d+: its MPI_Init failed")
        self.assertNotIn("MPI_Finalize", done.stderr)
        # Before the launcher is asked, while the other rank waits.
        done = mpiexec("-n", 1, "-env", "TERN_SPIN_US", "soon", PROGRAM, "leave", 0, ":", "-n", 1, PROGRAM, "leave", 0)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"mpiexec: rank 0 .* ended with exit code \d+ \(its MPI_Init failed\), but rank 1 .* waits")
        self.assertNotIn("without calling MPI_Init", done.stderr)
        # The program is Tern's, though no rank came as far as the launcher.
        done = mpiexec("-n", 2, PROGRAM, "leave", 0, TERN_SPIN_US="soon")
        self.assertIn("TERN_SPIN_US is 'soon'", done.stderr)
        self.assertNotIn("no rank has called MPI_Init", done.stderr)

    def test_an_abort_is_called_that(self):
        """Also when mpiexec hears of the rank's end together with its wish: half of the runs, before."""
        for _ in range(10):
            done = mpiexec("-n", 3, PROGRAM, "give_up", 7)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn("aborted the job with code 7", done.stderr)
            self.assertNotIn("MPI_Finalize", done.stderr)

    def test_a_rank_without_memory_is_called_that(self):
        if not memory_group.possible():
            self.skipTest("no memory control group can be made")
        group = memory_group.make("tern-endings", 32 << 20)
        self.addCleanup(memory_group.remove, "tern-endings")
        takes_memory = ["sh", "-c", f"{memory_group.join(group)}; exec {sys.executable} -c 'b\"x\" * (1 << 30)'"]
        done = mpiexec("-n", 1, *takes_memory, ":", "-n", 1, "sleep", 10)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertRegex(done.stderr, r"mpiexec: rank 0 .* was killed by signal 9 .* memory ran out: the kernel has killed "
                         r"\d+ process(es)? for that")
        # A kill by somebody else is not called that, unless the kernel kills another job's process meanwhile.
        for _ in range(3):
            done = mpiexec("-n", 1, "sh", "-c", "kill -9 $$")
            self.assertEqual(done.returncode, 137, done.stderr)
            if "memory" not in done.stderr:
                break
        self.assertNotIn("memory", done.stderr)

    def test_other_launchers_do_not_hide_a_missing_finalize(self):
        done = common.run([PROGRAM, "leave", "0"])
        self.assertEqual(done.stderr, "[tern rank 0] the program ends without MPI_Finalize\n")
        if not shutil.which("mpiexec.mpich"):
            self.skipTest("not installed: mpich")
        done = common.run(["mpiexec.mpich", "-n", "2", PROGRAM, "leave", "0"])
        self.assertIn("] the program ends without MPI_Finalize", done.stderr)

    def test_the_cause_comes_before_a_timeout(self):
        """The time is up while the other rank is asked, which cannot answer: the exit code is that of the cause."""
        named = False
        for seconds in (2, 3, 3, 4):  # a busy machine may be later
            done = mpiexec("-timeout", seconds, "-n", 2, PROGRAM, "differ", TERN_PATH="tcp")
            before, cause, after = done.stderr.partition("do not call the same collective")
            if cause and "time is up" not in before:
                self.assertNotIn("time is up", after)
                self.assertNotEqual(done.returncode, 124, done.stderr)
                named = True
        self.assertTrue(named, "the time was up first each time")

    def test_the_cause_comes_before_its_consequences(self):
        """Over TCP the neighbours notice a death by themselves: the rank that died is named nevertheless, and first."""
        for path in ("shm", "tcp"):
            for _ in range(5):
                begin = time.monotonic()
                done = mpiexec("-n", 4, PROGRAM, "crash", "exit", TERN_PATH=path)
                self.assertEqual(done.returncode, 9, (path, done.stderr))
                self.assertIn("rank 3", done.stderr.splitlines()[0], (path, done.stderr))
                self.assertLess(time.monotonic() - begin, 5 * SLOW)


class OtherLibraries(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def program(self, soname, code=0):
        """A program that is linked with a library of that name, and ends with that code."""
        library = os.path.join(self.folder, soname)
        for command, text in ((["-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", library], "int other_mpi(void) { return 0; }"),
                              (["-o", os.path.join(self.folder, "program"), "-Wl,--no-as-needed", library,
                                f"-Wl,-rpath,{self.folder}"], f"int main(void) {{ return {code}; }}")):
            source = os.path.join(self.folder, "source.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run(["cc", source, *command], check=True)
        return os.path.join(self.folder, "program")

    def test_named(self):
        for soname, name in (("libmpi.so.40", "Open MPI"), ("libmpich.so.12", "MPICH")):
            done = mpiexec("-n", 2, self.program(soname))
            self.assertEqual(done.returncode, 0)
            self.assertIn(f"is linked with {soname}: {name}", done.stderr)

    def test_nothing_is_said_of_programs_that_do_not_start(self):
        done = mpiexec("-n", 2, "-outfile-pattern", "/proc/no/such", PROGRAM, "leave", 0)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot be started", done.stderr)
        self.assertNotIn("no rank has called MPI_Init", done.stderr)
        # One that fails before MPI_Init has said why.
        self.assertIn("no rank has called MPI_Init", mpiexec("-n", 2, self.program("libmpi_abi.so.1")).stderr)
        self.assertNotIn("no rank has called MPI_Init", mpiexec("-n", 2, self.program("libmpi_abi.so.1", 3)).stderr)

    def test_any_library_of_the_abi_builds_a_program(self):
        """The ranks take the library of mpiexec, unless LD_LIBRARY_PATH names one."""
        other = os.path.join(self.folder, "libmpi_abi.so.1")
        program = os.path.join(self.folder, "program")
        texts = {"other.c": "#include <stdlib.h>\nint MPI_Init(int *c, char ***v) { (void)c; (void)v; exit(3); }\n"
                            "int MPI_Finalize(void) { return 0; }\n",
                 "program.c": "int MPI_Init(int *, char ***);\nint MPI_Finalize(void);\n"
                              "int main(int c, char **v) { return MPI_Init(&c, &v) + MPI_Finalize(); }\n"}
        for name, text in texts.items():
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so.1", "other.c", "-o", other], cwd=self.folder, check=True)
        for origin in (self.folder, "$ORIGIN", "/nowhere"):
            subprocess.run(["cc", "program.c", "-o", program, other, f"-Wl,--enable-new-dtags,-rpath,{origin}",
                            *common.SANITIZED_FLAGS],
                           cwd=self.folder, check=True)
            done = mpiexec("-n", 2, program)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), origin)
            done = mpiexec("-n", 2, program, LD_LIBRARY_PATH=f"/nowhere:{self.folder}")
            self.assertEqual(done.returncode, 3, origin)
            done = mpiexec("-n", 2, "-env", "LD_LIBRARY_PATH", self.folder, program)
            self.assertEqual(done.returncode, 3, origin)

    def test_programs_without_mpi_and_single_ones(self):
        self.assertEqual(mpiexec("-n", 2, "true").stderr, "")
        self.assertEqual(mpiexec("-n", 1, self.program("libmpi.so.40")).stderr, "")


if __name__ == "__main__":
    common.main()
