"""commands.md lists the options that the programs have, no more and no fewer; the man pages made of it are whole."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from common import BUILD, main, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAN = pathlib.Path(BUILD) / "share" / "man" / "man1"


def section(name):
    text = (ROOT / "docs" / "commands.md").read_text()
    return re.search(rf"^## {name}.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def documented(name):
    """The options in the first column of the section's table, without their dashes."""
    rows = re.findall(r"^\| (`-.*?) \| ", section(name), re.M)
    return {word for row in rows for word in re.findall(r"`--?([\w-]+)", row)}


class Options(unittest.TestCase):
    def test_mpiexec(self):
        text = run([os.path.join(BUILD, "bin", "mpiexec"), "--help"]).stdout.split("Options:")[1]
        # "  -n,--np INT ..." : names up to the first blank.
        rows = re.findall(r"^  (-\S+)", text, re.M)
        self.assertEqual(documented("mpiexec"), {name.lstrip("-") for row in rows for name in row.split(",")})

    def test_tern_info(self):
        text = run([os.path.join(BUILD, "bin", "tern-info"), "--help"]).stdout
        self.assertEqual(documented("tern-info"), set(re.findall(r"--([a-z-]+)", text)) | {"help"})

    def test_wrappers(self):
        """Every option that is listed is understood by every wrapper."""
        for wrapper in ("mpicc", "mpicxx", "mpifort"):
            path = os.path.join(BUILD, "bin", wrapper)
            for option in re.findall(r"`(-(?:show|compile|link)[\w:]*)`", section("mpicc")):
                done = run([path, option])
                self.assertEqual(done.returncode, 0, f"{wrapper} {option}: {done.stderr}")
                self.assertTrue(done.stdout.strip(), f"{wrapper} {option}")
            for option in re.findall(r"`(-\w+)=NAME`", section("mpicc")):
                self.assertIn("another-compiler", run([path, option + "=another-compiler", "-showme"]).stdout)

    def test_tunables_page(self):
        page = (pathlib.Path(BUILD) / "docs" / "tunables.md").read_text()
        names = re.findall(r"^(TERN_\w+)=", run([os.path.join(BUILD, "bin", "tern-info"), "--tunables"]).stdout, re.M)
        self.assertGreater(len(names), 15)
        self.assertEqual(re.findall(r"^\| `(TERN_\w+)`", page, re.M), names)
        for line in page.splitlines():
            if line.startswith("| `"):
                self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), 6, line)

    def test_security_page_has_every_variable(self):
        page = (ROOT / "docs" / "security.md").read_text()
        listed = re.search(r"kNotTunables\[\] = \{(.*?)\};", (ROOT / "src/base/tunables.cc").read_text(), re.S)[1]
        wrappers = {"CC", "CXX", "FC", "PREFIX"}  # read by shell scripts of the user's own
        for name in set(re.findall(r'"(\w+)"', listed)) - wrappers:
            self.assertIn(f"`TERN_{name}`", page)

    def test_man_pages(self):
        for name in ("mpiexec", "mpirun", "mpicc", "mpicxx", "mpifort", "tern-info"):
            text = (MAN / f"{name}.1").read_text()
            if text.startswith(".so "):
                self.assertTrue((MAN.parent / text.split()[1]).exists())
                continue
            plain = text.replace("\\-", "-")
            for option in documented(name):
                self.assertIn(f"-{option}", plain)
            self.assertNotRegex(re.sub(r"\\fB.*?\\fR", "", text), r"`|\*\*|\]\(", f"{name}.1: Markdown is left")
            if shutil.which("groff"):
                done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tascii", str(MAN / f"{name}.1")],
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
