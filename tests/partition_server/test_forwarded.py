"""Messages that another partition forwards are stored once, however often their frames come."""

from collections.abc import Sequence
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Failed, ForwardedTaken
from bendybus.partition_server.state.batch import Batch, Carried
from bendybus.partition_server.state.commands import TakeForwarded
from bendybus.partition_server.store.records import Changes, ForwardSource
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import bodies, held

SOURCE = ForwardSource("uid-source", SubQueue.MAIN, 3, b"incarnation")


def frame(
    driver: Driver,
    counters: Sequence[int],
    sequence: int = 1,
    *,
    boot: int = 1,
    source: ForwardSource = SOURCE,
    sizes: Sequence[int] = (),
    **options: Any,
) -> Any:
    """Hand over a frame; a message's body begins with its number at the source."""
    lengths = sizes or [1] * len(counters)
    payloads = [(b"%d" % c).ljust(n) for n, c in zip(lengths, counters, strict=True)]
    carried = [Carried(None, None, None, None, 77, 0, 1)] * len(counters)
    batch = Batch(payloads, carried=carried)
    command = TakeForwarded("t", driver.ref(), source, boot, sequence, counters, batch, **options)
    [value] = driver.run(command)
    return value


def known(driver: Driver, *counters: int) -> set[int]:
    return driver.store.forwards.known(SOURCE.name(), counters)


@pytest.mark.requirement("R211")
def test_a_frame_that_comes_again_stores_only_what_is_not_stored(queue: Driver) -> None:
    assert frame(queue, [3, 5, 6]) == ForwardedTaken(3, {})

    assert frame(queue, [3, 5], 2) == ForwardedTaken(2, {})
    assert frame(queue, [5, 6, 9], 1, boot=2) == ForwardedTaken(3, {})

    assert bodies(queue, "orders") == [b"3", b"5", b"6", b"9"]
    assert [(row.enqueued_sequence_number, row.hops) for row in held(queue, "orders")] == [
        (77, 1)
    ] * 4


@pytest.mark.requirement("R211")
def test_a_frame_that_comes_late_is_refused_whole(queue: Driver) -> None:
    frame(queue, [1], 2, boot=5)

    for boot, sequence in ((5, 2), (5, 1), (4, 9)):
        refused = frame(queue, [2], sequence, boot=boot)
        assert isinstance(refused, Failed)
        assert isinstance(refused.error, errors.InvalidOperation)
        assert "stale frame" in refused.error.message

    assert bodies(queue, "orders") == [b"1"]
    assert frame(queue, [2], 3, boot=5).done == 1


@pytest.mark.requirement("R212")
def test_what_the_source_has_deleted_is_forgotten(queue: Driver) -> None:
    frame(queue, [1, 2, 3, 4])
    frame(queue, [5], 2, settled=[2, 4])
    assert known(queue, 1, 2, 3, 4, 5) == {1, 3, 5}

    frame(queue, [9], 3, settled_below=4)

    assert known(queue, *range(10)) == {5, 9}


@pytest.mark.requirement("R212")
def test_sources_are_told_apart_and_forgotten_with_their_entity(queue: Driver) -> None:
    queue.create("source")
    frame(queue, [1])
    assert frame(queue, [1], source=SOURCE._replace(partition=2)).done == 1

    commit(queue, EntityAction.DELETE, "source")

    assert known(queue, 1) == set()
    assert queue.store.forwards.last(SOURCE.name()) == (0, 0)
    assert bodies(queue, "orders") == [b"1", b"1"]


@pytest.mark.requirement("R212")
def test_what_is_known_of_a_file_before_it_was_restored_is_forgotten(queue: Driver) -> None:
    frame(queue, [1, 2], 7, boot=9)
    others = [SOURCE._replace(partition=2), SOURCE._replace(sub_queue=SubQueue.DEAD_LETTER)]
    for other in others:
        frame(queue, [1], source=other)

    restored = SOURCE._replace(incarnation=b"another")
    assert frame(queue, [1], source=restored).done == 1

    forwards = queue.store.forwards
    assert forwards.last(SOURCE.name()) == (0, 0)
    assert known(queue, 1, 2) == set()
    assert forwards.known(restored.name(), [1]) == {1}
    assert [forwards.last(other.name()) for other in others] == [(1, 1), (1, 1)]


@pytest.mark.requirement("R216")
def test_the_partition_of_a_message_is_kept_until_the_message_or_its_queue_is_gone(
    queue: Driver,
) -> None:
    queue.send(b"a", b"b", groups=(1, 1))
    ids = [row.id for row in held(queue, "orders")]
    forwards = queue.store.forwards

    queue.store.commit(Changes(forward_choices={ids[0]: 3, ids[1]: 2}))
    queue.store.commit(Changes(forward_choices={ids[0]: 4}))
    assert forwards.choices() == {ids[0]: 4, ids[1]: 2}
    queue.store.commit(Changes(forward_choices={ids[0]: None}))
    assert forwards.choices() == {ids[1]: 2}

    commit(queue, EntityAction.DELETE, "orders")
    queue.sweep()
    assert forwards.choices() == {}


@pytest.mark.requirement("R211")
def test_nothing_overtakes_what_there_is_no_room_for(queue: Driver) -> None:
    state = queue.partition.state.queues.main_of(queue.ref().uid).state
    state.size_bytes += 1_024 * limits.MB - 2_000

    taken = frame(queue, [1, 2, 3], sizes=[1, 5_000, 1])
    assert (taken.done, list(taken.failures)) == (1, [1])
    assert isinstance(taken.failures[1], errors.QuotaExceeded)
    assert known(queue, 1, 2, 3) == {1}

    taken = frame(queue, [2, 3], 2, sizes=[5_000, 1], overtake=True)
    assert (taken.done, list(taken.failures)) == (2, [0])
    assert known(queue, 1, 2, 3) == {1, 3}
    assert bodies(queue, "orders") == [b"1", b"3"]


@pytest.mark.requirement("R211")
def test_positions_are_those_of_the_frame_also_where_some_are_known(driver: Driver) -> None:
    driver.create(requires_session=True)
    command = TakeForwarded(
        "t",
        driver.ref(),
        SOURCE,
        1,
        1,
        [1, 2, 3],
        Batch(
            [b"a", b"b", b"c"],
            session_ids=["s", "", "s"],
            session_present=[True, False, True],
        ),
    )
    [taken] = driver.run(command)

    assert (taken.done, list(taken.failures)) == (3, [1])
    assert driver.store.forwards.known(SOURCE.name(), [1, 2, 3]) == {1, 3}


@pytest.mark.requirement("R211")
def test_a_frame_after_its_deadline_and_a_bad_one_store_nothing(queue: Driver) -> None:
    for options, error in (
        ({"deadline_mono_ms": queue.mono_ms - 1}, errors.ServiceTimeout),
        ({"source": SOURCE._replace(uid="x" * 5_000)}, errors.InvalidArgument),
        ({"source": SOURCE._replace(partition=16)}, errors.InvalidArgument),
        ({"source": SOURCE._replace(incarnation=b"x" * 65)}, errors.InvalidArgument),
    ):
        refused = frame(queue, [1], **options)
        assert isinstance(refused.error, error), options
    refused = frame(queue, [1, 1])
    assert isinstance(refused.error, errors.InvalidArgument)
    assert bodies(queue, "orders") == []
    assert queue.store.forwards.last(SOURCE.name()) == (0, 0)
