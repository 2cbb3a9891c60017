#!/usr/bin/env python3
"""bench/history.py: what is kept of a run, and which changes count."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import history  # noqa: E402


def run(median, low, high, peer, unit="us"):
    """The results of one figure."""
    mpis = {"tern": {"median": median, "low": low, "high": high}, "mpich": {"median": peer, "low": peer, "high": peer}}
    return {"latency-shm": [{"series": "latency", "x": 8, "unit": unit, "mpis": mpis, "ratio": median / peer}]}


def entry(*arguments, **named):
    return history.entry_of(run(*arguments, **named), ROOT)


class History(unittest.TestCase):
    def test_ratios_are_compared_not_times(self):
        self.assertEqual(history.changes(entry(1.0, 0.9, 1.1, 2.0), entry(2.0, 1.9, 2.1, 4.0)), [])

    def test_a_change_counts_beyond_the_spread_and_the_limit(self):
        before = entry(1.0, 0.98, 1.02, 2.0)
        [(figure, old, new, worse)] = history.changes(before, entry(1.2, 1.18, 1.22, 2.0))
        self.assertEqual((figure, old, new, worse), ("latency-shm latency 8 us", 0.5, 0.6, True))
        self.assertFalse(history.changes(before, entry(0.8, 0.78, 0.82, 2.0))[0][3])
        self.assertEqual(history.changes(before, entry(1.2, 1.0, 1.4, 2.0)), [], "the quartiles overlap")
        self.assertEqual(history.changes(entry(1.0, 1.0, 1.0, 2.0), entry(1.04, 1.04, 1.04, 2.0)), [], "4 %")

    def test_more_of_a_bandwidth_is_better(self):
        before = entry(10.0, 9.9, 10.1, 10.0, unit="GB/s")
        self.assertTrue(history.changes(before, entry(8.0, 7.9, 8.1, 10.0, unit="GB/s"))[0][3])

    def test_the_last_line_of_a_file_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "history.jsonl"
            for median in (1.0, 3.0):
                history.append(file, run(median, median, median, 2.0), ROOT)
            self.assertEqual(len(file.read_text().splitlines()), 2)
            last = history.read(file, ROOT)
        self.assertEqual(last["figures"]["latency-shm latency 8 us"], [1.5, 1.5, 1.5])
        self.assertIn("nothing has changed", "\n".join(history.report(last, last)))

    def test_figures_without_peers_are_left_out(self):
        results = run(1.0, 1.0, 1.0, 2.0)
        results["latency-shm"][0]["ratio"] = None
        self.assertEqual(history.entry_of(results, ROOT)["figures"], {})


if __name__ == "__main__":
    unittest.main()
