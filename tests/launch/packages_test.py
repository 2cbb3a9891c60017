"""The Debian packages: what is in them, and installed beside the other MPIs of this machine and removed again.

They are installed in a copy of the machine's file system that only this test sees (an overlay in a mount namespace), which
needs root, and dpkg's database here."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from common import BUILD, SANITIZED, environment, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = r"""
set -eu
mount -t tmpfs none "$1/own"
mkdir "$1/own/upper" "$1/own/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/own/upper,workdir=$1/own/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
mkdir -p "$1/root/debs"
cp "$1"/debs/*.deb "$1/root/debs"
exec chroot "$1/root" sh -eu -c "$2"
"""
STEPS = r"""
before=$(readlink -f /etc/alternatives/mpirun || echo none)
dpkg -i /debs/*.deb
[ "$(dpkg -l libtern1 libtern-dev libtern-fortran1 tern-bin tern-doc | grep -c ^ii)" = 5 ]
case $before in none) ;; *) [ "$(readlink -f /etc/alternatives/mpirun)" = "$before" ] ;; esac
cd /debs
printf '%s\n' '#include <mpi.h>' '#include <stdio.h>' \
  'int main(void) { int n; MPI_Init(0, 0); MPI_Comm_size(MPI_COMM_WORLD, &n); printf("%d\n", n); return MPI_Finalize(); }' >p.c
mpicc.tern p.c -o p
[ "$(mpiexec.tern -n 2 ./p)" = "2
2" ]
tern-info >/dev/null
update-alternatives --set mpirun /usr/bin/mpirun.tern
mpirun --version | grep -q Tern
dpkg -r tern-doc libtern-dev tern-bin libtern-fortran1 libtern1
case $before in none) ;; *) [ -x /etc/alternatives/mpirun ] ;; esac
left=$(find /usr/bin /usr/lib /usr/share/doc /usr/share/man /etc/alternatives -name '*.tern*' -o -path '*/tern/*' -o -name '*3tern*')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo all is well
"""


@unittest.skipIf(SANITIZED, "packages are made of releases")
@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "needs dpkg-dev")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        for name in ("debs", "own", "root"):
            (cls.folder / name).mkdir()
        done = subprocess.run([str(ROOT / "packaging/make-deb"), "--build", BUILD, "--into", str(cls.folder / "debs")],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        cls.names = sorted(path.name.split("_")[0] for path in (cls.folder / "debs").iterdir())

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def paths(self, name):
        package = next((self.folder / "debs").glob(f"{name}_*.deb"))
        listed = subprocess.run(["dpkg-deb", "-c", str(package)], capture_output=True, text=True, check=True).stdout
        return [line.split()[5].removeprefix(".") for line in listed.splitlines()]

    def test_each_file_is_in_its_package_and_in_nobody_elses(self):
        self.assertEqual(self.names, ["libtern-dev", "libtern-fortran1", "libtern1", "tern-bin", "tern-doc"])
        files = {name: [path for path in self.paths(name) if not path.endswith("/")] for name in self.names}
        everything = [path for paths in files.values() for path in paths]
        self.assertEqual(len(everything), len(set(everything)))
        for name, path in (("libtern1", "/lib/libmpi_abi.so.1"), ("libtern-dev", "/include/mpi.h"), ("tern-bin", "/bin/mpiexec"),
                           ("tern-bin", "/usr/bin/mpicc.tern"), ("tern-doc", "/man3/MPI_Send.3tern.gz")):
            self.assertTrue([p for p in files[name] if p.endswith(path)], (name, path))
        owned = subprocess.run(["dpkg-query", "-S", *everything], capture_output=True, text=True, check=False).stdout
        self.assertEqual([line for line in owned.splitlines() if "tern" not in line.split(":")[0]], [])

    @unittest.skipUnless(os.geteuid() == 0, "installing needs root")
    def test_installed_beside_others_and_removed(self):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", SCRIPT, "sh", str(self.folder), STEPS],
                              capture_output=True, text=True, timeout=250, check=False, env=environment())
        if "mount:" in done.stderr and "all is well" not in done.stdout:
            self.skipTest("no overlay here: " + done.stderr.strip().splitlines()[-1])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["all is well"]), done.stdout + done.stderr)


if __name__ == "__main__":
    main()
