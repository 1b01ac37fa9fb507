"""What an author's code raises when something is wrong.

Nothing that the call did (output, state, timers, appended bytes) is applied. Any other exception fails the job's attempt with its
traceback, as :class:`Fatal` does with its text.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath

# Characters of a traceback that go into an error: its end says what happened.
_TRACEBACK_MAX = 4_000
# Characters of its first line, which says what it is.
_SUMMARY_MAX = 200


class WeirError(Exception):
    """What the SDK raises, and what it understands."""


class BadRecord(WeirError):
    """This record can't be processed; the text says why.

    The other records of the batch are still looked at, so that one call names all bad ones. The host then does with them what the job
    says (fail, drop, dead letter) and calls again with the rest. Where no record is at hand (``open``, timers, the end of the input,
    sinks) it fails the attempt.
    """


class Retry(WeirError):
    """Transient: the host calls again with the same input, a bounded number of times."""


class Fatal(WeirError):
    """The job's attempt fails."""


class FilesError(WeirError):
    """A call to the host's files failed; the text says why."""


def describe(error: BaseException, where: str = "") -> str:
    """What an error of an author's code is called: the text of those above; what any other says, and its traceback.

    ``where``: what was at hand, such as a record.
    """
    if isinstance(error, (BadRecord, Retry, Fatal)):
        return str(error)
    frames = error.__traceback__
    # The SDK's own frames say nothing to the author.
    while frames is not None and frames.tb_next is not None and _is_own(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    # What it is comes first, too: a report of one line shows no more.
    summary = traceback.format_exception_only(type(error), error)[-1].strip()
    if len(summary) > _SUMMARY_MAX:
        summary = summary[:_SUMMARY_MAX] + "…"
    frames_text = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
    if len(frames_text) > _TRACEBACK_MAX:
        frames_text = "…" + frames_text[-_TRACEBACK_MAX:]
    text = f"{summary}\n{frames_text}"
    return f"{where}: {text}" if where else text


def _is_own(filename: str) -> bool:
    return PurePath(filename).parent == PurePath(__file__).parent
