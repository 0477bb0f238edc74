"""Traces the process that starts with this folder on its PYTHONPATH: which product code runs.

Python imports a module of this name before anything else. SIGUSR2 writes what ran since the last
one into the folder that BENDYBUS_WALK names, as PID-N.json, and begins anew:

    functions   [file, qualified name, lines of it that were executed] in the order of their first
                calls, the product's only
    depth       the most of its functions that were on one stack
    hand_overs  how often it went on in another thread than before
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")


class Tracer:
    """What ran since the last look, of all threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[CodeType, bool] = {}
        self._looks = 0
        self._begin()

    def _begin(self) -> None:
        self._seen: dict[CodeType, None] = {}
        self._lines: dict[CodeType, int] = {}
        self._depth = self._hand_overs = 0
        self._thread = 0

    def look(self, *_: object) -> None:
        """Write what ran, and begin anew. A handler of signals."""
        seen, lines, depth, hand_overs = self._seen, self._lines, self._depth, self._hand_overs
        self._begin()
        facts = {
            "program": sys.orig_argv[1:4],
            "functions": [
                (code.co_filename, code.co_qualname, lines.get(code, 0)) for code in list(seen)
            ],
            "depth": depth,
            "hand_overs": hand_overs,
        }
        target = self._folder / f"{os.getpid()}-{self._looks}.json"
        self._looks += 1
        # Whoever waits for the file finds it whole.
        partial = target.with_suffix(".part")
        partial.write_text(json.dumps(facts), encoding="utf-8")
        partial.rename(target)

    def call(self, frame: FrameType, event: str, _: Any) -> Any:
        """Take note of a call; for product code, of its lines too."""
        code = frame.f_code
        ours = self._known.get(code)
        if ours is None:
            ours = self._known[code] = _is_ours(code)
        if not ours or event != "call":
            return None
        self._seen[code] = None
        thread = threading.get_ident()
        if thread != self._thread:
            self._hand_overs += self._thread != 0
            self._thread = thread
        self._depth = max(self._depth, self._stacked(frame))
        return self._line

    def _stacked(self, frame: FrameType | None) -> int:
        stacked = 0
        while frame is not None:
            stacked += self._known.get(frame.f_code, False)
            frame = frame.f_back
        return stacked

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        self._lines[frame.f_code] = self._lines.get(frame.f_code, 0) + (event == "line")
        return self._line


def _is_ours(code: CodeType) -> bool:
    # Newer Pythons run comprehensions inside the function around them: they count with it.
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return False
    return "/bendybus/" in code.co_filename and not code.co_filename.endswith(_GENERATED)


if "BENDYBUS_WALK" in os.environ:
    _TRACER: Final = Tracer(Path(os.environ["BENDYBUS_WALK"]))
    signal.signal(signal.SIGUSR2, _TRACER.look)
    threading.settrace(_TRACER.call)
    sys.settrace(_TRACER.call)
