"""The queues inside an entity, by name: where its messages wait, and where rejected ones go.

Numbers are those of the internal contract and of the partition's file.
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
    # What transactions sent to other entities, on its way there: one queue for each of these.
    # Clients do not see it.
    TRANSFER = 3
    # What could not be forwarded.
    TRANSFER_DEAD_LETTER = 4


# Where rejected messages are: none of them is dead-lettered again, or expires.
DEAD_LETTERS: Final = frozenset({SubQueue.DEAD_LETTER, SubQueue.TRANSFER_DEAD_LETTER})

# Messages wait in a topic only until they are due: none is ever rejected there.
OF_KIND: Final[Mapping[EntityKind, tuple[SubQueue, ...]]] = MappingProxyType(
    {
        EntityKind.QUEUE: (SubQueue.MAIN, SubQueue.DEAD_LETTER),
        EntityKind.TOPIC: (SubQueue.MAIN,),
        EntityKind.SUBSCRIPTION: (SubQueue.MAIN, SubQueue.DEAD_LETTER),
    }
)
# Made when they are first needed: few entities ever have them.
ON_NEED: Final[Mapping[EntityKind, tuple[SubQueue, ...]]] = MappingProxyType(
    {
        EntityKind.QUEUE: (SubQueue.TRANSFER_DEAD_LETTER,),
        EntityKind.TOPIC: (),
        EntityKind.SUBSCRIPTION: (SubQueue.TRANSFER_DEAD_LETTER,),
    }
)
