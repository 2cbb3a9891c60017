"""The options of mpiexec that scripts written for other launchers pass, and what is said about those that it does not have."""
import os
import re
import tempfile
import unittest
from pathlib import Path

from common import CLIENT, main, mpiexec

ECHO = ["sh", "-c", "echo out $PMI_RANK; echo err $PMI_RANK >&2"]
# Two sockets of four cores; two of two cores with two threads each, two NUMA nodes each.
EIGHT = "package:2 core:4 pu:1"
THREADS = "package:2 numa:2 core:2 pu:2"


class OutputFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def texts(self):
        return {str(path.relative_to(self.folder)): path.read_text() for path in self.folder.rglob("*") if path.is_file()}

    def test_patterns(self):
        done = mpiexec("-outfile-pattern", self.folder / "new/%r.out", "-errfile-pattern", self.folder / "100%%.%h", "-n", 2, *ECHO)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        texts = self.texts()
        both = texts.pop(f"100%.{os.uname().nodename}")
        self.assertEqual(texts, {"new/0.out": "out 0\n", "new/1.out": "out 1\n"})
        self.assertEqual(sorted(both.splitlines()), ["err 0", "err 1"])
        # A second run begins anew.
        mpiexec("-outfile-pattern", self.folder / "new/%r.out", "-n", 1, *ECHO)
        self.assertEqual(self.texts()["new/0.out"], "out 0\n")

    def test_one_stream_only(self):
        done = mpiexec("-outfile-pattern", self.folder / "%r", "-n", 2, *ECHO)
        self.assertEqual((done.stdout, sorted(done.stderr.splitlines())), ("", ["err 0", "err 1"]))

    def test_folder(self):
        done = mpiexec("--output-filename", self.folder / "log", "-l", "-n", 2, *ECHO)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] out 0", "[1] out 1"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0] err 0", "[1] err 1"])
        whole = {f"log/1/rank.{rank}/{name}": f"{name[3:]} {rank}\n" for rank in range(2) for name in ("stdout", "stderr")}
        self.assertEqual(self.texts(), whole)
        done = mpiexec("--output-filename", f"{self.folder}/log:nocopy", "-n", 2, *ECHO)
        self.assertEqual((done.returncode, done.stdout, done.stderr, self.texts()), (0, "", "", whole))
        done = mpiexec("--output-filename", self.folder / "ten", "-n", 10, "true")
        self.assertIn("ten/1/rank.00/stdout", self.texts())

    def test_more_than_a_pipe_holds(self):
        done = mpiexec("--output-filename", self.folder, "-n", 2, "sh", "-c", "yes $PMI_RANK | head -c 3000000")
        self.assertEqual((len(done.stdout), len(self.texts()["1/rank.1/stdout"])), (6000000, 3000000))

    def test_files_that_cannot_be(self):
        for options in (["-outfile-pattern", "/proc/no/%r"], ["--output-filename", "/dev/null/x"]):
            done = mpiexec(*options, "-n", 2, *ECHO)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("output file '/", done.stderr)
        done = mpiexec("-outfile-pattern", "/dev/full", "--output-filename", "/dev/null/x", "-n", 2, *ECHO)
        self.assertEqual(done.returncode, 1)


class Environment(unittest.TestCase):
    SHOW = ["/bin/sh", "-c", "echo $A,$B,$C"]

    def test_of_one_program(self):
        done = mpiexec("-envnone", "-env", "C=3", "-n", 1, *self.SHOW, ":", "-envlist", "B,C", "-n", 1, *self.SHOW, ":", "-n", 1,
                       *self.SHOW, A="1", B="2")
        self.assertEqual(sorted(done.stdout.splitlines()), [",,3", ",2,", "1,2,"])
        done = mpiexec("-genvnone", "-n", 1, *self.SHOW, ":", "-envall", "-n", 1, *self.SHOW, A="1")
        self.assertEqual(sorted(done.stdout.splitlines()), [",,", "1,,"])


class Universe(unittest.TestCase):
    def universe(self, *options):
        return re.search(r"universe=(\S+)", mpiexec(*options, "-n", 1, CLIENT, "info").stdout)[1]

    def test_sizes(self):
        self.assertEqual(self.universe("-usize", 77), "77")
        self.assertEqual(self.universe("-usize", "SYSTEM"), self.universe())
        self.assertEqual(self.universe("-usize", "INFINITE"), "-1")


