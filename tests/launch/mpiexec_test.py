"""mpiexec on one machine: what it starts, what it passes on, how it ends."""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from common import CLIENT, MPIEXEC, SLOW, environment, main, mpiexec, new_mark, run, start, wait_until_gone


class Starting(unittest.TestCase):
    def test_ranks_and_exchange(self):
        for ranks in (1, 2, 3, 8, 17):
            done = mpiexec("-n", ranks, CLIENT, "exchange")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()),
                             sorted(f"rank {r} of {ranks} exchanged" for r in range(ranks)))
            self.assertEqual(done.stderr, "")

    def test_many_ranks(self):
        done = mpiexec("-n", 200, CLIENT, "nothing")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_what_ranks_are_told(self):
        done = mpiexec("-n", 3, CLIENT, "info")
        lines = sorted(done.stdout.splitlines())
        cores = len(os.sched_getaffinity(0))
        for rank, line in enumerate(lines):
            words = dict(word.split("=") for word in line.split())
            self.assertEqual(words["rank"], str(rank))
            self.assertEqual(words["local"], "0,1,2")
            self.assertEqual(words["share"].split("/")[0], "3")
            self.assertLessEqual(int(words["share"].split("/")[1]), cores)
        self.assertEqual(len({line.split("job=")[1] for line in lines}), 1)

    def test_several_programs(self):
        done = mpiexec("-n", 2, "-env", "WHO", "first", "sh", "-c", "echo $PMI_RANK $WHO $0", "a",
                       ":", "-n", 1, "-env", "WHO=second", "sh", "-c", "echo $PMI_RANK $WHO $0", "b")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 first a", "1 first a", "2 second b"])
        done = mpiexec("-n", 1, CLIENT, "info", ":", "-n", 2, CLIENT, "info")
        apps = sorted((line.split()[0], line.split()[3]) for line in done.stdout.splitlines())
        self.assertEqual(apps, [("rank=0", "app=0"), ("rank=1", "app=1"), ("rank=2", "app=1")])

    def test_options_of_the_program_are_its_own(self):
        done = mpiexec("-n", 1, "echo", "-n", "-l", "--help", "-x")
        self.assertEqual(done.stdout, "-l --help -x")

    def test_nested_job_is_its_own(self):
        done = mpiexec("-n", 2, MPIEXEC, "-n", 2, CLIENT, "info")
        jobs = [line.split("job=")[1] for line in done.stdout.splitlines()]
        self.assertEqual((len(jobs), len(set(jobs))), (4, 2), done.stderr)

    def test_binding(self):
        cores = len(os.sched_getaffinity(0))
        show = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
        done = mpiexec("-n", cores + 1, *show)
        self.assertEqual(len(set(done.stdout.splitlines())), 1, "more ranks than cores are not bound")
        if cores < 2 or "bound, " not in mpiexec("-v", "-n", 2, "true").stderr:
            self.skipTest("no two cores to bind to")
        self.assertEqual(len(set(mpiexec("-n", 2, *show).stdout.splitlines())), 2)
        self.assertEqual(len(set(mpiexec("-n", 2, "--bind-to", "none", *show).stdout.splitlines())), 1)


