"""Operators on the harness."""

import unittest
from typing import NamedTuple

import weir
from weir.testing import BadInput, Emitted, FatalCall, Harness, RetryCall


class Teller(weir.Operator):
    """Does what a record's value says."""

    name, version = "teller", "1"
    side_outputs = ("never", "values")
    unused = weir.ValueState("unused")
    last = weir.ValueState("last", version=2)

    def open(self, task, config):
        self.closed = False
        if config.get("refuse") or task.parallelism != 1:
            raise weir.Fatal("told to")

    def process(self, record, out):
        match record.value:
            case b"bad":
                raise weir.BadRecord("no good")
            case b"retry":
                raise weir.Retry("later")
            case b"fatal":
                raise weir.Fatal("never")
            case b"bug":
                {}["missing"]
            case b"delete":
                self.last.delete()
            case b"empty":
                self.last.delete()
                self.last.set(b"")
            case _:
                self.last.set(record.value or b"null")
        out.forward(record)
        out.side("values").emit(record.key, self.last.get(), record.time)

    def close(self):
        self.closed = True


class OperatorTest(unittest.TestCase):
    def test_state_and_side_outputs(self):
        harness = Harness(Teller)
        harness.send([("a", "one", 1), ("b", "empty", 2), ("a", "two", 3)])
        expected = [Emitted(b"a", b"one", 1), Emitted(b"b", b"", 2), Emitted(b"a", b"two", 3)]
        self.assertEqual(harness.take("values"), expected)
        self.assertEqual([harness.state("last", key) for key in ("a", "b", "c")], [b"two", b"", None])
        self.assertEqual(harness.stored("unused"), {})
        harness.send([("a", "delete", 1)])
        self.assertEqual(harness.stored("last"), {b"b": b""})
        self.assertEqual((harness.take("never"), len(harness.take()), harness.take()), ([], 4, []))
        with self.assertRaises(KeyError):
            harness.state("absent", "a")
        harness.close()
        self.assertTrue(harness.operator.closed)

    def test_another_instance_goes_on_with_the_state(self):
        harness = Harness(Teller)
        harness.send([("a", "one", 1)])
        harness.reopen()
        self.assertEqual(harness.state("last", "a"), b"one")

    def test_a_failure_changes_nothing(self):
        with self.assertRaisesRegex(FatalCall, "^told to$"):
            Harness(Teller, {"refuse": True})
        for value, kind in (("bad", BadInput), ("retry", RetryCall), ("fatal", FatalCall), ("bug", FatalCall)):
            harness = Harness(Teller)
            with self.assertRaises(kind) as caught:
                harness.send([("a", "one", 1), ("b", value, 1), ("a", "two", 1)])
            if kind is BadInput:
                self.assertEqual(caught.exception.records, [(1, "no good")])
            self.assertEqual((harness.stored("last"), harness.take(), harness.take("values")), ({}, [], []))
            harness.send([("a", "one", 1)])
            self.assertEqual(harness.take(), [Emitted(b"a", b"one", 1)], "it was not the end")

    def test_all_bad_records_of_a_batch_are_named(self):
        with self.assertRaises(BadInput) as caught:
            Harness(Teller).send([("a", "bad", 1), ("a", "one", 1), ("a", "bad", 1)])
        self.assertEqual([index for index, _ in caught.exception.records], [0, 2])

    def test_a_traceback_says_where_and_with_which_record(self):
        with self.assertRaises(FatalCall) as caught:
            Harness(Teller).send([("a", "one", 1), ("b" * 100, "bug", 1)])
        text = str(caught.exception)
        self.assertTrue(text.startswith(f"record 1 of the batch, key '{'b' * 60}'…: KeyError: 'missing'\nTraceback"), text)
        self.assertTrue(text.endswith("KeyError: 'missing'"), text)
        self.assertIn('{}["missing"]', text)
        self.assertNotIn("driver.py", text)

    def test_a_long_traceback_keeps_its_end(self):
        class Loud(weir.Operator):
            name, version = "loud", "1"

            def process(self, record, out):
                raise ValueError("x" * 10_000 + " the end")

        with self.assertRaisesRegex(FatalCall, "the end$") as caught:
            Harness(Loud).send([("a", "one", 1)])
        self.assertLess(len(str(caught.exception)), 4_300)

    def test_state_belongs_to_keys(self):
        class Early(Teller):
            def open(self, task, config):
                self.last.get()

        with self.assertRaisesRegex(FatalCall, "belongs to keys"):
            Harness(Early)
        harness = Harness(Teller)
        harness.send([("a", "one", 1)])
        for use in (harness.operator.last.get, harness.operator.last.delete, lambda: harness.operator.last.set(b"")):
            self.assertRaisesRegex(RuntimeError, "belongs to keys", use)

    def test_what_is_no_byte_string_is_refused_where_it_is_emitted(self):
        class Wrong(weir.Operator):
            name, version = "wrong", "1"

            def process(self, record, out):
                out.emit(record.key, record.text(), record.time)

        with self.assertRaisesRegex(FatalCall, r"out.emit\((.|\n)*must be bytes or None, not str"):
            Harness(Wrong).send([("a", "one", 1)])
        with self.assertRaisesRegex(BadInput, "no UTF-8.*byte 1"):
            Harness(Wrong).send([("a", b"a\xff", 1)])
        with self.assertRaisesRegex(BadInput, "null, not text"):
            Harness(Wrong).send([("a", None, 1)])

    def test_a_time_of_64_bits_is_needed(self):
        class Late(weir.Operator):
            name, version = "late", "1"

            def process(self, record, out):
                out.emit(record.key, record.value, record.time * 2)

        harness = Harness(Late)
        harness.send([("a", "x", -(1 << 62))])
        self.assertEqual(harness.take()[0].time, -(1 << 63))
        with self.assertRaisesRegex(FatalCall, "int of 64 bits"):
            harness.send([("a", "x", 1 << 62)])


