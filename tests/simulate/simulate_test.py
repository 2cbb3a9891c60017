"""mpiexec --simulate: ordinary programs, built by the wrappers, on simulated machines (docs/simulate.md)."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "launch"))
from common import BUILD, main, mpiexec, run  # noqa: E402

BIN = os.path.abspath(os.path.join(BUILD, "bin"))


def simulate(*words, machine="ndr", **options):
    return mpiexec("--simulate", machine, *words, **options)


class Simulate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tern-simulate-")
        cls.built = {}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def build(self, source, *flags, wrapper="mpicc", name=None):
        """The program of a source file; built once."""
        name = name or source.split(".")[0]
        if name not in self.built:
            program = os.path.join(self.folder, name)
            done = run([os.path.join(BIN, wrapper), "-O1", *flags, str(HERE / source), "-o", program, "-lm"], timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.built[name] = program
        return self.built[name]

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    # --- Programs.

    def test_c_program_has_everything_for_itself(self):
        for flags, name in (([], "statics"), (["-simulate"], "statics_simulate"), (["-shared", "-fPIC"], "statics.so")):
            program = self.build("statics.c", *flags, name=name)
            done = self.good(simulate("-n", 6, "-ppn", 2, "-l", program, "-a", "two", "rest"))
            lines = sorted(done.stdout.splitlines())
            self.assertEqual(lines, sorted([f"[{r}] rank {r} of 6 on node{r // 2}" for r in range(6)] +
                                           [f"[{r}] end {100 + r} 1" for r in range(6)]))

    def test_cxx_program(self):
        program = self.build("objects.cc", wrapper="mpicxx")
        done = self.good(simulate("-n", 4, "-l", program))
        for rank in range(4):
            mine = [line[4:] for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
            word = f"odd {rank}" if rank % 2 else f"even {rank}"
            self.assertEqual(mine, [f"...{rank} begin{rank} {rank + 1}", word, f"destroyed {rank + 1} 1"])
        done = simulate("-n", 4, program, "throw")
        self.assertEqual(done.returncode, 134, done.stderr)
        self.assertIn("rank 1 was killed by signal 6 (SIGABRT", done.stderr)
        self.assertIn("nobody catches this", done.stderr)

    @unittest.skipUnless(shutil.which("gfortran"), "no gfortran")
    def test_fortran_program(self):
        program = self.build("units.f90", wrapper="mpifort")
        done = self.good(simulate("-n", 5, "-ppn", 3, program, self.folder))
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank} of 5" for rank in range(5)])
        done = simulate("-n", 3, "-l", program, self.folder, "stop")
        self.assertEqual(done.returncode, 7)
        self.assertIn("[1] STOP 7", done.stderr)

    def test_several_programs(self):
        other = self.build("endings.c", "-simulate", name="endings_simulate")
        done = self.good(simulate("-n", 1, self.build("endings.c"), ":", "-n", 2, other, "return", ":", "-n", 1, other))
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank} begins" for rank in range(4)])

    def test_threads(self):
        program = self.build("threads.c", "-pthread")
        for seed in range(1, 6):
            done = self.good(simulate("-n", 3, "-ppn", 2, "-seed", seed, program))
            self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank} ok" for rank in range(3)])
        done = simulate("-n", 2, "--no-report", program, "exit")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("ended with exit code 5 after MPI_Init", done.stderr)
        self.good(simulate("-n", 2, "--no-report", program, "leave"))
        done = simulate("-n", 2, "--no-report", program, "deadlock")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("rank 1 in its program (its threads wait for each other)", done.stderr)
        program = self.build("threads_cxx.cc", "-std=c++20", "-pthread", wrapper="mpicxx")
        done = self.good(simulate("-n", 2, "--no-report", program))
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank}: 3 caught, 60, nobody" for rank in range(2)])

    # --- Endings.

    def test_endings(self):
        program = self.build("endings.c")
        for how, code, text in (
                ("exit", 5, "rank 1 ended with exit code 5 after MPI_Init, without MPI_Finalize"),
                ("_exit", 6, "rank 1 ended with exit code 6"), ("after", 4, ""),
                ("abort", 134, "rank 1 was killed by signal 6 (SIGABRT"),
                ("assert", 134, "rank == 0"), ("segv", 139, "rank 1 was killed by signal 11 (SIGSEGV"),
                ("raise", 143, "rank 1 was killed by signal 15 (SIGTERM"),
                ("overflow", 139, "rank 1 was killed by signal 11"), ("mpi_abort", 9, "called with error code 9"),
                ("wrong", 6, "argument 'dest' is 77"), ("hang", 1, "rank 1 in MPI_Recv"),
                ("fork", 0, "calls fork")):
            done = simulate("-n", 3, "--no-report", program, how)
            self.assertEqual(done.returncode, code, how + ": " + done.stderr)
            self.assertIn(text, done.stderr, how)
            self.assertIn("rank 0 begins", done.stdout if how in ("after", "fork") else done.stdout + "rank 0 begins")

    def test_what_cannot_be_simulated_is_named(self):
        script = os.path.join(self.folder, "script")
        pathlib.Path(script).write_text("#!/usr/bin/python3\n")
        os.chmod(script, 0o755)
        plain = os.path.join(self.folder, "plain.c")
        pathlib.Path(plain).write_text("int main(void) { return 0; }\n")
        for flags, name in ((["-static"], "static"), (["-no-pie"], "fixed"), ([], "no_mpi")):
            run(["cc", plain, *flags, "-o", os.path.join(self.folder, name)])
        for name, text in (("script", "interpreter /usr/bin/python3"), ("static", "mpicc -simulate"),
                           ("fixed", "mpicc -simulate"), ("no_mpi", "calls no MPI function"), ("missing", "cannot be read")):
            done = simulate("-n", 2, os.path.join(self.folder, name))
            self.assertEqual(done.returncode, 126, name)
            self.assertIn(text, done.stderr, name)
        done = simulate("-n", 2, self.build("endings.c"), machine="nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("one of: ", done.stderr)
        self.assertIn("ndr", done.stderr)
        done = run([os.path.join(BIN, "mpicc"), "-simulate", "-static", plain, "-o", os.path.join(self.folder, "x")])
        self.assertEqual(done.returncode, 1)
        self.assertIn("leave that out", done.stderr)
        done = mpiexec("--compute", "none", "-n", 1, self.build("endings.c"))
        self.assertIn("add --simulate", done.stderr)

    # --- Time.

    def time_of(self, *words, machine="ndr"):
        done = self.good(simulate(*words, machine=machine))
        return float(re.search(r"time ([0-9.]+)", done.stdout)[1]), done

    def test_computation(self):
        program = self.build("steps.c")
        none, _ = self.time_of("--compute", "none", "-n", 4, "-ppn", 1, program, 10)
        constant, _ = self.time_of("--compute", "constant:1ms", "-n", 4, "-ppn", 1, program, 10)
        self.assertLess(none, 0.001)
        # Per step: before each of two MPI_Irecv, two MPI_Isend, MPI_Test, MPI_Waitall, MPI_Allreduce.
        self.assertGreater(constant, 0.070)
        self.assertLess(constant, 0.075)
        measured, done = self.time_of("-n", 4, "-ppn", 1, program, 10, 8, 1000000)
        self.assertGreater(measured, 10 * 1000000 * 0.2e-9)  # a dependent multiplication takes a cycle at least
        self.assertIn("computation measured", done.stderr)
        doubled, _ = self.time_of("--compute-factor", "10", "-n", 4, "-ppn", 1, program, 10, 8, 1000000)
        self.assertGreater(doubled, 3 * measured)  # measured twice, on a machine that others use

    def test_same_record_same_trace(self):
        program, record = self.build("steps.c"), os.path.join(self.folder, "bursts")
        words = ["--print-hash", "-n", 8, "-ppn", 4]
        measured, _ = self.time_of("--compute", "measured:" + record, *words, program, 20, 100000)
        seen = set()
        for _ in range(2):
            time, done = self.time_of("--compute", "recorded:" + record, *words, program, 20, 100000)
            seen.add(re.search(r"trace ([0-9a-f]{16})", done.stderr)[1])
            self.assertAlmostEqual(time / measured, 1, delta=0.02)
        self.assertEqual(len(seen), 1)
        done = simulate("--compute", "recorded:" + record, "-n", 7, program)
        self.assertIn("was recorded with 8 ranks", done.stderr)

    def test_what_if(self):
        program = self.build("steps.c")
        done = self.good(simulate("--set", "rendezvous=rput,rget", "--set", "rdma_eager_bytes=4096,65536", "-n", 4, "-ppn", 1,
                                  program, 5, 30000))
        rows = [line.split() for line in done.stderr.splitlines() if line.startswith(("rput", "rget"))]
        self.assertEqual([row[:2] for row in rows],
                         [["rput", "4096"], ["rput", "65536"], ["rget", "4096"], ["rget", "65536"]])
        self.assertEqual(done.stdout.count("time "), 1)
        self.assertGreater(float(rows[0][2]), 0)
        done = simulate("--set", "rendezvouz=rput", "-n", 2, program)
        self.assertEqual(done.returncode, 2)
        self.assertIn("TERN_RENDEZVOUS", done.stderr)

    def test_report(self):
        done = self.good(simulate("-n", 4, "-ppn", 2, self.build("steps.c"), 5, 30000))
        for text in ("simulated 4 ranks on 2 nodes of 'ndr'", "MPI_Waitall", "sent eager", "node's adapter, out", "rdma_bytes"):
            self.assertIn(text, done.stderr)

    def test_ranks_of_a_node_reach_each_other_by_its_memory(self):
        def packets(*words):
            done = self.good(simulate("--compute", "none", *words, "-n", 4, "-ppn", 2, self.build("steps.c"), 20, 100000))
            return int(re.search(r"node's adapter, out .* (\d+)$", done.stderr, re.M).group(1))
        self.assertGreater(packets("--set", "path=rdma"), 1.8 * packets())  # half of the ring's messages stay on a node
        self.assertEqual(packets("--set", "path=shm,rdma"), packets())

    def test_trace_in_virtual_time(self):
        trace = os.path.join(self.folder, "trace.json")
        self.good(simulate("--trace", trace, "--summary", "--compute", "constant:1ms", "-n", 3, self.build("steps.c"), 4))
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        waits = [event for event in events if event.get("name") == "MPI_Test"]
        self.assertEqual(len(waits), 12)
        # Seven bursts of 1 ms, and the exchange: virtual time, not the simulator's.
        begins = sorted(event["ts"] for event in waits if event["pid"] == waits[0]["pid"])
        for a, b in zip(begins, begins[1:]):
            self.assertAlmostEqual(b - a, 7000, delta=300)

    def test_limits(self):
        done = simulate("--max-events", 1000, "-n", 4, self.build("steps.c"), 1000)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not end", done.stderr)

    def test_many_ranks(self):
        # More than the peers that have a place in a table (p2p/core/endpoint.h).
        self.good(simulate("--compute", "none", "-n", 4200, "-ppn", 50, self.build("steps.c"), 1, machine="gigabit"))


if __name__ == "__main__":
    main()
