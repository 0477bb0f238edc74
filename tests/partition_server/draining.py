"""Reads ranges, drains and sends with a fence inside one partition, for tests."""

from typing import Any

from bendybus.domain.message_state import ACTIVE_ONLY, MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    BrowseRange,
    DrainEntity,
    EntityRef,
    FindNumber,
    GetFence,
    GetRange,
    SendFenced,
    SettleRange,
)
from bendybus.partition_server.state.pipeline_commands import (
    DrainAction,
    Drained,
    FencedStored,
    FenceRead,
    RangePage,
    RangeRead,
    RangeSettled,
)
from tests.partition_server.driver import Driver

PRODUCER = b"query-1, task-00"
LEASE_MS = 60_000


def asked(driver: Driver, command: Any) -> Any:
    """Run a command; return its answer, raise what refused it."""
    # Others may be answered beside it: receivers whose asks end.
    values = [answer.value for answer in answers(driver, command) if answer.to == "t"]
    [value] = values
    if isinstance(value, Failed):
        raise value.error
    return value


def answers(driver: Driver, command: Any) -> list[Any]:
    """Run a command; return everything that is answered, and to which caller."""
    _, found = driver.turn(command)
    return found


def ref(driver: Driver, name: str = "orders", sub_queue: SubQueue = SubQueue.MAIN) -> EntityRef:
    """Return a reference to a (sub-)queue."""
    return driver.ref(name)._replace(sub_queue=sub_queue)


def range_of(driver: Driver, *where: Any) -> RangeRead:
    """Return where a (sub-)queue begins and ends."""
    found: RangeRead = asked(driver, GetRange("t", ref(driver, *where)))
    return found


def page(
    driver: Driver,
    after: int = 0,
    upto: int = 0,
    *where: Any,
    count: int = 1_000,
    size_bytes: int = 0,
    states: frozenset[MessageState] = ACTIVE_ONLY,
    bodies: bool = True,
) -> RangePage:
    """Return a page of a (sub-)queue."""
    of = ref(driver, *where)
    found: RangePage = asked(
        driver, BrowseRange("t", of, after, upto, count, size_bytes, states, bodies)
    )
    return found


def bodies(driver: Driver, after: int = 0, upto: int = 0, *where: Any) -> list[bytes]:
    """Return the bodies of the active messages of a range."""
    return [row.payload for row in page(driver, after, upto, *where).delivery.rows]


def number_at(driver: Driver, enqueued_ms: int, *where: Any, after: int = 0) -> Any:
    """Return the answer to the question for the number at a time."""
    return asked(driver, FindNumber("t", ref(driver, *where), enqueued_ms, after))


def grant(driver: Driver, owner: str = "capture", *where: Any, above: int = 0) -> int:
    """Return the epoch of a new lease, granted by the registrar."""
    of = ref(driver, *where)
    command = DrainEntity("t", of, DrainAction.GRANT, owner, LEASE_MS, above)
    drained: Drained = asked(driver, command)
    return drained.epoch


def hold(driver: Driver, epoch: int, owner: str = "capture", *where: Any) -> int:
    """Hold a lease; return how many messages receivers have locked."""
    of = ref(driver, *where)
    drained: Drained = asked(driver, DrainEntity("t", of, DrainAction.HOLD, owner, LEASE_MS, epoch))
    return drained.locked


def release(driver: Driver, epoch: int, owner: str = "capture", *where: Any) -> None:
    """End a lease."""
    of = ref(driver, *where)
    asked(driver, DrainEntity("t", of, DrainAction.RELEASE, owner, LEASE_MS, epoch))


def drained(driver: Driver, *where: Any, owner: str = "capture") -> int:
    """Take and hold a lease; return its epoch."""
    epoch = grant(driver, owner, *where)
    hold(driver, epoch, owner, *where)
    return epoch


def settle(
    driver: Driver, epoch: int, upto: int = 0, *where: Any, counters: tuple[int, ...] = ()
) -> RangeSettled:
    """Delete under a lease."""
    found: RangeSettled = asked(
        driver, SettleRange("t", ref(driver, *where), epoch, upto, counters)
    )
    return found


def send_fenced(
    driver: Driver,
    *payloads: bytes,
    first: int = 1,
    epoch: int = 1,
    producer_id: bytes = PRODUCER,
    name: str = "orders",
    mark: bytes = b"",
    ordinals: Any = None,
    replace: bool = False,
    **columns: Any,
) -> FencedStored:
    """Send messages of a producer with ordinals from `first` on."""
    numbers = list(range(first, first + len(payloads))) if ordinals is None else ordinals
    batch = Batch(list(payloads), **columns)
    stored: FencedStored = asked(
        driver,
        SendFenced(
            "t", ref(driver, name), producer_id, epoch, numbers, batch, mark, replace=replace
        ),
    )
    return stored


def fence(driver: Driver, producer_id: bytes = PRODUCER, name: str = "orders") -> FenceRead:
    """Return how far a producer came."""
    found: FenceRead = asked(driver, GetFence("t", ref(driver, name), producer_id))
    return found
