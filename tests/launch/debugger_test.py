"""Debuggers: gdb reads mpiexec's process table (MPIR) when all ranks are there, and none has left MPI_Init."""
import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from common import BUILD, MPIEXEC, SANITIZED, main, run

SOURCE = Path(__file__).parent / "planted_program.c"
FREE = next(number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if "MPI_Comm_free" in text)
PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/launch/planted_program"))


@unittest.skipUnless(shutil.which("gdb") and not SANITIZED, "there is no gdb: install it (scripts/packages/test.txt)")
class Debugger(unittest.TestCase):
    def gdb(self, script, *command):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "script"
            file.write_text("set confirm off\nset pagination off\nset debuginfod enabled off\n" + script)
            return run(["gdb", "-q", "-batch", "-x", file, "--args", *command], timeout=120)

    def test_process_table(self):
        done = self.gdb("""break main
run
set var MPIR_being_debugged = 1
break MPIR_Breakpoint
continue
printf "size %d state %d\\n", MPIR_proctable_size, MPIR_debug_state
set $i = 0
while $i < MPIR_proctable_size
  printf "row %d %s %s %d\\n", $i, MPIR_proctable[$i].host_name, MPIR_proctable[$i].executable_name, MPIR_proctable[$i].pid
  eval "shell readlink /proc/%d/exe; tr '\\\\0' '\\\\n' < /proc/%d/environ | grep ^PMI_RANK", MPIR_proctable[$i].pid, MPIR_proctable[$i].pid
  set $i = $i + 1
end
continue
""", MPIEXEC, "-n", "3", PROGRAM, "balanced", "2")
        text = done.stdout
        self.assertIn("size 3 state 1", text, done.stdout + done.stderr)
        rows = re.findall(r"row (\d+) (\S+) (\S+) (\d+)\n(\S+)\nPMI_RANK=(\d+)", text)
        self.assertEqual([(int(row[0]), int(row[5])) for row in rows], [(0, 0), (1, 1), (2, 2)], text)
        for row in rows:
            self.assertEqual((row[1], row[2], row[4]), (os.uname().nodename, PROGRAM, os.path.realpath(PROGRAM)))
        self.assertRegex(text, r"exited normally")

    def test_handles(self):
        done = self.gdb(f"""set auto-load safe-path /
break planted_program.c:{FREE}
run
print comm
print (MPI_Comm)0x101
print (MPI_Datatype)0x209
tern comm comm
tern comm (MPI_Comm)0x101
kill
""", PROGRAM, "made_often", "1")
        for words in ("= MPI_Comm 0x[0-9a-f]+ of the program's", "= MPI_COMM_WORLD", "= MPI_INT", "rank 0 of 1 in a communicator without a name",
                      "rank 0 of 1 in 'MPI_COMM_WORLD'"):
            self.assertRegex(done.stdout, words, done.stdout + done.stderr)


if __name__ == "__main__":
    main()
