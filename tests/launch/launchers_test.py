"""The clients under other launchers, and the errors under those that cannot be talked to."""
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

from common import CLIENT, main, mpiexec, run

HYDRA = shutil.which("mpiexec.hydra") or shutil.which("mpiexec.mpich")
OPEN_MPI = shutil.which("mpirun.openmpi")


def fields(line):
    return dict(word.split("=", 1) for word in line.split())


class Common:
    """The same expectations of every launcher."""

    def launch(self, *words):
        return run([*self.command, *[str(w) for w in words]], timeout=120)

    def test_exchange(self):
        for ranks in (1, 2, 5):
            done = self.launch("-n", ranks, CLIENT, "exchange")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {r} of {ranks} exchanged" for r in range(ranks)])

    def test_values_are_looked_up_while_a_barrier_waits(self):
        for _ in range(3):
            done = self.launch("-n", 3, CLIENT, "look-up")
            self.assertEqual((done.returncode, done.stdout.count("looked up")), (0, 3), done.stderr)

    def test_info(self):
        done = self.launch("-n", 3, CLIENT, "info")
        lines = sorted(done.stdout.splitlines())
        self.assertEqual(len(lines), 3, done.stderr)
        for rank, line in enumerate(lines):
            words = fields(line)
            self.assertEqual((words["rank"], words["size"], words["local"]), (str(rank), "3", "0,1,2"))
        self.assertEqual(len({fields(line)["job"] for line in lines}), 1)

    def test_two_jobs_have_two_names(self):
        jobs = [fields(self.launch("-n", 1, CLIENT, "info").stdout)["job"] for _ in range(2)]
        self.assertNotEqual(jobs[0], jobs[1])

    def test_several_programs(self):
        done = self.launch("-n", 1, CLIENT, "info", ":", "-n", 2, CLIENT, "info")
        apps = sorted((fields(line)["rank"], fields(line)["app"]) for line in done.stdout.splitlines())
        self.assertEqual(apps, [("0", "0"), ("1", "1"), ("2", "1")])

    def test_abort(self):
        # "busy": Debian's mpirun of Open MPI 4.1.4 crashes in PMIx_server_finalize, or hangs, when a rank aborts while
        # others are in a fence. The fence is tested in mpiexec_test.py and slurm_test.py.
        done = self.launch("-n", 3, CLIENT, "abort", 1, 7, "busy")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("rank 1 gives up", done.stderr)
        # 256 has no place in an exit code; it must not read as success.
        self.assertNotEqual(self.launch("-n", 2, CLIENT, "abort", 1, 256, "busy").returncode, 0)

    def test_death_ends_the_job(self):
        self.assertNotEqual(self.launch("-n", 3, CLIENT, "die", 1, 11, "busy").returncode, 0)


class OwnMpiexec(Common, unittest.TestCase):
    command = [os.path.join(os.environ.get("TERN_BUILD", "build/release"), "bin", "mpiexec")]


@unittest.skipUnless(HYDRA, "no Hydra (package mpich)")
class Hydra(Common, unittest.TestCase):
    command = [HYDRA]


@unittest.skipUnless(HYDRA, "no Hydra (package mpich)")
class HydraByPort(Common, unittest.TestCase):
    command = [HYDRA, "-pmi-port"]

    def test_several_programs(self):
        # Hydra 4.0.2 answers get_appnum by the order in which the ranks happen to connect to its port: only that there
        # are three ranks is certain.
        done = self.launch("-n", 1, CLIENT, "info", ":", "-n", 2, CLIENT, "info")
        self.assertEqual(sorted(fields(line)["rank"] for line in done.stdout.splitlines()), ["0", "1", "2"])

    def test_machine_whose_name_nobody_knows(self):
        renamed = ["unshare", "--uts", "sh", "-c", 'hostname nobody-knows-this && exec "$@"', "sh"]
        if subprocess.run([*renamed, "true"], capture_output=True).returncode != 0:
            self.skipTest("this user may not give the machine another name")
        done = run([*renamed, *self.command, "-n", "2", CLIENT, "exchange"])
        self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0 of 2 exchanged", "rank 1 of 2 exchanged"], done.stderr)


@unittest.skipUnless(OPEN_MPI, "no mpirun of Open MPI (package openmpi-bin)")
class OpenMpi(Common, unittest.TestCase):
    command = [OPEN_MPI, "--allow-run-as-root", "--oversubscribe"]

    def test_several_programs(self):
        if run([*self.command, "-n", "1", "true", ":", "-n", "1", "true"]).returncode == -signal.SIGSEGV:
            self.skipTest("this mpirun crashes with several programs, whatever they are (Open MPI 5.0.7 of Debian 13)")
        super().test_several_programs()


