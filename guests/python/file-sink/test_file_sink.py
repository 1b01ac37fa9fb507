"""The sink on folders that lose power, stopped at each of its steps: the tests of guests/file-sink."""

import itertools
import unittest

from file_sink import Committer, Writer
from weir import AbortOutcome, Fatal, FilesError, Outcome
from weir.testing import MemoryFolders, SinkHarness

LINEAGE = "0123456789abcdef0123456789abcdef"


def identity(number):
    return f"{LINEAGE}.3.out-files.1.{number}"


def staging(number):
    return f".weir-staging/{LINEAGE}/out-files/{identity(number)}"


def opened(folders, sink="out-files"):
    return SinkHarness(Writer, Committer, folders, sink)


def prepared(folders, number):
    """One prepared transaction of two records."""
    sink = opened(folders)
    sink.begin(identity(number))
    sink.write([("k", "one", 1)])
    sink.write([("k", "two", 2)])
    return sink.prepare(f"3-{number}")


class FileSinkTest(unittest.TestCase):
    def setUp(self):
        self.folders = MemoryFolders("out")

    def names(self):
        return list(self.folders.files("out"))

    def test_records_appear_with_the_commit_and_whole(self):
        committable = prepared(self.folders, 1)
        self.folders.crash()
        self.assertEqual(self.names(), [staging(1), f"{staging(1)}.prepared"], "prepare alone survives, invisibly")
        sink = opened(self.folders)
        self.assertEqual(sink.status(committable).kind, "retry")
        self.assertEqual(sink.list_dangling(), [identity(1)])
        self.assertEqual(sink.commit(committable), [Outcome.COMMITTED])
        self.folders.crash()
        self.assertEqual(self.folders.files("out")["part-1-3-1"], b"one\ntwo\n")
        self.assertEqual(sink.commit(committable), [Outcome.ALREADY_COMMITTED])
        self.assertEqual(sink.status(committable), Outcome.ALREADY_COMMITTED)
        sink.forget(identity(1))
        sink.forget(identity(1))
        self.assertEqual(self.names(), ["part-1-3-1"])
        self.assertEqual(sink.list_dangling(), [])

    def test_nothing_written_leaves_nothing(self):
        sink = opened(self.folders)
        sink.begin(identity(1))
        sink.write([])
        self.assertIsNone(sink.prepare("3-1", True))
        self.assertEqual(self.names(), [])

    def test_a_consumer_may_take_the_file_and_a_repeat_still_knows(self):
        committable = prepared(self.folders, 1)
        sink = opened(self.folders)
        sink.commit(committable)
        self.assertTrue(self.folders.folder("out").remove("part-1-3-1"))
        self.assertEqual(sink.commit(committable), [Outcome.ALREADY_COMMITTED])

    def test_both_gone_is_lost_and_a_taken_name_keeps_the_records(self):
        first, second = prepared(self.folders, 1), prepared(self.folders, 2)
        sink, out = opened(self.folders), self.folders.folder("out")
        out.append("part-1-3-2", b"somebody else's\n")
        (answer,) = sink.commit(second)
        self.assertEqual(answer.kind, "lost")
        self.assertIn("part-1-3-2 is there already", answer.reason)
        self.assertEqual(sink.status(second).kind, "lost")
        self.assertEqual(self.folders.files("out")[staging(2)], b"one\ntwo\n")
        self.assertEqual(self.folders.files("out")["part-1-3-2"], b"somebody else's\n")
        out.remove(staging(1))
        out.remove(f"{staging(1)}.prepared")
        self.assertEqual(sink.status(first).kind, "lost")
        answers = sink.commit(first, second)
        self.assertEqual([answer.kind for answer in answers], ["lost", "retry"])
        self.assertIn("not tried", answers[1].reason)

    def test_abort_removes_both_files_of_any_lineage(self):
        prepared(self.folders, 1)
        other = f"{'f' * 32}.9.out-files.0.4"
        sink = opened(self.folders)
        sink.begin(other)
        sink.write([("", "unprepared", 0)])
        self.assertEqual(sink.list_dangling(), [identity(1), other])
        for transaction in (identity(1), identity(1), other, other):
            self.assertEqual(sink.abort(transaction), AbortOutcome.ABORTED)
        self.folders.crash()
        self.assertEqual(self.names(), [])

    def test_another_sinks_transactions_are_not_listed(self):
        prepared(self.folders, 1)
        self.assertEqual(opened(self.folders, "other").list_dangling(), [])

    def test_an_abort_of_what_is_committed_says_so_and_keeps_the_file(self):
        committable = prepared(self.folders, 1)
        sink = opened(self.folders)
        sink.commit(committable)
        self.assertEqual(sink.abort(identity(1)), AbortOutcome.COMMITTED)
        self.assertEqual(sink.status(committable), Outcome.ALREADY_COMMITTED)
        sink.forget(identity(1))
        self.assertEqual(self.names(), ["part-1-3-1"])

    def test_a_power_loss_before_any_step_of_prepare_loses_only_what_was_not_prepared(self):
        for calls in itertools.count():
            self.folders = MemoryFolders("out")
            sink = opened(self.folders)
            sink.begin(identity(1))
            sink.write([("k", "one", 1)])
            self.folders.fail_after(calls)
            try:
                finished = sink.prepare("3-1") is not None
            except FilesError:
                finished = False
            self.folders.crash()
            files = self.folders.files("out")
            self.assertFalse([name for name in files if name.startswith("part-")], "nothing is visible before the commit")
            if f"{staging(1)}.prepared" in files:
                self.assertEqual(files.get(staging(1)), b"one\n", "a marker vouches for the content")
            fresh = opened(self.folders)
            for dangling in fresh.list_dangling():
                self.assertEqual(fresh.abort(dangling), AbortOutcome.ABORTED)
            self.assertEqual(self.names(), [])
            if finished:
                break
        self.assertGreater(calls, 3)

    def test_a_power_loss_before_any_step_of_commit_is_made_good_by_the_repeat(self):
        for calls in itertools.count():
            self.folders = MemoryFolders("out")
            committable = prepared(self.folders, 1)
            self.folders.fail_after(calls)
            (first,) = opened(self.folders).commit(committable)
            self.folders.crash()
            second = opened(self.folders).commit(committable)
            self.assertEqual(self.folders.files("out")["part-1-3-1"], b"one\ntwo\n")
            if first == Outcome.COMMITTED:
                self.assertEqual(second, [Outcome.ALREADY_COMMITTED])
                break
            self.assertEqual(first.kind, "retry")
            self.assertEqual(second, [Outcome.COMMITTED])
        self.assertGreater(calls, 3)

    def test_a_power_loss_before_any_step_of_abort_never_looks_committed(self):
        for calls in itertools.count():
            self.folders = MemoryFolders("out")
            committable = prepared(self.folders, 1)
            self.folders.fail_after(calls)
            first = opened(self.folders).abort(identity(1))
            self.folders.crash()
            sink = opened(self.folders)
            self.assertNotEqual(sink.status(committable), Outcome.ALREADY_COMMITTED, f"after {calls} calls")
            self.assertEqual(sink.abort(identity(1)), AbortOutcome.ABORTED)
            self.assertEqual(self.names(), [])
            if first == AbortOutcome.ABORTED:
                break
        self.assertGreater(calls, 3)

    def test_damage_is_lost_and_left_where_it_is(self):
        unmarked, longer = prepared(self.folders, 1), prepared(self.folders, 2)
        sink, out = opened(self.folders), self.folders.folder("out")
        out.remove(f"{staging(1)}.prepared")
        out.append(staging(2), b"more")
        for committable, why in ((unmarked, "has no marker any more"), (longer, "has not the 8 bytes")):
            before = self.folders.files("out")
            (answer,) = sink.commit(committable)
            self.assertEqual(answer.kind, "lost")
            self.assertIn(why, answer.reason)
            self.assertEqual(sink.status(committable), answer)
            self.assertEqual(self.folders.files("out"), before)

    def test_a_writer_sees_that_it_was_aborted_meanwhile(self):
        sink = opened(self.folders)
        sink.begin(identity(1))
        sink.write([("", "one", 0)])
        self.assertEqual(opened(self.folders).abort(identity(1)), AbortOutcome.ABORTED)
        self.assertRaises(FilesError, sink.prepare, "3-1")

    def test_what_can_not_be_right_is_refused(self):
        self.assertRaises(Fatal, SinkHarness, Writer, Committer, self.folders, "out-files", {"path": "x"})
        sink = opened(self.folders)
        self.assertRaises(Fatal, sink.begin, "no-identity")
        committable = prepared(self.folders, 1)
        self.assertRaises(Fatal, sink.begin, identity(1))
        for unreadable in (committable._replace(version=2), committable._replace(data=b"0 part-x"), committable._replace(id="x")):
            self.assertEqual([answer.kind for answer in sink.commit(unreadable)], ["unknown"])
        self.assertRaises(FilesError, opened(MemoryFolders()).begin, identity(2))

    def test_a_null_value_is_no_empty_line(self):
        sink = opened(self.folders)
        sink.begin(identity(1))
        sink.write([("k", "", 1)])
        with self.assertRaisesRegex(Fatal, "value is null"):
            sink.write([("k", None, 1)])


if __name__ == "__main__":
    unittest.main()
