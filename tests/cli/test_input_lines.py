"""Lines of an input as they come: each as it stands there, however long, from any kind of file."""

import io
import os
import threading
import time
from typing import BinaryIO, cast

import pytest

from bendybus.cli.output.input_lines import InputLines

pytestmark = pytest.mark.requirement("R583")
# Far more than a line needs that comes in small pieces.
ENOUGH_S = 2.0


class Pieces(io.RawIOBase):
    """A file that is read in small pieces."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data = io.BytesIO(data)
        self._piece = piece

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._piece))


def test_a_long_line_is_not_copied_for_each_of_its_pieces() -> None:
    line = b"x" * 1_000_000
    pieces = Pieces(line + b"\r\nnext\n" + line, 64)
    began = time.monotonic()

    found = list(InputLines(cast(BinaryIO, pieces)))

    assert [each for each in found if each is not None] == [line, b"next", line]
    assert time.monotonic() - began < ENOUGH_S


def test_a_carriage_return_is_only_removed_before_a_line_feed() -> None:
    pieces = Pieces(b"\r\ra\r\r\nb\r\nlast\r", 1)

    assert list(InputLines(cast(BinaryIO, pieces))) == [b"\r\ra\r", b"b", b"last\r"]


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    with os.fdopen(read, "rb") as file, os.fdopen(write, "wb", buffering=0) as out:
        lines = iter(InputLines(file, 0.01))
        out.write(b"one\n")
        assert [next(lines), next(lines)] == [b"one", None]
        later = threading.Timer(0.2, out.write, [b"two\n"])
        later.start()
        found = next(lines)
        later.join()

    assert found == b"two"


def test_lines_that_never_pause_wait_for_a_second() -> None:
    read, write = os.pipe()
    now_s = 0.0
    with os.fdopen(read, "rb") as file, os.fdopen(write, "wb", buffering=0) as out:
        lines = iter(InputLines(file, clock=lambda: now_s))
        found = []
        for number in range(25):
            out.write(b"%d\n" % number)
            found.append(next(lines))
            now_s += 0.09
            if found[-1] is None:
                found.append(next(lines))

    assert found.index(None) == 12
    assert [each for each in found if each is not None] == [b"%d" % each for each in range(25)]
