"""mpiexec's own output and what passes through it, when nobody reads it, when there is no room, and when the reader is slow:
the right exit code, no loss without a word, and a signal always ends the job within a second."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

from common import CLIENT, MPIEXEC, SANITIZED, SLOW, environment, main, marked_processes, new_mark, wait_until_gone

LIMIT_S = 1.0 * SLOW


def closed_pipe():
    """The writing end of a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


class Output(unittest.TestCase):
    def mpiexec(self, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **variables):
        done = subprocess.run([MPIEXEC, *map(str, words)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True,
                              timeout=60 * SLOW, env=environment(**variables))
        for stream in (stdout, stderr):
            if stream not in (subprocess.PIPE, subprocess.DEVNULL):
                os.close(stream)
        return done

    def test_nobody_reads_standard_error(self):
        for words, code in ((["-v", "-n", 2, "true"], 0), (["-n", 1, "sh", "-c", "exit 3"], 3),
                            (["-n", 1, "sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
                            (["-n", 1, "no-such-program"], 127), (["-frobnicate"], 2),
                            (["-n", 2, CLIENT, "abort", 1, 9], 9), (["-timeout", 1, "-n", 1, "sleep", 100], 124),
                            (["-host", "elsewhere", "-n", 1, "true"], 1)):
            with self.subTest(words=words):
                variables = {"PATH": "/nonexistent"} if "-host" in words else {}
                self.assertEqual(self.mpiexec(*words, stderr=closed_pipe(), **variables).returncode, code)
                self.assertEqual(self.mpiexec(*words, stderr=os.open("/dev/full", os.O_WRONLY), **variables).returncode, code)

    def test_reader_that_leaves(self):
        """mpiexec -l -n 2 yes 2>&1 | head -1"""
        mark = new_mark()
        child = subprocess.Popen([MPIEXEC, "-l", "-n", "2", "yes"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 env=environment(LAUNCH_TEST_MARK=mark))
        self.assertIn(b"y\n", child.stdout.readline())
        child.stdout.close()
        begin = time.monotonic()
        self.assertEqual(child.wait(20), 128 + signal.SIGPIPE)
        self.assertLess(time.monotonic() - begin, LIMIT_S)
        self.assertEqual(marked_processes(mark), [])

    def test_no_room(self):
        done = self.mpiexec("-l", "-n", 2, "echo", "text", stdout=os.open("/dev/full", os.O_WRONLY))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("standard output: No space left on device"), 1, done.stderr)
        # Output is lost, the job is not.
        done = self.mpiexec("-l", "-n", 2, "sh", "-c", "echo text; sleep 0.3; echo end >&2; exit 5",
                            stdout=os.open("/dev/full", os.O_WRONLY))
        self.assertEqual((done.returncode, done.stderr.count("end\n")), (5, 2))
        done = self.mpiexec("-l", "-n", 2, "sh", "-c", "echo text >&2", stderr=os.open("/dev/full", os.O_WRONLY))
        self.assertEqual(done.returncode, 1)
        for words in ("--help", "--version"):
            done = self.mpiexec(words, stdout=os.open("/dev/full", os.O_WRONLY))
            self.assertEqual(done.returncode, 1)
            self.assertIn("No space left", done.stderr)
        done = self.mpiexec("-summary", "-n", 1, "true", stderr=os.open("/dev/full", os.O_WRONLY))
        self.assertEqual(done.returncode, 1)

    @unittest.skipIf(SANITIZED == "thread", "its runtime writes a file itself")
    def test_limit_of_file_sizes(self):
        """mpiexec's output goes to a file that may not grow; the ranks' own do as the shell's would."""
        with tempfile.TemporaryFile() as file:
            limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", MPIEXEC]
            for words, code in ((["-l", "-n", "2", "echo", "text"], 1), (["-n", "1", "sh", "-c", "exit 5"], 5),
                                (["-n", "1", "sh", "-c", "kill -XFSZ $$"], 128 + signal.SIGXFSZ)):
                done = subprocess.run([*limited, *words], stdout=file, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW,
                                      env=environment())
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("standard output: File too large" in done.stderr, code == 1)

    def test_closed_streams(self):
        command = f"{MPIEXEC} -l -n 2 echo text >&-"
        done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60, env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: Bad file descriptor", done.stderr)
        for redirection in ("<&-", "2>&-", "<&- >&- 2>&-"):
            done = subprocess.run(["sh", "-c", f"{MPIEXEC} -n 2 true {redirection}"], timeout=60, env=environment())
            self.assertEqual(done.returncode, 0, redirection)

    def stalled(self, words, ready, variables={}, stream="stdout"):
        """Starts mpiexec with a pipe that is not read, waits for ready(), then SIGTERM; how long it took."""
        reader, writer = os.pipe()
        other = "stderr" if stream == "stdout" else "stdout"
        mark = new_mark()
        child = subprocess.Popen([MPIEXEC, *map(str, words)], stdin=subprocess.DEVNULL,
                                 **{stream: writer, other: subprocess.PIPE}, env=environment(LAUNCH_TEST_MARK=mark, **variables))
        os.close(writer)
        try:
            end = time.monotonic() + 20 * SLOW
            # Asked once: a process that calls exec has no environment for a moment.
            while not (is_ready := ready(mark, child)) and time.monotonic() < end:
                time.sleep(0.01)
            self.assertTrue(is_ready)
            time.sleep(0.3)
            self.assertIsNone(child.poll())
            begin = time.monotonic()
            if not variables:
                child.send_signal(signal.SIGTERM)
            code = child.wait(20)
            said = (child.stdout or child.stderr).read().decode()
            self.assertLess(time.monotonic() - begin, LIMIT_S)
            self.assertTrue(wait_until_gone(mark, 0.2))
            return code, said
        finally:
            os.close(reader)
            child.kill()
            child.wait()
            (child.stdout or child.stderr).close()

    def ranks_have_ended(self):
        """A condition: there were ranks, and mpiexec and its keeper are left."""
        most = 0

        def condition(mark, child):
            nonlocal most
            now = len(marked_processes(mark))
            most = max(most, now)
            return most > 2 and now == 2
        return condition

    def test_stalled_reader_after_the_ranks_have_ended(self):
        # 400 KB: more than the pipe takes, less than mpiexec stops the ranks for.
        words = ["-l", "-n", 2, "sh", "-c", "yes | head -c 100000; sleep 0.3"]
        code, said = self.stalled(words, self.ranks_have_ended())
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertIn("bytes of output were not taken by the reader of standard output", said)
        code, said = self.stalled(words, self.ranks_have_ended(), {"MPIEXEC_TIMEOUT": "1"})
        self.assertEqual(code, 124)

    def test_stalled_reader_of_running_ranks(self):
        for words in (["-l", "-n", 2, "yes"], ["-n", 2, "yes"]):
            code, said = self.stalled(words, lambda mark, child: len(marked_processes(mark)) == 4)
            self.assertEqual(code, 128 + signal.SIGTERM)

    def test_stalled_reader_of_standard_error(self):
        """mpiexec's own message does not fit behind what the ranks have written."""
        for words in (["-n", 2, "sh", "-c", "yes >&2"], ["-l", "-n", 2, "sh", "-c", "yes >&2"],
                      ["-v", "-n", 2, "sh", "-c", "trap '' TERM; yes >&2"]):
            code, said = self.stalled(words, lambda mark, child: len(marked_processes(mark)) >= 4, stream="stderr")
            self.assertEqual(code, 128 + signal.SIGTERM)

    def test_slow_reader_gets_everything(self):
        child = subprocess.Popen([MPIEXEC, "-l", "-n", "2", "sh", "-c", "yes 0123456789 | head -n 20000"],
                                 stdout=subprocess.PIPE, env=environment())
        lines, last = 0, b""
        time.sleep(1)
        while data := os.read(child.stdout.fileno(), 1 << 14):
            lines, last = lines + data.count(b"\n"), data
            time.sleep(0.002)
        child.stdout.close()
        self.assertEqual((child.wait(), lines, last[-1:]), (0, 40000, b"\n"))


if __name__ == "__main__":
    main()
