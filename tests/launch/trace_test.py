"""mpiexec --summary and --trace: the tables add up, the trace is JSON whose calls nest and whose messages go forward in time."""
import bisect
import collections
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from common import BUILD, MPIEXEC, SANITIZED, SLOW, main, mpiexec, new_mark, run, start, wait_until_gone

PROGRAM = os.path.abspath(os.environ.get("TERN_TRACE_PROGRAM", os.path.join(BUILD, "tests/launch/trace_program")))
ROUNDING = 0.0015  # us: times are written in whole nanoseconds


class Trace:
    """The events of a trace, by kind."""

    def __init__(self, path):
        self.events = json.loads(Path(path).read_text())["traceEvents"]
        self.calls = [e for e in self.events if e["ph"] == "X"]
        self.starts = {e["id"]: e for e in self.events if e["ph"] == "s"}
        self.ends = {e["id"]: e for e in self.events if e["ph"] == "f"}

    def named(self, name, rank=None):
        return [e for e in self.calls if e["name"] == name and rank in (None, e["pid"])]

    def lines(self):
        lines = collections.defaultdict(list)
        for event in self.calls:
            lines[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
        return lines


@unittest.skipUnless(os.geteuid() == 0, "mounts a small file system")
class FullDisk(unittest.TestCase):
    SCRIPT = "mount -t tmpfs -o size={size} none {folder} && cd {folder} && exec env TMPDIR={folder} {command}"

    def run_on(self, size, *words):
        with tempfile.TemporaryDirectory() as folder:
            command = " ".join([MPIEXEC, *words])
            return run(["unshare", "-m", "sh", "-c", self.SCRIPT.format(size=size, folder=folder, command=command)])

    def test_a_trace(self):
        # Room for the ranks' totals, none for events.
        done = self.run_on("1m", "--trace", "t.json", "-n", "1", PROGRAM)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertNotIn("--trace-size", done.stderr)

    def test_a_summary(self):
        done = self.run_on("8k", "--summary", "-n", "1", PROGRAM)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the ranks could leave no records", done.stderr)
        self.assertIn("TMPDIR", done.stderr)
        self.assertNotIn("no rank has called MPI_Init", done.stderr)


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "trace.json"

    def trace(self, *words, ranks=2, code=0, options=(), whole=True, **variables):
        done = mpiexec("--trace", self.file, *options, "-n", ranks, PROGRAM, *words, **variables)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(os.listdir(self.folder), ["trace.json"], "something is left behind")
        trace = Trace(self.file)
        self.check(trace, whole)
        return trace, done

    def check(self, trace, whole=True):
        """What holds for every trace; of one that is not whole, the last call may be missing while its messages are there."""
        outer = {}  # of each line: begins and ends of the calls that are in no other, which do not overlap
        for line, spans in trace.lines().items():
            # Sorted so that an outer call comes before the calls in it: then each lies in all that are open, or after them.
            open_spans, begins, ends = [], [], []
            for begin, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
                while open_spans and begin >= open_spans[-1][1]:
                    open_spans.pop()
                if open_spans:
                    self.assertLessEqual(end, open_spans[-1][1] + ROUNDING, f"{line}: {name} reaches out of {open_spans[-1]}")
                else:
                    begins.append(begin)
                    ends.append(end)
                open_spans.append((begin, end, name))
            outer[line] = (begins, ends)
        self.assertEqual(set(trace.starts), set(trace.ends))
        for id_, start in trace.starts.items():
            end = trace.ends[id_]
            self.assertGreaterEqual(end["ts"], start["ts"], (start, end))
            self.assertEqual(start["args"]["to"], end["pid"])
            for event in (start, end):  # a flow begins and ends in a slice, or it is not drawn
                begins, ends = outer[event["pid"], event["tid"]]
                if not whole and event["ts"] > ends[-1]:
                    continue
                found = bisect.bisect_right(begins, event["ts"] + ROUNDING) - 1
                self.assertTrue(found >= 0 and event["ts"] <= ends[found] + ROUNDING, event)

    def test_calls_and_messages(self):
        for path in ("shm", "tcp"):
            with self.subTest(path=path):
                trace, _ = self.trace("traffic", TERN_PATH="self," + path)
                for rank in (0, 1):
                    for name in ("MPI_Init", "MPI_Barrier", "MPI_Finalize"):
                        self.assertEqual(len(trace.named(name, rank)), 1, name)
                self.assertEqual(len(trace.named("MPI_Send", 0)), 13)
                self.assertEqual(len(trace.named("MPI_Isend", 0)), 5)
                self.assertEqual(len(trace.named("MPI_Recv", 1)), 18)
                by_tag = collections.Counter(e["args"]["tag"] for e in trace.starts.values() if e["args"]["bytes"] >= 100)
                self.assertEqual({tag: by_tag[tag] for tag in (7, 8, 9)}, {7: 10, 8: 3, 9: 5})
                # The receive of the first message began before it was sent: rank 0 was away for 50 ms.
                first = min((e for e in trace.starts.values() if e["args"]["tag"] == 7), key=lambda e: e["ts"])
                self.assertGreater(first["ts"] - trace.named("MPI_Recv", 1)[0]["ts"], 20000)
                # Each message ends in a receive of its own.
                inside = [next(i for i, call in enumerate(trace.named("MPI_Recv", 1))
                               if call["ts"] - ROUNDING <= trace.ends[id_]["ts"] <= call["ts"] + call["dur"] + ROUNDING)
                          for id_, e in sorted(trace.starts.items(), key=lambda item: item[1]["ts"])
                          if e["args"]["tag"] == 8]
                self.assertEqual(inside, [10, 11, 12])

    def test_arguments(self):
        trace, _ = self.trace("arguments", ranks=2)
        world = {"comm": "MPI_COMM_WORLD"}
        for rank in (0, 1):
            self.assertEqual(trace.named("MPI_Bcast", rank)[0]["args"] | {"algorithm": ""},
                             world | {"root": 1, "count": 3, "bytes": 12, "algorithm": ""})
            self.assertRegex(trace.named("MPI_Bcast", rank)[0]["args"]["algorithm"], r"^[a-z_ -]+$")
        self.assertEqual(trace.named("MPI_Send", 0)[0]["args"], world | {"dest": 1, "tag": 42, "count": 5, "bytes": 40})
        self.assertEqual(trace.named("MPI_Recv", 1)[0]["args"],
                         world | {"source": "any", "tag": "any", "count": 6, "bytes": 48})
        made = trace.named("MPI_Irecv", 0)[0]["args"]
        self.assertEqual({k: made[k] for k in made if k != "request"},
                         world | {"source": 1, "tag": 7, "count": 1, "bytes": 4})
        self.assertEqual(trace.named("MPI_Wait", 0)[0]["args"], {"request": made["request"]})
        for rank in (0, 1):
            block = world | {"root": 0, "count": 2, "bytes": 16}
            args = trace.named("MPI_Scatter", rank)[0]["args"]
            self.assertEqual({k: args[k] for k in args if k != "algorithm"}, block)
            self.assertEqual(trace.named("MPI_Sendrecv", rank)[0]["args"],
                             world | {"dest": rank, "source": rank, "tag": 5, "count": 2, "bytes": 8})
        put = trace.named("MPI_Put", 0)[0]["args"]
        self.assertRegex(put.pop("comm"), r"context \d+")  # the window's
        self.assertEqual(put, {"target": 1, "count": 3, "bytes": 24})
        self.assertNotIn("args", trace.named("MPI_Init", 0)[0])

    def test_calls_inside_of_calls(self):
        trace, _ = self.trace("callback", ranks=1)
        outer, = trace.named("MPI_Comm_dup")
        inner, = [e for e in trace.named("MPI_Comm_size") if e["ts"] >= outer["ts"]]
        self.assertLessEqual(inner["ts"] + inner["dur"], outer["ts"] + outer["dur"])

    def test_threads_have_lines_of_their_own(self):
        trace, _ = self.trace("threads", ranks=2)
        threads = {e["tid"] for e in trace.named("MPI_Sendrecv", 0)}
        self.assertEqual(len(threads), 2)
        self.assertEqual(sum(1 for e in trace.starts.values() if e["args"]["bytes"] == 3), 200)

    def test_event_thread(self):
        trace, _ = self.trace("away", ranks=2, TERN_PROGRESS="event", TERN_PATH="self,tcp")
        names = {e["tid"]: e["args"]["name"] for e in trace.events
                 if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == 1}
        worked, = {e["tid"] for e in trace.named("progress", 1)}
        self.assertEqual(names[worked], "event thread")
        # While rank 1 was away, its event thread got the message.
        end, = [trace.ends[id_] for id_, e in trace.starts.items() if e["args"]["tag"] == 77]
        self.assertEqual((end["pid"], end["tid"]), (1, worked))

    def test_a_job_that_dies(self):
        trace, done = self.trace("hang", ranks=2, code=134, options=["--summary"])
        receive, = trace.named("MPI_Recv", 1)
        self.assertTrue(receive["args"]["unfinished"])
        self.assertGreater(receive["dur"], 100000)
        self.assertRegex(done.stderr, r"rank 1 did not finish: it was in MPI_Recv for \d+\.\d+ s")
        self.assertRegex(done.stderr, r"rank 0 did not finish: it was outside of MPI")

    def test_bounded(self):
        trace, done = self.trace("many", 60000, options=["--trace-size", "3"], whole=False)
        self.assertRegex(done.stderr, r"the ends of time lines are missing, \d+ events, for lack of room")
        self.assertLess(len(trace.named("MPI_Send", 0)), 60000)
        self.assertGreater(len(trace.named("MPI_Send", 0)), 10000)

    def test_several_windows(self):
        trace, _ = self.trace("many", 60000)
        self.assertEqual(len(trace.named("MPI_Send", 0)), 60000)
        self.assertEqual(sum(1 for e in trace.starts.values() if e["args"]["bytes"] == 8 and e["pid"] == 0), 60000)

    def test_clocks_that_differ(self):
        """A rank in a time namespace is like one of another machine: its clock is 1000 s ahead."""
        shifted = ["unshare", "-T", "--monotonic", "1000", "--boottime", "1000"]
        if not shutil.which("unshare") or subprocess.run([*shifted, "true"], capture_output=True).returncode != 0:
            self.skipTest("no time namespaces")
        done = mpiexec("--trace", self.file, "-n", 1, PROGRAM, "traffic", ":", "-n", 1, *shifted, PROGRAM, "traffic")
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = Trace(self.file)
        begins = [trace.named("MPI_Barrier", rank)[0] for rank in (0, 1)]
        ends = [e["ts"] + e["dur"] for e in begins]
        self.assertLess(abs(ends[0] - ends[1]), 50000, "the ends of a barrier, in us")
        wrong = [id_ for id_, start in trace.starts.items() if trace.ends[id_]["ts"] < start["ts"] - 1000]
        self.assertEqual(wrong, [])

    def test_other_hosts(self):
        """The engine that mpiexec hands over to runs the ranks; mpiexec stays and reads what they left."""
        engine = self.folder / "prterun"
        engine.write_text(f'#!/bin/sh\nwhile [ "$1" != {PROGRAM} ]; do\n  [ "$1" = -x ] && export "$2"\n  shift\ndone\n'
                          f'exec mpirun.openmpi --allow-run-as-root --oversubscribe -x TERN_RECORD -x TERN_RECORD_EVENTS -n 2 "$@"\n')
        engine.chmod(0o755)
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("no mpirun.openmpi")
        done = mpiexec("--trace", self.file, "--summary", "-host", "elsewhere", "-n", 2, PROGRAM, "traffic",
                       PATH=f"{self.folder}:{os.environ['PATH']}", PRTE_MCA_plm_ssh_agent="agent")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["prterun", "trace.json"])
        self.check(Trace(self.file))
        self.assertIn("summary of 2 ranks", done.stderr)

    def test_nothing_to_trace(self):
        done = mpiexec("--trace", self.file, "-n", 1, "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no rank has called MPI_Init", done.stderr)
        done = mpiexec("--trace", self.folder / "no" / "such" / "folder", "-n", 1, PROGRAM)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file or directory", done.stderr)


