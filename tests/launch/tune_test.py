"""What `bench/tune --store` writes is what ranks use. The limits are not measured here but given, far from the defaults: the
protocols which messages take show which limit is in force."""
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest
from pathlib import Path

from common import BUILD, main, mpiexec

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


if __name__ == "__main__":
    main()
