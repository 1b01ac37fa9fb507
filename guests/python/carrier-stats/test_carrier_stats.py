import unittest

from carrier_stats import CarrierStats, whole
from weir.testing import BadInput, Harness


def line(delay):
    return f"2013,1,1,517,515,{delay},830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"


class CarrierStatsTest(unittest.TestCase):
    def test_each_flight_gives_the_running_values_of_its_key(self):
        flights = [
            ("UA,EWR", line("-3"), 1),
            ("B6,JFK", line("2.0"), 1),
            ("UA,EWR", line("-5"), 1),
            ("UA,EWR", line('"7"'), 1),
        ]
        for size in (1, 4):
            harness = Harness(CarrierStats)
            harness.send(flights, size=size)
            lines = [record.value.decode() for record in harness.take()]
            self.assertEqual(lines, ["UA,EWR,1,-3,-3", "B6,JFK,1,2,2", "UA,EWR,2,-8,-3", "UA,EWR,3,-1,7"])
            # The bytes that the same operator in other languages keeps.
            stored = (3).to_bytes(8, "little") + (-1).to_bytes(8, "little", signed=True) + (7).to_bytes(8, "little")
            self.assertEqual(harness.stored("delays")[b"UA,EWR"], stored)

    def test_bad_lines_are_named_and_change_nothing(self):
        harness = Harness(CarrierStats)
        with self.assertRaises(BadInput) as caught:
            harness.send([("k", line("1"), 1), ("k", line("NA"), 1), ("k", "1,2", 1), ("k", '"1,2', 1), ("k", None, 1)])
        reasons = dict(caught.exception.records)
        self.assertEqual(sorted(reasons), [1, 2, 3, 4])
        for record, words in ((1, "dep_delay 'NA'"), (2, "2 fields"), (3, "quote"), (4, "1 fields")):
            self.assertIn(words, reasons[record])
        self.assertEqual((harness.take(), harness.state("delays", "k")), ([], None))

    def test_numbers_are_those_of_the_other_languages(self):
        for text, number in (
            (b"+5", 5),
            (b"-5", -5),
            (b"-2.9", -2),
            (b"1e3", 1000),
            (b"9223372036854775807", (1 << 63) - 1),
            (b"9223372036854775808", None),
            (b"1_0", None),
            (b" 1", None),
            (b"", None),
            (b"-", None),
            (b"+-1", None),
            (b"nan", None),
            (b"inf", None),
            (b"1" * 5000, None),
        ):
            self.assertEqual(whole(text), number, text)


if __name__ == "__main__":
    unittest.main()
