"""Sends with a fence: what a producer repeats, after whatever died, is stored once."""

from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, SendFenced
from bendybus.partition_server.state.pipeline_commands import FencedStored, FenceRead
from tests.partition_server import publishing
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.draining import PRODUCER, bodies, fence, send_fenced
from tests.partition_server.driver import Driver
from tests.partition_server.topic_changes import make_news

OTHER = b"query-1, task-01"


@pytest.mark.requirement("R278")
def test_a_repeat_is_not_stored_again(queue: Driver) -> None:
    assert send_fenced(queue, b"a", b"b") == FencedStored(2, 0, 0)

    assert send_fenced(queue, b"a", b"b") == FencedStored(0, 2, 0)

    assert bodies(queue) == [b"a", b"b"]


@pytest.mark.requirement("R278")
def test_a_repeat_that_is_cut_otherwise_stores_what_is_missing(queue: Driver) -> None:
    send_fenced(queue, b"a", b"b")

    assert send_fenced(queue, b"a", b"b", b"c", b"d") == FencedStored(2, 2, 0)
    assert send_fenced(queue, b"d", b"e", first=4) == FencedStored(1, 1, 0)

    assert bodies(queue) == [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.requirement("R278")
def test_ordinals_may_have_gaps_since_messages_are_for_several_partitions(queue: Driver) -> None:
    send_fenced(queue, b"a", b"b", ordinals=[3, 7])

    assert send_fenced(queue, b"b", b"c", ordinals=[7, 11]) == FencedStored(1, 1, 0)
    assert bodies(queue) == [b"a", b"b", b"c"]


@pytest.mark.requirement("R278")
def test_the_next_epoch_begins_with_the_first_ordinal_again(queue: Driver) -> None:
    send_fenced(queue, b"a", b"b")

    assert send_fenced(queue, b"c", epoch=2) == FencedStored(1, 0, 0)
    assert fence(queue) == FenceRead(2, 1)


@pytest.mark.requirement("R278")
def test_an_earlier_epoch_is_fenced(queue: Driver) -> None:
    send_fenced(queue, b"a", epoch=2)

    with pytest.raises(errors.ProducerFenced, match="is at epoch 2"):
        send_fenced(queue, b"late", first=9, epoch=1)

    assert bodies(queue) == [b"a"]


@pytest.mark.requirement("R278")
def test_producers_and_queues_have_fences_of_their_own(queue: Driver) -> None:
    queue.create("other")
    send_fenced(queue, b"a")

    assert send_fenced(queue, b"b", producer_id=OTHER) == FencedStored(1, 0, 0)
    assert send_fenced(queue, b"c", name="other") == FencedStored(1, 0, 0)


@pytest.mark.requirement("R278")
def test_the_fence_outlives_a_restart_with_its_mark(queue: Driver) -> None:
    send_fenced(queue, b"a", b"b", mark=b"digest")
    queue.restart()

    assert fence(queue) == FenceRead(1, 2, b"digest")
    assert send_fenced(queue, b"a", b"b") == FencedStored(0, 2, 0)
    assert fence(queue, OTHER) == FenceRead()


@pytest.mark.requirement("R278")
def test_what_could_not_be_committed_may_be_sent_again(queue: Driver) -> None:
    queue.send(b"before")
    command = SendFenced("t", queue.ref(), PRODUCER, 1, [1], Batch([b"a"]))
    stage = queue.partition.decide([command], queue.now)
    queue.partition.abandon(stage, errors.PartitionUnavailable("full"), queue.now)

    assert fence(queue) == FenceRead()
    assert send_fenced(queue, b"a") == FencedStored(1, 0, 0)
    assert bodies(queue) == [b"before", b"a"]


@pytest.mark.requirement("R278")
def test_one_message_that_is_refused_refuses_the_frame_and_leaves_the_fence(queue: Driver) -> None:
    send_fenced(queue, b"a")

    with pytest.raises(errors.InvalidArgument, match="MessageId"):
        send_fenced(queue, b"b", b"c", first=2, message_ids=["fine", "x" * 129])

    assert bodies(queue) == [b"a"]
    assert fence(queue) == FenceRead(1, 1)
    assert send_fenced(queue, b"b", b"c", first=2) == FencedStored(2, 0, 0)


@pytest.mark.requirement("R278")
def test_duplicate_detection_finds_what_the_fence_does_not_know(driver: Driver) -> None:
    driver.create(requires_duplicate_detection=True)
    send_fenced(driver, b"a", message_ids=["1"])

    stored = send_fenced(driver, b"a", b"b", message_ids=["1", "2"], producer_id=OTHER)

    assert stored == FencedStored(1, 0, 1)
    assert bodies(driver) == [b"a", b"b"]


@pytest.mark.requirement("R278")
def test_a_fenced_send_to_a_topic_is_published_once(driver: Driver) -> None:
    make_news(driver)
    columns: dict[str, Any] = {"heads": [publishing.head(n=1)], "formats": [1]}

    send_fenced(driver, b"a", name="news", **columns)
    assert send_fenced(driver, b"a", name="news", **columns) == FencedStored(0, 1, 0)

    assert [row.payload for row in publishing.rows(driver, "a")] == [b"a"]
    assert [row.payload for row in publishing.rows(driver, "b")] == [b"a"]


@pytest.mark.requirement("R278")
def test_old_producers_are_forgotten_after_their_time_and_not_before(queue: Driver) -> None:
    send_fenced(queue, b"a")
    queue.advance(limits.FENCE_MS)
    send_fenced(queue, b"b", producer_id=OTHER)
    assert fence(queue) == FenceRead(1, 1)
    queue.advance(1)

    send_fenced(queue, b"c", producer_id=b"query-1, task-02")

    assert fence(queue) == FenceRead()
    assert fence(queue, OTHER) == FenceRead(1, 1)


@pytest.mark.requirement("R278")
def test_too_many_producers_are_refused_and_those_that_are_known_go_on(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 1)
    send_fenced(queue, b"a")

    with pytest.raises(errors.QuotaExceeded, match="one idempotency key a pipeline"):
        send_fenced(queue, b"b", producer_id=OTHER)

    assert send_fenced(queue, b"b", first=2) == FencedStored(1, 0, 0)


@pytest.mark.requirement("R278")
def test_producers_whose_time_is_over_take_no_room(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.create()
    monkeypatch.setattr(limits, "FENCES_MAX", 2)
    for each in (PRODUCER, OTHER):
        send_fenced(driver, b"a", producer_id=each)
    driver.advance(limits.FENCE_MS + 1)

    assert send_fenced(driver, b"b", producer_id=b"a new pipeline..") == FencedStored(1, 0, 0)

    assert sum(driver.store.pipelines.fence_counts().values()) == 1


def test_the_fences_of_a_deleted_queue_are_gone(queue: Driver) -> None:
    send_fenced(queue, b"a")
    commit(queue, EntityAction.DELETE, "orders")
    queue.sweep()

    assert queue.store.pipelines.fence_counts() == {}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"producer_id": b"short"}, "producer_id"),
        ({"epoch": 0}, "epoch"),
        ({"ordinals": [0, 1]}, "ordinals"),
        ({"ordinals": [2, 2]}, "ordinals"),
        ({"ordinals": [1]}, "ordinals"),
        ({"mark": b"x" * 65}, "mark"),
        ({"message_ids": ["1"]}, "message_ids"),
    ],
)
def test_what_cannot_be_a_fenced_send_is_refused(
    queue: Driver, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        send_fenced(queue, b"a", b"b", **options)

    assert caught.value.field == field
    assert bodies(queue) == []


def test_a_fenced_send_is_bounded_in_bytes(queue: Driver) -> None:
    half = b"x" * (limits.FENCED_BYTES_MAX // 2 + 1)

    with pytest.raises(errors.InvalidArgument, match="a call takes at most"):
        send_fenced(queue, half, half)


def test_a_disabled_queue_takes_no_fenced_send(driver: Driver) -> None:
    driver.create(status=EntityStatus.SEND_DISABLED)

    with pytest.raises(errors.EntityDisabled):
        send_fenced(driver, b"a")


@pytest.mark.requirement("R362")
def test_without_messages_the_first_of_an_epoch_moves_the_fence(queue: Driver) -> None:
    assert send_fenced(queue, ordinals=[1], mark=b"2") == FencedStored(0, 0, 0)
    assert send_fenced(queue, ordinals=[1], mark=b"3") == FencedStored(0, 1, 0)

    assert fence(queue) == FenceRead(1, 1, b"2")
    assert bodies(queue) == []


@pytest.mark.requirement("R362")
def test_a_fence_without_messages_is_that_of_its_queue_after_a_restart(queue: Driver) -> None:
    queue.create("other")
    send_fenced(queue, epoch=2, ordinals=[5])
    queue.run(Append("t", queue.ref("other"), Batch([b"a"])))

    queue.restart()

    assert fence(queue) == FenceRead(2, 5)
    assert fence(queue, name="other") == FenceRead()


@pytest.mark.requirement("R402")
def test_without_messages_a_fence_moves_forward_within_its_epoch(queue: Driver) -> None:
    for ordinal in (3, 1, 7, 5):
        send_fenced(queue, ordinals=[ordinal])

    assert fence(queue) == FenceRead(1, 7, b"")


@pytest.mark.requirement("R362")
def test_a_fence_is_replaced_within_its_epoch_when_that_is_said(queue: Driver) -> None:
    send_fenced(queue, b"a", b"b", mark=b"m", epoch=2)

    send_fenced(queue, ordinals=[1], epoch=2, replace=True)

    assert fence(queue) == FenceRead(2, 1, b"")
    assert send_fenced(queue, b"a", b"b", epoch=2) == FencedStored(1, 1, 0)
    with pytest.raises(errors.ProducerFenced):
        send_fenced(queue, ordinals=[9], epoch=1, replace=True)


@pytest.mark.requirement("R362")
@pytest.mark.parametrize(
    ("payloads", "ordinals", "replace"),
    [((), [], False), ((), [1, 2], False), ((b"a",), [1], True), ((), [0], False)],
)
def test_a_wrong_move_of_a_fence_is_refused(
    queue: Driver, payloads: tuple[bytes, ...], ordinals: list[int], replace: bool
) -> None:
    with pytest.raises(errors.InvalidArgument):
        send_fenced(queue, *payloads, ordinals=ordinals, replace=replace)

    assert fence(queue) == FenceRead()
