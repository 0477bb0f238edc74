"""Which partition gets which part of a frame."""

import pytest

from bendybus.domain import errors, partitioning
from bendybus.frontend.core import routing
from bendybus.frontend.core.routing import Keys
from tests.frontend.entities import queue


def route(
    entity: object, keys: Keys, sizes: tuple[int, ...] = (), **options: object
) -> routing.Routed:
    """Route with lane 1."""
    return routing.route(entity, keys, sizes, lane=1, split=bool(options.get("split")))  # type: ignore[arg-type]


@pytest.mark.requirement("R01")
@pytest.mark.requirement("R10")
def test_a_plain_queue_gets_everything_in_its_home() -> None:
    keys = Keys(2, partition_keys=["a", "b"])

    [part] = route(queue(partitions=1, home=3), keys).parts

    assert (part.pinned, part.count) == (3, 2)


@pytest.mark.requirement("R18")
@pytest.mark.requirement("R29")
def test_a_small_frame_without_keys_goes_whole_to_any_partition() -> None:
    [part] = route(queue(), Keys(3), (1, 2)).parts

    assert (part.pinned, part.lane, part.count) == (None, 1, 3)


@pytest.mark.requirement("R10")
@pytest.mark.requirement("R20")
@pytest.mark.requirement("R23")
def test_units_with_the_same_partition_key_go_together() -> None:
    keys = Keys(4, partition_keys=["a", "b", "a", ""])

    routed = route(queue(partitions=16), keys, (1, 1, 1, 1))

    where = {unit.start: part.pinned for part in routed.parts for unit in part.units}
    assert where[0] == where[2] == partitioning.partition_of("a", 16)
    assert where[1] == partitioning.partition_of("b", 16)
    assert where[3] is None


@pytest.mark.requirement("R22")
def test_a_session_id_is_the_key() -> None:
    [part] = route(queue(partitions=16), Keys(1, session_ids=["s"])).parts

    assert part.pinned == partitioning.partition_of("s", 16)


@pytest.mark.requirement("R24")
def test_a_session_id_and_another_partition_key_are_refused() -> None:
    routed = route(queue(), Keys(1, partition_keys=["x"], session_ids=["s"]))

    [(_, error)] = routed.refused
    assert isinstance(error, errors.InvalidOperation)
    assert not routed.parts


@pytest.mark.requirement("R24")
def test_a_session_id_and_the_same_partition_key_are_fine() -> None:
    assert not route(queue(), Keys(1, partition_keys=["s"], session_ids=["s"])).refused


def test_an_empty_session_id_is_a_key_and_an_empty_partition_key_is_none() -> None:
    with_session = Keys(1, session_ids=[""], session_present=[True])
    without = Keys(1, partition_keys=[""])

    assert route(queue(), with_session).parts[0].pinned == partitioning.partition_of("", 4)
    assert route(queue(), without).parts[0].pinned is None


@pytest.mark.requirement("R25")
@pytest.mark.requirement("R27")
def test_the_message_id_is_the_key_where_duplicates_are_detected() -> None:
    entity = queue(partitions=16, requires_duplicate_detection=True)

    [part] = route(entity, Keys(1, message_ids=["m"])).parts

    assert part.pinned == partitioning.partition_of("m", 16)


@pytest.mark.requirement("R25")
def test_a_partition_key_comes_before_the_message_id() -> None:
    entity = queue(partitions=16, requires_duplicate_detection=True)

    [part] = route(entity, Keys(1, message_ids=["m"], partition_keys=["k"])).parts

    assert part.pinned == partitioning.partition_of("k", 16)


@pytest.mark.requirement("R28")
def test_the_message_id_is_no_key_otherwise() -> None:
    [part] = route(queue(), Keys(1, message_ids=["m"])).parts

    assert part.pinned is None


def test_a_batch_with_different_keys_is_refused_whole() -> None:
    routed = route(queue(), Keys(3, partition_keys=["a", "b", "c"]), (2, 1))

    [(unit, error)] = routed.refused
    assert (unit.start, unit.end) == (0, 2)
    assert isinstance(error, errors.InvalidOperation)
    assert sum(part.count for part in routed.parts) == 1


def test_a_batch_with_different_keys_may_be_split_if_the_sender_says_so() -> None:
    keys = Keys(3, partition_keys=["a", "b", "a"])

    routed = route(queue(partitions=16), keys, split=True)

    assert not routed.refused
    assert sorted(part.count for part in routed.parts) == [1, 2]


