"""The queues inside an entity, by name: where its messages wait, and where rejected ones go.

Numbers are those of the internal contract and of the partition's file; 3 and 4 are kept for the
transfer queue and the transfer dead-letter queue.
"""

from enum import IntEnum


class SubQueue(IntEnum):
    """A queue of an entity."""

    MAIN = 1
    DEAD_LETTER = 2
