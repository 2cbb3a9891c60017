"""Debuggers: gdb reads mpiexec's process table (MPIR) when all ranks are there, and none has left MPI_Init."""
import ctypes.util
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from common import BUILD, MPIEXEC, SANITIZED, SLOW, environment, main, new_mark, run, wait_until_gone

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
  eval "shell until readlink /proc/%d/exe | grep -v bin/mpiexec; do sleep 0.01; done", MPIR_proctable[$i].pid
  eval "shell tr '\\\\0' '\\\\n' < /proc/%d/environ | grep ^PMI_RANK", MPIR_proctable[$i].pid
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

    def test_message_queues(self):
        """libtern_dbg.so, driven by gdb as parallel debuggers drive it: what a stopped rank has posted, sends and has not received."""
        self.queues()

    def test_message_queues_of_engines(self):
        self.queues("multiple", TERN_ENGINES="2")

    def queues(self, *arguments, **variables):
        script = """set auto-load safe-path /
set breakpoint pending on
set confirm off
set pagination off
set debuginfod enabled off
break stopped
run
tern queues
continue
echo second\\n
tern queues
continue
"""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "script"
            file.write_text(script)
            program = os.path.join(BUILD, "tests/launch/queues_program")
            done = run([MPIEXEC, "-n", "1", "gdb", "-q", "-batch", "-x", file, "--args", program, *arguments,
                        ":", "-n", "1", program, *arguments], timeout=120, **variables)
        text = done.stdout + done.stderr
        first, _, second = done.stdout.partition("second\n")
        for line in ("MPI_COMM_WORLD: rank 0 of 2", "solver: rank 1 of 2",
                     "  receive from 1, tag 7, up to 16 bytes",
                     "  receive from any, tag any, up to 4 bytes",
                     "  send to 0 (1 of MPI_COMM_WORLD), tag 9, 1048576 bytes: its receiver has not taken it",
                     "  unexpected message from 1, tag 8, 12 bytes",
                     "  unexpected message from 1, tag 11, 300000 bytes: announced: its data is with its sender"):
            self.assertIn(line + "\n", first, text)
        self.assertEqual(len(re.findall("^  ", first, re.M)), 5, text)
        # All is received: the queues are empty.
        self.assertIn("MPI_COMM_WORLD: rank 0 of 2", second, text)
        self.assertEqual(re.findall("^  (?:send|receive|unexpected).*", second, re.M), [], text)
        self.assertIn("exited normally", second, text)

    def prompt(self, *words, ranks=("-n", "3", PROGRAM, "balanced", "2"), **options):
        """mpiexec -gdb, where the user types these lines."""
        return run([MPIEXEC, "-gdb", *ranks], input="\n".join(("set debuginfod enabled off",) + words) + "\n", timeout=120, **options)

    def test_one_prompt_for_all(self):
        line = next(number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if "static void balanced" in text)
        done = self.prompt("break main", "run", "print argc", "@1 print argc + 10", f"break {line}", "continue", "print 2 * rank",
                           "@0,2", "print size", "@7 print size", "@all nonsense", "@all", "delete", "continue", "quit")
        text = done.stdout + done.stderr
        for words in (r"^\[0-2\] Breakpoint 1, main \(argc=3", r"^\[0-2\] \$1 = 3$", r"^\[1\] \$2 = 13$", r"^\[0-2\] Breakpoint 2, balanced",
                      r"^\[0\] \$2 = 0$", r"^\[1\] \$3 = 2$", r"^\[2\] \$2 = 4$", r"^\[0,2\] \$3 = 3$", r"'@7' names no ranks of this job",
                      r"^\[0-2\] Undefined command: \"nonsense\"", r"^\[0-2\] \[Inferior 1 \(process \.\.\.\) exited normally\]$"):
            self.assertRegex(done.stdout, re.compile(words, re.M), text)
        self.assertEqual(done.returncode, 0, text)

    @unittest.skipUnless(ctypes.util.find_library("edit"), "there is no libedit: install it (scripts/packages/test.txt)")
    def test_arrows_and_history(self):
        """At a terminal the last line is there again by an arrow, and may be changed."""
        screen, other = pty.openpty()
        child = subprocess.Popen([MPIEXEC, "-gdb", "-n", "2", PROGRAM, "balanced", "1"], stdin=other, stdout=other, stderr=other,
                                 env=environment(TERM="xterm", INPUTRC="/dev/null"), close_fds=True)
        os.close(other)
        text = b""

        def wait_for(words):
            nonlocal text
            until = time.monotonic() + 60 * SLOW
            while not (found := re.search(words, text)) and time.monotonic() < until:
                if select.select([screen], [], [], 0.2)[0]:
                    try:
                        text += os.read(screen, 65536)
                    except OSError:
                        break
            self.assertTrue(found, text)
            text = text[found.end():]
        wait_for(rb"\(gdb 0-1\) ")
        os.write(screen, b"print 100+11\n")
        wait_for(rb"\[0-1\] \$1 = 111")
        wait_for(rb"\(gdb 0-1\) ")
        os.write(screen, b"\x1b[A\x7f2\n")  # up, backspace, 2
        wait_for(rb"\[0-1\] \$2 = 112")
        wait_for(rb"\(gdb 0-1\) ")
        os.write(screen, b"print 7\x1b[D5\n")  # left
        wait_for(rb"\[0-1\] \$3 = 57")
        wait_for(rb"\(gdb 0-1\) ")
        os.write(screen, b"\x04")  # end
        self.assertEqual(child.wait(30 * SLOW), 0)
        os.close(screen)

    def test_quit_in_the_middle(self):
        mark = new_mark()
        done = self.prompt("break MPI_Barrier", "break MPI_Allreduce", "run", "backtrace 1", "quit", LAUNCH_TEST_MARK=mark)
        self.assertRegex(done.stdout, r"\[0-2\] #0  .*MPI_", done.stdout + done.stderr)
        wait_until_gone(mark, 5 * SLOW)

    def test_a_rank_that_waits_is_stopped(self):
        """Rank 0 waits for rank 1, which does not go on: the prompt is there again, and Ctrl-C stops rank 0."""
        child = subprocess.Popen([MPIEXEC, "-gdb", "-n", "2", PROGRAM, "late_sender", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, env=environment())
        child.stdin.write("set debuginfod enabled off\nbreak late_sender\nrun\n@1 continue &\n@1 print 1\necho typed\\n\n")
        child.stdin.flush()
        text = ""
        while "[0] typed" not in text and (line := child.stdout.readline()):
            text += line
        self.assertIn("[1] is running; Ctrl-C stops it", text)
        child.send_signal(signal.SIGINT)
        while "SIGINT" not in text and (line := child.stdout.readline()):
            text += line
        self.assertRegex(text, r"\[1\] .*received signal SIGINT")
        rest, _ = child.communicate("@1 print rank\ndelete\ncontinue\nquit\n", timeout=60 * SLOW)
        self.assertRegex(rest, r"\[1\] \$1 = 1")
        self.assertRegex(rest, r"\[0-1\] \[Inferior 1 \(process ...\) exited normally\]")
        self.assertEqual(child.returncode, 0, text + rest)

    @unittest.skipUnless(shutil.which("gdbserver"), "there is no gdbserver: install it (scripts/packages/test.txt)")
    def test_launch_json(self):
        """With what docs/recipes.md gives Visual Studio Code: its debug adapter sends gdb these commands for such settings."""
        text = (Path(__file__).parents[2] / "docs/recipes.md").read_text()
        settings = json.loads(re.search(r"```json launch.json\n(.*?)```", text, re.S)[1])
        command = re.search(r"^mpiexec -n 2 (sh -c '.*gdbserver.*)$", text, re.M)[1]
        configurations = {each["name"]: each for each in settings["configurations"]}
        self.assertEqual([name for each in settings["compounds"] for name in each["configurations"]], list(configurations))
        words = [word.replace("./program", f"{PROGRAM} balanced 2") for word in shlex.split(command)]
        mark = new_mark()
        job = subprocess.Popen([MPIEXEC, "-n", "2", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment(LAUNCH_TEST_MARK=mark))
        self.addCleanup(wait_until_gone, mark, 5 * SLOW)
        gdbs, said, listening = [], {}, 0
        while listening < 2 and (line := job.stdout.readline()):
            listening += line.startswith("Listening on port")
        self.assertEqual(listening, 2)

        def send(gdb, line, until=r"^\^"):
            gdb.stdin.write(line + "\n")
            gdb.stdin.flush()
            while (answer := gdb.stdout.readline()) and not re.search(until, answer):
                said[gdb] = said.get(gdb, "") + answer
            self.assertRegex(answer, until, said.get(gdb))
            self.assertNotRegex(answer, r"^\^error")
            return answer
        for each in configurations.values():
            self.assertEqual((each["type"], each["request"], each["MIMode"], each["stopAtConnect"]), ("cppdbg", "launch", "gdb", True))
            gdb = subprocess.Popen([each["MIMode"], "-q", "--interpreter=mi"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=environment())
            gdbs.append(gdb)
            for line in ("set debuginfod enabled off", "set mi-async on", f"file-exec-and-symbols {PROGRAM}"):
                send(gdb, ("-gdb-" if line.startswith("set") else "-") + line)
            send(gdb, f"-target-select remote {each['miDebuggerServerAddress']}", r"^\^connected")
            send(gdb, "-break-insert -f balanced")
        for gdb in gdbs:
            send(gdb, "-exec-continue", r"^\^running")
        for rank, gdb in enumerate(gdbs):
            while "breakpoint-hit" not in (line := gdb.stdout.readline()) and line:
                pass
            self.assertIn(f'value="{rank}"', send(gdb, "-data-evaluate-expression rank"))
            send(gdb, "-break-delete")
        for gdb in gdbs:
            send(gdb, "-exec-continue", r"^\^running")
        for gdb in gdbs:
            text = ""
            while "exited" not in text and (line := gdb.stdout.readline()):
                text += line
            self.assertIn("exited normally", text)
            gdb.communicate("-gdb-exit\n", timeout=30 * SLOW)
        job.communicate(timeout=30 * SLOW)
        self.assertEqual(job.returncode, 0)

    def test_other_hosts(self):
        done = run([MPIEXEC, "-gdb", "-host", "elsewhere.invalid", "-n", "2", "true"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("-gdb", done.stderr)


if __name__ == "__main__":
    main()
