"""scripts/install-packages on systems with apt and with dnf: stand-ins for their commands say what is installed and take the call."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*lists, commands, has=(), system="debian"):
    """(exit code, what the package manager was called with, output) where only COMMANDS (name: shell text) are in the PATH."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        for tool in ("bash", "dirname", "grep", "env"):
            (path / tool).symlink_to(shutil.which(tool))
        for name, text in {**commands, "sudo": '"$@"'}.items():
            (path / name).write_text(f"#!/bin/bash\n{text}\n")
            (path / name).chmod(0o755)
        (path / "os-release").write_text(f"NAME=x\nID={system}\n")
        result = subprocess.run([ROOT / "scripts/install-packages", *lists], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={"PATH": folder, "OS_RELEASE": f"{folder}/os-release", "CALLS": f"{folder}/calls",
                                     "HAS": f" {' '.join(has)} "})
        calls = path / "calls"
        return result.returncode, calls.read_text() if calls.exists() else "", result.stdout


APT = {"dpkg-query": 'package=${@: -1}; [[ $HAS == *" $package "* ]] && echo "install ok installed"',
       "apt-get": '[[ $1 == update ]] || echo "apt-get $*" >>"$CALLS"'}
DNF = {"rpm": 'package=${@: -1}; [[ $HAS == *" $package "* ]]', "dnf": 'echo "dnf $*" >>"$CALLS"'}


def column(name, index):
    lines = [line.split() for line in (ROOT / f"scripts/packages/{name}.txt").read_text().splitlines() if line and line[0] != "#"]
    return [package for words in lines for package in words[index].split(",") if package != "-"]


class InstallPackages(unittest.TestCase):
    def test_every_line_names_both_systems(self):
        for path in (ROOT / "scripts/packages").glob("*.txt"):
            for line in path.read_text().splitlines():
                if line and not line.startswith("#"):
                    self.assertRegex(line, r"^\S+ +\S+( +debian)?$", path.name)

    def test_apt_installs_what_is_missing(self):
        code, calls, said = run("build", commands=APT, has=[name for name in column("build", 0) if name != "gfortran"])
        self.assertEqual(code, 0, said)
        self.assertRegex(calls, r"^apt-get install .* gfortran\n$")

    def test_ubuntu_lacks_some(self):
        self.assertIn(" chromium ", run("test", commands=APT)[1])
        code, calls, said = run("test", commands=APT, system="ubuntu")
        self.assertEqual(code, 0, said)
        self.assertRegex(calls, r" git .* gdb( |\n)")
        self.assertNotRegex(calls, "chromium|linux-image")

    def test_dnf_takes_the_second_column(self):
        code, calls, said = run("build", "test", commands=DNF, has=column("build", 1)[2:])
        self.assertEqual(code, 0, said)
        self.assertRegex(calls, r"^dnf install .* gcc-c\+\+ make git gtest-devel ")
        self.assertNotIn(" - ", calls)

    def test_all_there(self):
        for commands, index in ((APT, 0), (DNF, 1)):
            self.assertEqual(run("build", commands=commands, has=column("build", index)), (0, "", ""))

    def test_neither_apt_nor_dnf(self):
        code, calls, said = run("build", commands={})
        self.assertEqual((code, calls), (1, ""))
        self.assertIn("scripts/packages/build.txt", said)


if __name__ == "__main__":
    unittest.main()
