"""How often a destination that refuses is tried again."""

import pytest

from bendybus.domain import limits
from bendybus.domain.sub_queue import SubQueue
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.forwarding_driver import bodies, send
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.partition_pair import NAMES, Pair, fill, give_room


def _looks(driver: Driver, seconds: int) -> int:
    """Return how often a partition has something to do meanwhile."""
    looks = 0
    for _ in range(seconds):
        driver.wall_ms += 1_000
        driver.mono_ms += 1_000
        while (stage := driver.partition.sweep(driver.now)) is not None:
            looks += 1
            driver.store.commit(stage.changes)
            driver.partition.apply(stage, driver.now)
    return looks


@pytest.mark.requirement("R271")
def test_a_destination_that_refuses_is_tried_less_often_the_longer_that_lasts(
    driver: Driver,
) -> None:
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    fill(driver, "audit")
    send(driver, "orders", b"one", b"two")

    assert _looks(driver, 6) == 6
    assert 8 <= _looks(driver, 50) <= 15

    # Not later than it is to be set aside, and soon after there is room again.
    give_room(driver, "audit")
    _looks(driver, 5)
    assert bodies(driver, "audit") == [b"one", b"two"]


@pytest.mark.requirement("R271")
def test_many_destinations_that_refuse_share_the_time_of_their_partition() -> None:
    count, driver = 600, Driver(MemoryStore(fingerprint()))
    for n in range(count):
        driver.create(f"to{n}")
        driver.create(f"from{n}", forward_to=f"to{n}")
        fill(driver, f"to{n}")
        send(driver, f"from{n}", b"x")
    driver.sweep()

    looks = _looks(driver, 12)

    # Each about every three seconds, and none is forgotten.
    assert 3 * count <= looks <= 6 * count


@pytest.mark.requirement("R271")
def test_a_partition_that_is_full_is_tried_less_often_the_longer_that_lasts() -> None:
    pair = Pair()
    fill(pair.drivers[1], "target")
    pair.sent(*NAMES)
    frames = 0
    for _ in range(50):
        for frame in pair.frames():
            frames += 1
            pair.answer(frame, pair.deliver(frame))
        pair.source.mono_ms += 1_000

    assert 8 <= frames <= 20
    give_room(pair.drivers[1], "target")
    pair.finish()
    assert sorted(pair.stored()) == sorted(NAMES)


@pytest.mark.requirement("R271")
def test_what_is_refused_is_set_aside_no_later_for_it(driver: Driver) -> None:
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    fill(driver, "audit")
    send(driver, "orders", b"one", b"two")

    # It is first refused at the first of these looks.
    _looks(driver, limits.FORWARD_REFUSED_MS // 1_000)
    assert bodies(driver, "orders") == [b"one", b"two"]
    _looks(driver, 1)

    assert bodies(driver, "orders", SubQueue.TRANSFER_DEAD_LETTER) == [b"one", b"two"]