class Killed(unittest.TestCase):
    """Nothing of the records is left when mpiexec is killed, at whatever moment."""

    def test_nothing_is_left(self):
        for option in (["--summary"], ["--trace", "trace.json"]):
            for moment in (0.003, 0.01, 0.03, 0.3, 0.7):
                with self.subTest(option=option, moment=moment), tempfile.TemporaryDirectory() as folder:
                    mark = new_mark()
                    child = start([*option, "-n", 2, "sh", "-c", f"{PROGRAM}; sleep 100"], mark, cwd=folder, TMPDIR=folder)
                    time.sleep(moment)
                    child.kill()
                    child.communicate(timeout=20)
                    self.assertTrue(wait_until_gone(mark, 3.0 * SLOW))
                    self.assertEqual(os.listdir(folder), [])

    def test_no_empty_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            done = mpiexec("--trace", os.path.join(folder, "trace.json"), "-n", 2, "true")
            self.assertEqual(done.returncode, 1)
            self.assertIn("no rank has called MPI_Init", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_where_no_trace_can_be_written(self):
        for path in ("/nonexistent/trace.json", "/tmp"):
            done = mpiexec("--trace", path, "-n", 2, PROGRAM)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"trace '{path}'", done.stderr)


class Summary(unittest.TestCase):
    def summary(self, *words, ranks=2, **variables):
        done = mpiexec("--summary", "-n", ranks, PROGRAM, *words, **variables)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return done.stderr

    def row(self, text, name):
        return re.search(rf"^ *{re.escape(name)} .*$", text, re.M)[0].split()

    def test_tables(self):
        text = self.summary("traffic", TERN_PATH="self,shm")
        self.assertIn("summary of 2 ranks", text)
        for rank in (0, 1):
            row = self.row(text, str(rank))
            self.assertGreaterEqual(float(row[1]), float(row[2]))  # time in all, in MPI
            self.assertGreaterEqual(float(row[2]), float(row[4]))  # in MPI, waiting
        # Rank 1 waited for the 50 ms that rank 0 was away, in MPI_Recv.
        self.assertGreater(float(self.row(text, "1")[4]), 0.03)
        self.assertGreater(float(self.row(text, "MPI_Recv")[4]), 0.03)
        self.assertEqual(self.row(text, "MPI_Recv")[1], "18")
        self.assertEqual(self.row(text, "MPI_Send")[1], "13")
        self.assertRegex(text, r"imbalance: outside of MPI .* at most \(rank 0\)")
        # What came is what was sent.
        sent = sum(int(line.split()[-3]) for line in text.splitlines() if line.startswith("sent "))
        came = sum(int(line.split()[-3]) for line in text.splitlines() if line.startswith("came "))
        self.assertEqual(sent, came)
        self.assertGreaterEqual(sent, 18)

    def test_one_rank_and_many(self):
        self.assertIn("summary of 1 ranks", self.summary("", ranks=1))
        if not SANITIZED:
            self.assertIn("(least and most time in MPI, of 40 ranks)", self.summary("", ranks=40))

    def test_not_a_program_of_ours(self):
        done = mpiexec("--summary", "-n", 2, "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no rank has called MPI_Init", done.stderr)

    def test_jobs_inside_of_jobs(self):
        done = mpiexec("--summary", "-n", 1, os.path.join(BUILD, "bin", "mpiexec"), "-n", 2, PROGRAM)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no rank has called MPI_Init", done.stderr)  # those of the inner job are not ours


if __name__ == "__main__":
    main()
