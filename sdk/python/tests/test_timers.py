"""Timers and the end of input on the harness."""

import unittest

import weir
from weir.testing import Emitted, FatalCall, Harness


class Window(weir.Operator):
    """Counts in windows of ten; what is open at the end is told key by key, when its timers are dropped."""

    name, version = "window", "1"
    counts = weir.ValueState("counts", weir.INT)
    inputs = 2

    def process(self, record, out):
        self.counts.set((self.counts.get() or 0) + 1)
        self.timers.set_event_time(record.key, record.time // 10 * 10 + 9, b"window")
        self.timers.set_processing_time(record.key, self.timers.processing_time() + 5)
        if record.value == b"never":
            self.timers.delete(weir.TimerKind.EVENT_TIME, record.key, record.time // 10 * 10 + 9, b"window")
        if record.value == b"fail":
            raise weir.Retry("after timers were set")
        if record.value == b"elsewhere":
            self.timers.set_event_time(b"elsewhere", 1)

    def on_timer(self, timer, out):
        if timer.kind is weir.TimerKind.EVENT_TIME:
            out.emit(timer.key, b"%d at %d" % (self.counts.get() or 0, self.timers.watermark()), timer.time)
            self.counts.delete()
        elif timer.key == b"bad":
            raise weir.BadRecord("no record is at hand")

    def on_end(self, port, out):
        out.emit(None, b"end of %d" % port, 0)

    def on_end_key(self, key, out):
        out.emit(key, b"left %d" % self.counts.get(), 0)
        self.counts.delete()


class TimersTest(unittest.TestCase):
    def test_timers_fire_once_by_time_and_key(self):
        harness = Harness(Window)
        harness.send([("b", "", 11), ("a", "", 12), ("a", "", 13), ("c", "", 3), ("d", "never", 4)])
        self.assertEqual(harness.timers, 7)
        harness.advance_watermark(18)
        self.assertEqual(harness.take(), [Emitted(b"c", b"1 at 18", 9)])
        harness.reopen()
        harness.advance_watermark(19)
        self.assertEqual(harness.take(), [Emitted(b"a", b"2 at 19", 19), Emitted(b"b", b"1 at 19", 19)])
        harness.send([("late", "", 1)])
        self.assertEqual(harness.take(), [Emitted(b"late", b"1 at 19", 9)], "what is due already fires at once")
        harness.advance_processing_time(5)
        self.assertEqual((harness.timers, harness.take()), (0, []))

    def test_a_failure_sets_no_timer(self):
        harness = Harness(Window)
        self.assertRaises(weir.testing.RetryCall, harness.send, [("a", "fail", 1)])
        self.assertEqual(harness.timers, 0)
        harness.send([("bad", "", 1)])
        with self.assertRaisesRegex(FatalCall, "^no record is at hand$"):
            harness.advance_processing_time(5)
        with self.assertRaisesRegex(AssertionError, "none of the running call's"):
            harness.send([("a", "elsewhere", 1)])

    def test_the_end_comes_once_for_each_input_and_key(self):
        harness = Harness(Window)
        harness.send([(key, "never", 1) for key in ("d", "b", "c", "a")])
        harness.send([("e", "", 1)], port=1)
        harness.end()
        lines = [record.value.decode() for record in harness.take()]
        self.assertEqual(lines, [f"1 at {weir.END_OF_TIME}", "end of 0", "end of 1"] + ["left 1"] * 4)
        self.assertEqual(harness.stored("counts"), {})


if __name__ == "__main__":
    unittest.main()
