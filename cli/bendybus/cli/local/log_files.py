"""The log files of a local bus: their last lines, and what is added to them.

`child.py` moves a file aside when its process first starts, and later copies and cuts it: a file
that became shorter, or another one, is read from its beginning.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class LogFile:
    """One process's log, and how far it is read."""

    process: str
    path: Path
    _offset: int = 0
    _inode: int = 0
    _rest: bytes = field(default=b"", repr=False)

    def last(self, count: int) -> list[str]:
        """Return the last lines, and go on behind them; a negative count means all."""
        try:
            with self.path.open("rb") as file:
                found = _last(file.fileno(), count)
                self._offset, self._inode = file.tell(), os.fstat(file.fileno()).st_ino
        except OSError:
            return []
        *whole, self._rest = found.split(b"\n")
        return [_text(line) for line in (whole[-count:] if count > 0 else whole if count else [])]

    def added(self) -> list[str]:
        """Return the whole lines that were written since."""
        try:
            with self.path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_ino != self._inode or facts.st_size < self._offset:
                    self._offset, self._inode, self._rest = 0, facts.st_ino, b""
                file.seek(self._offset)
                new = file.read()
                self._offset = file.tell()
        except OSError:
            return []
        *whole, self._rest = (self._rest + new).split(b"\n")
        return [_text(line) for line in whole]


def of_folder(folder: Path, names: Sequence[str] = ()) -> Iterator[LogFile]:
    """Return the logs in a folder, those of some processes or all, by name."""
    for path in sorted(folder.glob("*.log")):
        if not names or path.stem in names:
            yield LogFile(path.stem, path)


def _last(descriptor: int, count: int) -> bytes:
    """Return the end of a file that has so many line ends; the offset is its end then."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    begin, found = size, b""
    while begin > 0 and (count < 0 or found.count(b"\n") <= count):
        length = begin if count < 0 else min(_BLOCK_BYTES, begin)
        begin -= length
        found = os.pread(descriptor, length, begin) + found
    return found


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
