"""Forwarding to another partition: each message once, whoever dies and whatever frames do."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.queue_description import QueueDescription
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state import lanes
from bendybus.partition_server.state.answers import Failed, ForwardedTaken
from bendybus.partition_server.state.commands import ApplyEntity, Ask, EntityRef, TakeForwarded
from bendybus.partition_server.state.lanes import ForwardOutcome, Outgoing
from bendybus.partition_server.store.memory_store import MemoryStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.forwarding_driver import bodies, held, send


class Pair:
    """Two partitions: `source` in partition 0 forwards to `target`, which is in both."""

    def __init__(self) -> None:
        self.drivers = [Driver(MemoryStore(fingerprint(index, count=2))) for index in (0, 1)]
        self.describe("target")
        for driver in self.drivers:
            driver.partition.state.forward_link = "link"

    def describe(self, forward_to: str, generation: int = 5) -> None:
        """Give `source` its destination."""
        for driver in self.drivers:
            target = Entity("target", "t", 1, Origin.CLIENT, QueueDescription(), 2, 0, 0, 0)
            described = QueueDescription(forward_to=forward_to)
            source = Entity("source", "s", generation, Origin.CLIENT, described, 1, 0, 0, 0)
            driver.run(ApplyEntity("t", [target, source]))

    @property
    def source(self) -> Driver:
        return self.drivers[0]

    def sent(self, *bodies: str, keyed: bool = True) -> None:
        """Send messages to the source; the body is the key."""
        keys = list(bodies) if keyed else []
        send(self.source, "source", *[b.encode() for b in bodies], partition_keys=keys)

    def frames(self) -> list[Outgoing]:
        """Let the source do all that is due; return its frames."""
        return [value for value in self.source.sweep() if isinstance(value, Outgoing)]

    def deliver(self, frame: Outgoing) -> Any:
        """Hand a frame to its partition; return the outcome for the source."""
        command = TakeForwarded(
            "t",
            EntityRef(frame.uid, frame.generation),
            frame.source,
            frame.boot,
            frame.sequence,
            frame.counters,
            frame.batch,
            frame.settled,
            frame.settled_below,
            frame.overtake,
        )
        [value] = self.drivers[frame.partition].run(command)
        return value

    def answer(self, frame: Outgoing, value: Any) -> None:
        """Tell the source what became of a frame; None: its answer was lost."""
        taken = value if isinstance(value, ForwardedTaken) else None
        outcome = ForwardOutcome(
            None, frame.slot, frame.boot, frame.sequence, frame.partition, taken
        )
        self.source.run(outcome)

    def restart(self, index: int) -> None:
        """Lose all that is not stored."""
        mono_ms = self.drivers[index].mono_ms
        self.drivers[index].restart()
        self.drivers[index].mono_ms = mono_ms
        self.drivers[index].partition.state.forward_link = "link"

    def finish(self) -> None:
        """Let everything get to its end."""
        for _ in range(50):
            frames = self.frames()
            for frame in frames:
                self.answer(frame, self.deliver(frame))
            if not frames:
                self.source.mono_ms += 1_000

    def stored(self) -> list[str]:
        """Return what both partitions of the target hold."""
        found = [body for driver in self.drivers for body in bodies(driver, "target")]
        return [body.decode() for body in found]


NAMES = [f"k{i}" for i in range(20)]


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


FULL_BYTES = 1_024 * limits.MB


def fill(driver: Driver, name: str) -> None:
    """Leave no room in a queue."""
    driver.partition.state.queues.main_of(driver.ref(name).uid).state.size_bytes += FULL_BYTES


def give_room(driver: Driver, name: str) -> None:
    """Take `fill` back, also from figures that were written and read again."""
    state = driver.partition.state.queues.main_of(driver.ref(name).uid).state
    if state.size_bytes >= FULL_BYTES:
        state.size_bytes -= FULL_BYTES


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


class Machine(RuleBasedStateMachine):
    """Frames are lost, repeated and late; both sides die at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.count = 0
        self.open: list[Outgoing] = []
        self.answers: list[tuple[Outgoing, Any]] = []
        self.filled: set[int] = set()

    @rule(count=st.integers(1, 6), keyed=st.booleans())
    def send(self, count: int, keyed: bool) -> None:
        names = [f"m{self.count + i}" for i in range(count)]
        self.count += count
        self.pair.sent(*names, keyed=keyed)

    @rule(index=st.integers(0, 1))
    def fill(self, index: int) -> None:
        if index in self.filled:
            self.filled.discard(index)
            give_room(self.pair.drivers[index], "target")
        else:
            self.filled.add(index)
            fill(self.pair.drivers[index], "target")

    @rule()
    def look(self) -> None:
        self.open += self.pair.frames()

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        if self.open:
            frame = data.draw(st.sampled_from(self.open))
            self.answers.append((frame, self.pair.deliver(frame)))

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        if self.answers:
            self.pair.answer(*data.draw(st.sampled_from(self.answers)))

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        if self.open:
            self.pair.answer(data.draw(st.sampled_from(self.open)), None)

    @rule(lost=st.booleans())
    def exchange(self, lost: bool) -> None:
        frames = self.pair.frames()
        for frame in frames:
            outcome = self.pair.deliver(frame)
            self.pair.answer(frame, None if lost else outcome)
        self.open += frames
        self.wait()

    @rule()
    def wait(self) -> None:
        self.pair.source.mono_ms += 1_000

    @rule(index=st.integers(0, 1))
    def crash(self, index: int) -> None:
        self.pair.restart(index)
        self.filled.discard(index)
        give_room(self.pair.drivers[index], "target")

    @invariant()
    def nothing_is_twice(self) -> None:
        aside = bodies(self.pair.source, "source", SubQueue.TRANSFER_DEAD_LETTER)
        found = [*self.pair.stored(), *(body.decode() for body in aside)]
        twice = [name for name, n in Counter(found).items() if n > 1]
        assert not twice, twice

    def teardown(self) -> None:
        for index in self.filled:
            give_room(self.pair.drivers[index], "target")
        # The shell always hands in an outcome, if only that none came.
        for frame in self.open:
            self.pair.answer(frame, None)
        self.pair.finish()
        aside = bodies(self.pair.source, "source", SubQueue.TRANSFER_DEAD_LETTER)
        found = [*self.pair.stored(), *(body.decode() for body in aside)]
        assert sorted(found) == sorted(f"m{i}" for i in range(self.count))
        assert bodies(self.pair.source, "source") == []


Machine.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestForwarding = pytest.mark.requirement("R213")(Machine.TestCase)
