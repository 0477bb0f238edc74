"""What data pipelines ask of a partition while its rules have bugs; see `guard_scenarios`."""

from typing import Any, Final

from bendybus.domain.disposition import Disposition as D
from bendybus.domain.message_state import MessageState
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Ask,
    BrowseRange,
    DrainEntity,
    FindNumber,
    GetFence,
    GetRange,
    SendFenced,
    SettleRange,
)
from bendybus.partition_server.state.pipeline_commands import DrainAction
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver
from tests.partition_server.guard_scenarios import Plan, Scenario, _around, make_queues

PRODUCER: Final = b"query-1, task-00"
LEASE_MS: Final = 60_000


def _lease(driver: Driver, action: DrainAction, epoch: int = 0, duration_ms: int = LEASE_MS) -> Any:
    return DrainEntity("t", driver.ref(), action, "capture", duration_ms, epoch)


def drained(driver: Driver, **changes: Any) -> None:
    """Make queues, one of them under a lease, with a message that expired meanwhile."""
    make_queues(driver, **changes)
    driver.send(*[b"m"] * 6, time_to_live_ms=[0, 0, 0, 500, 0, 0])
    (_, deferred), (_, delayed) = driver.receive(2)
    driver.settle(D.DEFER, deferred)
    driver.settle(D.ABANDON, delayed, delay_ms=60_000)
    driver.run(_lease(driver, DrainAction.GRANT))
    driver.run(_lease(driver, DrainAction.HOLD, 1))
    driver.advance(1_000)


def drain_grant(driver: Driver) -> Plan:
    make_queues(driver)
    driver.run(Ask("s", 7, driver.ref(), False, 1, 1 << 20))
    # Without neighbours: what they send would be given to who waits.
    return Plan(_lease(driver, DrainAction.GRANT))


def drain_hold(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"m", b"m")
    driver.reserve(1)
    driver.receive(1)
    return _around(driver, _lease(driver, DrainAction.HOLD, 1))


def drain_hold_longer(driver: Driver) -> Plan:
    drained(driver)
    return _around(driver, _lease(driver, DrainAction.HOLD, 1, 2 * LEASE_MS))


def drain_release(driver: Driver) -> Plan:
    drained(driver)
    return _around(driver, _lease(driver, DrainAction.RELEASE, 1))


def settle_up_to(driver: Driver) -> Plan:
    drained(driver)
    return _around(driver, SettleRange("t", driver.ref(), 1, 5))


def settle_listed(driver: Driver) -> Plan:
    drained(driver)
    return _around(driver, SettleRange("t", driver.ref(), 1, 0, [1, 2, 4, 5]))


def get_range(driver: Driver) -> Plan:
    drained(driver)
    return _around(driver, GetRange("t", driver.ref()))


def browse_range(driver: Driver) -> Plan:
    drained(driver)
    every = frozenset(MessageState)
    return _around(driver, BrowseRange("t", driver.ref(), 0, 0, 3, 0, every, bodies=False))


def find_number(driver: Driver) -> Plan:
    drained(driver)
    return _around(driver, FindNumber("t", driver.ref(), driver.wall_ms))


def fenced(driver: Driver, name: str, *payloads: bytes, **columns: Any) -> SendFenced:
    ordinals = list(range(1, len(payloads) + 1))
    batch = Batch(list(payloads), **columns)
    return SendFenced("t", driver.ref(name), PRODUCER, 1, ordinals, batch, b"mark")


def send_fenced(driver: Driver) -> Plan:
    make_queues(driver, requires_duplicate_detection=True)
    driver.send(b"known", message_ids=["k"])
    driver.run(fenced(driver, "orders", b"a", message_ids=["a"]))
    target = fenced(driver, "orders", b"a", b"k", b"c", message_ids=["a", "k", "c"])
    return _around(driver, target, message_ids=["n"])


def send_fenced_refused(driver: Driver) -> Plan:
    make_queues(driver)
    target = fenced(driver, "orders", b"a", b"b", time_to_live_ms=[0, -1])
    return _around(driver, target)


def publish_fenced(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    return _around(driver, fenced(driver, "news", b"x" * 3_000, b"y"), name="news")


def get_fence(driver: Driver) -> Plan:
    make_queues(driver)
    driver.run(fenced(driver, "orders", b"a"))
    return _around(driver, GetFence("t", driver.ref(), PRODUCER))


def sweep_drain(driver: Driver) -> Plan:
    drained(driver, dead_lettering_on_message_expiration=True)
    return Plan(advance_ms=LEASE_MS)


COMMANDS: Final[dict[str, Scenario]] = {
    each.__name__: each
    for each in (
        drain_grant, drain_hold, drain_hold_longer, drain_release, settle_up_to, settle_listed,
        get_range, browse_range, find_number, send_fenced, send_fenced_refused, publish_fenced,
        get_fence,
    )
}  # fmt: skip
SWEEPS: Final[dict[str, Scenario]] = {"sweep_drain": sweep_drain}