class Point(NamedTuple):
    x: int
    y: float


class CodecTest(unittest.TestCase):
    def test_values_survive(self):
        cases = (
            (weir.BYTES, b"\x00\xff", b"\x00\xff"),
            (weir.TEXT, "ä", b"\xc3\xa4"),
            (weir.INT, -2, b"\xfe" + b"\xff" * 7),
            (weir.JSON, {"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'.encode()),
            (weir.Struct("<Hb"), (1, -1), b"\x01\x00\xff"),
            (weir.Struct("<qd", Point), Point(1, 0.5), (1).to_bytes(8, "little") + b"\0\0\0\0\0\0\xe0\x3f"),
        )
        for codec, value, stored in cases:
            self.assertEqual(codec.encode(value), stored)
            read = codec.decode(stored)
            self.assertEqual((read, type(read)), (value, type(value)))

    def test_what_a_codec_can_not_read_or_write_is_named(self):
        class Number(weir.Operator):
            name, version = "number", "1"
            seen = weir.ValueState("seen", weir.INT)

            def process(self, record, out):
                self.seen.set((self.seen.get() or 0) + 1)

        harness = Harness(Number)
        harness._stored[0][b"a"] = b"123"
        with self.assertRaisesRegex(FatalCall, "state 'seen' holds 3 bytes .* an integer has 8 bytes"):
            harness.send([("a", "", 1)])
        harness._stored[0][b"a"] = weir.INT.encode((1 << 63) - 1)
        with self.assertRaisesRegex(FatalCall, "OverflowError"):
            harness.send([("a", "", 1)])

    def test_none_is_no_value(self):
        class Wrong(weir.Operator):
            name, version = "wrong", "1"
            seen = weir.ValueState("seen", weir.JSON)

            def process(self, record, out):
                self.seen.set(None)

        with self.assertRaisesRegex(FatalCall, "delete"):
            Harness(Wrong).send([("a", "", 1)])
        self.assertRaises(TypeError, weir.BYTES.encode, "text")


if __name__ == "__main__":
    unittest.main()
