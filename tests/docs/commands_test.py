"""Runs what the pages of docs/ and README tell users to type.

A page's fenced blocks, from top to bottom, in one empty folder with Tern's bin in the PATH:

    ```c hello.c            a language and a file name: the block is written to that file
    ```sh                   commands; each must succeed, unless a word behind says otherwise:
       by-hand                  not run (installs something, or needs a cluster)
       fails                    the last command fails
       needs=NAME               only where the program NAME is
    ```output               what the commands above print, standard output before standard error; "..." stands for anything,
                            an expected line that begins with it may come after others

Commands whose program another MPI would bring (mpirun.openmpi) are passed over where it is missing.
"""
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from common import BUILD, SANITIZED, main, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONAL = ("mpirun.openmpi", "mpiexec.hydra", "prterun", "srun")
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


def blocks(text):
    """(language, words, body, line) of every fenced block."""
    for found in BLOCK.finditer(text):
        language, *words = found[1].split()
        yield language, words, found[2], text.count("\n", 0, found.start()) + 1


def pattern(expected):
    """Lines in their order; "..." is anything within a line, and in front of a line any lines before it."""
    whole = ""
    for line in expected.splitlines():
        whole += "(?s:.*?)" if line.startswith("...") else ""
        whole += ".*?".join(re.escape(part) for part in line.removeprefix("...").split("...")) + "\n"
        whole = whole.removesuffix("\n") + ("(?:\n|\\Z)" if not line.endswith("...") else "[^\n]*(?:\n|\\Z)")
    return whole


def matches(expected, printed):
    loose = any(line.startswith("...") for line in expected.splitlines())
    return re.match(pattern(expected) + ("" if loose else r"\Z"), printed) is not None


class Pages(unittest.TestCase):
    def run_block(self, body, words, place, folder):
        done = run(["bash", "-euo", "pipefail", "-c", body], cwd=folder, timeout=120,
                   PATH=os.path.join(os.path.abspath(BUILD), "bin") + ":" + os.environ["PATH"])
        what = f"{place}:\n{body}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode != 0, "fails" in words, what)
        return done.stdout + done.stderr

    def run_page(self, page):
        ran, printed = 0, None
        with tempfile.TemporaryDirectory() as folder:
            for language, words, body, line in blocks(page.read_text()):
                place = f"{page.name}, line {line}"
                if language == "output":
                    if printed is not None:
                        self.assertTrue(matches(body, printed), f"{place}: expected\n{body}\nprinted\n{printed}")
                elif language == "sh":
                    needed = [word.split("=")[1] for word in words if word.startswith("needs=")]
                    needed += [name for name in OPTIONAL if re.search(rf"^\s*{re.escape(name)}\b", body, re.M)]
                    skipped = "by-hand" in words or not all(map(shutil.which, needed))
                    printed = None if skipped else self.run_block(body, words, place, folder)
                    ran += not skipped
                else:
                    self.assertEqual(len(words), 1, f"{place}: a {language} block without a file name")
                    (pathlib.Path(folder) / words[0]).write_text(body)
        return ran

    @unittest.skipIf(SANITIZED, "the users' programs are not sanitized")
    def test_pages(self):
        total = 0
        for page in PAGES:
            with self.subTest(page=page.name):
                total += self.run_page(page)
        self.assertGreater(total, 15)

    def test_matching(self):
        for expected, printed, good in (("a\n", "a\n", True), ("a\n", "a\nb\n", False), ("a\n", "b\n", False),
                                        ("...b...\n", "a\nxbx\nc\n", True), ("...b\n", "a\nbx\n", False),
                                        ("...b...\n...a...\n", "a\nb\n", False), ("a...z\n", "abcz\n", True)):
            self.assertEqual(matches(expected, printed), good, (expected, printed))

    def test_links(self):
        """Pages that pages refer to exist, in the source or made by the build."""
        for page in [*PAGES, ROOT / "README.md"]:
            for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                self.assertTrue((page.parent / target).exists(), f"{page.name} refers to {target}")
            for target in re.findall(r"`(docs/[a-z-]+\.(?:md|py))`", page.read_text()):
                self.assertTrue((ROOT / target).exists() or os.path.exists(os.path.join(BUILD, target)),
                                f"{page.name} speaks of {target}")


if __name__ == "__main__":
    main()
