"""What every command about an entity names."""

from typing import Any, NamedTuple

from bendybus.domain.sub_queue import SubQueue


class EntityRef(NamedTuple):
    """The version of an entity that a command is about."""

    uid: str
    generation: int
    sub_queue: SubQueue = SubQueue.MAIN


class OfStream:
    """A command of a stream, which gets the answer."""

    __slots__ = ()
    stream: Any

    @property
    def reply_to(self) -> Any:
        """Where the answer goes."""
        return self.stream
