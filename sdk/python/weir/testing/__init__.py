"""Runs operators and sinks in tests as the host does: whole batches with prefetched state, and nothing of a call that fails is applied."""

from ..driver import BadInput, CallFailed, FatalCall, RetryCall
from .folders import MemoryFolders
from .harness import Emitted, Harness
from .sink import SinkHarness

__all__ = ["BadInput", "CallFailed", "Emitted", "FatalCall", "Harness", "MemoryFolders", "RetryCall", "SinkHarness"]
