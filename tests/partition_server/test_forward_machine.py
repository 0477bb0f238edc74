"""Forwarding to another partition: each message arrives once, through crashes and lost frames."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker.partition import CLOCK_HOLD_MS
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Transact, Transfer
from bendybus.partition_server.state.lanes import Outgoing
from tests.partition_server.forwarding_driver import bodies, held
from tests.partition_server.partition_pair import Pair, fill, give_room

pytestmark = pytest.mark.slow

LIVES_MS = 5_000


class Machine(RuleBasedStateMachine):
    """Frames are lost, repeated and late; both sides die at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = self.make_pair()
        self.count = 0
        self.open: list[Outgoing] = []
        self.answers: list[tuple[Outgoing, Any]] = []
        self.filled: set[int] = set()

    def make_pair(self) -> Pair:
        pair = Pair()
        pair.describe("target", 6, dead_lettering_on_message_expiration=True)
        return pair

    @rule(
        count=st.integers(1, 6),
        keyed=st.booleans(),
        lives_ms=st.sampled_from([0, 0, LIVES_MS]),
    )
    def send(self, count: int, keyed: bool, lives_ms: int) -> None:
        names = [f"m{self.count + i}" for i in range(count)]
        self.count += count
        self.pair.sent(*names, keyed=keyed, lives_ms=lives_ms)

    @rule()
    def expire(self) -> None:
        sent = self.pair.source.advance(LIVES_MS + 1)
        self.open += [frame for frame in sent if isinstance(frame, Outgoing)]

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
        found = self.found()
        twice = [name for name, n in Counter(found).items() if n > 1]
        assert not twice, twice

    def teardown(self) -> None:
        for index in self.filled:
            give_room(self.pair.drivers[index], "target")
        # The shell always hands in an outcome, if only that none came.
        for frame in self.open:
            self.pair.answer(frame, None)
        # After a restart nothing expires for a while.
        for _ in range(2):
            for frame in self.pair.source.advance(CLOCK_HOLD_MS):
                if isinstance(frame, Outgoing):
                    self.pair.answer(frame, None)
        self.pair.finish()
        self.pair.source.advance(LIVES_MS + 1)
        assert sorted(self.found()) == sorted(f"m{i}" for i in range(self.count))
        assert bodies(self.pair.source, "source") == []

    def found(self) -> list[str]:
        """Return what is at the destination or has ended, here or there."""
        ended = [
            body.decode()
            for sub_queue in (SubQueue.TRANSFER_DEAD_LETTER, SubQueue.DEAD_LETTER)
            for body in bodies(self.pair.source, "source", sub_queue)
        ]
        for driver in self.pair.drivers:
            dead = bodies(driver, "target", SubQueue.DEAD_LETTER)
            ended += [body.decode() for body in dead]
        return [*self.pair.stored(), *ended]


Machine.TestCase.settings = settings(max_examples=120, stateful_step_count=30)
TestForwarding = pytest.mark.requirement("R213", "R272")(Machine.TestCase)


class TransferPair(Pair):
    """The source forwards nothing: what goes to the target is sent there in its transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.describe("", generation=6)
        self.transactions = 0

    def sent(self, *bodies: str, keyed: bool = True, lives_ms: int = 0) -> None:
        self.transactions += 1
        keys = list(bodies) if keyed else []
        batch = Batch(
            [body.encode() for body in bodies],
            partition_keys=keys,
            time_to_live_ms=[lives_ms] * len(bodies),
        )
        ref, id_ = self.source.ref("source"), self.transactions.to_bytes(16, "big")
        part = Transfer(self.source.ref("target"), batch)
        [value] = self.source.run(Transact("t", ref, id_, [part]))
        assert value.error is None, value


class TransferMachine(Machine):
    """The same through the transfer queue."""

    def make_pair(self) -> Pair:
        return TransferPair()

    def teardown(self) -> None:
        super().teardown()
        left = self.pair.source.counts_of("source").size_bytes
        aside = held(self.pair.source, "source", SubQueue.TRANSFER_DEAD_LETTER)
        assert left == sum(row.size() for row in aside)


TransferMachine.TestCase.settings = Machine.TestCase.settings
TestTransfers = pytest.mark.requirement("R236")(TransferMachine.TestCase)
