"""Signals that end a command: it finishes as after Ctrl-C, and its exit code tells of them."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

# Windows has no SIGHUP.
_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@dataclass(slots=True)
class Ending:
    """The number of the signal that ended a command; 0: none did."""

    signal: int = 0

    def code(self, code: int, interrupted: int) -> int:
        """Return the exit code of a command that ended with `code`: that of shells for a signal."""
        return 128 + self.signal if self.signal and code == interrupted else code


@contextmanager
def in_order() -> Iterator[Ending]:
    """Turn what would end this process at once into KeyboardInterrupt.

    So a command says what it has done, gives messages back, and keeps where it stopped. A signal
    that is ignored (nohup), or that a command handles itself, is left alone.
    """
    ending = Ending()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        ending.signal = number
        raise KeyboardInterrupt

    ours = [
        number
        for number in _SIGNALS
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield ending
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
