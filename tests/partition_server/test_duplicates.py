"""Duplicate detection, inside one partition."""

from typing import Any

import pytest

from tests.partition_server.driver import Driver


@pytest.fixture
def detecting(driver: Driver) -> Driver:
    """Return a partition with a queue that detects duplicates within a minute."""
    driver.create(
        requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=60_000
    )
    return driver


@pytest.mark.requirement("R27")
def test_a_duplicate_is_answered_with_the_number_of_the_original(detecting: Driver) -> None:
    [original] = detecting.send(b"a", message_ids=["m"]).numbers

    outcome = detecting.send(b"other body", message_ids=["m"])

    assert (list(outcome.numbers), list(outcome.duplicates)) == ([original], [True])
    assert detecting.counts().active == 1


@pytest.mark.requirement("R27")
def test_a_duplicate_within_one_batch_is_found(detecting: Driver) -> None:
    outcome = detecting.send(b"a", b"b", b"c", message_ids=["m", "n", "m"])

    assert list(outcome.duplicates) == [False, False, True]
    assert detecting.counts().active == 2


@pytest.mark.requirement("R27")
def test_a_duplicate_within_one_frame_of_several_sends_is_found(detecting: Driver) -> None:
    ids = ["m", "n", "m", "m"]

    outcome = detecting.send(b"a", b"b", b"c", b"d", groups=(1, 1, 1, 1), message_ids=ids)

    first = outcome.numbers[0]
    assert list(outcome.duplicates) == [False, False, True, True]
    assert list(outcome.numbers[2:]) == [first, first]
    assert detecting.counts().active == 2


