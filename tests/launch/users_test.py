"""On a machine with other users: what they lay out is neither written nor believed, what a job writes and opens is closed to
them, and a program with more rights than its user takes no orders from that user's environment (docs/security.md)."""
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

import common
from common import BUILD, MPIEXEC, run

PROGRAM = os.environ["TERN_LOG_PROGRAM"]
USER, OTHER = 23456, 23457  # numbers that have no name here


def as_user(user, *words, **options):
    return run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *[str(word) for word in words]], **options)


def can_become_others():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return False
    return as_user(USER, MPIEXEC, "-n", 1, PROGRAM).returncode == 0


@unittest.skipUnless(can_become_others(), "needs root, setpriv(1), and a build folder that other users may read")
class Users(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.shared = pathlib.Path(folder.name) / "shared"  # as /tmp, without what the kernel forbids there
        os.chmod(folder.name, 0o755)
        self.shared.mkdir()
        os.chmod(self.shared, 0o777)
        self.home = self.folder_of(USER, "home")
        self.other = self.folder_of(OTHER, "other")

    def folder_of(self, user, name):
        folder = self.shared.parent / name
        folder.mkdir()
        os.chown(folder, user, user)
        return folder

    def file_of(self, user, path, text="", mode=0o644):
        path.write_text(text)
        os.chown(path, user, user)
        os.chmod(path, mode)
        return path

    def job(self, *options, user=USER, **variables):
        return as_user(user, MPIEXEC, "-timeout", 30, "-n", 1, *options, PROGRAM, HOME=str(self.home), **variables)

    def traps(self, name):
        """Each is laid out by OTHER where USER is going to write; with what is said of it."""
        victim = self.file_of(USER, self.home / "precious", "precious\n")
        target = self.shared / name
        for lay, said in ((lambda: target.symlink_to(victim), "symbolic link"),
                          (lambda: target.symlink_to(self.shared / "new"), "symbolic link"),
                          (lambda: self.file_of(OTHER, target, mode=0o666), f"belongs to user {OTHER}"),
                          (lambda: os.link(victim, target), "hard link"), (lambda: os.mkfifo(target, 0o666), "")):
            lay()
            if target.is_symlink():
                os.chown(target, OTHER, OTHER, follow_symlinks=False)
            yield target, said
            self.assertEqual(victim.read_text(), "precious\n")
            self.assertFalse((self.shared / "new").exists())
            target.unlink()

    def assert_private(self, path):
        self.assertEqual((path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)), (USER, 0o600), path)
        self.assertNotEqual(as_user(OTHER, "cat", path).returncode, 0)

    def test_log(self):
        for target, said in self.traps("log.0"):
            done = self.job(TERN_LOG=f"info:{self.shared}/log.%r")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{target} cannot be written: ", done.stderr)
            self.assertIn(said, done.stderr)
        done = self.job(TERN_LOG=f"debug:{self.shared}/log.%r")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_private(self.shared / "log.0")
        # Its own file, once more, and the devices that the shell passes on.
        self.assertEqual(self.job(TERN_LOG=f"debug:{self.shared}/log.%r").returncode, 0)
        self.assertEqual(self.job(TERN_LOG="info:/dev/null").returncode, 0)
        self.assertIn("info", self.job(user=0, TERN_LOG="info:/dev/stderr").stderr)  # the pipe belongs to who runs the tests

    def test_output_of_ranks(self):
        for target, said in self.traps("out.0"):
            for option in ("-outfile-pattern", "-errfile-pattern"):
                done = self.job(option, f"{self.shared}/out.%r")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"output file '{target}'", done.stderr)
                self.assertIn(said, done.stderr)
        self.assertEqual(self.job("-outfile-pattern", f"{self.shared}/out.%r", "-output-filename", self.shared / "all").returncode, 0)
        self.assert_private(self.shared / "out.0")
        self.assertEqual(stat.S_IMODE((self.shared / "all").stat().st_mode), 0o700)

    def test_trace_and_records(self):
        for target, said in self.traps("trace.json"):
            if said:  # into a pipe that is read a trace may go
                done = self.job("-trace", target)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"trace '{target}': ", done.stderr)
                self.assertIn(said, done.stderr)
        self.assertEqual(self.job("-trace", self.shared / "trace.json").returncode, 0)
        self.assert_private(self.shared / "trace.json")
        seen = as_user(USER, MPIEXEC, "-n", 1, "-summary", "sh", "-c", "stat -c %a $TERN_RECORD", TMPDIR=str(self.shared))
        self.assertEqual(seen.stdout, "700\n")

    def test_configuration_files(self):
        text = "log = \"info\"\n"
        mine, theirs = self.file_of(USER, self.home / "mine.toml", text), self.file_of(OTHER, self.other / "tern.toml", text)
        self.assertIn(" info: ", self.job(TERN_CONFIG=str(mine)).stderr)
        self.assertIn(" info: ", self.job(TERN_CONFIG=str(self.file_of(0, self.home / "root.toml", text))).stderr)
        pipe = self.home / "pipe"
        os.mkfifo(pipe)
        changeable = self.file_of(USER, self.home / "open.toml", text, 0o666)
        for path, said in ((theirs, f"belongs to user {OTHER}"), (changeable, "everybody may change it"),
                           (pipe, "no ordinary file"), ("/dev/zero", "no ordinary file"), (self.home, "no ordinary file"),
                           (self.home / "none", "No such file")):
            done = self.job(TERN_CONFIG=str(path))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{path} cannot be read: ", done.stderr)
            self.assertIn(said, done.stderr)
        self.assertEqual(self.job(TERN_CONFIG="/dev/null").returncode, 0)
        # One that nobody has named is left alone.
        (self.other / ".config" / "tern").mkdir(parents=True)
        self.file_of(OTHER, self.other / ".config" / "tern" / "tern.toml", text)
        done = as_user(USER, MPIEXEC, "-n", 1, PROGRAM, HOME=str(self.other))
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(" info: ", done.stderr)
        self.assertIn(f"is not read: it belongs to user {OTHER}", done.stderr)

    def test_files_for_mpiexec(self):
        hosts, command = "localhost\n", f"-n 1 {PROGRAM}\n"
        for owner, mode, said in ((USER, 0o644, ""), (OTHER, 0o644, f"belongs to user {OTHER}"), (USER, 0o666, "everybody may change it")):
            file = self.file_of(owner, self.shared / "hosts", hosts, mode)
            done = self.job("-hostfile", file)
            self.assertEqual((done.returncode != 0, said in done.stderr), (bool(said), True), done.stderr)
            done = as_user(USER, MPIEXEC, "-configfile", self.file_of(owner, self.shared / "command", command, mode))
            self.assertEqual((done.returncode != 0, said in done.stderr), (bool(said), True), done.stderr)
        self.assertEqual(as_user(USER, "bash", "-c", f"{MPIEXEC} -n 1 -hostfile <(echo localhost) {PROGRAM}").returncode, 0)

    def test_ports_and_names(self):
        trap = self.shared / "names"
        trap.mkdir(mode=0o777)
        os.chown(trap, OTHER, OTHER)
        # The library refuses a folder that is another's; its own is closed.
        program = self.shared / "port"
        source = self.shared / "port.c"
        source.write_text("#include <mpi.h>\n#include <stdio.h>\nint main(void) { char port[MPI_MAX_PORT_NAME]; MPI_Init(0, 0);"
                          " MPI_Open_port(MPI_INFO_NULL, port); puts(port); MPI_Finalize(); return 0; }\n")
        built = run([os.path.join(BUILD, "bin/mpicc"), *common.SANITIZED_FLAGS, str(source), "-o", str(program)])
        self.assertEqual(built.returncode, 0, built.stderr)
        refused = as_user(USER, MPIEXEC, "-n", 1, program, HOME=str(self.home), TERN_NAMES_DIR=str(trap))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("must be a folder that is this user's", refused.stderr)
        self.assertEqual(as_user(USER, MPIEXEC, "-n", 1, program, HOME=str(self.home)).returncode, 0)
        self.assertEqual(stat.S_IMODE((self.home / ".tern").stat().st_mode), 0o700)
        self.assertNotEqual(as_user(OTHER, "ls", self.home / ".tern").returncode, 0)

    def test_environment_of_a_rank(self):
        # The rank does not exec after it tells its number: meanwhile its environment would read as empty.
        child = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", MPIEXEC, "-n", "1", "sh", "-c",
                                  "echo $$; while sleep 1; do :; done"], stdout=subprocess.PIPE, text=True, env=common.environment())
        try:
            rank = child.stdout.readline().strip()
            self.assertIn(b"TERN_JOB_KEY=", pathlib.Path(f"/proc/{rank}/environ").read_bytes())
            self.assertNotEqual(as_user(OTHER, "cat", f"/proc/{rank}/environ").returncode, 0)
            self.assertNotEqual(as_user(OTHER, "kill", "-USR1", rank).returncode, 0)
        finally:
            child.terminate()
            child.wait(timeout=30)
            child.stdout.close()

    def test_programs_with_more_rights_than_their_user(self):
        program = self.shared / "raised"
        shutil.copy(PROGRAM, program)
        os.chown(program, USER, USER)
        os.chmod(program, 0o4755)
        target, records = self.home / "written", self.home / "records"
        records.mkdir()
        os.chown(records, USER, USER)
        log = self.file_of(OTHER, self.other / "tern.toml", f"log = \"debug:{target}\"\n")
        variables = {"HOME": str(self.other), "TERN_LOG": f"debug:{target}", "TERN_CONFIG": str(log), "TERN_RECORD": str(records),
                     "TERN_CHECK": "1", "TERN_NAMES_DIR": str(self.other)}
        done = as_user(OTHER, program, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("debug", done.stderr)
        self.assertFalse(target.exists())
        self.assertEqual(os.listdir(records), [])
        # It is a rank where mpiexec starts it.
        done = as_user(OTHER, MPIEXEC, "-n", 2, program, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(target.exists())
        # Without the additional rights the same variables count.
        os.chmod(program, 0o755)
        self.assertEqual(as_user(USER, program, **{**variables, "TERN_CONFIG": "", "HOME": str(self.home)}).returncode, 0)
        self.assert_private(target)
        self.assertEqual(len(os.listdir(records)), 1)

    def test_programs_with_more_rights_load_no_plugins(self):
        """libfabric loads what FI_PROVIDER_PATH names, so such programs do not load libfabric."""
        info = self.shared / "info"
        shutil.copy(os.path.join(BUILD, "bin", "tern-info"), info)
        os.chown(info, USER, USER)
        os.chmod(info, 0o4755)
        providers = [line for line in as_user(OTHER, info).stdout.splitlines() if line.startswith("  ofi ")]
        if "this build of Tern has no libfabric path" in providers[0]:
            self.skipTest(providers[0])
        self.assertEqual(len(providers), 1)
        self.assertIn("no: libfabric loads plugins that the environment names (FI_PROVIDER_PATH)", providers[0])
        os.chmod(info, 0o755)
        self.assertNotIn("FI_PROVIDER_PATH", as_user(OTHER, info).stdout)


if __name__ == "__main__":
    common.main()
