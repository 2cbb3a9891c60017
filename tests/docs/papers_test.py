"""The page of the five papers (bench/papers), in a browser: it opens without network and without a message on the console, shows a picture
for every figure and a mark for every number that it compares, and the recordings are of the machines as they are."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import simulation  # noqa: E402
from papers_content import PAPERS  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Papers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page = Path(cls.folder.name) / "papers.html"
        cls.made = subprocess.run([ROOT / "bench/papers", "--into", cls.page], capture_output=True, text=True)
        cls.figures = [figure for recording in sorted(simulation.RECORDINGS.glob("*.json"))
                       for figure in json.loads(recording.read_text())["figures"]]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_made_of_recordings_of_these_machines(self):
        self.assertEqual(self.made.returncode, 0, self.made.stderr)

    def test_names_sources_that_exist(self):
        for paper in PAPERS:
            for what, files in paper["mechanisms"]:
                for file in files.split(", "):
                    self.assertTrue((ROOT / file).exists(), f"{what}: {file}")

    def test_says_why_where_it_differs(self):
        for figure in self.figures:
            if any(entry["mark"] == "differs" for entry in figure["compared"]):
                self.assertTrue(figure["why"], figure["title"])

    def test_loads_nothing_from_outside(self):
        text = self.page.read_text()
        self.assertEqual(re.findall(r'(?:src|href)\s*=\s*["\']?(?!#|data:)[a-z]+:', text), [])
        self.assertNotIn("<script", text)

    def test_opens_in_a_browser(self):
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if not browser:
            self.skipTest("there is no browser: install chromium (scripts/packages/test.txt)")
        command = [browser, "--headless", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--enable-logging=stderr",
                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder.name}/profile", "--dump-dom", self.page.as_uri()]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": self.folder.name})
        self.assertEqual(shown.returncode, 0, shown.stderr[-2000:])
        self.assertEqual([line for line in shown.stderr.splitlines() if "CONSOLE" in line], [])
        figures = re.findall(r"<figure>.*?</figure>", shown.stdout, re.DOTALL)
        self.assertEqual(len(figures), len(self.figures))
        for figure in figures:
            self.assertEqual(figure.count("<svg"), 1, figure[:200])
            self.assertRegex(figure, r"<(polyline|rect)[^>]*>")
        for paper in PAPERS:
            self.assertIn(f'id="{paper["id"]}"', shown.stdout)


if __name__ == "__main__":
    unittest.main()
