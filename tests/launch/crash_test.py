"""Ranks that die of a fault say where; their own handlers, core dumps and exit codes are as without that."""
import os
import subprocess
import tempfile
import unittest

import common
from common import MPIEXEC, SANITIZED, environment, mpiexec

PROGRAM = os.environ["TERN_HANG_PROGRAM"]


@unittest.skipIf(SANITIZED, "the sanitizers handle the signals themselves")
class Crashes(unittest.TestCase):
    def crash(self, how, **variables):
        return mpiexec("-n", 2, PROGRAM, "crash", how, **variables)

    def test_a_null_pointer(self):
        done = self.crash("null")
        self.assertEqual(done.returncode, 139, done.stderr)
        self.assertIn("[tern rank 1] signal 11 (SIGSEGV, Segmentation fault) at address 0x0, where no memory is", done.stderr)
        self.assertRegex(done.stderr, r"\[tern rank 1\]   0  store \(hang_program.c:\d+\)")
        self.assertRegex(done.stderr, r"\[tern rank 1\]   1  crash \(hang_program.c:\d+\)")
        self.assertIn("rank 1 (" + PROGRAM + ") was killed by signal 11", done.stderr)

    def test_calls_and_returns_to_nowhere(self):
        done = self.crash("call")
        self.assertEqual(done.returncode, 139, done.stderr)
        self.assertRegex(done.stderr, r"\[tern rank 1\]   0  call_nothing \(hang_program.c:\d+\)")
        self.assertRegex(done.stderr, r"\[tern rank 1\]   1  crash \(hang_program.c:\d+\)")
        done = self.crash("return")
        self.assertEqual(done.returncode, 139, done.stderr)
        self.assertIn("[tern rank 1]   0  ? (at 0x0); the stack cannot be followed", done.stderr)
        self.assertNotIn("on_crash", done.stderr)

    def test_abort_and_stack_overflow(self):
        done = self.crash("abort")
        self.assertEqual(done.returncode, 134, done.stderr)
        self.assertIn("the process has aborted itself", done.stderr)
        self.assertIn("crash (hang_program.c", done.stderr)
        done = self.crash("stack")
        self.assertEqual(done.returncode, 139, done.stderr)
        self.assertIn("overflow (hang_program.c", done.stderr)
        self.assertIn("more like this", done.stderr)
        self.assertLess(len(done.stderr.splitlines()), 8, done.stderr)

    def test_a_stack_overflow_is_named(self):
        for how, where in (("stack", "overflow"), ("array", "large_array"), ("own_before_stack", "overflow")):
            done = self.crash(how)
            self.assertEqual(done.returncode, 139, done.stderr)
            self.assertRegex(done.stderr, r"\[tern rank 1\] signal 11 .*: stack overflow. The stack may have \d+ KiB \(ulimit -s\)")
            self.assertRegex(done.stderr, rf"\[tern rank 1\]   0  {where} \(hang_program.c:\d+\)")

    def test_a_thread_of_the_library(self):
        done = mpiexec("-n", 2, PROGRAM, "crash_in_helper", TERN_PATH="tcp", TERN_PROGRESS="event")
        self.assertEqual(done.returncode, 139, done.stderr)
        self.assertRegex(done.stderr, r"\[tern rank 1\] signal 11 .*, in the library's own thread tern-events")
        self.assertIn("tern::EventThread::run", done.stderr)
        self.assertNotIn("_ZN", done.stderr)

    def test_the_programs_own_handler_and_opting_out(self):
        done = self.crash("own")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("my own handler\n", done.stderr)
        self.assertNotIn("[tern rank", done.stderr)
        done = self.crash("own_before")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("my own handler\n", done.stderr)
        self.assertNotIn("[tern rank", done.stderr)
        done = self.crash("null", TERN_BACKTRACE="0")
        self.assertEqual(done.returncode, 139)
        self.assertNotIn("[tern rank", done.stderr)

    def test_core_dumps(self):
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
            pattern = file.read().strip()
        if pattern.startswith(("|", "/")) or "%" in pattern:
            self.skipTest("cores go elsewhere here: " + pattern)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["sh", "-c", f"ulimit -c unlimited; exec {MPIEXEC} -n 1 {PROGRAM} crash null"], cwd=folder,
                           env=environment(), capture_output=True, timeout=60, check=False)
            self.assertTrue([name for name in os.listdir(folder) if name.startswith("core")])


if __name__ == "__main__":
    common.main()
