"""`make dist`: the archive has what is committed, and needs no git to be configured; its version is the project's."""
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from common import environment, main

ROOT = pathlib.Path(__file__).resolve().parents[2]


@unittest.skipUnless((ROOT / ".git").exists() and shutil.which("git"), "not a clone")
class Dist(unittest.TestCase):
    def test_the_archive_is_configured_without_git(self):
        version = re.search(r"project\(Tern VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        with tempfile.TemporaryDirectory() as holder:
            # In a copy: the test leaves nothing in the tree.
            tree = pathlib.Path(holder) / "clone"
            subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(tree)], check=True, timeout=60)
            done = subprocess.run(["make", "-s", "dist"], cwd=tree, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            archive = tree / "dist" / f"tern-{version}.tar.xz"
            self.assertIn(archive.name, done.stdout)
            with tarfile.open(archive) as packed:
                packed.extractall(holder)
            source = pathlib.Path(holder) / f"tern-{version}"
            for name in ("README.md", "LICENSE", "CHANGELOG.md", "Makefile", "docs/releases.md"):
                self.assertTrue((source / name).exists(), name)
            self.assertFalse((source / ".git").exists())
            shutil.rmtree(tree)
            done = subprocess.run(["cmake", "-S", str(source), "-B", str(source / "build"), "-DTERN_TESTS=OFF"],
                                  capture_output=True, text=True, timeout=200, check=False, env=environment())
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
