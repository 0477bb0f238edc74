"""Paths of requests about messages. Pure.

    POST                 /ENTITY/messages             send: one message, or a batch
    POST, DELETE         /ENTITY/messages/head        receive: lock a message, or delete it
    PUT, POST, DELETE    /ENTITY/messages/ID/LOCK     unlock, renew the lock, complete

ENTITY is the path of a queue, a topic, a subscription or a sub-queue of these; ID is a sequence
number or a message id, and LOCK a UUID. Everything else is administration, whose clients use GET,
PUT and DELETE: the name of an entity may have `messages` in it. An entity whose own name ends as a
path above is not replaced or deleted over HTTP, since such a request is about the messages of the
entity before it; it is created so, and managed with the command line.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote
from uuid import UUID

_MESSAGES: Final = "messages"
_HEAD: Final = "head"
_UUID_CHARS: Final = 36


class MessageCall(StrEnum):
    """A kind of request about messages."""

    SEND = "send"
    LOCK = "lock"
    TAKE = "take"
    UNLOCK = "unlock"
    RENEW = "renew"
    COMPLETE = "complete"


_ON_HEAD: Final = {"POST": MessageCall.LOCK, "DELETE": MessageCall.TAKE}
_ON_LOCKED: Final = {
    "PUT": MessageCall.UNLOCK,
    "POST": MessageCall.RENEW,
    "DELETE": MessageCall.COMPLETE,
}


@dataclass(frozen=True, slots=True)
class MessagePath:
    """A request about messages of `entity`, the path of an entity or a sub-queue.

    `written`: that path as the client wrote it, and `below`: the segments after it. `message`,
    `lock`: of a settlement.
    """

    call: MessageCall
    entity: str
    written: str
    below: tuple[str, ...]
    message: str = ""
    lock: UUID | None = None


def parse(method: str, raw_path: str) -> MessagePath | None:
    """Return the parts of a request about messages; None: it is administration.

    `raw_path`: with its percent-encoding, so that a message id may contain slashes.
    """
    # Most requests of administration end here.
    if f"/{_MESSAGES}" not in raw_path.lower():
        return None
    segments = raw_path.strip("/").split("/")
    words = [each.lower() for each in segments[-3:]]
    if method == "POST" and words[-1] == _MESSAGES:
        return _path(MessageCall.SEND, segments, 1)
    if words[-2:] == [_MESSAGES, _HEAD] and method in _ON_HEAD:
        return _path(_ON_HEAD[method], segments, 2)
    if len(words) == 3 and words[0] == _MESSAGES and words[1] and method in _ON_LOCKED:
        lock = _uuid(words[-1])
        if lock is not None:
            return _path(_ON_LOCKED[method], segments, 3, unquote(segments[-2]), lock)
    return None


def _path(
    call: MessageCall, segments: list[str], below: int, message: str = "", lock: UUID | None = None
) -> MessagePath | None:
    written = "/".join(segments[:-below])
    if not written:
        return None
    return MessagePath(call, unquote(written), written, tuple(segments[-below:]), message, lock)


def _uuid(text: str) -> UUID | None:
    if len(text) != _UUID_CHARS:
        return None
    try:
        return UUID(text)
    except ValueError:
        return None
