"""One budget for what all queues of a partition have ready in memory."""

import random
from collections.abc import Callable

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import ready_set
from bendybus.partition_server.state.answers import Reserved
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    Counts,
    DeleteMessages,
    Settle,
    Withdraw,
)
from bendybus.partition_server.state.ready_set import ReadyWindow
from tests.partition_server.driver import Driver
from tests.partition_server.guard_scenarios import EVERY
from tests.partition_server.running_partition import Runner

BODY = b"x" * 1_000


@pytest.fixture
def set_budget(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what sets the budget, in bytes."""

    def set_(size_bytes: int) -> None:
        monkeypatch.setattr(ready_set, "WINDOWS_BYTES_MAX", size_bytes)
        monkeypatch.setattr(ready_set, "KEPT_BYTES", size_bytes * 3 // 4)

    return set_


def send(driver: Driver, name: str, *payloads: bytes) -> None:
    driver.run(Append("t", driver.ref(name), Batch(list(payloads))))


def take(driver: Driver, name: str, count: int, ask_id: int = 1) -> list[tuple[bytes, bytes]]:
    """Return (payload, token) of what is received at once."""
    answers = driver.run(Ask("s", ask_id, driver.ref(name), False, count, 1 << 24))
    driver.run(Withdraw("s", ask_id))
    pairs = [pair for each in answers if isinstance(each, Reserved) for pair in driver.tokens(each)]
    return [(row.payload, token) for row, token in pairs]


def held_bytes(driver: Driver) -> int:
    """Return what the windows hold, counted anew."""
    windows = [queue.ready for queue in driver.partition.state.queues]
    held = sum(each.memory_bytes() for each in windows if isinstance(each, ReadyWindow))
    assert held == driver.partition.state.windows.used_bytes
    return held


@pytest.mark.requirement("R350")
def test_backlogs_that_nobody_receives_share_one_budget(
    driver: Driver, set_budget: Callable[[int], None]
) -> None:
    set_budget(100_000)
    for i in range(40):
        driver.create(f"q{i}")

    for i in range(40):
        send(driver, f"q{i}", *[BODY] * 20)
        assert held_bytes(driver) <= 100_000

    for i in range(40):
        assert len(take(driver, f"q{i}", 100)) == 20


@pytest.mark.requirement("R350")
def test_a_purge_gives_the_memory_back(driver: Driver) -> None:
    driver.create()
    driver.send(*[BODY] * 100)
    assert held_bytes(driver) > 100 * 1_000

    driver.run(DeleteMessages("t", driver.ref(), 100, 0, EVERY))
    driver.sweep()

    assert held_bytes(driver) == 0
    driver.send(b"after")
    assert [payload for payload, _ in take(driver, "orders", 5)] == [b"after"]


@pytest.mark.requirement("R350")
def test_what_nobody_receives_for_a_minute_is_not_kept_in_memory(driver: Driver) -> None:
    driver.create()
    driver.create("other")
    driver.send(*[BODY] * 100)
    send(driver, "other", *[BODY] * 100)
    take(driver, "other", 1)
    driver.advance(ready_set.IDLE_MS - 1_000)
    driver.run()
    assert held_bytes(driver) > 190 * 1_000
    take(driver, "other", 1, ask_id=2)

    driver.advance(2_000)
    driver.run()

    assert 90 * 1_000 < held_bytes(driver) < 110 * 1_700
    driver.advance(ready_set.IDLE_MS)
    driver.run()
    assert held_bytes(driver) == 0
    assert len(take(driver, "orders", 200)) == 100


@pytest.mark.requirement("R350")
def test_what_nobody_received_goes_before_what_somebody_did(
    driver: Driver, set_budget: Callable[[int], None]
) -> None:
    set_budget(200_000)
    for name in ("first", "second", "idle"):
        driver.create(name)
    state = driver.partition.state
    windows = {queue.entity.name: queue.ready for queue in state.queues if not queue.is_dead_letter}
    for name in ("first", "second"):
        send(driver, name, *[BODY] * 30)
    take(driver, "second", 1)
    take(driver, "first", 1)
    send(driver, "idle", *[BODY] * 80)
    driver.run()

    # Emptied to three quarters: what nobody received was enough.
    held = {name for name, each in windows.items() if each.memory_bytes()}  # type: ignore[attr-defined]
    assert held == {"first", "second"}
    set_budget(60_000)
    driver.run()
    assert windows["second"].memory_bytes() == 0  # type: ignore[attr-defined]


@pytest.mark.requirement("R350")
def test_what_windows_take_is_measured(runner: Runner) -> None:
    orders = runner.create()
    runner.ask(Append("t", orders, Batch([BODY] * 10)))
    runner.ask(Counts("t"))

    assert 10_000 < runner.thread.figures.window_bytes < 20_000


@pytest.mark.requirement("R350")
def test_what_is_larger_than_the_budget_is_received(
    driver: Driver, set_budget: Callable[[int], None]
) -> None:
    set_budget(2_000)
    driver.create()
    driver.create("full")
    send(driver, "full", BODY)
    driver.send(*[b"y" * 5_000] * 3)

    assert len(take(driver, "orders", 2)) == 2
    assert len(take(driver, "orders", 2)) == 1
    assert take(driver, "full", 1)


@pytest.mark.requirement("R350")
@pytest.mark.parametrize("seed", range(20))
def test_each_message_comes_once_and_in_order_however_often_windows_are_emptied(
    driver: Driver, set_budget: Callable[[int], None], seed: int
) -> None:
    set_budget(4_000)
    names, chance = ["a", "b", "c"], random.Random(seed)
    for name in names:
        driver.create(name, max_delivery_count=1_000)
    sent: dict[str, list[bytes]] = {name: [] for name in names}
    locked: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in names}
    done: dict[str, list[bytes]] = {name: [] for name in names}
    highest = dict.fromkeys(names, -1)

    for turn in range(300):
        name = chance.choice(names)
        match chance.randrange(5):
            case 0 | 1:
                fresh = [b"%d" % (len(sent[name]) + i) for i in range(chance.randrange(1, 6))]
                sent[name] += fresh
                send(driver, name, *fresh)
            case 2:
                found = take(driver, name, chance.randrange(1, 6), ask_id=turn + 10)
                held = {payload for payload, _ in locked[name]}
                for payload, _ in found:
                    assert payload not in held
                    assert payload not in done[name]
                    # Nothing is passed over: what is new comes in order.
                    if int(payload) > highest[name]:
                        assert int(payload) == highest[name] + 1
                        highest[name] = int(payload)
                locked[name] += found
            case 3 if locked[name]:
                payload, token = locked[name].pop(chance.randrange(len(locked[name])))
                driver.run(Settle("s", 1, Disposition.COMPLETE, token))
                done[name].append(payload)
            case 4 if locked[name]:
                _, token = locked[name].pop(chance.randrange(len(locked[name])))
                driver.run(Settle("s", 1, Disposition.ABANDON, token))
        held_bytes(driver)

    for name in names:
        for payload, token in locked[name]:
            driver.run(Settle("s", 1, Disposition.COMPLETE, token))
            done[name].append(payload)
        while found := take(driver, name, 50, ask_id=10_000):
            driver.run(Settle("s", 1, Disposition.COMPLETE, b"".join(each for _, each in found)))
            done[name] += [payload for payload, _ in found]
        assert sorted(done[name], key=int) == sent[name]
