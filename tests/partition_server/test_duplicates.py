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
