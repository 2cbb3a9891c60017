#!/usr/bin/env python3
"""scripts/coverage: the table of the folders of src/."""
import json
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/coverage"


def file(name, lines, reached, branches, branches_reached):
    return {"filename": name, "line_total": lines, "line_covered": reached, "branch_total": branches,
            "branch_covered": branches_reached}


class Coverage(unittest.TestCase):
    def test_folders_are_summed(self):
        summary = {"files": [file("src/p2p/core/a.cc", 10, 9, 4, 1), file("src/p2p/b.cc", 10, 10, 0, 0),
                             file("src/base/c.h", 20, 5, 2, 2), file("tests/unit/d.cc", 99, 0, 0, 0)]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as written:
            json.dump(summary, written)
            written.flush()
            done = subprocess.run([str(SCRIPT), "build", "--summary", written.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()[1:]]
        self.assertEqual(rows, [["base", "20", "25.0", "%", "2", "100.0", "%"], ["p2p", "20", "95.0", "%", "4", "25.0", "%"],
                                ["src", "40", "60.0", "%", "6", "50.0", "%"]])


if __name__ == "__main__":
    unittest.main()
