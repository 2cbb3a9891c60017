"""mpiexec --explain finds planted causes of waiting, with file and line, and has no advice for a program whose ranks wait evenly. The
simulator's clock makes each run the same."""
import os
import re
import tempfile
import unittest
from pathlib import Path

from common import BUILD, SANITIZED, main, mpiexec

SOURCE = Path(__file__).parent / "planted_program.c"
PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/launch/planted_program"))
# By case: where its ranks wait. A lock may be asked for in MPI_Win_lock or together with what follows, in MPI_Win_unlock.
LINES = {}
for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
    if match := re.search(r"/\* (\w+) \*/", line):
        LINES.setdefault(match[1], []).append(number)
# By case: ranks, and words that the advice has.
CASES = {
    "late_sender": (2, "rank 0 sends .* ms late .* it computes longer"),
    "late_sender_in_waitall": (2, "rank 0 sends .* ms late .* it computes longer"),
    "chain": (4, "in a chain"),
    "late_receiver": (2, "rank 1 posts its receive .* ms after this send"),
    "late_receiver_in_wait": (2, "rank 1 posts its receive .* ms after this send"),
    "synchronous": (2, "MPI_Ssend waits for that by its meaning"),
    "late_rank": (4, r"rank 3 arrives (1\.9|2\.0|2\.1) ms late at planted_program.c:\d+ in (9\d|100) % of \d+ steps: it computes longer"),
    "imbalance": (4, "rank 0 comes first, rank 3 comes 900.0 us later|rank 0 comes first, rank 3 comes (8|9)"),
    "late_root": (4, "rank 0, the root, arrives .* ms late"),
    "late_leaf": (4, "rank 2 arrives .* ms late"),
    "just_above_eager": (2, "messages of 9,000 bytes are just above the eager limit of .*8,192 bytes"),
    "copied_twice": (2, "receives are posted after the messages come .* copied twice"),
    "small_messages": (2, "64 messages of 8 bytes go to the same rank in a row"),
    "polling": (2, "calls in a row until one succeeds"),
    "needless_barrier": (4, "MPI_Allreduce at planted_program.c:.* the barrier can go"),
    "broadcast_by_hand": (4, "MPI_Bcast or MPI_Scatter"),
    "gather_by_hand": (4, "MPI_ANY_SOURCE"),
    "window_lock": (4, "for the window of rank 0"),
    "late_at_fence": (4, "rank 2 arrives .* ms late"),
    "small_accesses": (2, "accesses of 256 bytes each: a collective call"),
    "made_often": (2, "called 40 times by each rank: make it once"),
    "collectives_in_a_row": (4, "collectives of 8 bytes in a row"),
    "late_thread": (2, "rank 0 sends .* ms late .* it computes longer"),
}
# The simulator has no files, one thread a rank, and makes communicators in no time.
REAL = ("small_accesses", "made_often", "late_thread")


def explained(case, ranks, **variables):
    simulated = [] if case in REAL else ["--simulate", "ndr", "--compute", "none"]
    return mpiexec("--explain", *simulated, "-n", ranks, PROGRAM, case, **variables)


def advice_at(text, case):
    """The paragraphs below the lines of the case's places, each as one line."""
    places = [f"(planted_program.c:{number})" for number in LINES[case]]
    found, inside = [], False
    for line in text.splitlines():
        if re.match(r" *(\d+\.|-) MPI_", line):
            inside = any(place in line for place in places)
        elif inside:
            found.append(line.strip())
    return " ".join(found)


@unittest.skipIf(SANITIZED, "the simulator's programs are not sanitized")
class Explain(unittest.TestCase):
    def test_planted_cases(self):
        self.assertGreaterEqual(len(CASES), 20)
        with tempfile.TemporaryDirectory() as folder:
            for case, (ranks, words) in CASES.items():
                with self.subTest(case=case):
                    done = explained(case, ranks, PLANTED_FILE=os.path.join(folder, "file"))
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(advice_at(done.stderr, case), words, done.stderr)

    def test_no_advice_for_a_balanced_program(self):
        done = explained("balanced", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No advice", done.stderr)

    def test_no_advice_where_ranks_share_cores(self):
        """Ranks that wait for each other's turn on a core would not wait less if the program were another."""
        for cores, compute in ((1, "1ms"), (2, "50us"), (3, "500us")):
            with self.subTest(cores=cores):
                done = mpiexec("--explain", "--simulate", "ndr", "-cores", cores, "--compute", f"constant:{compute}", "-n", 8, PROGRAM,
                               "balanced")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("No advice", done.stderr)


if __name__ == "__main__":
    main()
