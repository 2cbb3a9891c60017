"""srun --mpi=pmi2, --mpi=pmix and --mpi=none, and mpiexec in an allocation, in a Slurm of two nodes that this test starts for
itself (both are this machine).

Skipped, with the reason, when Slurm and munge are not installed (Debian: slurmctld slurmd slurm-client munge) or this
is not root: slurmd changes users."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from common import BUILD, CLIENT, MPIEXEC, environment, main, run
from launchers_test import fields

PROGRAM = os.environ["TERN_HANG_PROGRAM"]
NEEDED = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sinfo", "scontrol")
os.environ["PATH"] += ":/usr/sbin:/sbin"
MISSING = [name for name in NEEDED if not shutil.which(name)]

# TmpFS: PMIx's folders have the numbers of jobs in their names, which another Slurm of this machine may have used, too.
CONFIGURATION = """ClusterName=tern
SlurmctldHost={host}(127.0.0.1)
MailProg=/bin/true
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={base}/munge.socket
CredType=cred/munge
SlurmctldPort={control_port}
StateSaveLocation={base}/state
TmpFS={base}
SlurmdSpoolDir={base}/spool.%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd.%n.pid
SlurmctldLogFile={base}/slurmctld.log
SlurmdLogFile={base}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=1
NodeName=node0 NodeAddr=127.0.0.1 NodeHostname={host} Port={port0} CPUs=8 State=UNKNOWN
NodeName=node1 NodeAddr=127.0.0.1 NodeHostname={host} Port={port1} CPUs=8 State=UNKNOWN
PartitionName=all Nodes=node0,node1 Default=YES MaxTime=10 State=UP OverSubscribe=YES
"""


# Where a rank runs, and which it is.
WHERE = 'echo "$SLURMD_NODENAME $PMI_RANK"'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm:
    """The three daemons, all in one folder of their own, ended by their process ids."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="tern-slurm-", dir="/tmp")
        os.chmod(self.base, 0o755)
        for folder in ("state", "spool.node0", "spool.node1"):
            os.mkdir(os.path.join(self.base, folder))
        self.daemons = []
        key = os.path.join(self.base, "munge.key")
        with open(key, "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(key, 0o600)
        conf = os.path.join(self.base, "slurm.conf")
        with open(conf, "w") as file:
            file.write(CONFIGURATION.format(base=self.base, host=socket.gethostname().split(".")[0],
                                            control_port=free_port(), port0=free_port(), port1=free_port()))
        self.env = {"SLURM_CONF": conf}
        try:
            self.start_all(key)
        except BaseException:
            self.stop()
            raise

    def start_all(self, key):
        b = self.base
        self.start("munged", "-F", f"--key-file={key}", f"--socket={b}/munge.socket", f"--pid-file={b}/munge.pid",
                   f"--log-file={b}/munge.log", f"--seed-file={b}/munge.seed", "--num-threads=2", "--force")
        self.wait(lambda: os.path.exists(f"{b}/munge.socket"), "munged")
        self.start("slurmctld", "-D", "-i")
        self.wait(lambda: "UP" in run(["scontrol", "ping"], **self.env).stdout, "controller")
        for node in ("node0", "node1"):
            self.start("slurmd", "-D", "-N", node)
        self.wait(lambda: run(["sinfo", "-h", "-o", "%T %D"], **self.env).stdout == "idle 2\n", "two idle nodes")

    def start(self, *command):
        log = open(os.path.join(self.base, command[0] + ".out"), "w")
        self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(**self.env)))
        log.close()

    def wait(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"no {what} within a minute\n" + self.logs())
            time.sleep(0.1)

    def logs(self):
        text = ""
        for name in ("munged.out", "slurmctld.out", "slurmctld.log", "slurmd.out", "slurmd.node0.log", "slurmd.node1.log"):
            path = os.path.join(self.base, name)
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += f"--- {name}\n" + file.read()[-2000:]
        return text

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.base, ignore_errors=True)


class UnderSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm()
        cls.addClassCleanup(cls.slurm.stop)
        cls.kinds = run(["srun", "--mpi=list"], **cls.slurm.env)
        cls.kinds = cls.kinds.stdout + cls.kinds.stderr

    def srun(self, *words):
        return run(["srun", "-N", "1", *[str(w) for w in words]], timeout=120, **self.slurm.env)

    def all_is_well(self, kind):
        if kind not in self.kinds:
            self.skipTest(f"this Slurm has no --mpi={kind}")
        for ranks in (1, 2, 5):
            done = self.srun(f"--mpi={kind}", "-n", ranks, CLIENT, "exchange")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {r} of {ranks} exchanged" for r in range(ranks)])
        lines = sorted(self.srun(f"--mpi={kind}", "-n", 3, CLIENT, "info").stdout.splitlines())
        for rank, line in enumerate(lines):
            words = fields(line)
            self.assertEqual((words["rank"], words["size"], words["local"]), (str(rank), "3", "0,1,2"))
        self.assertEqual((len(lines), len({fields(line)["job"] for line in lines})), (3, 1))
        done = self.srun(f"--mpi={kind}", "-n", 3, CLIENT, "abort", 1, 7)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 gives up", done.stderr)

    def test_pmi2(self):
        self.all_is_well("pmi2")

    def test_pmix(self):
        self.all_is_well("pmix")

    def test_none_is_a_named_error(self):
        done = self.srun("--mpi=none", "-n", 2, CLIENT, "info")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("--mpi=pmi2", done.stderr)

    def test_the_cause_gives_the_exit_code(self):
        """The others notice the end of a rank, and are innocent. srun on its own does not end them."""
        for kind in ("pmi2", "pmix"):
            if kind in self.kinds:
                # Slurm returns either the code of the rank or that of those which it has killed.
                self.assertIn(self.srun(f"--mpi={kind}", "-n", 3, PROGRAM, "crash", "exit").returncode, (9, 137))
                self.assertEqual(self.srun(f"--mpi={kind}", "-n", 3, PROGRAM, "crash", "null").returncode, 139)

    def test_our_mpiexec_in_an_allocation(self):
        done = self.srun("--mpi=none", "-n", 1, os.path.join(BUILD, "bin/mpiexec"), "-n", 3, CLIENT, "exchange")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {r} of 3 exchanged" for r in range(3)], done.stderr)

    def in_allocation(self, *words, **variables):
        """mpiexec on this machine, which does not belong to the allocation by name; its two nodes have 2 ranks each."""
        return run(["salloc", "-Q", "-N", "2", "-n", "4", "--ntasks-per-node", "2", MPIEXEC, *[str(w) for w in words]], timeout=40,
                   **self.slurm.env, **variables)

    def lines(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(done.stdout.splitlines())

    def test_ranks_of_the_allocation(self):
        done = self.in_allocation(CLIENT, "exchange")
        self.assertEqual(self.lines(done), [f"rank {r} of 4 exchanged" for r in range(4)])
        self.assertIn("4 ranks on the 2 hosts of Slurm's allocation, started by srun", done.stderr)
        self.assertEqual(self.lines(self.in_allocation("sh", "-c", WHERE)), ["node0 0", "node0 1", "node1 2", "node1 3"])

    def test_hosts(self):
        self.assertEqual(self.lines(self.in_allocation("-host", "node1:1,node0:2", "-n", 3, "sh", "-c", WHERE)),
                         ["node0 1", "node0 2", "node1 0"])
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("node0 slots=1\nnode1 slots=2\n")
            file.flush()
            self.assertEqual(self.lines(self.in_allocation("-f", file.name, "-n", 3, "sh", "-c", WHERE)),
                             ["node0 0", "node1 1", "node1 2"])
        done = self.in_allocation("-host", "node0,node7", "-n", 2, "sh", "-c", WHERE)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("host 'node7' is not in this Slurm allocation (node[0-1])", done.stderr)

    def test_labels(self):
        done = self.in_allocation("-l", "sh", "-c", f"{WHERE}; echo oops >&2")
        self.assertEqual(self.lines(done), ["[0] node0 0", "[1] node0 1", "[2] node1 2", "[3] node1 3"])
        self.assertEqual(sorted(line for line in done.stderr.splitlines() if "oops" in line), [f"[{r}] oops" for r in range(4)])

    def test_several_programs(self):
        say = f'echo "$0 $({WHERE}) $(pwd) $N"'
        done = self.in_allocation("-n", 1, "-wdir", "/usr", "-env", "N", "it's 1", "sh", "-c", say, "first", ":",
                                  "-n", 2, "-wdir", "/", "sh", "-c", say, "second", N="all")
        self.assertEqual(self.lines(done), ["first node0 0 /usr it's 1", "second node0 1 / all", "second node1 2 / all"])

    def test_environment(self):
        show = 'echo "$A, $B"'
        self.assertEqual(self.lines(self.in_allocation("-n", 1, "-x", "B=set; 'so'", "sh", "-c", show, A="mine")), ["mine, set; 'so'"])
        self.assertEqual(self.lines(self.in_allocation("-n", 1, "-genvlist", "PATH,B", "sh", "-c", show, A="mine", B="kept")), [", kept"])

    def test_ends(self):
        self.assertEqual(self.in_allocation("sh", "-c", '[ "$PMI_RANK" != 2 ] || exit 7').returncode, 7)
        self.assertEqual(self.in_allocation("sh", "-c", '[ "$PMI_RANK" = 2 ] && exit 7; sleep 30').returncode, 7)
        self.assertEqual(self.in_allocation(CLIENT, "die", 1, 9).returncode, 137)
        self.assertEqual(self.in_allocation("no-such-program").returncode, 127)
        begin = time.monotonic()
        done = self.in_allocation("-timeout", 2, "sleep", 60)
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertIn("time is up after 2 s", done.stderr)
        self.assertLess(time.monotonic() - begin, 30)

    def test_a_timeout_asks_the_ranks(self):
        done = self.in_allocation("-timeout", 4, PROGRAM, "missing", TERN_ODD="1")
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertIn("rank 0] waiting in MPI_Barrier", done.stderr)
        self.assertIn("rank 3] not in an MPI call, at compute_for_ever", done.stderr)
        # A warning comes once, not once for each host.
        self.assertEqual(done.stderr.count("there is no tunable TERN_ODD"), 1, done.stderr)


if __name__ == "__main__":
    if MISSING or os.geteuid() != 0:
        print("skipped:", f"not installed: {' '.join(MISSING)}" if MISSING else "needs root")
        sys.exit(77)
    main()
