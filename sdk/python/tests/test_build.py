"""What is built of a module. The build itself is tested with the guests."""

import sys
import types
import unittest
from pathlib import Path

import weir
from weir import build


class Plain(weir.Operator):
    name, version = "plain", "1"


class Rich(weir.Operator):
    name, version = "rich", "1"
    uses_files = True
    first = weir.ValueState("first")
    second = weir.ValueState("second")

    def on_timer(self, timer, out): ...

    def on_end_key(self, key, out): ...


class Writer(weir.SinkWriter):
    name, version = "sink", "1"
    committable_versions = (1,)


class Committer(weir.SinkCommitter): ...


def module(*kinds):
    made = types.ModuleType(__name__)
    for kind in (weir.Operator, *kinds):
        setattr(made, kind.__name__, kind)
    return made


class BuildTest(unittest.TestCase):
    def test_a_module_has_one_plugin(self):
        self.assertEqual(build.find_plugin(module(Plain)), [Plain])
        self.assertEqual(build.find_plugin(module(Plain, Rich), "Rich"), [Rich])
        self.assertEqual(build.find_plugin(module(Committer, Writer)), [Writer, Committer])
        for kinds, name in (((), None), ((Plain, Rich), None), ((Plain,), "Other"), ((Writer,), None), ((Plain, Writer, Committer), None)):
            self.assertRaisesRegex(build.BuildError, "must be one class", build.find_plugin, module(*kinds), name)

    def test_only_what_is_used_is_in_the_world(self):
        contract = "weir:plugin/"
        for plugin, imports, exports in (
            ([Plain], ["host"], ["operator"]),
            ([Rich], ["host", "files", "timer-service"], ["operator", "timers", "end-of-input"]),
            ([Writer, Committer], ["host", "files"], ["sink-writer", "sink-committer"]),
        ):
            words = build.world(plugin).replace("@1.0.0;", "").split()
            for word, names in (("import", imports), ("export", exports)):
                found = [words[i + 1].removeprefix(contract) for i, own in enumerate(words) if own == word]
                self.assertEqual(found, names)
        self.assertIn("component.sink(Writer, Committer)", build.entry([Writer, Committer]))

    def test_what_the_host_would_refuse_is_refused(self):
        class Nameless(weir.Operator):
            version = "1"

        class Keyless(Plain):
            def on_timer(self, timer, out): ...

        class Sides(Plain):
            side_outputs = "rejected"

        class Unversioned(weir.SinkWriter):
            name, version = "sink", "1"

        for plugin, words in (
            ([Nameless], "attribute `name`"),
            ([Keyless], "timers belong to keys"),
            ([Sides], "a tuple of names"),
            ([Unversioned, Committer], "attribute `committable_versions`"),
        ):
            self.assertRaisesRegex(build.BuildError, words, build.check, plugin)
        build.check([Rich])
        build.check([Writer, Committer])

    def test_the_contract_is_found(self):
        self.assertTrue((build.find_contract() / "operator.wit").is_file())
        self.assertRaisesRegex(build.BuildError, "--wit", build.find_contract, "nowhere")

    def test_states_keep_the_order_of_their_declaration(self):
        class More(Rich):
            third = weir.ValueState("third")

        self.assertEqual([state.name for state in weir.operator.states_of(More).values()], ["first", "second", "third"])

    def test_a_missing_module_is_named(self):
        before = list(sys.path)
        try:
            with self.assertRaisesRegex(build.BuildError, "there is no module absent_module in ."):
                build.build("absent_module", Path("x.wasm"), ["."])
        finally:
            sys.path[:] = before
            sys.dont_write_bytecode = False


if __name__ == "__main__":
    unittest.main()
