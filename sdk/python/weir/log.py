"""The host's log, which drops lines above a rate and says how many. Natively lines go to standard error.

In a component the module ``logging`` writes there, too, and so do standard output and standard error.
"""

from __future__ import annotations

import logging
import sys

_NAMES = ((logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"), (logging.DEBUG, "debug"))


def _to_stderr(level: str, message: str) -> None:
    print(f"{level}: {message}", file=sys.stderr)


# In a component the host's function.
write = _to_stderr


def debug(message: str) -> None:
    """For the plugin's author."""
    write("debug", message)


def info(message: str) -> None:
    """For the job's owner."""
    write("info", message)


def warn(message: str) -> None:
    """Something to look at."""
    write("warn", message)


def error(message: str) -> None:
    """Something is broken."""
    write("error", message)


class Handler(logging.Handler):
    """Hands the lines of ``logging`` to the host."""

    def emit(self, record: logging.LogRecord) -> None:
        name = next((name for level, name in _NAMES if record.levelno >= level), "trace")
        write(name, self.format(record))
