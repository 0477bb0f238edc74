"""Forwarding to another partition: what goes where, what waits, and for how long."""

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state import lanes
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import ApplyEntity, Ask
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.forwarding_driver import bodies, held, send
from tests.partition_server.partition_pair import NAMES, Pair, fill, give_room


@pytest.mark.requirement("R213")
def test_a_message_goes_to_the_partition_of_its_key() -> None:
    pair = Pair()
    pair.sent(*NAMES)

    [frame] = pair.frames()
    pair.answer(frame, pair.deliver(frame))

    target = pair.source.partition.state.catalogue.by_uid("t")
    assert target is not None
    for index, driver in enumerate(pair.drivers):
        wanted = [name for name in NAMES if target.partition_of(name) == index]
        assert [body.decode() for body in bodies(driver, "target")] == wanted
    assert bodies(pair.source, "source") == []


@pytest.mark.requirement("R213")
def test_a_partition_that_does_not_answer_delays_only_what_is_for_it() -> None:
    pair = Pair()
    pair.sent(*NAMES)
    [frame] = pair.frames()

    assert pair.frames() == []
    assert len(bodies(pair.source, "target")) + len(frame.counters) == len(NAMES)
    pair.answer(frame, Failed(errors.PartitionUnavailable("down")))
    assert pair.frames() == []
    pair.source.mono_ms += limits.FORWARD_REFUSED_MS * 2
    [again] = pair.frames()
    assert (again.counters, again.sequence) == (frame.counters[:1], frame.sequence + 1)
    pair.answer(again, pair.deliver(again))
    [rest] = pair.frames()
    assert (rest.counters, rest.sequence) == (frame.counters[1:], frame.sequence + 2)
    assert bodies(pair.source, "source", SubQueue.TRANSFER_DEAD_LETTER) == []


@pytest.mark.requirement("R213")
def test_what_is_on_its_way_neither_expires_nor_is_forwarded_twice() -> None:
    pair = Pair()
    name = next(n for n in NAMES if _target(pair).partition_of(n) == 1)
    send(pair.source, "source", b"x", partition_keys=[name], time_to_live_ms=[5_000])
    [frame] = pair.frames()
    value = pair.deliver(frame)

    pair.source.advance(10_000)
    assert bodies(pair.source, "source") == [b"x"]
    pair.answer(frame, value)
    pair.source.sweep()

    assert bodies(pair.source, "source") == []
    assert pair.source.counts_of("source").size_bytes == 0


@pytest.mark.requirement("R213")
def test_more_that_expires_than_a_turn_ends_is_not_forwarded() -> None:
    pair = Pair()
    name = next(n for n in NAMES if _target(pair).partition_of(n) == 1)
    pair.sent(name)
    [frame] = pair.frames()
    for _ in range(60):
        body = b"x" * 900_000
        send(pair.source, "source", body, partition_keys=[name], time_to_live_ms=[5_000])
    assert pair.frames() == []

    pair.source.wall_ms += 10_000
    pair.answer(frame, pair.deliver(frame))

    assert pair.frames() == []
    assert bodies(pair.source, "source") == []
    assert pair.stored() == [name]


def _target(pair: Pair) -> Entity:
    found = pair.source.partition.state.catalogue.by_uid("t")
    assert found is not None
    return found


@pytest.mark.requirement("R213")
def test_what_is_parked_can_be_received_when_forwarding_ends() -> None:
    pair = Pair()
    pair.sent(*NAMES)
    [frame] = pair.frames()
    pair.sent(*NAMES)
    pair.frames()

    pair.describe("", generation=6)
    pair.answer(frame, None)
    left = len(bodies(pair.source, "target"))

    [reserved] = pair.source.run(Ask("s", 1, pair.source.ref("source"), False, 100, 1 << 20))
    assert len(reserved.delivery.rows) == 2 * len(NAMES) - left


@pytest.mark.requirement("R211", "R212")
def test_a_frame_that_comes_after_its_messages_are_forgotten_stores_nothing() -> None:
    pair = Pair()
    pair.sent(*NAMES)
    [first] = pair.frames()
    pair.answer(first, pair.deliver(first))
    pair.sent("k0", "k1", "k2", "k3")
    [second] = pair.frames()
    assert second.settled == first.counters
    pair.answer(second, pair.deliver(second))

    assert isinstance(pair.deliver(first), Failed)

    assert sorted(pair.stored()) == sorted([*NAMES, "k0", "k1", "k2", "k3"])


@pytest.mark.requirement("R213")
def test_what_is_for_other_partitions_leaves_one_whose_disk_is_full() -> None:
    pair = Pair()
    pair.sent(*NAMES)
    pair.source.partition.state.sends_refused = "the disk is full"
    here = [name for name in NAMES if _target(pair).partition_of(name) == 0]

    [frame] = pair.frames()
    pair.answer(frame, pair.deliver(frame))
    assert pair.frames() == []
    assert [body.decode() for body in bodies(pair.source, "source")] == here

    pair.source.partition.state.sends_refused = ""
    pair.finish()
    assert sorted(pair.stored()) == sorted(NAMES)


