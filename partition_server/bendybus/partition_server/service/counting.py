"""Counts of any number of entities, in steps: each is a command of its own.

So no turn of a partition counts more than a few, and other commands come between two steps.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial

from bendybus.domain import bounds
from bendybus.partition_server.rules.counts import ENTITIES_A_LOOK
from bendybus.partition_server.state.answers import EntityCounts
from bendybus.partition_server.state.commands import Counts
from bendybus.partition_server.state.entity_ref import Caller

# Yields what makes a command for a reply, takes its answer, and returns all counts.
Counting = Generator[Callable[[Caller], Counts], list[EntityCounts], list[EntityCounts]]


def of_entities(uids: Sequence[str], *, oldest: bool = False) -> Counting:
    """Count entities by their UIDs. Raises InvalidArgument for too many.

    `oldest`: also how long the oldest message of the first one has been active.
    """
    bounds.check_number("uids", len(uids), bounds.UIDS_A_CALL_MAX)
    found: list[EntityCounts] = []
    for first in range(0, len(uids), ENTITIES_A_LOOK):
        some = uids[first : first + ENTITIES_A_LOOK]
        found += yield partial(Counts, uids=some, oldest=oldest and not first)
    return found


def of_all(after_uid: str = "", entities_max: int = 0, *, forwarding: bool = False) -> Counting:
    """Count the entities after a UID, in the order of UIDs: `entities_max` at most, 0 for all."""
    found: list[EntityCounts] = []
    while not entities_max or len(found) < entities_max:
        left = entities_max - len(found) if entities_max else ENTITIES_A_LOOK
        most = min(ENTITIES_A_LOOK, left)
        step = yield partial(Counts, forwarding=forwarding, entities_max=most, after_uid=after_uid)
        found += step
        if len(step) < most:
            break
        after_uid = step[-1].uid
    return found