class Environment(unittest.TestCase):
    def test_set_and_passed_on(self):
        show = ["sh", "-c", "echo $A,$B,$C"]
        self.assertEqual(mpiexec("-n", 1, *show, A="1", B="2").stdout, "1,2,\n")
        self.assertEqual(mpiexec("-n", 1, "-env", "A", "x", "-genv", "B=y", "-x", "C=z", *show, A="1").stdout, "x,y,z\n")
        self.assertEqual(mpiexec("-n", 1, "-x", "C", *show, C="with blank").stdout, ",,with blank\n")
        self.assertEqual(mpiexec("-n", 1, "-genvlist", "A,PATH", *show, A="1", B="2").stdout, "1,,\n")
        self.assertEqual(mpiexec("-n", 1, "-genvnone", "-genv", "B", "2", "/bin/sh", "-c", "echo $A,$B", A="1").stdout, ",2\n")

    def test_outer_launcher_is_not_passed_on(self):
        done = mpiexec("-n", 1, "env", PMIX_NAMESPACE="x", PMI_FD="77", PMI_SIZE="9", TERN_JOB_KEY="outer", OMPI_COMM_WORLD_SIZE="4")
        names = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual(names["PMI_SIZE"], "1")
        self.assertNotIn("PMIX_NAMESPACE", names)
        self.assertNotIn("OMPI_COMM_WORLD_SIZE", names)
        self.assertNotEqual(names["TERN_JOB_KEY"], "outer")
        self.assertEqual(len(names["TERN_JOB_KEY"]), 64)

    def test_working_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            self.assertEqual(mpiexec("-n", 1, "-wdir", folder, "pwd").stdout, folder + "\n")
            script = os.path.join(folder, "program")
            with open(script, "w") as file:
                file.write("echo plain script in $(pwd)\n")  # no "#!"
            os.chmod(script, 0o755)
            self.assertEqual(mpiexec("-n", 1, "--wdir=" + folder, "./program").stdout, f"plain script in {folder}\n")
            self.assertEqual(mpiexec("-n", 1, "-path", folder, "program", cwd="/").stdout, "plain script in /\n")
        done = mpiexec("-n", 1, "-wdir", folder, "pwd")
        self.assertEqual(done.returncode, 1)
        self.assertIn(folder, done.stderr)

    def test_descriptors_do_not_leak(self):
        done = mpiexec("-n", 3, "-l", "ls", "/proc/self/fd")
        # 0, 1, 2, PMI's, and the folder that ls reads.
        self.assertEqual(len(done.stdout.split("\n")) - 1, 3 * 5, done.stdout)


