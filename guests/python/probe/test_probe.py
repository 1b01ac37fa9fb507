import unittest

from probe import Probe
from weir.testing import FatalCall, Harness, MemoryFolders


class ProbeTest(unittest.TestCase):
    def test_it_does_what_it_is_told(self):
        harness = Harness(Probe, {"a": 1}, MemoryFolders("out"))
        harness.send([("k", word, 1) for word in ("settings", "side", "timer", "files")])
        harness.end()
        lines = [record.value.decode() for record in harness.take()]
        self.assertEqual(lines[0], 'settings: {"a": 1}')
        self.assertRegex(lines[1], r"files: True \['c'\] b'ont' .*leaves the folder")
        self.assertEqual(lines[2:], [f"fired: payload at 5 of {(1 << 63) - 1}", "end of 0", "seen: ['settings', 'side', 'timer', 'files']"])
        self.assertEqual(harness.take("side")[0].headers, (("a", b"1"), ("b", None)))
        with self.assertRaisesRegex(FatalCall, "KeyError: 'missing'"):
            harness.send([("k", "bug", 1)])


if __name__ == "__main__":
    unittest.main()