@pytest.mark.requirement("R147", "R213")
def test_a_full_partition_is_tried_until_that_has_lasted_then_messages_are_set_aside() -> None:
    pair = Pair()
    fill(pair.drivers[1], "target")
    keys = [name for name in NAMES if _target(pair).partition_of(name) == 1][:3]
    pair.sent(*keys)

    tried = []
    began = pair.source.mono_ms
    while bodies(pair.source, "source") and pair.source.mono_ms - began < 90_000:
        for frame in pair.frames():
            tried.append(len(frame.counters))
            pair.answer(frame, pair.deliver(frame))
        if pair.source.mono_ms - began < limits.FORWARD_REFUSED_MS:
            assert len(bodies(pair.source, "source")) == 3
        pair.source.mono_ms += 1_000

    assert tried[:3] == [3, 1, 1]
    set_aside = held(pair.source, "source", SubQueue.TRANSFER_DEAD_LETTER)
    assert [row.payload.decode() for row in set_aside] == keys
    assert {row.dead_letter_reason for row in set_aside} == {"QuotaExceeded"}
    give_room(pair.drivers[1], "target")
    pair.sent(*keys)
    pair.finish()
    assert sorted(pair.stored()) == sorted(keys)


@pytest.mark.requirement("R216")
def test_without_a_key_a_message_leaves_a_full_partition_for_another_one() -> None:
    pair = Pair()
    fill(pair.source, "target")
    pair.sent("k0", "k1", "k2", keyed=False)

    [frame] = pair.frames()
    assert pair.source.store.forwards.choices().keys() == held_ids(pair)
    # Its answer is lost, and the source, too: it goes where it may be stored already.
    pair.deliver(frame)
    pair.restart(0)
    give_room(pair.source, "target")
    [again] = pair.frames()
    assert (again.partition, again.counters) == (1, frame.counters)
    pair.answer(again, pair.deliver(again))
    pair.finish()

    assert pair.stored() == ["k0", "k1", "k2"]
    assert pair.source.store.forwards.choices() == pair.source.partition.state.lanes.choices == {}


def held_ids(pair: Pair) -> set[int]:
    return {row.id for row in held(pair.source, "source")}


@pytest.mark.requirement("R216")
def test_without_a_key_a_message_waits_and_is_set_aside_when_all_partitions_are_full() -> None:
    pair = Pair()
    for driver in pair.drivers:
        fill(driver, "target")
    pair.sent("k0", "k1", keyed=False)

    began, tries = pair.source.mono_ms, 0
    while bodies(pair.source, "source") and pair.source.mono_ms - began < 200_000:
        for frame in pair.frames():
            tries += 1
            pair.answer(frame, pair.deliver(frame))
        if pair.source.mono_ms - began < limits.FORWARD_REFUSED_MS:
            assert len(bodies(pair.source, "source")) == 2
        pair.source.mono_ms += 1_000

    assert bodies(pair.source, "source", SubQueue.TRANSFER_DEAD_LETTER) == [b"k0", b"k1"]
    assert pair.source.mono_ms - began <= 2 * limits.FORWARD_REFUSED_MS
    assert tries <= 150
    assert pair.source.store.forwards.choices() == {}


@pytest.mark.requirement("R462")
def test_of_a_queue_that_is_deleted_no_choice_of_a_partition_stays() -> None:
    pair = Pair()
    fill(pair.source, "target")
    pair.sent("k0", "k1", "k2", keyed=False)
    pair.frames()
    choices = pair.source.partition.state.lanes.choices
    assert len(choices) == 3

    commit(pair.source, EntityAction.DELETE, "source")
    pair.source.sweep()

    assert choices == pair.source.store.forwards.choices() == {}


@pytest.mark.requirement("R215")
def test_only_so_many_frames_go_to_a_partition_and_queues_take_turns() -> None:
    pair = Pair()
    count = lanes.FLIGHTS_MAX + 3
    for number in range(count):
        described = QueueDescription(forward_to="target")
        each = Entity(f"s{number}", f"s{number}", 9, Origin.CLIENT, described, 1, 0, 0, 0)
        pair.source.run(ApplyEntity("t", [each]))
    name = next(n for n in NAMES if _target(pair).partition_of(n) == 1)
    for number in range(count):
        send(pair.source, f"s{number}", b"%d" % number, partition_keys=[name])

    frames = pair.frames()
    assert len(frames) == lanes.FLIGHTS_MAX
    for _ in range(count):
        frame = frames.pop(0)
        pair.answer(frame, pair.deliver(frame))
        frames += pair.frames()

    assert frames == []
    assert sorted(map(int, pair.stored())) == list(range(count))


@pytest.mark.requirement("R253")
def test_what_was_refused_is_not_forgotten_when_it_is_stored_and_answers_are_lost() -> None:
    pair = Pair()
    target = pair.source.partition.state.catalogue.by_uid("t")
    assert target is not None
    key = next(name for name in NAMES if target.partition_of(name) == 1)
    send(pair.source, "source", b"a", b"b", partition_keys=[key] * 2)
    fill(pair.drivers[1], "target")
    [frame] = pair.frames()
    pair.answer(frame, pair.deliver(frame))
    give_room(pair.drivers[1], "target")

    for _ in range(2):
        pair.source.mono_ms += 1_000
        [frame] = pair.frames()
        pair.deliver(frame)
        pair.answer(frame, None)
    pair.finish()

    assert pair.stored() == ["a", "b"]
