"""Whatever receivers, streams and clocks do: each session has one receiver, and stays in order.

A state machine against a model of what each session still holds. Both stores.
"""

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.answers import SessionOffered
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    AttachSession,
    RenewSession,
    StreamEnded,
    Withdraw,
)
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.session_driver import LOCK_MS, Sessions, settle, transact
from tests.partition_server.transacting import settling

NAMES = st.sampled_from(["", "a", "b", "ä" * 128])
DISPOSITIONS = {
    "done": Disposition.COMPLETE,
    "back": Disposition.RELEASE,
    "counted": Disposition.ABANDON,
}
STREAMS = st.sampled_from(["s", "t"])


class Held:
    """What the receiver of a session has: its token, stream, and messages in order."""

    def __init__(self, token: bytes, stream: str) -> None:
        self.token = token
        self.stream: str | None = stream
        self.messages: dict[int, bytes] = {}


class SessionMachine(RuleBasedStateMachine):
    """See the module."""

    driver: Driver

    def make_sessions(self) -> Sessions:
        """Return what the sessions are of."""
        return Sessions(self.driver, max_delivery_count=1_000)

    @initialize()
    def start(self) -> None:
        """Begin with a queue of sessions."""
        self.sessions = self.make_sessions()
        self.left: dict[str, list[int]] = defaultdict(list)
        self.held: dict[str, Held] = {}
        self.sent = self.transactions = 0

    @rule(name=NAMES, count=st.integers(1, 4))
    def send(self, name: str, count: int) -> None:
        """Send messages of a session."""
        for _ in range(count):
            self.sent += 1
            self.sessions.send((name, b"%d" % self.sent))
            self.left[name].append(self.sent)

    @rule(name=NAMES, stream=STREAMS)
    def accept(self, name: str, stream: str) -> None:
        """Accept a session by its name; it must be free."""
        if name in self.held:
            [refused] = self.sessions.ask_accept(name, stream=stream)
            assert isinstance(refused.error, errors.SessionCannotBeLocked)
        else:
            self.held[name] = Held(self.sessions.accept(name, stream=stream), stream)

    @rule(stream=STREAMS)
    def accept_next(self, stream: str) -> None:
        """Accept the free session with the oldest message, if there is one."""
        found = self.sessions.ask_accept(stream=stream)
        free = {n: left[0] for n, left in self.left.items() if left and n not in self.held}
        if not free:
            assert found == []
            self.driver.run(Withdraw(stream, self.sessions._ids))
            return
        [offer] = found
        assert isinstance(offer, SessionOffered)
        assert free[offer.session_id] == min(free.values())
        assert self.sessions.confirm(offer, stream=stream).error is None
        self.held[offer.session_id] = Held(offer.session_token, stream)

    @rule(name=NAMES, count=st.integers(1, 5))
    def receive(self, name: str, count: int) -> None:
        """Receive what the receiver does not have, in order."""
        held = self.held.get(name)
        if held is None or held.stream is None:
            return
        pairs = self.sessions.receive(held.token, count, stream=held.stream)
        ready = [number for number in self.left[name] if number not in held.messages]
        assert [int(row.payload) for row, _ in pairs] == ready[:count]
        assert all(row.session_id == name for row, _ in pairs)
        held.messages |= {int(row.payload): token for row, token in pairs}

    @rule(name=NAMES, count=st.integers(1, 5))
    def reserve(self, name: str, count: int) -> None:
        """Cache messages that the client does not see; the front end gives them back."""
        held = self.held.get(name)
        if held is None or held.stream is None:
            return
        pairs = self.sessions.reserve(held.token, count, stream=held.stream)
        for _, token in pairs:
            settle(self.sessions, Disposition.RELEASE, token)

    @rule(name=NAMES, at=st.integers(0, 10), how=st.sampled_from(["done", "back", "counted"]))
    def settle_one(self, name: str, at: int, how: str) -> None:
        """Complete, release or abandon a message."""
        held = self.held.get(name)
        if held is None or not held.messages:
            return
        number = sorted(held.messages)[at % len(held.messages)]
        token = held.messages.pop(number)
        assert not settle(self.sessions, DISPOSITIONS[how], token)[0].failures
        if how == "done":
            self.left[name].remove(number)

    @rule(
        name=NAMES,
        others=st.sampled_from([None, "", "a", "b"]),
        hows=st.lists(st.sampled_from(["done", "counted"]), min_size=1, max_size=4),
        answers=st.integers(0, 2),
        lost=st.booleans(),
    )
    def transact(
        self, name: str, others: str | None, hows: list[str], answers: int, lost: bool
    ) -> None:
        """Settle and answer in a transaction, maybe with a lock that is lost or another session."""
        self._transact(name, others, hows, answers, lost)

    def _transact(
        self, name: str, others: str | None, hows: list[str], answers: int, lost: bool
    ) -> None:
        held = self.held.get(name)
        if held is None or not held.messages:
            return
        chosen = dict(zip(sorted(held.messages, reverse=True), hows, strict=False))
        parts: list[Any] = [
            settling(DISPOSITIONS[how], held.messages[number], session_token=held.token)
            for number, how in chosen.items()
        ]
        other = self.held.get(others) if others is not None else None
        mixed = other is not None and others != name and bool(other.messages)
        if other is not None and mixed:
            parts.append(settling(Disposition.COMPLETE, next(iter(other.messages.values()))))
        sent = [self.sent + 1 + i for i in range(answers)]
        self.sent += answers
        if sent:
            batch = Batch([b"%d" % each for each in sent], session_ids=[name] * answers)
            parts.append(Append(None, self.sessions.ref(), batch))
        if lost:
            parts.append(settling(Disposition.ABANDON, bytes(16), session_token=held.token))
        self.transactions += 1
        id_ = self.transactions.to_bytes(16, "big")
        outcome = transact(self.sessions, *parts, id_=id_)[0]
        assert (outcome.error is not None) == (lost or mixed), outcome
        if outcome.error is not None:
            return
        for number, how in chosen.items():
            del held.messages[number]
            if how == "done":
                self.left[name].remove(number)
        self.left[name] += sent

    @rule(name=NAMES)
    def close(self, name: str) -> None:
        """Give a session up."""
        held = self.held.pop(name, None)
        if held is not None:
            assert self.sessions.close(held.token).error is None

    @rule(stream=STREAMS)
    def end_stream(self, stream: str) -> None:
        """Lose a stream: its sessions stay locked."""
        self.driver.run(StreamEnded(stream))
        for held in self.held.values():
            if held.stream == stream:
                held.stream = None

    @rule(name=NAMES, stream=STREAMS, loses=st.booleans(), at=st.integers(0, 10))
    def attach(self, name: str, stream: str, loses: bool, at: int) -> None:
        """Attach a session; a receiver that lost messages on the way says which it has."""
        held = self.held.get(name)
        if held is None:
            return
        if loses and held.messages:
            del held.messages[sorted(held.messages)[at % len(held.messages)]]
        tokens = b"".join(held.messages.values())
        [attached] = [
            each
            for each in self.driver.run(AttachSession(stream, 1, held.token, "", loses, tokens))
            if getattr(each, "request_id", None) == 1
        ]
        assert attached.error is None
        held.stream = stream

    @rule(name=NAMES)
    def renew(self, name: str) -> None:
        """Renew a lock."""
        held = self.held.get(name)
        if held is not None:
            [renewed] = self.driver.run(RenewSession("r", 1, held.token))
            assert renewed.lock_remaining_ms == LOCK_MS

    @precondition(lambda self: self.held)
    @rule()
    def time_is_over(self) -> None:
        """Let all locks end."""
        self.driver.advance(LOCK_MS)
        for held in self.held.values():
            [lost] = self.driver.run(RenewSession("r", 1, held.token))
            assert isinstance(lost.error, errors.SessionLockLost)
        self.held.clear()

    @rule()
    def restart(self) -> None:
        """Restart the partition: all sessions are lost, no message is."""
        tokens = [held.token for held in self.held.values()]
        self.driver.restart()
        for token in tokens:
            [lost] = self.driver.run(RenewSession("r", 1, token))
            assert isinstance(lost.error, errors.SessionLockLost)
        self.held.clear()

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        """Compare."""
        if not hasattr(self, "left"):
            return
        counts = self.sessions.counts()
        assert counts.active == sum(map(len, self.left.values()))


@pytest.mark.requirement("R70", "R72", "R104", "R230", "R233")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_each_session_has_one_receiver_and_stays_in_order(kind: str, tmp_path: Path) -> None:
    folders = itertools.count()

    class Machine(SessionMachine):
        def __init__(self) -> None:
            super().__init__()
            if kind == "memory":
                self.driver = Driver(MemoryStore(fingerprint()))
            else:
                folder = tmp_path / str(next(folders))
                folder.mkdir()
                self.driver = Driver(SqliteStore(folder, fingerprint()))

        def teardown(self) -> None:
            if isinstance(self.driver.store, SqliteStore):
                self.driver.store.close()

    run_state_machine_as_test(Machine, settings=settings(max_examples=25, stateful_step_count=40))
