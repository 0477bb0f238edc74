"""The queues inside an entity, by name: where its messages wait, and where rejected ones go.

Numbers are those of the internal contract and of the partition's file; 3 and 4 are kept for the
transfer queue and the transfer dead-letter queue.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from bendybus.domain.entity_kind import EntityKind


class SubQueue(IntEnum):
    """A queue of an entity."""

    MAIN = 1
    DEAD_LETTER = 2


# Messages wait in a topic only until they are due: none is ever rejected there.
OF_KIND: Final[Mapping[EntityKind, tuple[SubQueue, ...]]] = MappingProxyType(
    {
        EntityKind.QUEUE: (SubQueue.MAIN, SubQueue.DEAD_LETTER),
        EntityKind.TOPIC: (SubQueue.MAIN,),
        EntityKind.SUBSCRIPTION: (SubQueue.MAIN, SubQueue.DEAD_LETTER),
    }
)
