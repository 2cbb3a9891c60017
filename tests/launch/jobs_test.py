"""Jobs that are started separately, or by a program that nobody started with mpiexec, and meet."""
import os
import subprocess
import tempfile
import unittest

import common

PROGRAMS = os.path.join(common.BUILD, "tests", "mpi")


class Jobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = common.environment(TERN_NAMES_DIR=os.path.join(self.folder.name, "names"),
                                              MPIEXEC_TIMEOUT="120")

    def tearDown(self):
        self.folder.cleanup()

    def start(self, ranks, *words):
        command = [os.path.join(common.BUILD, "bin", "mpiexec"), "-n", str(ranks)] if ranks else []
        return subprocess.Popen([*command, os.path.join(common.BUILD, "tests", "launch", "jobs_program"), *words],
                                env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ends_well(self, process):
        out, _ = process.communicate(timeout=200)
        self.assertEqual((process.returncode, out.splitlines()[-1:]), (0, ["ok"]), out)

    def test_two_jobs_meet_by_a_published_name(self):
        for ranks in ((2, 3), (1, 1), (0, 2), (2, 0)):
            server, client = self.start(ranks[0], "server", "ocean"), self.start(ranks[1], "client", "ocean")
            self.ends_well(server)
            self.ends_well(client)
        self.assertEqual(os.listdir(self.environment["TERN_NAMES_DIR"]), [])

    def test_a_program_alone_spawns(self):
        process = subprocess.run([os.path.join(PROGRAMS, "spawn_children")], env=self.environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
        self.assertEqual((process.returncode, process.stdout), (0, "ok\n"))

    def test_many_spawns_leave_nothing(self):
        self.ends_well(self.start(1, "spawner", "20"))

    def test_a_spawned_job_that_fails_ends_its_parents(self):
        process = self.start(2, "parent-of-a-failure")
        out, _ = process.communicate(timeout=100)
        self.assertNotEqual(process.returncode, 0, out)
        self.assertIn("SIGSEGV", out)


if __name__ == "__main__":
    unittest.main()
