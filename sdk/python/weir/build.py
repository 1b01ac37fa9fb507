"""Makes a component of a plugin in Python: ``python -m weir.build MODULE[:CLASS] -o FILE.wasm``.

componentize-py must be installed for the interpreter that runs this. The module is imported natively first, to see what it is: only what
it uses of the contract is imported and exported.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Optional

from .operator import Operator, has_end, has_timers, states_of
from .sink import SinkCommitter, SinkWriter

COMPONENTIZE = "componentize-py==0.25.1"
"""The build tool, as pip calls it; the version that the SDK is tested with."""

_PACKAGE = "weir:plugin"
_VERSION = "1.0.0"
_ENTRY = "weir_entry"


class BuildError(Exception):
    """What is wrong, and what to do."""


def find_plugin(module: ModuleType, name: Optional[str] = None) -> list[type]:
    """The operator of a module, or the two halves of its sink. ``name``: of the operator or the writer, if there are several."""
    own = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    operators = [kind for kind in own if issubclass(kind, Operator)]
    writers = [kind for kind in own if issubclass(kind, SinkWriter)]
    committers = [kind for kind in own if issubclass(kind, SinkCommitter)]
    if name is not None:
        operators = [kind for kind in operators if kind.__name__ == name]
        writers = [kind for kind in writers if kind.__name__ == name]
    if len(operators) == 1 and not writers:
        return operators
    if not operators and len(writers) == len(committers) == 1:
        return [*writers, *committers]
    found = ", ".join(kind.__name__ for kind in (*operators, *writers, *committers)) or "none"
    which = f"{module.__name__}:{name}" if name else f"module {module.__name__}"
    raise BuildError(
        f"{which} must be one class derived from weir.Operator, or one weir.SinkWriter and one weir.SinkCommitter, defined in it "
        f"(found: {found}). MODULE:CLASS chooses one of several operators"
    )


def check(plugin: list[type]) -> None:
    """Refuses what the host would refuse, in the author's words."""
    main = plugin[0]
    for attribute in ("name", "version") + (("committable_versions",) if len(plugin) == 2 else ()):
        if not hasattr(main, attribute):
            raise BuildError(f"{main.__name__} has no attribute `{attribute}`")
    if issubclass(main, Operator):
        if isinstance(main.side_outputs, str):
            raise BuildError(f"{main.__name__}.side_outputs must be a tuple of names, not one text")
        if has_timers(main) and not states_of(main):
            raise BuildError(f"{main.__name__} has on_timer but no state: timers belong to keys, declare a weir.ValueState")


def world(plugin: list[type]) -> str:
    """The world that a plugin needs: nothing that it does not use."""
    main = plugin[0]
    imports, exports = ["host"], []
    if getattr(main, "uses_files", False):
        imports.append("files")
    if issubclass(main, Operator):
        exports.append("operator")
        if has_timers(main):
            imports.append("timer-service")
            exports.append("timers")
        if has_end(main):
            exports.append("end-of-input")
    else:
        exports += ["sink-writer", "sink-committer"]
    lines = [f"  import {_PACKAGE}/{name}@{_VERSION};" for name in imports]
    lines += [f"  export {_PACKAGE}/{name}@{_VERSION};" for name in exports]
    return "package weir:python;\n\nworld python-plugin {\n" + "\n".join(lines) + "\n}\n"


def entry(plugin: list[type]) -> str:
    """The module that componentize-py looks at."""
    names = ", ".join(kind.__name__ for kind in plugin)
    function = "operator" if len(plugin) == 1 else "sink"
    return (
        f"from weir import component\nfrom {plugin[0].__module__} import {names}\n\n"
        f"globals().update(component.{function}({names}))\n"
    )


def find_contract(given: Optional[str] = None) -> Path:
    """The folder with the contract's WIT: as given, beside the package, or where the repository has it."""
    sdk = Path(__file__).resolve().parent.parent
    places = [Path(given)] if given else [sdk / "wit", sdk.parent / "wit", sdk.parent.parent / "wit"]
    for place in places:
        if (place / "types.wit").is_file():
            return place
    raise BuildError(f"there is no contract (types.wit and others) in {' or '.join(map(str, places))}: name its folder with --wit")


def build(target: str, output: Path, paths: list[str], wit: Optional[str] = None) -> None:
    """Builds the plugin ``MODULE[:CLASS]``. ``paths``: folders with the module and what it imports."""
    contract = find_contract(wit)
    sys.path[:0] = paths
    # No compiled files are left in the author's folders.
    sys.dont_write_bytecode = True
    name, _, chosen = target.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise BuildError(f"there is no module {name} in {', '.join(paths)}") from None
    plugin = find_plugin(module, chosen or None)
    check(plugin)
    sdk = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(contract, folder / "wit" / "deps" / "weir", ignore=lambda _, names: [n for n in names if not n.endswith(".wit")])
        (folder / "wit" / "world.wit").write_text(world(plugin))
        (folder / "entry").mkdir()
        (folder / "entry" / f"{_ENTRY}.py").write_text(entry(plugin))
        # Of the SDK only the package goes in, not what lies beside it.
        shutil.copytree(sdk, folder / "sdk" / "weir", ignore=shutil.ignore_patterns("__pycache__", "testing", "build.py"))
        made = folder / "made.wasm"
        command = [sys.executable, "-c", "import componentize_py; componentize_py.script()"]
        command += ["--quiet", "--wit-path", str(folder / "wit"), "--world", "python-plugin", "componentize"]
        for path in (str(folder / "entry"), str(folder / "sdk"), *(os.path.abspath(path) for path in paths)):
            command += ["--python-path", path]
        command += [_ENTRY, "--output", str(made)]
        if subprocess.run(command, cwd=folder).returncode != 0 or not made.is_file():
            raise BuildError(f"componentize-py could not build {target}; what it says stands above")
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, output)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.build", description="Makes a component of a Weir plugin in Python.")
    parser.add_argument("plugin", metavar="MODULE[:CLASS]", help="the module with the operator, or with the two halves of a sink")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.wasm", help="where the component goes")
    parser.add_argument("-p", "--path", action="append", metavar="DIR", help="where the module and what it imports are found (default: .)")
    parser.add_argument("--wit", metavar="DIR", help="the contract's folder (default: where the SDK has it)")
    arguments = parser.parse_args()
    if importlib.util.find_spec("componentize_py") is None:
        print(f"weir: componentize-py is not installed for {sys.executable}: pip install {COMPONENTIZE}", file=sys.stderr)
        return 1
    try:
        build(arguments.plugin, arguments.output, arguments.path or ["."], arguments.wit)
    except BuildError as error:
        print(f"weir: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
