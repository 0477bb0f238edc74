"""What time, and forwarding, do in a partition while rules have bugs; see `guard_scenarios`."""

from typing import Final

from bendybus.domain.disposition import Disposition as D
from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.commands import CommitEntity, Deliver
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver
from tests.partition_server.guard_scenarios import (
    Plan,
    Scenario,
    append,
    forward_spread,
    make_queues,
    named,
)
from tests.partition_server.guard_sessions import make_sessions


def sweep_locks(driver: Driver) -> Plan:
    make_queues(driver, max_delivery_count=2)
    driver.send(*[b"m"] * 6, time_to_live_ms=[0, 0, 0, 0, 0, 2_000])
    pairs = driver.receive(6)
    driver.settle(D.ABANDON, pairs[0][1])
    driver.settle(D.ABANDON, pairs[1][1], delay_ms=3_000)
    driver.receive(1)
    driver.reserve(1)
    return Plan(advance_ms=6_000)


def sweep_sessions(driver: Driver) -> Plan:
    sessions, token = make_sessions(driver)
    pairs = sessions.reserve(token, 3)
    driver.run(Deliver("s", 1, pairs[0][1]))
    sessions.ask(token, 9)
    sessions.ask_accept("b")
    return Plan(advance_ms=60_000)


def sweep_expiry(driver: Driver) -> Plan:
    make_queues(driver, dead_lettering_on_message_expiration=True)
    driver.send(*[b"m"] * 4, time_to_live_ms=[1_000, 1_000, 1_000, 0])
    driver.settle(D.ABANDON, driver.receive(1)[0][1], delay_ms=60_000)
    driver.run(append(driver, b"n", name="other", time_to_live_ms=[1_000]))
    return Plan(advance_ms=2_000)


def sweep_expiry_dropping(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(*[b"m"] * 4, time_to_live_ms=[1_000, 1_000, 1_000, 0])
    driver.settle(D.ABANDON, driver.receive(1)[0][1], delay_ms=60_000)
    return Plan(advance_ms=2_000)


def sweep_activation(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(*[b"m"] * 3, scheduled_ms=[driver.wall_ms + 1_000] * 3)
    return Plan(advance_ms=2_000)


def sweep_activation_topic(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    driver.run(
        named(driver, b"x" * 3_000, b"y", name="news", scheduled_ms=[driver.wall_ms + 1_000] * 2)
    )
    return Plan(advance_ms=2_000)


def sweep_history(driver: Driver) -> Plan:
    make_queues(
        driver, requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=20_000
    )
    driver.send(b"a", b"b", message_ids=["a", "b"])
    return Plan(advance_ms=60_000)


def sweep_dropped(driver: Driver) -> Plan:
    make_queues(driver, requires_duplicate_detection=True)
    driver.send(b"a", b"b", message_ids=["a", "b"])
    driver.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT))
    return Plan()


def forward(driver: Driver) -> Plan:
    driver.create("target", max_delivery_count=3)
    driver.create("source", forward_to="target")
    driver.run(append(driver, *[b"m"] * 3, name="source"))
    return Plan()


def forward_refused(driver: Driver) -> Plan:
    driver.create("target", requires_session=True)
    driver.create("source", forward_to="target")
    driver.run(append(driver, *[b"m"] * 3, name="source"))
    return Plan()


SCENARIOS: Final[dict[str, Scenario]] = {
    each.__name__: each
    for each in (
        sweep_locks,
        sweep_sessions,
        sweep_expiry,
        sweep_expiry_dropping,
        sweep_activation,
        sweep_activation_topic,
        sweep_history,
        sweep_dropped,
        forward,
        forward_refused,
        forward_spread,
    )
}