@pytest.mark.requirement("R20")
def test_each_message_of_a_split_batch_goes_to_the_partition_of_its_own_key() -> None:
    texts = ["a", "b", "a", "c"]

    routed = route(queue(partitions=16), Keys(4, partition_keys=texts), split=True)

    where = {unit.start: part.pinned for part in routed.parts for unit in part.units}
    assert where == {i: partitioning.partition_of(text, 16) for i, text in enumerate(texts)}
    assert len(set(where.values())) > 1


@pytest.mark.requirement("R22")
def test_an_empty_session_id_that_is_set_is_a_key_and_one_that_is_not_set_is_none() -> None:
    keys = Keys(2, session_ids=["", ""], session_present=[True, False])

    routed = route(queue(partitions=16), keys, (1, 1))

    where = {unit.start: part.pinned for part in routed.parts for unit in part.units}
    assert where == {0: partitioning.partition_of("", 16), 1: None}


def test_group_sizes_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(errors.InvalidArgument):
        route(queue(), Keys(3, partition_keys=["a", "b", "c"]), (2, 2))


@pytest.mark.requirement("R29")
def test_round_robin_reaches_every_partition_in_turn() -> None:
    entity = queue(partitions=16)

    chosen = [routing.first_choice(entity, b"producer", frame) for frame in range(32)]

    assert sorted(chosen[:16]) == list(range(16))
    assert chosen[16:] == chosen[:16]


def test_a_repeat_tries_the_same_partition_first() -> None:
    entity = queue(partitions=16)

    assert routing.first_choice(entity, b"p", 9) == routing.first_choice(entity, b"p", 9)


@pytest.mark.requirement("R29")
def test_independent_sends_of_one_frame_are_dealt_over_partitions_in_runs() -> None:
    sizes = (1,) * 320

    parts = route(queue(partitions=16), Keys(320), sizes).parts

    assert [part.lane for part in parts] == [1, 2, 3, 4, 5]
    assert [part.count for part in parts] == [routing.RUN] * 5
    assert all(part.pinned is None for part in parts)
    covered = sorted(i for part in parts for start, end in part.spans for i in range(start, end))
    assert covered == list(range(320))


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("run", [1, 2, 20])
def test_a_client_says_how_long_the_runs_are(run: int) -> None:
    parts = routing.route(
        queue(partitions=16), Keys(320), (1,) * 320, lane=3, split=False, run=run
    ).parts

    assert sorted(part.lane for part in parts) == list(range(16))
    assert [part.count for part in parts] == [20] * 16
    where = {unit.start: part.lane for part in parts for unit in part.units}
    assert all(lane == (3 + position // run) % 16 for position, lane in where.items())
    covered = [i for part in parts for start, end in part.spans for i in range(start, end)]
    assert sorted(covered) == list(range(320))


def test_more_runs_than_partitions_go_round() -> None:
    parts = route(queue(partitions=4), Keys(600), (1,) * 600).parts

    assert [part.lane for part in parts] == [1, 2, 3, 0]
    assert parts[0].spans == [(0, 64), (256, 320), (512, 576)]
    assert [(unit.start, unit.end) for unit in parts[0].units[:2]] == [(0, 1), (1, 2)]
    assert sum(part.count for part in parts) == 600


@pytest.mark.requirement("R18")
def test_a_batch_stays_whole_however_large_it_is() -> None:
    [part] = route(queue(partitions=16), Keys(1_000)).parts

    assert part.spans == [(0, 1_000)]


@pytest.mark.requirement("R29")
def test_a_repeat_of_some_units_tries_for_each_the_partition_of_its_first_try() -> None:
    entity = queue(partitions=16)
    first = route(entity, Keys(200), (1,) * 200)
    where = {unit.start: part.lane for part in first.parts for unit in part.units}
    chosen = [3, 70, 130, 199]

    again = routing.route(
        entity,
        Keys(4),
        (1,) * 4,
        lane=1,
        split=False,
        offsets=routing.offsets_of(chosen, 4, (1,) * 4),
    )

    assert {chosen[u.group]: part.lane for part in again.parts for u in part.units} == {
        position: where[position] for position in chosen
    }


def test_a_mixed_frame_deals_what_has_no_key_by_its_place_in_the_frame() -> None:
    keys = Keys(200, partition_keys=["k" if i % 2 else "" for i in range(200)])

    routed = route(queue(partitions=16), keys, (1,) * 200)

    assert [part.lane for part in routed.parts if part.pinned is None] == [1, 2, 3, 4]
    assert sum(part.count for part in routed.parts if part.pinned is None) == 100
