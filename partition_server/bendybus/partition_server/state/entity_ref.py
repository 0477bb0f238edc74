"""What every command about an entity names."""

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from bendybus.domain.sub_queue import SubQueue

# Who gets an answer, or whose stream it is; None: nobody. Rules only compare callers, the shell
# knows what they are.
Caller: TypeAlias = Hashable


class EntityRef(NamedTuple):
    """The version of an entity that a command is about."""

    uid: str
    generation: int
    sub_queue: SubQueue = SubQueue.MAIN


class OfStream:
    """A command of a stream, which gets the answer."""

    __slots__ = ()
    stream: Caller

    @property
    def reply_to(self) -> Caller:
        """Where the answer goes."""
        return self.stream
