"""Counts work instead of time: the same everywhere, however busy the machine is."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(function: Callable[[], Any]) -> int:
    """Return how many bytecode instructions of the project's own code a call takes.

    Loops and generators over many things show; what C code does inside one call does not.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if "bendybus" not in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
