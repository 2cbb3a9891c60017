"""scripts/pictures makes the pictures of traces that the pages of docs/ show."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from common import BUILD, SANITIZED, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/pictures"


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loader = importlib.machinery.SourceFileLoader("pictures", str(SCRIPT))
        cls.script = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
        sys.dont_write_bytecode = True
        loader.exec_module(cls.script)

    def test_each_is_shown(self):
        text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
        for name in self.script.PICTURES:
            self.assertIn(f"(pictures/{name}.png)", text)
            self.assertTrue((ROOT / f"docs/pictures/{name}.png").exists())
        made = {path.stem for path in (ROOT / "docs/pictures").glob("page-*.png")}
        self.assertEqual(made, set(self.script.PICTURES))

    @unittest.skipIf(SANITIZED, "what the pages show does not depend on it")
    def test_they_are_made(self):
        if not self.script.browser.find():
            self.skipTest("there is no browser: install chromium (scripts/packages/test.txt)")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([SCRIPT, BUILD, "--into", folder], capture_output=True, text=True, timeout=300, check=False,
                                  env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for name in self.script.PICTURES:
                size = (pathlib.Path(folder) / f"{name}.png").stat().st_size
                self.assertGreater(size, 20000, name)
                self.assertLess(size, 400000, name)


if __name__ == "__main__":
    main()
