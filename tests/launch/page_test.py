"""mpiexec --trace x.html in a browser: the page opens without network and without a message on the console, has a row for each rank,
shows the arguments and the place of a call that is clicked on, what it waited for, advice, the matrix; search and keys work."""
import os
import re
import tempfile
import unittest
from pathlib import Path

import browser
from common import BUILD, SANITIZED, main, mpiexec

SOURCE = Path(__file__).parent / "planted_program.c"
PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/launch/planted_program"))
LINE = next(number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if "/* late_rank */" in text)


def page(folder, *words, name="trace.html"):
    file = Path(folder) / name
    done = mpiexec("--trace", file, *words)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    if os.listdir(folder) != [name]:
        raise AssertionError(f"something is left behind: {os.listdir(folder)}")
    return file


@unittest.skipUnless(browser.find(), "there is no browser: install chromium (scripts/packages/test.txt)")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        simulated = [] if SANITIZED else ["--simulate", "ndr", "--compute", "none"]
        cls.file = page(cls.folder.name, *simulated, "-n", 4, PROGRAM, "late_rank")
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.browser.open(cls.file)
        cls.browser.wait_for("document.body && document.body.dataset.state === 'ready'")
        cls.browser.value("tern.then(parts => { window.view = parts.view; window.trace = parts.trace; window.panels = parts.panels; })")

    def show(self, function, rank):
        """Puts a call of the middle of the run on the screen; its place there."""
        return self.browser.value(f"""(async () => {{
            view.show(0, trace.length);
            const lane = trace.index.lanes.findIndex(([record]) => trace.rank(record) === {rank});
            const chunk = await trace.chunk(0, true), calls = [];
            for (let i = chunk.first[lane]; i < chunk.first[lane + 1]; i++)
              if (trace.spanName(chunk.shapeList[chunk.shapes[i]]) === '{function}') calls.push(i);
            const i = calls[Math.floor(calls.length / 2)], middle = (chunk.begins[i] + chunk.ends[i]) / 2;
            const box = view.canvas.getBoundingClientRect();
            view.goTo({{lane, begin: chunk.begins[i], end: chunk.ends[i]}});
            return [box.left + view.transform().rescaleX(view.scale)(middle), box.top + (lane + 0.5) * view.row() - view.top];
        }})()""")

    def panel(self):
        return self.browser.value("document.getElementById('panel').innerText")

    def test_needs_nothing_else(self):
        text = self.file.read_text()
        frame = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.DOTALL)
        self.assertEqual(re.findall(r'(?:src|href)\s*=\s*["\']?(?!#|data:)[a-z]+:', frame), [])
        self.assertIn("BSD-3-Clause", frame)
        self.assertEqual(self.browser.console, [])

    def test_a_row_for_each_rank(self):
        self.assertEqual(self.browser.value("document.body.dataset.lanes"), "4")
        self.assertIn("4 ranks on 1 host", self.browser.value("document.getElementById('summary').textContent"))
        picture = Path(self.folder.name).parent / f"{os.path.basename(self.folder.name)}.png"
        self.addCleanup(picture.unlink)
        self.browser.value("view.show(0, trace.length)")
        self.browser.picture(picture)
        self.assertGreater(picture.stat().st_size, 20000)
        # The colour of waiting for a late rank is there.
        shown = self.browser.value("""(() => {
            view.draw();
            const data = view.canvas.getContext('2d').getImageData(0, 0, view.canvas.width, view.canvas.height).data;
            let red = 0;
            for (let i = 0; i < data.length; i += 4) red += data[i] === 0xc8 && data[i + 1] === 0x35 && data[i + 2] === 0x2c;
            return red / (data.length / 4);
        })()""")
        self.assertGreater(shown, 0.1)  # the four rows do not fill the page

    def test_a_click_shows_the_call(self):
        x, y = self.show("MPI_Allreduce", 1)
        self.browser.click(x, y)
        self.browser.wait_for("document.getElementById('selected-name')")
        text = self.panel()
        self.assertIn("MPI_Allreduce", text)
        self.assertIn(f"late_rank (planted_program.c:{LINE})", text)
        for words in ("MPI_COMM_WORLD", "rank 1", "count", "8 bytes", "late rank", "rank 3"):
            self.assertIn(words, text)

    def test_advice(self):
        self.browser.press("Escape")
        self.browser.wait_for("document.querySelector('.advice')")
        text = self.panel()
        self.assertRegex(text, rf"rank 3 arrives [\d.]+ ms late at planted_program.c:{LINE} .*it computes longer")
        self.assertIn("MPI_Allreduce at late_rank", text)

    def test_search(self):
        self.assertEqual(self.browser.value("panels.search('allreduce rank 2').then(() => panels.found.spans.length)"), 40)
        self.assertIn("40 calls", self.panel())
        self.assertEqual(self.browser.value("panels.search('no such thing').then(() => panels.found.spans.length)"), 0)

    def test_keys(self):
        whole = self.browser.value("view.show(0, trace.length), view.domain()[1] - view.domain()[0]")
        for _ in range(3):
            self.browser.press("w")
        self.assertLess(self.browser.value("view.domain()[1] - view.domain()[0]"), whole / 3)
        self.browser.press("0")
        self.assertAlmostEqual(self.browser.value("view.domain()[1] - view.domain()[0]"), whole, delta=whole / 1000)
        self.browser.press("m")
        self.assertTrue(self.browser.value("view.showMessages"))
        self.browser.press("m")

    def test_tables(self):
        for tab, words in {"ranks": "in MPI", "matrix": "most bytes", "traffic": "messages by protocol and length",
                           "counters": "sent_eager", "help": "shift and wheel"}.items():
            self.browser.value(f"document.getElementById('tab-{tab}').click()")
            self.assertIn(words, self.panel())
        self.assertEqual(self.browser.console, [])


@unittest.skipUnless(browser.find() and not SANITIZED, "there is no browser: install chromium (scripts/packages/test.txt)")
class ManyRanks(unittest.TestCase):
    def test_64_simulated_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = page(folder, "--simulate", "ndr", "--compute", "none", "-n", 64, "-ppn", 16, PROGRAM, "balanced", 10)
            with browser.Browser() as shown:
                shown.open(file)
                shown.wait_for("document.body && document.body.dataset.state === 'ready'")
                self.assertEqual(shown.value("document.body.dataset.lanes"), "64")
                self.assertIn("64 ranks on 4 hosts", shown.value("document.getElementById('summary').textContent"))
                messages = shown.value("tern.then(parts => parts.trace.index.messages)")
                self.assertGreaterEqual(messages, 640)
                self.assertEqual(shown.console, [])


if __name__ == "__main__":
    main()