class ExitCodes(unittest.TestCase):
    def test_printed(self):
        done = mpiexec("-print-all-exitcodes", "-n", 5, "sh", "-c", "[ $PMI_RANK = 4 ] && { sleep 0.3; kill -USR1 $$; }; exit $((PMI_RANK / 3))")
        self.assertEqual(done.stderr.splitlines()[-1], "mpiexec: exit codes: 0 of ranks 0-2, 1 of rank 3, SIGUSR1 of rank 4")


class ConfigFile(unittest.TestCase):
    def run_file(self, text, *more):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            return mpiexec("-configfile", file.name, *more)

    def test_programs_line_by_line(self):
        done = self.run_file("# two programs\n-n 1 -env A 'x y' sh -c \"echo \\$PMI_RANK \\$A\"\n\n"
                             "-n 2 \\\n  sh -c 'echo $PMI_RANK of $PMI_SIZE'\n")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, ["0 x y", "1 of 3", "2 of 3"]), done.stderr)

    def test_mistakes(self):
        for text, words, what in (("-n 1 echo 'open\n", (), "line 1: a quote is open"), ("# nothing\n", (), "no program"),
                                  ("-n 1 true\n", ("-n", 1), "stands alone"), ("-frobnicate true\n", (), "-frobnicate")):
            done = self.run_file(text, *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(what, done.stderr)
        self.assertIn("No such file", mpiexec("-configfile", "/nonexistent").stderr)


class Binding(unittest.TestCase):
    """On machines that hwloc makes up; the report says what would be."""

    def report(self, ranks, *options, machine=EIGHT, **variables):
        done = mpiexec("-report-bindings", *options, "-n", ranks, "true", HWLOC_SYNTHETIC=machine, **variables)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return [line.removeprefix("mpiexec: ") for line in done.stderr.splitlines()]

    def drawings(self, *arguments, **options):
        return [re.search(r"\[(.*)\]", line)[1] for line in self.report(*arguments, **options)]

    def test_text(self):
        self.assertEqual(self.report(2), ["rank 0 bound to socket 0, cores 0-3: [BBBB/....], processors 0-3",
                                          "rank 1 bound to socket 1, cores 4-7: [..../BBBB], processors 4-7"])
        self.assertEqual(self.report(1), ["ranks are not bound: one rank may use the whole machine"])

    def test_automatic_leaves_room_for_threads(self):
        self.assertEqual(self.drawings(2, OMP_NUM_THREADS="4"), ["BBBB/....", "..../BBBB"])
        self.assertEqual(self.drawings(3), ["BB../....", "..BB/B...", "..../.BBB"])
        self.assertEqual(self.report(2, OMP_NUM_THREADS="5"), ["ranks are not bound: 2 ranks with 5 threads each share 8 cores"])
        self.assertEqual(self.report(2, machine="package:1 core:2 pu:1", OMP_NUM_THREADS="2"),
                         ["ranks are not bound: 2 ranks with 2 threads each share 2 cores"])
        self.assertEqual(self.drawings(2, machine="package:1 core:4 pu:1", OMP_NUM_THREADS="2"), ["BB..", "..BB"])
        self.assertEqual(self.report(9), ["ranks are not bound: 9 ranks share 8 cores"])

    def test_cores(self):
        self.assertEqual(self.drawings(2, "--bind-to", "core"), ["B.../....", ".B../...."])
        self.assertEqual(self.drawings(2, "-bind-to", "core:2"), ["BB../....", "..BB/...."])
        self.assertEqual(self.drawings(2, "--map-by", "slot:pe=3"), ["BBB./....", "...B/BB.."])
        self.assertEqual(self.report(3, "--map-by", "core:PE=3"), ["ranks are not bound: 3 ranks with 3 cores each, but there are 8"])
        self.assertEqual(self.report(1, "--map-by", "core:PE=9"), ["ranks are not bound: 1 rank with 9 cores each, but there are 8"])

    def test_sockets(self):
        self.assertEqual(self.drawings(4, "--map-by", "socket"), ["BB../....", "..../BB..", "..BB/....", "..../..BB"])
        self.assertEqual(self.drawings(3, "--map-by", "socket:pe=2"), ["BB../....", "..../BB..", "..BB/...."])
        self.assertEqual(self.drawings(4, "--map-by", "ppr:2:socket", "--bind-to", "core"),
                         ["B.../....", ".B../....", "..../B...", "..../.B.."])
        self.assertEqual(self.drawings(3, "--map-by", "socket", "--bind-to", "socket"), ["BBBB/....", "..../BBBB", "BBBB/...."])
        # A socket may be shared by more ranks than it has cores.
        self.assertEqual(self.drawings(20, "--map-by", "socket", "--bind-to", "socket")[18:], ["BBBB/....", "..../BBBB"])
        self.assertEqual(self.drawings(5, "--bind-to", "socket"), ["BBBB/...."] * 4 + ["..../BBBB"])
        self.assertEqual(self.report(5, "--map-by", "ppr:2:socket"), ["ranks are not bound: 5 ranks, 2 on each of 2 parts"])
        self.assertEqual(self.drawings(2, "--map-by", "ppr:1:core"), ["B.../....", ".B../...."])
        self.assertEqual(self.drawings(3, "--map-by", "ppr:2:core"), ["B.../....", "B.../....", ".B../...."])
        self.assertEqual(self.report(9, "--map-by", "ppr:1:core"), ["ranks are not bound: 9 ranks, 1 on each of 8 parts"])
        self.assertEqual(self.drawings(2, "--map-by", "ppr:1:hwthread", machine=THREADS), ["B......./........", ".B....../........"])

    def test_numa_and_threads(self):
        self.assertEqual(self.drawings(4, "--map-by", "numa", machine=THREADS),
                         ["BBBB..../........", "....BBBB/........", "......../BBBB....", "......../....BBBB"])
        self.assertEqual(self.drawings(2, "--bind-to", "numa", machine=THREADS), ["BBBB..../........"] * 2)
        self.assertEqual(self.drawings(3, "--bind-to", "hwthread", machine=THREADS)[2], "..B...../........")
        self.assertEqual(self.drawings(2, "--map-by", "node", machine=EIGHT), ["BBBB/....", "..../BBBB"])

    def test_none_and_mistakes(self):
        self.assertEqual(self.report(2, "--bind-to", "none"), ["ranks are not bound, as asked"])
        for option, value in (("-bind-to", "x"), ("-bind-to", "core:0"), ("-bind-to", "socket:2"), ("-map-by", "none"),
                              ("-map-by", "core:pe=0"), ("-map-by", "ppr:x:core"), ("-map-by", "core:frob")):
            done = mpiexec(option, value, "-n", 2, "true")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"option {option} takes", done.stderr)
            self.assertIn(f"not '{value}'", done.stderr)


