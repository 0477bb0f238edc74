"""Sending, inside one partition."""

from typing import Any

import pytest

from bendybus.domain import errors, limits, sequence_number
from bendybus.domain.entity_settings import EntityStatus, QueueDescription
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from tests import sequence_numbers
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint


@pytest.mark.requirement("R17")
def test_numbers_carry_the_partition_and_rise_without_gaps(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(3)))
    driver.put(QueueDescription())

    first = driver.send(b"a", b"b")
    second = driver.send(b"c")

    assert list(first.numbers) == [sequence_numbers.of(3, 1), sequence_numbers.of(3, 2)]
    assert list(second.numbers) == [sequence_numbers.of(3, 3)]


def test_a_drained_queue_never_gives_a_number_twice(queue: Driver) -> None:
    queue.send(b"a")
    queue.receive(delete=True)

    queue.restart()

    assert [sequence_number.counter_of(n) for n in queue.send(b"b").numbers] == [2]


def test_the_enqueued_time_never_runs_backwards(queue: Driver) -> None:
    queue.send(b"a")
    queue.wall_ms -= 30_000
    queue.restart()
    queue.send(b"b")

    first, second = queue.peek()

    assert second.enqueued_ms == first.enqueued_ms


def test_a_group_is_stored_whole_or_not_at_all(queue: Driver) -> None:
    too_long = "k" * (limits.KEY_CHARS_MAX + 1)

    outcome = queue.send(b"a", b"b", b"c", groups=(1, 2), partition_keys=["k", "k", too_long])

    assert [bool(number) for number in outcome.numbers] == [True, False, False]
    [(group, error)] = outcome.failures
    assert group == 1
    assert isinstance(error, errors.InvalidArgument)
    assert error.field == "PartitionKey"
    assert queue.counts().active == 1


@pytest.mark.requirement("R40")
def test_a_message_of_a_partitioned_premium_namespace_is_at_most_one_megabyte(
    queue: Driver,
) -> None:
    queue.send(b"x" * limits.MB)

    with pytest.raises(errors.MessageSizeExceeded, match="1048576"):
        queue.send(b"x" * (limits.MB + 1))

    assert queue.counts().active == 1


@pytest.mark.requirement("R40")
def test_a_batch_of_a_partitioned_premium_namespace_is_at_most_one_megabyte(
    queue: Driver,
) -> None:
    half = b"x" * (limits.MB // 2)
    queue.send(half, half)

    with pytest.raises(errors.MessageSizeExceeded, match="batch"):
        queue.send(half, half, b"x")


@pytest.mark.requirement("R40")
def test_a_larger_limit_of_the_queue_does_not_lift_that_of_a_partitioned_namespace(
    driver: Driver,
) -> None:
    # Versions before 0.7 took it.
    driver.put(QueueDescription(enable_partitioning=True, max_message_size_in_kilobytes=2_048))

    with pytest.raises(errors.MessageSizeExceeded):
        driver.send(b"x" * (limits.MB + 1))


def test_standard_messages_are_at_most_256_kilobytes(make_store: MakeStore) -> None:
    driver = Driver(make_store(fingerprint(tier=limits.Tier.STANDARD)))
    driver.create(enable_partitioning=True)

    driver.send(b"x" * 256 * limits.KB)

    with pytest.raises(errors.MessageSizeExceeded):
        driver.send(b"x" * (256 * limits.KB + 1))


def test_independent_sends_share_a_frame_beyond_the_size_of_a_batch(queue: Driver) -> None:
    half = b"x" * (limits.MB // 2)

    outcome = queue.send(half, half, half, groups=(1, 1, 1))

    assert not outcome.failures


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED])
def test_a_queue_that_is_disabled_for_sends_takes_none(
    driver: Driver, status: EntityStatus
) -> None:
    driver.create(status=status)

    with pytest.raises(errors.EntityDisabled, match=status.value):
        driver.send(b"a")


def test_a_full_queue_says_so_and_stores_nothing(driver: Driver) -> None:
    driver.put(QueueDescription(max_size_in_megabytes=1))
    big = b"x" * 600_000
    driver.send(big)

    with pytest.raises(errors.QuotaExceeded, match="1 MB"):
        driver.send(big)

    assert driver.counts().active == 1


def test_dead_letters_count_to_the_quota(driver: Driver) -> None:
    from bendybus.domain.disposition import Disposition

    driver.put(QueueDescription(max_size_in_megabytes=1))
    driver.send(b"x" * 600_000)
    [(_, token)] = driver.receive()
    driver.settle(Disposition.DEAD_LETTER, token)

    with pytest.raises(errors.QuotaExceeded):
        driver.send(b"x" * 600_000)


def test_a_frame_past_its_deadline_is_refused_before_it_is_stored(queue: Driver) -> None:
    with pytest.raises(errors.ServiceTimeout, match="nothing of it is stored"):
        queue.send(b"a", deadline_mono_ms=queue.mono_ms - 1)

    assert queue.counts().active == 0


def test_a_frame_for_another_generation_is_refused(queue: Driver) -> None:
    ref = queue.ref()._replace(generation=7)

    [answer] = queue.run(Append("t", ref, Batch([b"a"])))

    assert isinstance(answer, Failed)
    assert isinstance(answer.error, errors.GenerationMismatch)


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"message_ids": ["only one"]}, "message_ids"),
        ({"time_to_live_ms": [-1, 0]}, "TimeToLive"),
        ({"scheduled_ms": [0, -5]}, "ScheduledEnqueueTime"),
    ],
)
def test_a_malformed_frame_names_the_field(
    queue: Driver, columns: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        queue.send(b"a", b"b", **columns)

    assert caught.value.field == field
    assert queue.counts().active == 0


def test_group_sizes_must_add_up(queue: Driver) -> None:
    with pytest.raises(errors.InvalidArgument, match="group_sizes"):
        queue.send(b"a", b"b", groups=(1, 2))


def test_nobody_sends_to_a_dead_letter_sub_queue(queue: Driver) -> None:
    [answer] = queue.run(Append("t", queue.ref(dead_letter=True), Batch([b"a"])))

    assert isinstance(answer.error, errors.InvalidOperation)


def test_a_failed_commit_leaves_everything_as_it_was(queue: Driver) -> None:
    queue.send(b"a")
    now, before = queue.now, queue.counts()

    stage = queue.partition.decide([Append("t", queue.ref(), Batch([b"b"]))], now)
    [(_, answer)] = queue.partition.abandon(stage, errors.PartitionUnavailable("disk"), now)

    assert isinstance(answer, Failed)
    assert queue.counts() == before
    assert [row.payload for row, _ in queue.receive(5)] == [b"a"]
    assert [sequence_number.counter_of(n) for n in queue.send(b"c").numbers] == [2]
