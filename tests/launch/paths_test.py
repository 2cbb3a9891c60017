"""Ranks of one job whose TERN_PATH differs: they meet where they can, or one says that they cannot."""
import os
import unittest

from common import BUILD, main, mpiexec

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/hostile/hostile_program"))


class Paths(unittest.TestCase):
    def job(self, *paths):
        words = []
        for path in paths:
            words += [":"] * bool(words) + ["-n", 1, "-env", "TERN_PATH", path, PROGRAM, "alltoall", 0.1]
        return mpiexec(*words, timeout=20)

    def test_some_share_memory(self):
        """A rank that may not share memory waits for the addresses of those who have tried."""
        shared, alone = "self,shm,tcp", "self,tcp"
        for paths in ((shared, alone), (alone, shared), (shared, shared, alone), (alone, shared, shared),
                      (shared, alone, alone, shared)):
            with self.subTest(paths=paths):
                done = self.job(*paths)
                self.assertEqual((done.returncode, done.stdout.count("exact")), (0, len(paths)), done.stderr)

    def test_no_way_between_two(self):
        for paths in (("self,udp", "self,tcp"), ("self,tcp", "self,udp"), ("self,shm", "self,tcp"), ("self,tcp", "self,shm"),
                      ("self,tcp", "self,udp,shm", "self")):
            with self.subTest(paths=paths):
                done = self.job(*paths)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("TERN_PATH", done.stderr)

    def test_the_network_in_another_order(self):
        """A scheduler stands before several paths; who has none, or another order, does not understand it."""
        for own, other in (("tcp,udp", "udp,tcp"), ("tcp", "tcp,udp"), ("udp,tcp", "udp")):
            with self.subTest(paths=(own, other)):
                done = self.job("self," + own, "self," + other)
                self.assertNotEqual(done.returncode, 0)
                if "has no key" in done.stderr: continue  # the path itself is missing there
                self.assertRegex(done.stderr, "(?s)TERN_PATH names the network's paths.*Give all ranks the same ones in the "
                                              "same order")
                for path in (own, other): self.assertIn(f"'{path}'", done.stderr)


if __name__ == "__main__":
    main()