class Mistakes(unittest.TestCase):
    def said(self, *words):
        done = mpiexec(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_values(self):
        self.assertEqual(self.said("-n", "abc", "true"), "mpiexec: option -n takes a whole number from 1 to 1048576, not 'abc'\n")
        self.assertIn("option --np takes", self.said("--np=0", "true"))
        self.assertIn("option -timeout takes", self.said("-timeout", "1x", "true"))
        self.assertIn("option '-host' lacks its value: -host HOST", self.said("-host"))
        self.assertIn("did you mean", self.said("--verbos=3", "true"))
        self.assertIn("option -l takes no value", self.said("-l=3", "true"))

    def test_options_of_other_launchers(self):
        self.assertIn("TERN_ variables", self.said("--mca", "btl", "tcp", "-n", 2, "true"))
        self.assertIn("xterm -e gdb", self.said("-tv", "-n", 2, "true"))
        self.assertIn("-map-by slot:pe=N", self.said("--cpus-per-proc", 2, "true"))
        self.assertIn("-report-bindings", self.said("--display-map", "true"))

    def test_misspelt(self):
        self.assertIn("did you mean -timeout?", self.said("-tiemout", 3, "true"))
        self.assertNotIn("did you mean", self.said("-frobnicate", "true"))

    def test_one_usage(self):
        usage = "mpiexec [options] program arguments [: [options] program arguments]..."
        self.assertIn(usage, self.said())
        for option in ("--help", "-h", "-help"):
            text = mpiexec("-n", 2, option).stdout
            self.assertEqual((text.count(usage), text.lower().count("usage")), (1, 1))
        self.assertIn("Tern", mpiexec("-V").stdout)

    def test_accepted(self):
        for words in (["--oversubscribe", "--allow-run-as-root", "-q"], ["-N", 2], ["-c", 2], ["-perhost", 1]):
            done = mpiexec(*words, "-n", 2, "true")
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
