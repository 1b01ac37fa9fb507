"""What the two halves of a sink answer when they fail. guests/python/file-sink has the whole lifecycle."""

import unittest

import weir
from weir import AbortOutcome, Outcome
from weir.testing import MemoryFolders, SinkHarness


class Writer(weir.SinkWriter):
    name, version = "sink", "1"
    committable_versions = (1,)

    def open(self, task, config):
        self.out = task.folder("out")

    def begin(self, transaction):
        self.out.mkdir("a/b")

    def write(self, batch):
        self.out.append("a/b/file", b"".join(record.value for record in batch))
        if len(batch) > 2:
            self.out.sync("a/b/file")

    def prepare(self, checkpoint, end_of_input):
        return weir.Prepared(2 if end_of_input else 1, checkpoint.encode())


class Committer(weir.SinkCommitter):
    def commit(self, what):
        if what.data == b"bug":
            raise KeyError(what.id)
        return Outcome.COMMITTED if what.data == b"3-1" else what.data

    status = commit

    def abort(self, transaction):
        return {"t": AbortOutcome.ABORTED}[transaction]


class SinkTest(unittest.TestCase):
    def setUp(self):
        self.folders = MemoryFolders("out")
        self.sink = SinkHarness(Writer, Committer, self.folders)

    def test_an_exception_of_a_committer_is_an_answer(self):
        self.sink.begin("t")
        done = self.sink.prepare("3-1")
        bug, wrong = done._replace(id="bug", data=b"bug"), done._replace(id="wrong", data=b"wrong")
        first, second, third = self.sink.commit(done, bug, done)
        self.assertEqual((first, second.kind, third.kind), (Outcome.COMMITTED, "unknown", "retry"))
        self.assertRegex(second.reason, "KeyError: 'bug'$")
        self.assertRegex(self.sink.status(wrong).reason, "gave b'wrong', not a weir.Outcome")
        self.assertEqual(self.sink.abort("t"), AbortOutcome.ABORTED)
        self.assertEqual(self.sink.abort("u").kind, "retry")

    def test_write_may_only_append_and_read(self):
        self.sink.begin("t")
        self.sink.write([("k", "one", 1), ("k", "two", 2)])
        self.assertEqual(self.folders.files("out"), {"a/b/file": b"onetwo"})
        self.assertRaisesRegex(weir.FilesError, "only append and read", self.sink.write, [("k", "x", 1)] * 3)
        self.folders.crash()
        self.assertEqual(self.folders.files("out"), {})
        self.assertEqual(self.folders.folder("out").list("a"), ["b"])

    def test_a_version_that_is_not_declared_is_found(self):
        self.sink.begin("t")
        with self.assertRaisesRegex(AssertionError, "version 2 is not declared"):
            self.sink.prepare("3-1", end_of_input=True)

    def test_folders_refuse_what_the_host_refuses(self):
        out = self.folders.folder("out")
        out.mkdir("a")
        out.append("a/f", b"x")
        for call in (
            lambda: out.append("b/f", b""),
            lambda: out.append("a", b""),
            lambda: out.read("a", 0, 1),
            lambda: out.read("none", 0, 1),
            lambda: out.sync("none"),
            lambda: out.rename("none", "x"),
            lambda: out.remove("a"),
            lambda: out.list("a/f"),
            lambda: out.exists("../x"),
            lambda: out.exists("/x"),
            lambda: self.folders.folder("other").exists(""),
        ):
            self.assertRaises(weir.FilesError, call)
        out.append("a/g", b"")
        self.assertFalse(out.rename("a/f", "a/g"))
        self.assertFalse(out.remove("none"))
        self.assertTrue(out.exists("a/f"))


if __name__ == "__main__":
    unittest.main()
