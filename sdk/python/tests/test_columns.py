"""Batches, byte for byte as the contract says."""

import unittest
from dataclasses import replace

import weir
from weir.columns import Batch, Columns, pack_headers, unpack_headers
from weir.output import CHUNK_BYTES, Output
from weir.testing import Emitted, Harness
from weir.testing.harness import pack_batch


class Forward(weir.Operator):
    name, version = "forward", "1"
    inputs = 0

    def process(self, record, out):
        if record.key == b"upper":
            out.forward(record, record.value.upper())
        else:
            out.forward(record)


class ColumnsTest(unittest.TestCase):
    def test_what_a_record_has_beside_key_and_value_is_forwarded(self):
        records = [
            Emitted(b"k", b"v", 5),
            Emitted(b"", None, -6),
            Emitted(None, b"", 7, (("h", None), ("h", b"x"), ("", b""), ("\udcff", b"y"))),
            Emitted(b"upper", b"w", 8, (("a", b"b"),)),
        ]
        for port in (0, 3):
            harness = Harness(Forward)
            harness.send(records, port)
            self.assertEqual(harness.take(), [*records[:3], Emitted(b"upper", b"W", 8, (("a", b"b"),))])
        record = list(Batch(pack_batch(records)[0], 3))[2]
        self.assertEqual((record.port, record.headers[1]), (3, ("h", b"x")))
        self.assertEqual(repr(list(Batch(pack_batch(records[:1])[0]))[0]), "Record(key=b'k', value=b'v', time=5, port=0, headers=[])")

    def test_blocks_are_those_of_the_contract(self):
        columns, _, _ = pack_batch([Emitted(b"", None, 1), Emitted(None, b"v", 2, (("to", b"x"), ("n", None)))])
        headers = b"\2\0\0\0to\1\0\0\0x\1\0\0\0n\xff\xff\xff\xff"
        marks = b"\1\0\2\0\0\0\3\0"
        index = b"\0\0\0\0\0\0\0\0" + len(headers).to_bytes(4, "little")
        block = b"\2\0" + (len(index) + len(headers)).to_bytes(4, "little") + index + headers
        self.assertEqual(columns.aux, marks + block)
        self.assertEqual((columns.count, columns.data), (2, b"v"))
        self.assertEqual(columns.index, b"\0\0\0\0" * 4 + b"\1\0\0\0")
        self.assertEqual(columns.times, b"\1" + bytes(7) + b"\2" + bytes(7))
        self.assertEqual(pack_headers(unpack_headers(headers)), headers)

    def test_plain_records_cost_no_block(self):
        columns, key_of, keys = pack_batch([("a", "v", 1), ("b", "", 2), ("a", "v", 3)])
        self.assertEqual(columns.aux, b"")
        self.assertEqual((key_of, keys), (b"\0\0\0\0\1\0\0\0\0\0\0\0", [b"a", b"b"]))

    def test_unknown_blocks_are_passed_over(self):
        columns = pack_batch([Emitted(b"", b"v", 1)])[0]
        strange = replace(columns, aux=b"\x09\0\3\0\0\0abc" + columns.aux)
        self.assertEqual(next(iter(Batch(strange))).key, b"")

    def test_values_are_a_column(self):
        self.assertEqual(Batch(pack_batch([("a", "v", 1), ("b", None, 2), ("c", "", 3)])[0]).values(), [b"v", None, b""])
        self.assertEqual(Batch(pack_batch([("a", "v", 1), ("b", "w", 2)])[0]).values(), [b"v", b"w"])
        empty = Batch(Columns(0, b"", b"", b"", b""))
        self.assertEqual((len(empty), empty.values(), list(empty)), (0, [], []))

    def test_a_large_output_goes_over_in_chunks(self):
        chunks = []
        out = Output(("side",), lambda port, columns: chunks.append((port, columns)))
        for i in range(2_000):
            out.emit(b"k", b"x" * 1_000, i)
        out.side("side").emit(None, bytearray(b"y" * (CHUNK_BYTES + 1)), 0, [("h", memoryview(b"z"))])
        self.assertEqual([port for port, _ in chunks], [0] * 7 + [1])
        for _, columns in chunks:
            self.assertLessEqual(len(columns.data), CHUNK_BYTES + 1_001)
        rest = out._finish()
        times = [time for port, columns in chunks if port == 0 for time in Batch(columns).times()] + list(Batch(rest).times())
        self.assertEqual(times, list(range(2_000)))
        self.assertEqual(out.side("side")._finish().count, 0)
        self.assertRaisesRegex(KeyError, "side_outputs has", out.side, "other")

    def test_a_number_is_no_byte_string(self):
        out = Output((), lambda port, columns: None)
        self.assertRaises(TypeError, out.emit, 3, b"", 1)
        self.assertRaises(TypeError, out.emit, b"k", b"v", 1, [("h", 3)])
        self.assertRaises(TypeError, out.emit, b"k", b"v", 1, [("h", "text")])


if __name__ == "__main__":
    unittest.main()
