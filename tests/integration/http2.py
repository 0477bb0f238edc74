"""A connection that speaks HTTP/2 as no good client does: frames by hand, paced or not."""

import contextlib
import itertools
import socket
import struct
import threading
import time
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_START: Final = 65_535


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame."""
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload
    )


def call_headers(path: str, token: str = "", **more: str) -> bytes:
    """Return the headers of a gRPC call, none of them compressed."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "bus",
        "te": "trailers",
        "content-type": "application/grpc",
        **({"authorization": token} if token else {}),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def message(data: bytes, *, compressed: bool = False) -> bytes:
    """Return a message as it goes over a gRPC stream."""
    return struct.pack(">?I", compressed, len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, size = len(data) - 127, bytearray([127])
    while rest > 127:
        size.append(rest & 127 | 128)
        rest >>= 7
    return bytes(size) + bytes([rest]) + data


class Http2:
    """One connection, with a thread that reads; plain text."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._streams = itertools.count(1, 2)
        self._window = _START
        self._initial = _START
        self._windows: dict[int, int] = {}
        self._change = threading.Condition()
        self.ended = False
        # (kind, stream) of what came, without data and windows.
        self.heard: list[tuple[int, int]] = []
        self.write(PREFACE + frame(SETTINGS, 0, 0, b""))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End."""
        with contextlib.suppress(OSError):
            # A reader that waits would not hear of the end.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._reader.join(10)

    def write(self, data: bytes) -> None:
        """Write frames."""
        self._socket.sendall(data)

    def open(self, path: str, token: str = "", **more: str) -> int:
        """Begin a call; return its stream."""
        stream = next(self._streams)
        self.write(frame(HEADERS, _END_HEADERS, stream, call_headers(path, token, **more)))
        return stream

    def opened_and_reset(self, path: str, token: str = "") -> bytes:
        """Return the frames of a call that is taken back at once."""
        stream = next(self._streams)
        return frame(HEADERS, _END_HEADERS, stream, call_headers(path, token)) + frame(
            RESET, 0, stream, struct.pack(">I", 8)
        )

    def body(self, stream: int, data: bytes, *, end: bool = False, within_s: float = 10.0) -> int:
        """Write data as far as the other side lets us; return how much that was."""
        at, until_s = 0, time.monotonic() + within_s
        while at < len(data):
            with self._change:
                while (room := self._room(stream)) <= 0 and not self.ended:
                    left_s = until_s - time.monotonic()
                    if left_s <= 0:
                        return at
                    self._change.wait(left_s)
                if self.ended:
                    return at
                count = min(16_000, room, len(data) - at)
                self._window -= count
                self._windows[stream] = self._windows.get(stream, self._initial) - count
            last = end and at + count == len(data)
            try:
                self.write(frame(DATA, _END_STREAM * last, stream, data[at : at + count]))
            except OSError:
                return at
            at += count
        return at

    def wait_for(self, kind: int, stream: int, within_s: float = 30.0) -> bool:
        """Wait for a frame of a stream."""
        with self._change:
            return (
                self._change.wait_for(lambda: (kind, stream) in self.heard or self.ended, within_s)
                and (kind, stream) in self.heard
            )

    def _room(self, stream: int) -> int:
        return min(self._window, self._windows.get(stream, self._initial))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise OSError("the other side closed")
            data += more
        return data

    def _read(self) -> None:
        self._socket.settimeout(None)
        try:
            while True:
                head = self._exactly(9)
                payload = self._exactly(int.from_bytes(head[:3], "big"))
                with self._change:
                    self._take(head[3], head[4], int.from_bytes(head[5:], "big"), payload)
                    self._change.notify_all()
        except OSError:
            with self._change:
                self.ended = True
                self._change.notify_all()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == WINDOW:
            more = int.from_bytes(payload, "big")
            if stream:
                self._windows[stream] = self._windows.get(stream, self._initial) + more
            else:
                self._window += more
        elif kind == SETTINGS and not flags & _ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == 4:
                    for each in self._windows:
                        self._windows[each] += value - self._initial
                    self._initial = value
            self.write(frame(SETTINGS, _ACK, 0, b""))
        elif kind == PING and not flags & _ACK:
            self.write(frame(PING, _ACK, 0, payload))
        elif kind != DATA:
            self.heard.append((kind, stream))
