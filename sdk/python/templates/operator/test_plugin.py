import unittest

from plugin import {{Name}}
from weir.testing import BadInput, Emitted, Harness


class {{Name}}Test(unittest.TestCase):
    def test_values_become_upper_case(self):
        harness = Harness({{Name}})
        harness.send([("ann", "to be", 1), ("bob", "", 2)])
        self.assertEqual(harness.take(), [Emitted(b"ann", b"TO BE", 1)])
        self.assertEqual(harness.take("rejected"), [Emitted(b"bob", b"", 2)])

    def test_a_value_that_is_no_text_is_a_bad_record(self):
        with self.assertRaises(BadInput):
            Harness({{Name}}).send([("ann", b"\xff", 1)])


if __name__ == "__main__":
    unittest.main()
