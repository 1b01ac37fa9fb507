"""The projects of `weir new` pass their tests as they stand."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from weir.build import COMPONENTIZE, check, find_plugin

SDK = Path(__file__).resolve().parent.parent


def project(kind, folder):
    """A project made of a template."""
    words = {"{{name}}": "my-plugin", "{{name_snake}}": "my_plugin", "{{Name}}": "MyPlugin"}
    for path in (SDK / "templates" / kind).iterdir():
        text = re.sub(r"\{\{.*?\}\}", lambda found: words[found.group()], path.read_text())
        (folder / path.name).write_text(text)
    (folder / "weir-sdk").symlink_to(SDK)


class TemplatesTest(unittest.TestCase):
    def test_each_passes_its_own_tests(self):
        for kind in ("operator", "keyed", "sink"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                project(kind, folder)
                environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
                command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", "test"]
                ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertRegex(ended.stderr, r"Ran [2-9] tests")
                self.assertEqual((folder / "requirements.txt").read_text(), f"{COMPONENTIZE}\n")
                sys.path.insert(0, scratch)
                try:
                    import plugin

                    found = find_plugin(plugin)
                    check(found)
                    self.assertEqual(found[0].name, "my-plugin")
                finally:
                    sys.path.remove(scratch)
                    del sys.modules["plugin"]


if __name__ == "__main__":
    unittest.main()
