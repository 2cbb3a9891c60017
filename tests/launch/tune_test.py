"""What `bench/tune --store` writes is what ranks use. The limits are not measured here but given, far from the defaults: the
protocols which messages take show which limit is in force."""
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

from common import BUILD, main, mpiexec, run

PROGRAM = os.environ.get("TERN_LOG_PROGRAM", os.path.join(BUILD, "tests/launch/log_program"))


def load_tune():
    """The script, which has no suffix, as a module. It imports others of its folder."""
    path = Path(__file__).resolve().parents[2] / "bench/tune"
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_loader("tune", importlib.machinery.SourceFileLoader("tune", str(path)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stored(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.config = Path(self.folder.name) / "tern/tern.toml"

    def goes_large(self, path, bytes, config, **variables):
        """Whether a message of so many bytes is not eager."""
        options = {"TERN_PATH": f"self,{path}", "TERN_CONFIG": config, "TERN_RENDEZVOUS_STATISTICS": 1, **variables}
        done = mpiexec(*(str(word) for name, value in options.items() for word in ("-genv", name, value)), "-n", 2, PROGRAM,
                       "send", bytes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return "large messages" in done.stderr

    def test_stored_limits_are_used(self):
        load_tune().store(self.config, {"shm_eager_bytes": 512, "tcp_eager_bytes": 2048})
        for path, limit in (("shm", 512), ("tcp", 2048)):
            with self.subTest(path):
                self.assertFalse(self.goes_large(path, limit, self.config))
                self.assertTrue(self.goes_large(path, 2 * limit, self.config))
                self.assertFalse(self.goes_large(path, 2 * limit, ""), "the default")
                variable = {f"TERN_{path.upper()}_EAGER_BYTES": 2 * limit}
                self.assertFalse(self.goes_large(path, 2 * limit, self.config, **variable), "the environment comes first")

    def test_only_its_own_lines_are_replaced(self):
        self.config.parent.mkdir()
        self.config.write_text("# mine\nshm_eager_bytes = 4096\nspin_us = 100\ntcp_eager_bytes = 100000")
        load_tune().store(self.config, {"shm_eager_bytes": 512})
        self.assertEqual(self.config.read_text(), "# mine\nspin_us = 100\ntcp_eager_bytes = 100000\nshm_eager_bytes = 512\n")


class Collectives(unittest.TestCase):
    """What is measured becomes entries of TERN_COLL; the times are given here."""

    def setUp(self):
        self.tune = load_tune().tune_collectives
        self.options = SimpleNamespace(collectives="4x24", build=Path(BUILD), machine="ndr.toml", repeat=1, hosts=None, only=None)

    def entries(self, operation, **times):
        """times: row=[us of each size], `table` for its own choice."""
        sizes = [8, 4096, 65536, 1 << 20]
        rows = {None if row == "table" else row: dict(zip(sizes, us)) for row, us in times.items()}
        return self.tune.entries_of(self.tune.Shape(self.options), operation, rows)

    def test_the_table_is_read(self):
        shape = self.tune.Shape(self.options)
        self.assertEqual(shape.chosen("bcast", 8), "leaders")
        self.assertEqual(shape.chosen("bcast", 16384), "lanes")
        self.assertIn("chain", shape.table["bcast"][1])
        self.assertEqual((shape.nodes, shape.ranks, shape.suffix()), (4, 96, "@96x4"))

    def test_only_what_is_faster_is_an_entry(self):
        self.assertEqual(self.entries("bcast", table=[1, 2, 3, 4], leaders=[1, 2, 4, 5], lanes=[2, 3, 3, 4], chain=[9, 9, 9, 3.99]), [])
        self.assertEqual(self.entries("bcast", table=[1, 2, 3, 4], leaders=[1, 2, 4, 5], lanes=[2, 3, 3, 4], chain=[9, 9, 9, 3]),
                         ["bcast=chain:1048576@96x4"])
        # Back to the table, and on with it where it changes.
        self.assertEqual(self.entries("bcast", table=[2, 2, 3, 4], leaders=[2, 2, 4, 5], lanes=[2, 3, 3, 4], chain=[1, 9, 9, 9]),
                         ["bcast=chain:8@96x4", "bcast=leaders:4096@96x4", "bcast=lanes:65536@96x4"])
        self.assertEqual(self.entries("reduce_scatter", table=[2, 2, 2, 2], halving=[1, 1, 1, 1], lanes=[2, 2, 2, 2]),
                         ["reduce_scatter_block=halving:8@96x4"])

    def test_other_shapes_stay(self):
        merged = self.tune.merged("bcast=chain@8,bcast=chain:8@96x4", "barrier=tree:8@96x4", self.tune.Shape(self.options))
        self.assertEqual(merged, "bcast=chain@8,barrier=tree:8@96x4")

    def test_what_is_stored_is_used(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "tern.toml"
            load_tune().store(config, {"coll": '"bcast=chain:1M@96x4"'})
            done = run([os.path.join(BUILD, "bin/tern-info"), "--collectives", "4x24"], TERN_CONFIG=config)
            self.assertRegex(done.stdout, r"bcast +from 1M +chain +TERN_COLL", done.stderr)
            done = run([os.path.join(BUILD, "bin/tern-info"), "--collectives", "2x24"], TERN_CONFIG=config)
            self.assertNotIn("chain   ", done.stdout)


if __name__ == "__main__":
    main()