class Streams(unittest.TestCase):
    def test_input_to_rank_0_only(self):
        done = mpiexec("-n", 3, "sh", "-c", "echo $PMI_RANK:$(cat)", input="one\ntwo\n")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0:one two", "1:", "2:"])
        big = "x" * 1_000_000 + "\n"
        self.assertEqual(mpiexec("-n", 2, "sh", "-c", "cat", input=big).stdout, big)

    def test_labels(self):
        done = mpiexec("-l", "-n", 3, "sh", "-c", "echo out; echo err >&2; printf unfinished")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"[{r}] {text}" for r in range(3) for text in ("out", "unfinished")))
        self.assertEqual(sorted(done.stderr.splitlines()), [f"[{r}] err" for r in range(3)])

    def test_labelled_lines_stay_whole(self):
        script = "import sys\nfor i in range(2000): sys.stdout.write(str(i % 10) * 50 + chr(10)); sys.stdout.flush() if i % 7 == 0 else None"
        done = mpiexec("-l", "-n", 4, sys.executable, "-c", script)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 8000)
        for line in lines:
            label, text = line.split(" ")
            self.assertIn(label, ("[0]", "[1]", "[2]", "[3]"))
            self.assertEqual(text, text[0] * 50)

    def test_slow_reader_loses_nothing(self):
        child = subprocess.Popen([MPIEXEC, "-l", "-n", "2", "sh", "-c", "yes 0123456789 | head -n 300000"],
                                 stdout=subprocess.PIPE, env=environment())
        time.sleep(0.5)
        lines = child.stdout.read().count(b"\n")
        child.stdout.close()
        self.assertEqual((child.wait(), lines), (0, 600000))

    def test_clean_stdout_verbose_too(self):
        done = mpiexec("-v", "-n", 2, "true")
        self.assertEqual(done.stdout, "")
        self.assertIn("rank 1: process", done.stderr)

    def test_terminal(self):
        """Through a terminal: rank 0 reads what is typed; Ctrl-C ends the job within a second."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(MPIEXEC, [MPIEXEC, "-n", "2", "sh", "-c",
                                'if [ $PMI_RANK = 0 ]; then read x; echo "got <$x>"; fi; exec sleep 100'], environment())
        os.write(terminal, b"typed\n")
        seen, end = b"", time.monotonic() + 20
        while b"got <typed>" not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 1000)
        self.assertIn(b"got <typed>", seen)
        begin = time.monotonic()
        os.write(terminal, b"\x03")
        status = os.waitpid(pid, 0)[1]
        self.assertLess(time.monotonic() - begin, 1.0 * SLOW * max(1, os.getloadavg()[0] / 2))
        self.assertEqual(os.waitstatus_to_exitcode(status), 128 + signal.SIGINT)
        os.close(terminal)


class Ending(unittest.TestCase):
    def test_exit_codes(self):
        self.assertEqual(mpiexec("-n", 3, "true").returncode, 0)
        self.assertEqual(mpiexec("-n", 3, "sh", "-c", "exit $((PMI_RANK * 3))").returncode in (3, 6), True)
        self.assertEqual(mpiexec("-n", 1, "sh", "-c", "exit 77").returncode, 77)
        done = mpiexec("-n", 1, "sh", "-c", "kill -SEGV $$")
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        self.assertIn("rank 0 (sh) was killed by signal 11 (SIGSEGV, Segmentation fault)", done.stderr)

    def test_plain_programs_may_fail_without_ending_others(self):
        done = mpiexec("-n", 2, "sh", "-c", "[ $PMI_RANK = 0 ] && exit 5; sleep 0.5; echo done")
        self.assertEqual((done.returncode, done.stdout), (5, "done\n"))

    def test_unknown_program(self):
        done = mpiexec("-n", 2, "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no program 'no-such-program'", done.stderr)
        done = mpiexec("-n", 1, "/etc/passwd")
        self.assertEqual(done.returncode, 126)
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "bad")
            with open(script, "w") as file:
                file.write("#!/no/such/interpreter\n")
            os.chmod(script, 0o755)
            done = mpiexec("-n", 2, script)
        self.assertEqual(done.returncode, 127)
        self.assertIn("cannot be started: No such file", done.stderr)

    def test_the_reason_when_descriptors_run_out(self):
        said = 0
        for limit in range(4, 40):
            command = ["prlimit", f"--nofile={limit}:{limit}", MPIEXEC, "-n", "2", "true"]
            done = run(command)
            if done.returncode == 0:
                break
            if "mpiexec:" in done.stderr.split()[:1]:  # else the loader lacked some already
                said += 1
                self.assertIn("Too many open files", done.stderr)
        self.assertEqual(done.returncode, 0)
        self.assertGreater(said, 0)

    def test_mistakes_on_the_command_line(self):
        for words, text in ((["-n4", "-frobnicate", "true"], "unknown option '-frobnicate'"), ([], "no program"),
                            (["-n"], "lacks its value"), (["-n", "0", "true"], "0"), (["-n", "two", "true"], "two"),
                            (["-n", 1, "true", ":"], "not followed"), (["-bind-to", "x", "true"], "x")):
            done = mpiexec(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertIn("usage", mpiexec("--help").stdout.lower() + mpiexec("--help").stdout)
        self.assertIn("Tern", mpiexec("--version").stdout)

    def test_timeout(self):
        mark, begin = new_mark(), time.monotonic()
        done = mpiexec("-n", 2, "sh", "-c", "sleep 100 & sleep 100", MPIEXEC_TIMEOUT="1", LAUNCH_TEST_MARK=mark)
        self.assertEqual(done.returncode, 124)
        self.assertLess(time.monotonic() - begin, 2.0 * SLOW)
        self.assertIn("MPIEXEC_TIMEOUT", done.stderr)
        self.assertEqual(mpiexec("-timeout", 1, "-n", 2, "sh", "-c", "[ $PMI_RANK = 0 ] && exit 3; sleep 100").returncode, 124)
        self.assertTrue(wait_until_gone(mark, 0.5))

    def test_abort(self):
        begin = time.monotonic()
        done = mpiexec("-n", 4, CLIENT, "abort", 2, 9)
        self.assertEqual(done.returncode, 9)
        self.assertLess(time.monotonic() - begin, 1.0 * SLOW)
        self.assertIn("rank 2 gives up", done.stderr)
        self.assertIn("rank 2", done.stderr.split("mpiexec:")[1])
        self.assertEqual(mpiexec("-n", 2, CLIENT, "abort", 0, 256).returncode, 1)

    def test_death_and_departure_end_the_others(self):
        for words, code, text in ((["die", 1, 9], 137, "rank 1"), (["die", 2, 11], 139, "SIGSEGV"),
                                  (["leave", 1, 0], 1, "without MPI_Finalize"), (["leave", 0, 6], 6, "without MPI_Finalize"),
                                  (["absent", 1], 1, "without calling MPI_Init")):
            begin = time.monotonic()
            done = mpiexec("-n", 3, CLIENT, *words)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("mpiexec:"), 1, done.stderr)
            self.assertLess(time.monotonic() - begin, 1.0 * SLOW)

    def test_ranks_that_ignore_sigterm(self):
        mark = new_mark()
        child = start(["-n", 2, "sh", "-c", "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"], mark)
        self.assertEqual(child.stdout.readline(), "ready\n")
        begin = time.monotonic()
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(10), 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 1.0 * SLOW)
        self.assertTrue(wait_until_gone(mark, 0.5))
        child.communicate()

    def test_helpers_of_ranks_end_with_the_job(self):
        mark = new_mark()
        done = mpiexec("-n", 2, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 0", LAUNCH_TEST_MARK=mark)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(wait_until_gone(mark, 0.5))

    def test_reports_on_request(self):
        child = start(["-n", 2, "-genv", "X=1", CLIENT, "sleep", 60], new_mark())
        time.sleep(0.5)
        child.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        self.assertIsNone(child.poll(), "without TERN_HANG_REPORT the ranks must survive the request")
        child.terminate()
        self.assertIn("TERN_HANG_REPORT", child.communicate()[1])


class Hosts(unittest.TestCase):
    def test_this_machine_by_its_names(self):
        for host in ("localhost", "127.0.0.1", "::1", os.uname().nodename, "localhost:4"):
            done = mpiexec("-host", host, "-n", 2, "echo", "here")
            self.assertEqual((done.returncode, done.stdout), (0, "here\nhere\n"), done.stderr)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# mine\nlocalhost slots=4\n")
            file.flush()
            self.assertEqual(mpiexec("-f", file.name, "-n", 1, "echo", "here").stdout, "here\n")
        self.assertEqual(mpiexec("-f", "/no/such/file", "-n", 1, "true").returncode, 2)

    def test_other_hosts_without_an_engine(self):
        done = mpiexec("-host", "other-host", "-n", 2, "true", PATH="/nonexistent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("host 'other-host': ssh cannot be started", done.stderr)

    def test_a_launcher_that_is_named(self):
        done = mpiexec("-host", "other-host", "-n", 2, "true", PATH="/nonexistent", TERN_LAUNCHER="prterun")
        self.assertEqual(done.returncode, 1)
        self.assertIn("TERN_LAUNCHER=prterun names a launcher that is not in PATH; TERN_LAUNCHER=ssh needs none", done.stderr)
        done = mpiexec("-n", 1, "sh", "-c", "echo ${TERN_LAUNCHER-unset}", TERN_LAUNCHER="ssh")
        self.assertEqual((done.stdout, done.returncode), ("unset\n", 0))

    def test_other_hosts_with_an_engine(self):
        with tempfile.TemporaryDirectory() as folder:
            engine = os.path.join(folder, "mpiexec.hydra")
            with open(engine, "w") as file:
                file.write('#!/bin/sh\necho "$@"\n')
            os.chmod(engine, 0o755)
            done = mpiexec("-hosts", "a,b", "-ppn", 2, "-n", 4, "-env", "A", "1", "prog", "x", PATH=folder,
                           HYDRA_LAUNCHER_EXEC="agent")
            self.assertEqual(done.stdout, "-hosts a:2,b:2 -n 4 /usr/bin/env A=1 prog x\n", done.stderr)

    def test_a_timeout_also_ends_an_engine(self):
        with tempfile.TemporaryDirectory() as folder:
            self.engine(folder, "mpiexec.hydra", "exec /bin/sleep 100")
            done = mpiexec("-hosts", "a,b", "-timeout", 1, "-n", 4, "prog", PATH=folder, HYDRA_LAUNCHER_EXEC="agent")
            self.assertEqual(done.returncode, 124, done.stderr)
            self.assertIn("time is up after 1 s", done.stderr)

    def test_an_engine_is_asked_for_reports(self):
        """SIGUSR1 and a timeout: all engines pass that signal on to the ranks, which answer it if TERN_HANG_REPORT is set."""
        with tempfile.TemporaryDirectory() as folder:
            self.engine(folder, "mpiexec.hydra", "trap 'echo asked $TERN_HANG_REPORT' USR1; trap 'echo ended; exit 1' TERM\n"
                        "echo ready; while :; do /bin/sleep 0.1; done")
            words = ["-hosts", "a,b", "-timeout", 1, "-n", 4, "prog"]
            done = mpiexec(*words, PATH=folder, HYDRA_LAUNCHER_EXEC="agent")
            self.assertEqual((done.returncode, done.stdout), (124, "ready\nasked 1\nended\n"), done.stderr)
            done = mpiexec(*words, PATH=folder, HYDRA_LAUNCHER_EXEC="agent", TERN_HANG_REPORT="0")
            self.assertEqual((done.returncode, done.stdout), (124, "ready\nended\n"), done.stderr)
            with subprocess.Popen([MPIEXEC, "-hosts", "a,b", "-timeout", "60", "-n", "4", "prog"], stdout=subprocess.PIPE, text=True,
                                  env=environment(PATH=folder, HYDRA_LAUNCHER_EXEC="agent")) as job:
                self.assertEqual(job.stdout.readline(), "ready\n")
                job.send_signal(signal.SIGUSR1)
                self.assertEqual(job.stdout.readline(), "asked 1\n")
                job.terminate()
                self.assertEqual(job.stdout.read(), "ended\n")

    def test_an_unknown_host_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.engine(folder, "mpiexec.hydra", "echo started")
            names = os.path.join(folder, "names")
            with open(names, "w") as file:
                file.write("localhost\nno-such-host.invalid slots=2\n")
            for words, source in ((["-host", "localhost,no-such-host.invalid:2"], "-host"), (["-f", names], "the file " + names)):
                done = mpiexec(*words, "-n", 2, "prog", PATH=folder)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("host 'no-such-host.invalid' is not known here: ", done.stderr)
                self.assertIn(source + "; no rank was started", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
            slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "far[1-2]"}
            self.engine(folder, "srun", "echo started")
            done = mpiexec("-host", "far1,far3", "-n", 2, "prog", PATH=folder, **slurm)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("host 'far3' is not in this Slurm allocation (far[1-2])", done.stderr)

    def test_labels_are_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            self.engine(folder, "mpirun.openmpi", "echo '[1,3]<stdout>:three'; echo '[1,12]<stderr>:twelve' >&2; "
                        "echo plain; printf '[1,0]<stdout>:no end'; exit 7")
            done = mpiexec("-host", "a", "-l", "-n", 4, "prog", PATH=folder, OMPI_MCA_plm_rsh_agent="agent")
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (7, "[3] three\nplain\n[0] no end\n", "[12] twelve\n"))
            self.engine(folder, "srun", "echo '03: three'; kill -9 $$")
            done = mpiexec("-l", "-n", 4, "prog", PATH=folder, SLURM_JOB_ID="7", SLURM_JOB_NODELIST="far[1-2]")
            self.assertEqual((done.returncode, done.stdout), (137, "[3] three\n"), done.stderr)

    def test_what_an_engine_does_not_offer_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.engine(folder, "mpirun.openmpi", "exit 0")
            done = mpiexec("-host", "a", "-usize", 8, "-print-all-exitcodes", "prog", PATH=folder, OMPI_MCA_plm_rsh_agent="agent")
            self.assertEqual((done.returncode, done.stderr),
                             (0, "mpiexec: mpirun.openmpi starts the ranks, and has nothing for -print-all-exitcodes, -usize: ignored\n"))

    def engine(self, folder, name, command):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{command}\n")
        os.chmod(path, 0o755)


class Allocations(unittest.TestCase):
    """What mpiexec does inside of the batch systems' allocations; the engines only print their arguments."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("srun", "mpiexec.hydra"):
            Hosts.engine(self, self.folder, name, f'echo {name} "$@"')

    def run_in(self, *words, **variables):
        return mpiexec(*words, PATH=self.folder, **variables)

    def file(self, text):
        path = os.path.join(self.folder, "nodes")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_slurm_with_several_hosts(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "far[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NTASKS": "4"}
        done = self.run_in("-n", 3, "prog", **slurm)
        self.assertEqual(done.stdout, "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 3 /usr/bin/env prog\n", done.stderr)
        self.assertIn("3 ranks on the 2 hosts of Slurm's allocation, started by srun (-here:", done.stderr)
        done = self.run_in("prog", SLURM_JOB_ID="7", SLURM_JOB_NODELIST="far1", SLURM_NTASKS="1")
        self.assertIn("1 rank on the 1 host of Slurm's", done.stderr)
        self.assertEqual(self.run_in("prog", **slurm).stdout, "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 4 /usr/bin/env prog\n")
        done = self.run_in("-here", "-n", 2, "/bin/echo", "near", **slurm)
        self.assertEqual((done.stdout, done.stderr), ("near\nnear\n", ""))

    def test_flux(self):
        # A stand-in: Flux is in no package of Debian 12.
        Hosts.engine(self, self.folder, "flux", 'case "$1 $2" in "getattr hostlist") echo "far[1-2]";; "resource list") echo 6;; '
                     '*) echo flux "$@";; esac')
        flux = {"FLUX_URI": "local:///run/flux/local"}
        done = self.run_in("prog", **flux)
        self.assertEqual(done.stdout, "flux run -o exit-on-error --input=0 -n 6 /usr/bin/env prog\n", done.stderr)
        self.assertIn("6 ranks on the 2 hosts of Flux's allocation, started by flux (-here:", done.stderr)
        done = self.run_in("-n", 2, "-ppn", 1, "prog", **flux)
        self.assertEqual(done.stdout, "flux run -o exit-on-error --input=0 --nodes=2 --tasks-per-node=1 /usr/bin/env prog\n", done.stderr)
        done = self.run_in("-host", "far2", "-n", 2, "prog", **flux)
        self.assertEqual(done.stdout, "flux run -o exit-on-error --input=0 --nodes=1 --tasks-per-node=2 --requires=hosts:far2 "
                         "/usr/bin/env prog\n", done.stderr)
        self.assertEqual(self.run_in("-here", "-n", 1, "/bin/echo", "near", **flux).stdout, "near\n")
        os.remove(os.path.join(self.folder, "flux"))
        self.assertEqual(self.run_in("-n", 1, "/bin/echo", "near", **flux).stdout, "near\n")

    def test_slurm_with_this_host(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "alias1", "SLURMD_NODENAME": "alias1", "SLURM_NTASKS": "3"}
        done = self.run_in("/bin/echo", "near", **slurm)
        self.assertEqual(done.stdout, "near\n" * 3, done.stderr)
        self.assertIn("3 ranks, as Slurm's allocation says", done.stderr)
        self.assertEqual(self.run_in("-n", 1, "/bin/echo", "near", **slurm).stderr, "")

    def test_pbs_and_sge(self):
        done = self.run_in("prog", PBS_NODEFILE=self.file("far1\nfar1\nfar2\n"))
        self.assertEqual(done.stdout, "mpiexec.hydra -hosts far1:2,far2:1 -n 3 /usr/bin/env prog\n", done.stderr)
        self.assertIn("PBS's allocation", done.stderr)
        done = self.run_in("prog", PE_HOSTFILE=self.file("far1 4 q x\nfar2 2 q x\n"), NSLOTS="6")
        self.assertEqual(done.stdout, "mpiexec.hydra -hosts far1:4,far2:2 -n 6 /usr/bin/env prog\n", done.stderr)

    def test_hosts_of_the_user_come_first(self):
        done = self.run_in("-host", "localhost", "/bin/echo", "near", PBS_NODEFILE=self.file("far1\nfar2\n"))
        self.assertEqual((done.stdout, done.stderr), ("near\n", ""))


if __name__ == "__main__":
    main()
