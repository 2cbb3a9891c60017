"""What the library says of itself (TERN_LOG), and the configuration file, as a whole job shows them."""
import os
import re
import tempfile
import unittest
from pathlib import Path

from common import BUILD, main, mpiexec, run

PROGRAM = os.environ.get("TERN_LOG_PROGRAM", os.path.join(BUILD, "tests/launch/log_program"))


def job(ranks, what="meet", **variables):
    options = [word for name, value in variables.items() for word in ("-genv", name, value)]
    return mpiexec(*options, "-n", ranks, PROGRAM, what)


class Log(unittest.TestCase):
    def test_nothing_by_default(self):
        done = job(2, TERN_CONFIG="")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_start_and_paths(self):
        done = job(2, TERN_CONFIG="", TERN_LOG="info", TERN_PATH="shm,self")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in (0, 1):
            self.assertRegex(done.stderr, rf"\[tern rank {rank}\] info: rank {rank} of 2, job \S+; on this node 2 ranks, \d+ cores")
            self.assertIn(f"[tern rank {rank}] info: paths: self to rank {rank}; shm to rank {1 - rank}\n", done.stderr)

    def test_connections_and_a_file_for_each_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            done = job(2, TERN_CONFIG="", TERN_LOG=f"debug:{folder}/%r.log", TERN_PATH="tcp,self")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            texts = [Path(folder, f"{rank}.log").read_text() for rank in (0, 1)]
        for rank, text in enumerate(texts):
            self.assertRegex(text, r"info: tcp: listening on \S+")
            self.assertEqual(len(re.findall(rf"debug: tcp: connected with rank {1 - rank} at \S+( over \S+)?, (was )?called", text)), 1, text)
        self.assertEqual("".join(texts).count("was called"), 1)

    def test_what_cannot_be_had_is_said_once(self):
        queues = job(3, TERN_CONFIG="", TERN_PATH="tcp", TERN_RENDEZVOUS="tupleq")
        self.assertEqual(queues.returncode, 0, queues.stderr)
        self.assertEqual(len(queues.stderr.splitlines()), 1, queues.stderr)
        self.assertIn("[tern rank 0] warning: TERN_RENDEZVOUS=tupleq: the path tcp has no tuple queues", queues.stderr)
        self.assertIn("as with TERN_RENDEZVOUS=customised", queues.stderr)
        locks = job(3, "windows", TERN_CONFIG="", TERN_PATH="tcp", TERN_RMA_LOCK="mcs")
        self.assertEqual(locks.returncode, 0, locks.stderr)
        self.assertEqual(len(locks.stderr.splitlines()), 1, locks.stderr)
        self.assertIn("[tern rank 0] warning: TERN_RMA_LOCK", locks.stderr)
        self.assertIn("used instead: event-thread", locks.stderr)
        for words, variables in (("windows", {"TERN_RMA_LOCK": "mcs", "TERN_PATH": "shm"}), ("meet", {"TERN_RENDEZVOUS": "tupleq"})):
            alone = job(1, words, TERN_CONFIG="", **variables)
            self.assertEqual((alone.returncode, alone.stderr), (0, ""))

    def test_a_wrong_level(self):
        done = job(1, TERN_CONFIG="", TERN_LOG="loud")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TERN_LOG is 'loud', but takes error, warn, info or debug", done.stderr)


class Configuration(unittest.TestCase):
    def test_a_file_is_used_and_the_environment_wins(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/t.toml", "w") as file:
                file.write('path = "tcp"\nlog = "info"\nspin_u = 3\n')
            done = job(3, TERN_CONFIG=f"{folder}/t.toml")
            self.assertIn("tcp to ranks 1-2", done.stderr)
            self.assertIn(f"[tern rank 0] info: tunables from {folder}/t.toml", done.stderr)
            warning = f"[tern rank 0] warning: {folder}/t.toml:3: there is no tunable TERN_SPIN_U; the nearest name is TERN_SPIN_US"
            self.assertEqual(done.stderr.count(warning), 1, done.stderr)
            self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
            done = job(3, TERN_CONFIG=f"{folder}/t.toml", TERN_PATH="shm", TERN_LOG="warn")
            self.assertNotIn("info:", done.stderr)
            info = run([os.path.join(BUILD, "bin", "tern-info")], TERN_CONFIG=f"{folder}/t.toml")
            self.assertIn(f"{folder}/t.toml", info.stdout)
            self.assertIn("TERN_PATH=tcp", info.stdout)

    def test_an_unknown_variable_is_warned_of_once(self):
        """Module files set such names; a job of several ranks says it once and goes on."""
        done = job(3, TERN_CONFIG="", TERN_HOME="/opt/tern", TERN_SHM_EAGER="5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("warning: there is no tunable TERN_HOME."), 1, done.stderr)
        self.assertEqual(done.stderr.count("TERN_SHM_EAGER; the nearest name is TERN_SHM_EAGER_BYTES"), 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        alone = run([PROGRAM, "meet"], TERN_CONFIG="", TERN_HOME="/opt/tern")
        self.assertEqual((alone.returncode, alone.stderr.count("TERN_HOME")), (0, 1), alone.stderr)
        info = run([os.path.join(BUILD, "bin", "tern-info")], TERN_CONFIG="", TERN_HOME="/opt/tern")
        self.assertEqual(info.returncode, 0)
        self.assertIn("there is no tunable TERN_HOME", info.stderr)
        self.assertNotEqual(job(2, TERN_CONFIG="", TERN_SHM_CMA="2").returncode, 0)

    def test_a_wrong_value_ends_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/t.toml", "w") as file:
                file.write("shm_cma = 2\n")
            done = job(1, TERN_CONFIG=f"{folder}/t.toml")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{folder}/t.toml:1: TERN_SHM_CMA is '2'", done.stderr)


if __name__ == "__main__":
    main()
