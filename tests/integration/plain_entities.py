"""A Standard bus with plain entities of either form, in a partition that is not the first one.

Those that are made now count from 1. Those of the form before are made by taking the fact out of
the partitions' files, as versions before 0.13.2 wrote them.
"""

import sqlite3
from pathlib import Path
from typing import Final

from bendybus.domain import partitioning
from bendybus.domain.limits import Tier
from tests import sequence_numbers
from tests.integration.processes import Bus

COUNT: Final = 16
HOME: Final = 3
# Both are at home there.
QUEUE, TOPIC = (
    next(
        name
        for name in (f"{word}-{number}" for number in range(1_000))
        if partitioning.partition_of(name, COUNT) == HOME
    )
    for word in ("orders", "news")
)
# By form, the number before the first one.
BASES: Final = {"plain": 0, "before": sequence_numbers.of(HOME, 0)}


def started(folder: Path, form: str) -> Bus:
    """Return a bus with a plain queue, a plain topic and its subscription `all`, of a form."""
    made = Bus(folder, partitions=COUNT, tier=Tier.STANDARD)
    try:
        with made.administration() as administration:
            administration.create_queue(QUEUE)
            administration.create_topic(TOPIC)
            administration.create_subscription(TOPIC, "all")
        if form == "before":
            _restart_before(made)
    except BaseException:
        made.end()
        raise
    return made


def _restart_before(bus: Bus) -> None:
    for each in (bus.front_end, *bus.partitions.values()):
        each.terminate()
    for file in bus.folder.glob("partition-*.db"):
        with sqlite3.connect(file) as db:
            db.execute(
                "UPDATE entities SET entry = json_remove(entry, '$.plain_numbers'), version = 2"
            )
    for index in range(COUNT):
        bus.start_partition(index, wait=False)
    for each in bus.partitions.values():
        each.ready()
    bus.start_front_end()
