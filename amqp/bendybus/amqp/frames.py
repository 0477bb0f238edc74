"""Frames: reading them from a stream of bytes, and writing them.

     0        4      5      6         8
    +--------+------+------+---------+-----------------+-------------------+---------+
    |  size  | doff | type | channel | extended header | performative      | payload |
    +--------+------+------+---------+-----------------+-------------------+---------+
    size counts all of it; doff counts words of 4 bytes up to the performative; type 0 is AMQP,
    1 SASL. An empty frame, of 8 bytes, is a heartbeat.

Before frames, each layer begins with a protocol header of 8 bytes.

Source: AMQP 1.0, part 2.2 and 2.3; part 5.3.
"""

import struct
from typing import Final, NamedTuple

from bendybus.amqp import composites
from bendybus.amqp.composites import Composite
from bendybus.amqp.errors import DecodeError, ProtocolError

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER_BYTES: Final = 8
AMQP: Final = 0
SASL: Final = 1
# No peer may ask for smaller frames.
MAX_FRAME_SIZE_MIN: Final = 512
EMPTY: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
_HEAD: Final = struct.Struct(">IBBH")


class Frame(NamedTuple):
    """A frame, not decoded. `body` is empty in a heartbeat."""

    kind: int
    channel: int
    body: bytes


class FrameReader:
    """Splits input into frames. Buffers at most one incomplete frame."""

    def __init__(self, size_max: int) -> None:
        # The largest frame, in bytes.
        self.size_max = size_max
        self._buffer = bytearray()
        self._at = 0
        # How large the frame is that is not complete, in bytes; 0: it is not known.
        self.coming = 0

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def header(self) -> bytes | None:
        """Return the protocol header that comes next; None until it is complete."""
        if len(self._buffer) - self._at < HEADER_BYTES:
            return None
        found = bytes(self._buffer[self._at : self._at + HEADER_BYTES])
        self._at += HEADER_BYTES
        return found

    def frame(self) -> Frame | None:
        """Return the next frame; None until it is complete. Raises ProtocolError."""
        buffer, at = self._buffer, self._at
        left = len(buffer) - at
        self.coming = 0
        if left < HEADER_BYTES:
            return None
        size, offset, kind, channel = _HEAD.unpack_from(buffer, at)
        if not HEADER_BYTES <= size <= self.size_max:
            raise ProtocolError(
                FRAMING_ERROR, f"a frame has 8 to {self.size_max} bytes (got {size})"
            )
        if not HEADER_BYTES <= 4 * offset <= size:
            raise ProtocolError(FRAMING_ERROR, f"the data offset of a frame is {offset}")
        if kind not in (AMQP, SASL):
            raise ProtocolError(FRAMING_ERROR, f"there are no frames of type {kind}")
        if left < size:
            self.coming = size
            return None
        self._at = at + size
        return Frame(kind, channel, bytes(buffer[at + 4 * offset : at + size]))


def performative(body: bytes) -> tuple[Composite, bytes]:
    """Return the performative of a frame, and its payload. Raises ProtocolError."""
    try:
        made, end = composites.decode(body)
        return made, body[end:]
    except DecodeError as error:
        raise ProtocolError("amqp:decode-error", str(error)) from None


def write(kind: int, channel: int, body: bytes, out: bytearray, payload: bytes = b"") -> None:
    """Append a frame."""
    out += _HEAD.pack(HEADER_BYTES + len(body) + len(payload), 2, kind, channel)
    out += body
    if payload:
        out += payload
