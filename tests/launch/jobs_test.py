"""Jobs that are started separately, or by a program that nobody started with mpiexec, and meet."""
import os
import shutil
import subprocess
import tempfile
import unittest

import common

OPEN_MPI = shutil.which("mpirun.openmpi")
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

    @unittest.skipUnless(OPEN_MPI, "no mpirun of Open MPI (package openmpi-bin)")
    def test_mpirun_spawns_by_pmix(self):
        for program in ("spawn_children", "spawn_strangers"):
            command = [OPEN_MPI, "--allow-run-as-root", "--oversubscribe", "-n", "2", os.path.join(PROGRAMS, program)]
            # That /bin/true will not call MPI_Init shows only in that time.
            process = subprocess.run(command, env=dict(self.environment, TERN_PORT_TIMEOUT_S="10"), text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
            self.assertEqual(process.returncode, 0, process.stdout)
            self.assertIn("ok\n", process.stdout)

    def test_many_spawns_leave_nothing(self):
        self.ends_well(self.start(1, "spawner", "20"))

    def test_a_spawned_job_that_fails_ends_its_parents(self):
        process = self.start(2, "parent-of-a-failure")
        out, _ = process.communicate(timeout=100)
        self.assertNotEqual(process.returncode, 0, out)
        self.assertIn("SIGSEGV", out)


if __name__ == "__main__":
    unittest.main()
