#!/usr/bin/env python3
"""scripts/skipped: tests that were skipped, wholly or in part, and why."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/skipped"
RESULTS = """<testsuite name="Linux" tests="4">
<testcase name="unit.a" status="run"><system-out>/x/a_test.cc:12: Skipped
needs two processors

</system-out></testcase>
<testcase name="net.b" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>net: preparing
skipped: no right to make network namespaces</system-out></testcase>
<testcase name="rdma.c" status="notrun"><skipped message=""/><system-out></system-out></testcase>
<testcase name="unit.d" status="run"><system-out>[  PASSED  ] 3 tests.</system-out></testcase>
</testsuite>"""


def run(*arguments):
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True)


class Skipped(unittest.TestCase):
    def test_each_has_its_reason(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(RESULTS)
            file.flush()
            done = run(file.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "Skipped on this machine: 2 tests, and parts of 1 others",
            "  net.b: no right to make network namespaces",
            "  rdma.c: it says no reason",
            "  unit.a, in part: needs two processors"])

    def test_nothing_skipped_says_nothing(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write('<testsuite><testcase name="unit.d" status="run"/></testsuite>')
            file.flush()
            self.assertEqual(run(file.name).stdout, "")

    def test_a_file_that_is_none_is_an_error(self):
        done = run("/nonexistent.xml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent.xml", done.stderr)


if __name__ == "__main__":
    unittest.main()
