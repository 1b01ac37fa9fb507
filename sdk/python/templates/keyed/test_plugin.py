import unittest

from plugin import {{Name}}
from weir.testing import BadInput, Harness


class {{Name}}Test(unittest.TestCase):
    def test_words_add_up_for_each_key(self):
        lines = [("ann", "to be or", 1), ("bob", "hello", 2), ("ann", "not to be", 3)]
        # How the host batches records must not matter.
        for size in (1, 3):
            harness = Harness({{Name}})
            harness.send(lines, size=size)
            self.assertEqual([(record.key, record.value) for record in harness.take()], [(b"ann", b"3"), (b"bob", b"1"), (b"ann", b"6")])

    def test_state_survives_a_restart(self):
        harness = Harness({{Name}})
        harness.send([("ann", "to be or", 1)])
        harness.reopen()
        harness.send([("ann", "not", 2)])
        self.assertEqual(harness.state("words", "ann"), 4)

    def test_a_value_that_is_no_text_is_a_bad_record(self):
        harness = Harness({{Name}})
        with self.assertRaises(BadInput):
            harness.send([("ann", b"\xff", 1)])
        self.assertIsNone(harness.state("words", "ann"))


if __name__ == "__main__":
    unittest.main()
