"""A queue against a simple model: random commands, schedules, expiry, duplicates, lock ends.

Its dead letters are received and settled, too.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bendybus.domain import errors, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.answers import Delivery, Reserved
from bendybus.partition_server.state.commands import (
    CommitEntity,
    ReceiveDeferred,
    StreamEnded,
    Withdraw,
)
from bendybus.partition_server.store.records import State
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore

pytestmark = pytest.mark.slow

LOCK_MS = 10_000
MAX_DELIVERIES = 2
WINDOW_MS = 20_000


@dataclass
class Expected:
    """What the model knows of a message."""

    payload: bytes
    counter: int
    state: str = "ready"  # ready, locked, reserved, deferred, deferred-locked, scheduled
    deliveries: int = 0
    expires_ms: int | None = None
    due_ms: int = 0
    life_ms: int = 0
    until_mono_ms: int = 0
    token: bytes = b""
    # As a dead letter: 0 until it was seen there.
    dead_counter: int = 0


class QueueMachine(RuleBasedStateMachine):
    """Runs a queue of the real rules beside a dictionary."""

    def make_store(self) -> Any:
        """Return the store of this run."""
        return MemoryStore(fingerprint())

    @initialize()
    def begin(self) -> None:
        """Open a partition with one queue."""
        self.store = self.make_store()
        self.driver = Driver(self.store)
        self.driver.create(
            origin=Origin.MANIFEST,
            lock_duration_ms=LOCK_MS,
            max_delivery_count=MAX_DELIVERIES,
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window_ms=WINDOW_MS,
            dead_lettering_on_message_expiration=True,
        )
        self.expected: dict[int, Expected] = {}
        self.dead: list[Expected] = []
        self.seen: dict[str, tuple[int, int]] = {}
        self.sent = 0
        self.last = 0
        self.orphaned = False

    # Commands

    @rule()
    def lose_or_find_a_manifest(self) -> None:
        """Orphan the queue, or let a manifest adopt it: what it holds stays as it is."""
        action = EntityAction.ADOPT if self.orphaned else EntityAction.ORPHAN
        manifest = "adopting" if self.orphaned else ""
        self.driver.run(CommitEntity("t", action, "orders", Origin.MANIFEST, manifest_uid=manifest))
        self.orphaned = not self.orphaned
        [entity] = self.driver.partition.state.catalogue.existing()
        assert entity.orphaned is self.orphaned

    @rule(message_id=st.sampled_from(["", "a", "b", "c"]), life=st.sampled_from([0, 3_000, 30_000]))
    def send(self, message_id: str, life: int) -> None:
        """Send one message, maybe a duplicate."""
        self._send(message_id, life, 0)

    @rule(delay=st.integers(1, 15_000), life=st.sampled_from([0, 3_000]))
    def schedule(self, delay: int, life: int) -> None:
        """Send one message for later."""
        self._send("", life, self.driver.wall_ms + delay)

    def _send(self, message_id: str, life: int, due_ms: int) -> None:
        if self.orphaned:
            with pytest.raises(errors.EntityOrphaned):
                self.driver.send(b"refused", scheduled_ms=[due_ms])
            return
        self.sent += 1
        payload = b"%d" % self.sent
        known = self.seen.get(message_id) if message_id else None
        outcome = self.driver.send(
            payload, message_ids=[message_id], time_to_live_ms=[life], scheduled_ms=[due_ms]
        )
        counter = sequence_number.counter_of(outcome.numbers[0])
        if any(outcome.duplicates):
            assert known is not None
            assert counter == known[0]
            return
        # A key may be remembered a little longer than its window, never shorter.
        assert known is None or self.driver.wall_ms - known[1] >= WINDOW_MS
        if message_id:
            self.seen[message_id] = (counter, self.driver.wall_ms)
        self.last += 1
        assert counter == self.last
        found = Expected(payload, counter, life_ms=life, due_ms=due_ms)
        if due_ms:
            found.state = "scheduled"
        elif life:
            found.expires_ms = self.driver.wall_ms + life
        self.expected[counter] = found

    @rule(count=st.integers(1, 4))
    def receive(self, count: int) -> None:
        """Receive and deliver."""
        pairs = self.driver.receive(count)
        self._check_taken([row for row, _ in pairs], count)
        for row, token in pairs:
            self._lock(row, token, "locked")

    @rule(count=st.integers(1, 3))
    def reserve(self, count: int) -> None:
        """Reserve for a stream that delivers nothing."""
        answers = self.driver.reserve(count, stream="lazy")
        pairs = [p for a in answers if isinstance(a, Reserved) for p in self.driver.tokens(a)]
        self._check_taken([row for row, _ in pairs], count)
        for row, token in pairs:
            self._lock(row, token, "reserved")
        self.driver.run(Withdraw("lazy", self.driver._ids))

    @rule()
    def end_stream(self) -> None:
        """End the lazy stream: what is reserved comes back uncounted."""
        self.driver.run(StreamEnded("lazy"))
        for found in list(self.expected.values()):
            if found.state == "reserved":
                self._unlocked(found, "ready", counted=False)

    @precondition(lambda self: self._with("locked", "deferred-locked"))
    @rule(data=st.data(), disposition=st.sampled_from(list(Disposition)))
    def settle(self, data: st.DataObject, disposition: Disposition) -> None:
        """Settle one locked message in some way."""
        found = data.draw(st.sampled_from(self._with("locked", "deferred-locked")))
        deferred = found.state == "deferred-locked"
        settled = self.driver.settle(disposition, found.token)
        assert not settled.failures, settled
        if disposition is Disposition.COMPLETE:
            del self.expected[found.counter]
        elif disposition is Disposition.RENEW_LOCK:
            found.until_mono_ms = self.driver.mono_ms + LOCK_MS
        elif disposition is Disposition.DEAD_LETTER:
            self._to_dead(found)
        elif disposition is Disposition.DEFER:
            # It expired while it was locked, or it waits to be received by its number.
            self._unlocked(found, "deferred", counted=True)
        else:
            counted = disposition is Disposition.ABANDON
            self._unlocked(found, "deferred" if deferred else "ready", counted=counted)

    @precondition(lambda self: self._with("deferred"))
    @rule(data=st.data())
    def receive_deferred(self, data: st.DataObject) -> None:
        """Lock a deferred message by its number."""
        found = data.draw(st.sampled_from(self._with("deferred")))
        row, token = self._received_deferred(found.counter)
        assert row.payload == found.payload
        self._lock(row, token, "deferred-locked")

    def _received_deferred(self, counter: int, *, dead_letter: bool = False) -> tuple[Any, bytes]:
        ref = self.driver.ref(dead_letter=dead_letter)
        [delivery] = self.driver.run(ReceiveDeferred("t", ref, False, [counter]))
        assert isinstance(delivery, Delivery), delivery
        [pair] = self.driver.tokens(Reserved(0, delivery, 0, 0, False))
        return pair

    # Dead letters: they have no time to live, and no number of deliveries ends them.

    @precondition(lambda self: self.dead)
    @rule(count=st.integers(1, 3), defers=st.booleans())
    def receive_dead(self, count: int, defers: bool) -> None:
        """Receive dead letters, in their order, and maybe defer them and lock them again."""
        ready = sorted(self._dead_with("ready"), key=lambda found: found.dead_counter)
        pairs = self.driver.receive(count, dead_letter=True)
        assert [row.counter for row, _ in pairs] == [f.dead_counter for f in ready[:count]]
        for found, (row, token) in zip(ready, pairs, strict=False):
            self._lock_dead(found, row, token, "locked")
            if defers:
                assert not self.driver.settle(Disposition.DEFER, token).failures
                found.deliveries += 1
                row, token = self._received_deferred(found.dead_counter, dead_letter=True)
                self._lock_dead(found, row, token, "deferred-locked")

    @precondition(lambda self: self._dead_with("deferred"))
    @rule(data=st.data())
    def receive_deferred_dead(self, data: st.DataObject) -> None:
        """Lock a deferred dead letter by its number."""
        found = data.draw(st.sampled_from(self._dead_with("deferred")))
        row, token = self._received_deferred(found.dead_counter, dead_letter=True)
        self._lock_dead(found, row, token, "deferred-locked")

    @precondition(lambda self: self._dead_with("locked", "deferred-locked"))
    @rule(data=st.data(), disposition=st.sampled_from(list(Disposition)))
    def settle_dead(self, data: st.DataObject, disposition: Disposition) -> None:
        """Settle a locked dead letter: it is never dead-lettered again."""
        found = data.draw(st.sampled_from(self._dead_with("locked", "deferred-locked")))
        deferred = found.state == "deferred-locked"
        [(_, error)] = self.driver.settle(Disposition.DEAD_LETTER, found.token).failures
        assert isinstance(error, errors.InvalidOperation)
        if disposition is Disposition.DEAD_LETTER:
            return
        settled = self.driver.settle(disposition, found.token)
        assert not settled.failures, settled
        if disposition is Disposition.COMPLETE:
            self.dead.remove(found)
        elif disposition is Disposition.RENEW_LOCK:
            found.until_mono_ms = self.driver.mono_ms + LOCK_MS
        else:
            found.deliveries += disposition in (Disposition.ABANDON, Disposition.DEFER)
            stays = deferred or disposition is Disposition.DEFER
            found.state, found.until_mono_ms = "deferred" if stays else "ready", 0

    def _dead_with(self, *states: str) -> list[Expected]:
        return [found for found in self.dead if found.state in states]

    def _lock_dead(self, found: Expected, row: Any, token: bytes, state: str) -> None:
        assert (row.payload, row.delivery_count) == (found.payload, found.deliveries)
        found.state, found.token = state, token
        found.until_mono_ms = self.driver.mono_ms + LOCK_MS

    def _unlock_dead(self, *, counted: bool) -> None:
        for found in self._dead_with("locked", "deferred-locked"):
            if not counted or found.until_mono_ms <= self.driver.mono_ms:
                found.state = "deferred" if found.state == "deferred-locked" else "ready"
                found.deliveries += counted

    @rule(milliseconds=st.sampled_from([1, 500, 4_000, 11_000]))
    def pass_time(self, milliseconds: int) -> None:
        """Let locks end, messages expire, schedules come due."""
        self.driver.wall_ms += milliseconds
        self.driver.mono_ms += milliseconds
        before_ms = self.driver.mono_ms - milliseconds
        self.driver.partition.state.clock.waiting(before_ms, self.driver.mono_ms)
        self.driver.partition.state.clock.observe(self.driver.now)
        now = self.driver.now
        self._unlock_dead(counted=True)
        for found in list(self.expected.values()):
            if found.until_mono_ms and found.until_mono_ms <= now.mono_ms:
                counted = found.state != "reserved"
                back = "deferred" if found.state == "deferred-locked" else "ready"
                self._unlocked(found, back, counted=counted)
        due = [f for f in self.expected.values() if f.state == "scheduled" and f.due_ms <= now[0]]
        for found in sorted(due, key=lambda f: (f.due_ms, f.counter)):
            del self.expected[found.counter]
            self.last += 1
            found.counter, found.state = self.last, "ready"
            found.expires_ms = now.wall_ms + found.life_ms if found.life_ms else None
            self.expected[found.counter] = found
        for found in self._with("ready", "deferred"):
            if found.expires_ms is not None and found.expires_ms <= now.wall_ms:
                self._to_dead(found)
        self.driver.sweep()

    @rule()
    def restart(self) -> None:
        """Lose what is not stored: all locks, no messages."""
        self.driver.restart()
        self._unlock_dead(counted=False)
        for found in list(self.expected.values()):
            if found.state in ("locked", "reserved"):
                found.state, found.until_mono_ms = "ready", 0
            elif found.state == "deferred-locked":
                found.state, found.until_mono_ms = "deferred", 0
        for found in self._with("ready", "deferred"):
            if found.expires_ms is not None and found.expires_ms <= self.driver.wall_ms:
                self._to_dead(found)
        self.driver.sweep()

    # The model

    def _with(self, *states: str) -> list[Expected]:
        return [found for found in self.expected.values() if found.state in states]

    def _check_taken(self, rows: list[Any], count: int) -> None:
        ready = sorted(found.counter for found in self._with("ready"))
        assert [row.counter for row in rows] == ready[:count]

    def _lock(self, row: Any, token: bytes, state: str) -> None:
        found = self.expected[row.counter]
        assert (row.payload, row.delivery_count) == (found.payload, found.deliveries)
        found.state, found.token = state, token
        found.until_mono_ms = self.driver.mono_ms + LOCK_MS

    def _unlocked(self, found: Expected, state: str, *, counted: bool) -> None:
        found.until_mono_ms = 0
        found.state = state
        if counted:
            found.deliveries += 1
            if found.deliveries >= MAX_DELIVERIES:
                self._to_dead(found)
                return
        if found.expires_ms is not None and found.expires_ms <= self.driver.wall_ms:
            self._to_dead(found)

    def _to_dead(self, found: Expected) -> None:
        del self.expected[found.counter]
        found.state = "ready"
        self.dead.append(found)

    @invariant()
    def counts_agree(self) -> None:
        """Counts and messages are those of the model, and sizes add up."""
        if not hasattr(self, "driver"):
            return
        counts = self.driver.counts()
        active = self._with("ready", "locked", "reserved")
        assert counts.active == len(active)
        assert counts.locked == len(self._with("locked", "reserved", "deferred-locked"))
        assert counts.deferred == len(self._with("deferred", "deferred-locked"))
        assert counts.scheduled == len(self._with("scheduled"))
        assert counts.dead_letter == len(self.dead)
        shown = {row.counter: row.payload for row in self.driver.peek(count=1_000)}
        assert shown == {f.counter: f.payload for f in self.expected.values()}
        dead = {row.payload: row for row in self.driver.peek(count=1_000, dead_letter=True)}
        assert dead.keys() == {found.payload for found in self.dead}
        for found in self.dead:
            row = dead[found.payload]
            # Where it is, it stays.
            assert found.dead_counter in (0, row.counter)
            found.dead_counter = row.counter
            assert row.delivery_count == found.deliveries
            assert row.state == (State.DEFERRED if "deferred" in found.state else State.ACTIVE)


class SqliteQueueMachine(QueueMachine):
    """The same on a real file."""

    def make_store(self) -> Any:
        """Return a store in a folder of its own."""
        self.folder = TemporaryDirectory()
        return SqliteStore(Path(self.folder.name), fingerprint())

    def teardown(self) -> None:
        """Close the file."""
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestQueueModel = QueueMachine.TestCase
TestQueueModel.settings = settings(
    max_examples=300,
    stateful_step_count=50,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestSqliteQueueModel = SqliteQueueMachine.TestCase
TestSqliteQueueModel.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