class Nested(unittest.TestCase):
    """A launcher inside another one: the inner one counts."""

    @unittest.skipUnless(OPEN_MPI, "no mpirun of Open MPI (package openmpi-bin)")
    def test_ours_in_open_mpi(self):
        own = OwnMpiexec.command[0]
        done = run([*OpenMpi.command, "-n", "1", own, "-n", "3", CLIENT, "info"])
        self.assertEqual([fields(line)["size"] for line in done.stdout.splitlines()], ["3"] * 3, done.stderr)

    @unittest.skipUnless(OPEN_MPI, "no mpirun of Open MPI (package openmpi-bin)")
    def test_open_mpi_in_ours(self):
        done = mpiexec("-n", 1, *OpenMpi.command, "-n", 3, CLIENT, "exchange")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {r} of 3 exchanged" for r in range(3)], done.stderr)

    @unittest.skipUnless(HYDRA, "no Hydra (package mpich)")
    def test_hydra_in_ours(self):
        done = mpiexec("-n", 1, HYDRA, "-n", 3, CLIENT, "exchange")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {r} of 3 exchanged" for r in range(3)], done.stderr)

    def test_one_program_after_another(self):
        done = mpiexec("-n", 2, "sh", "-c", f"{CLIENT} nothing && {CLIENT} exchange")
        self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0 of 2 exchanged", "rank 1 of 2 exchanged"], done.stderr)


class Alone(unittest.TestCase):
    def test_world_of_one(self):
        done = run([CLIENT, "info"])
        words = fields(done.stdout)
        self.assertEqual((words["rank"], words["size"], words["local"], words["share"].split("/")[0]), ("0", "1", "0", "1"))
        self.assertEqual(run([CLIENT, "exchange"]).stdout, "rank 0 of 1 exchanged\n")
        self.assertEqual(run([CLIENT, "abort", "0", "5"]).returncode, 5)
        self.assertEqual(run([CLIENT, "abort", "0", "256"]).returncode, 1)

    def refused(self, text, **variables):
        done = run([CLIENT, "info"], **variables)
        self.assertEqual((done.returncode, done.stdout), (3, ""), variables)
        self.assertIn(text, done.stderr)

    def test_launchers_that_cannot_be_talked_to(self):
        self.refused("srun --mpi=pmi2", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="1")
        self.refused("Open MPI's mpirun", OMPI_COMM_WORLD_SIZE="2")
        self.refused("PMI_SIZE", PMI_SIZE="2", PMI_RANK="0")
        self.refused("PMI_FD=99", PMI_FD="99", PMI_SIZE="2", PMI_RANK="0")
        self.refused("PMI_PORT", PMI_PORT="127.0.0.1:1", PMI_ID="0")
        self.refused("PMIX_NAMESPACE=ghost", PMIX_NAMESPACE="ghost", PMIX_RANK="0")
        self.refused("TERN_LAUNCHER", TERN_LAUNCHER="carrier-pigeon")

    def test_singles_on_request(self):
        done = run([CLIENT, "info"], TERN_LAUNCHER="none", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="1")
        self.assertEqual(fields(done.stdout)["size"], "1")

    def test_a_batch_script_of_slurm_is_no_step(self):
        done = run([CLIENT, "info"], SLURM_JOB_ID="7", SLURM_NTASKS="4", SLURM_PROCID="0")
        self.assertEqual(fields(done.stdout)["size"], "1")

    def with_pmi_server(self):
        """The client `info` and our end of the socket that it takes for its PMI-1 server."""
        mine, theirs = socket.socketpair()
        client = subprocess.Popen([CLIENT, "info"], pass_fds=[theirs.fileno()], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE,
                                  env={**os.environ, "PMI_FD": str(theirs.fileno()), "PMI_RANK": "0", "PMI_SIZE": "1"})
        theirs.close()
        return client, mine

    def test_a_job_that_is_stopped_for_long_goes_on(self):
        # Server and client are stopped for longer than the client waits for a first answer (Ctrl-Z, a paused container).
        client, server = self.with_pmi_server()
        self.assertIn(b"cmd=init", server.recv(1000))
        time.sleep(0.2)  # it waits for the answer
        client.send_signal(signal.SIGSTOP)
        time.sleep(21)
        client.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        server.sendall(b"cmd=response_to_init rc=-1\n")
        stdout, stderr = client.communicate(timeout=30)
        server.close()
        self.assertIn("refuses", stderr)

    def test_a_server_that_talks_nonsense(self):
        for answer, text in ((b"hello\n", "answers 'hello'"), (b"", "closed the connection"),
                             (b"cmd=response_to_init rc=-1\n", "refuses"),
                             (b"cmd=response_to_init rc=0 kvsname=k vallen_max=5\n", "too few")):
            client, server = self.with_pmi_server()
            server.sendall(answer)
            server.shutdown(socket.SHUT_WR)
            stdout, stderr = client.communicate(timeout=30)
            server.close()
            self.assertEqual((client.returncode, stdout), (3, ""))
            self.assertIn(text, stderr)


if __name__ == "__main__":
    main()
