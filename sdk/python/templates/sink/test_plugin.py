import itertools
import unittest

from plugin import Committer, Writer
from weir import AbortOutcome, FilesError, Outcome
from weir.testing import MemoryFolders, SinkHarness

TRANSACTION = "lineage.1.out.0.1"


def prepared(folders):
    sink = SinkHarness(Writer, Committer, folders)
    sink.begin(TRANSACTION)
    sink.write([("k", "one", 1), ("k", "two", 2)])
    return sink, sink.prepare("1-1")


class {{Name}}Test(unittest.TestCase):
    def test_records_appear_with_the_commit_and_only_once(self):
        folders = MemoryFolders("out")
        sink, committable = prepared(folders)
        # Power is lost: what was prepared survives, out of sight.
        folders.crash()
        self.assertEqual(list(folders.files("out")), [f".staged/{TRANSACTION}", f".staged/{TRANSACTION}.prepared"])
        self.assertEqual(sink.list_dangling(), [TRANSACTION])
        self.assertEqual(sink.commit(committable), [Outcome.COMMITTED])
        self.assertEqual(sink.commit(committable), [Outcome.ALREADY_COMMITTED])
        self.assertEqual(sink.abort(TRANSACTION), AbortOutcome.COMMITTED)
        # A reader may take the file: a repeat still knows.
        self.assertEqual(folders.files("out")[TRANSACTION], b"one\ntwo\n")
        folders.folder("out").remove(TRANSACTION)
        self.assertEqual(sink.commit(committable), [Outcome.ALREADY_COMMITTED])
        sink.forget(TRANSACTION)
        self.assertEqual((folders.files("out"), sink.list_dangling()), ({}, []))

    def test_an_abort_leaves_nothing(self):
        folders = MemoryFolders("out")
        sink, _ = prepared(folders)
        self.assertEqual(sink.abort(TRANSACTION), AbortOutcome.ABORTED)
        self.assertEqual(sink.abort(TRANSACTION), AbortOutcome.ABORTED)
        self.assertEqual(folders.files("out"), {})

    def test_an_empty_transaction_leaves_nothing(self):
        folders = MemoryFolders("out")
        sink = SinkHarness(Writer, Committer, folders)
        sink.begin(TRANSACTION)
        self.assertIsNone(sink.prepare("1-1"))
        self.assertEqual(folders.files("out"), {})

    def test_a_crash_at_any_step_of_a_commit_is_made_good_by_the_repeat(self):
        for calls in itertools.count():
            folders = MemoryFolders("out")
            sink, committable = prepared(folders)
            folders.fail_after(calls)
            (first,) = sink.commit(committable)
            folders.crash()
            sink.commit(committable)
            self.assertEqual(folders.files("out")[TRANSACTION], b"one\ntwo\n")
            if first == Outcome.COMMITTED:
                break

    def test_what_could_not_be_prepared_is_never_visible(self):
        for calls in itertools.count():
            folders = MemoryFolders("out")
            sink = SinkHarness(Writer, Committer, folders)
            sink.begin(TRANSACTION)
            sink.write([("k", "one", 1)])
            folders.fail_after(calls)
            try:
                sink.prepare("1-1")
                break
            except FilesError:
                folders.crash()
                self.assertNotIn(TRANSACTION, folders.files("out"))


if __name__ == "__main__":
    unittest.main()
