"""What a partition keeps of data pipelines: leases of drains, fences of producers."""

from typing import NamedTuple

from bendybus.domain.sub_queue import SubQueue


class Lease(NamedTuple):
    """The lease of a drain of a (sub-)queue, as it was last taken or ended."""

    uid: str
    sub_queue: SubQueue
    # Rises with every drain of the (sub-)queue.
    epoch: int
    owner: str
    # 0: it was ended.
    duration_ms: int


class Fence(NamedTuple):
    """How far a producer came in a slot."""

    slot: int
    producer_id: bytes
    epoch: int
    # Of the last message that was stored.
    ordinal: int
    # What the producer recognizes its work by.
    mark: bytes
    at_ms: int