def test_history_survives_a_restart_and_the_end_of_the_message(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"])
    detecting.receive(delete=True)
    detecting.restart()

    outcome = detecting.send(b"a", message_ids=["m"])

    assert list(outcome.duplicates) == [True]


def test_the_same_id_with_another_key_is_not_a_duplicate(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"], partition_keys=["x"])

    outcome = detecting.send(b"a", message_ids=["m"], partition_keys=["y"])

    assert not any(outcome.duplicates)


def test_a_scheduled_copy_is_a_duplicate_too(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"], scheduled_ms=[detecting.wall_ms + 5_000])

    outcome = detecting.send(b"a", message_ids=["m"])

    assert list(outcome.duplicates) == [True]


def test_after_the_window_the_id_may_be_used_again(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"])
    used = detecting.counts().size_bytes

    detecting.advance(61_000)

    assert detecting.counts().size_bytes < used
    assert not any(detecting.send(b"a", message_ids=["m"]).duplicates)


def test_history_counts_to_the_size(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m" * 100])
    detecting.receive(delete=True)

    assert detecting.counts().size_bytes > 100


def test_messages_without_an_id_are_never_duplicates(detecting: Driver) -> None:
    outcome = detecting.send(b"a", b"a")

    assert not any(outcome.duplicates)


@pytest.mark.requirement("R28")
def test_without_detection_nothing_is_a_duplicate(queue: Driver) -> None:
    queue.send(b"a", message_ids=["m"])

    assert not any(queue.send(b"a", message_ids=["m"]).duplicates)


def test_history_is_not_purged_while_the_clock_is_in_doubt(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"])

    detecting.advance(3_600_000, wall_only=True)

    assert list(detecting.send(b"a", message_ids=["m"]).duplicates) == [True]


def test_a_repeat_that_lost_its_answer_is_a_repeat_not_a_duplicate(detecting: Driver) -> None:
    producer: dict[str, Any] = {"producer_id": b"p" * 16, "producer_sequence": 1}
    first = detecting.send(b"a", message_ids=["m"], **producer)

    again = detecting.send(b"a", message_ids=["m"], **producer, age_ms=5)

    assert list(again.numbers) == list(first.numbers)
    assert not any(again.duplicates)


def test_an_id_older_than_the_window_is_new_before_it_is_purged(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"])
    used = detecting.counts().size_bytes
    # No sweep: purging may be behind.
    detecting.wall_ms += 60_001

    outcome = detecting.send(b"a", message_ids=["m"])

    assert not any(outcome.duplicates)
    assert detecting.counts().active == 2
    # One entry of the history, not two.
    assert detecting.counts().size_bytes - used < used
    detecting.wall_ms += 1_000
    assert list(detecting.send(b"a", message_ids=["m"]).numbers) == list(outcome.numbers)


def test_an_id_that_came_again_is_remembered_from_then_on(detecting: Driver) -> None:
    detecting.send(b"a", message_ids=["m"])
    detecting.advance(60_000)
    assert list(detecting.send(b"a", message_ids=["m"]).duplicates) == [True]
    detecting.wall_ms += 1
    assert not any(detecting.send(b"b", message_ids=["m"]).duplicates)

    detecting.advance(59_000)

    assert list(detecting.send(b"a", message_ids=["m"]).duplicates) == [True]


def test_the_window_counts_from_the_clock_not_from_the_enqueued_time(detecting: Driver) -> None:
    day_ms = 86_400_000
    detecting.advance(30 * day_ms, wall_only=True)
    detecting.send(b"x", message_ids=["ahead"])
    detecting.advance(-30 * day_ms, wall_only=True)
    detecting.advance(301_000)

    detecting.send(b"a", message_ids=["m"])
    # What was sent under the wrong clock is a duplicate once more, and then for one window.
    assert list(detecting.send(b"x", message_ids=["ahead"]).duplicates) == [True]
    detecting.advance(60_001)

    assert not any(detecting.send(b"a", message_ids=["m"]).duplicates)
    assert not any(detecting.send(b"x", message_ids=["ahead"]).duplicates)


def test_the_purge_keeps_up_with_any_rate(
    detecting: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state import budget

    monkeypatch.setattr(budget, "TURN_ROWS", 50)
    for second in range(90):
        ids = [f"{second}-{n}" for n in range(120)]
        detecting.send(*[b"x"] * 120, message_ids=ids)
        while detecting.receive(500, delete=True):
            pass
        detecting.advance(1_000)

    # A window, and what comes between two looks: never all.
    entries = len(detecting.store.history(0, 1 << 62, 100_000))
    assert 60 * 120 <= entries <= 66 * 120
    assert detecting.counts().size_bytes == sum(
        entry.size() for entry in detecting.store.history(0, 1 << 62, 100_000)
    )


def test_queues_that_detect_duplicates_cost_nothing_while_nobody_sends(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        driver.create(f"q{n}", requires_duplicate_detection=True)
    driver.sweep()
    looks: list[int] = []
    read = driver.store.history

    def counted(slot: int, before_ms: int, limit: int) -> Any:
        looks.append(slot)
        return read(slot, before_ms, limit)

    monkeypatch.setattr(driver.store, "history", counted)

    for _ in range(30):
        driver.advance(1_000)

    assert looks == []
    assert driver.partition.state.wait_ms(driver.now) is None


def test_the_history_is_part_of_the_room_that_a_frame_has(driver: Driver) -> None:
    from bendybus.domain import errors
    from bendybus.domain.entity_settings import QueueDescription

    description = QueueDescription(
        enable_partitioning=True, max_size_in_megabytes=1, requires_duplicate_detection=True
    )
    driver.put(description)
    count = 1_400
    for frame in range(3):
        ids = [f"{frame}-{n}".ljust(60, "x") for n in range(count)]
        try:
            driver.send(*[b""] * count, message_ids=ids, groups=(1,) * count)
        except errors.QuotaExceeded:
            break

    assert driver.counts().size_bytes <= 1 << 20
    with pytest.raises(errors.QuotaExceeded, match="history of duplicate detection"):
        driver.send(b"x" * 200_000, message_ids=["one more"])


def test_a_duplicate_takes_no_room(driver: Driver) -> None:
    from bendybus.domain.entity_settings import QueueDescription

    description = QueueDescription(
        enable_partitioning=True, max_size_in_megabytes=1, requires_duplicate_detection=True
    )
    driver.put(description)
    body = b"x" * 600_000

    driver.send(body, message_ids=["m"])
    outcome = driver.send(b"y" * 300_000, b"z", message_ids=["m", "n"], groups=(1, 1))

    assert list(outcome.duplicates) == [True, False]
    assert not outcome.failures


def test_ids_are_forgotten_in_time_after_a_clock_that_was_ahead_is_set_right(
    detecting: Driver,
) -> None:
    detecting.wall_ms += 30 * 86_400_000
    detecting.advance(0)
    detecting.send(b"a", message_ids=["under a wrong clock"])
    detecting.wall_ms -= 30 * 86_400_000
    detecting.advance(0)
    detecting.advance(301_000)

    for i in range(20):
        detecting.send(b"", message_ids=[f"{i}"])
        detecting.receive(delete=True)
    detecting.advance(120_000)
    detecting.advance(120_000)

    slot = detecting.partition.state.queues.all_of("uid-orders")[0].slot
    left = detecting.store.history(slot, 2**62, 100)
    assert [entry.key.partition("\0")[0] for entry in left] == ["under a wrong clock"]
