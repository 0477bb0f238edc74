"""Transactions against a simple model: random parts, lost locks, repeats, restarts."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.answers import Transacted
from bendybus.partition_server.state.commands import Append, Settle
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.transacting import KEY, sending, settling, transact

LOCK_MS = 10_000
LOST = bytes(16)
# What a part does to a message that is settled; None: it is sent.
Part = tuple[Disposition | None, bytes]
PARTS = st.lists(
    st.sampled_from(
        [
            None,
            None,
            Disposition.COMPLETE,
            Disposition.ABANDON,
            Disposition.DEFER,
            Disposition.DEAD_LETTER,
            Disposition.RENEW_LOCK,
        ]
    ),
    min_size=1,
    max_size=6,
)


class TransactionMachine(RuleBasedStateMachine):
    """Runs a queue of the real rules beside three sets of bodies."""

    def make_store(self) -> Any:
        """Return the store of this run."""
        return MemoryStore(fingerprint())

    @initialize()
    def begin(self) -> None:
        """Open a partition with one queue."""
        self.store = self.make_store()
        self.driver = Driver(self.store)
        self.driver.create(lock_duration_ms=LOCK_MS, max_delivery_count=1_000)
        self.active: set[bytes] = set()
        self.deferred: set[bytes] = set()
        self.dead: set[bytes] = set()
        # Locked: body → token.
        self.locked: dict[bytes, bytes] = {}
        self.sent = self.ids = 0
        # The last one: its id, its parts, its outcome.
        self.last: tuple[bytes, list[Append | Settle], Transacted] | None = None

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        """Send messages outside of transactions."""
        bodies = [self._body() for _ in range(count)]
        self.driver.send(*bodies, partition_keys=[KEY] * count)
        self.active.update(bodies)

    @rule(count=st.integers(1, 4))
    def receive(self, count: int) -> None:
        """Lock messages."""
        for row, token in self.driver.receive(count):
            self.locked[row.payload] = token

    @rule()
    def lose_locks(self) -> None:
        """Let the locks end."""
        self.driver.advance(LOCK_MS + 1)
        self.locked.clear()

    @rule()
    def restart(self) -> None:
        """Open the file again, as after a crash: locks are gone."""
        self.driver.restart()
        self.locked.clear()

    @rule(wanted=PARTS, lost=st.booleans())
    def transact(self, wanted: list[Disposition | None], lost: bool) -> None:
        """Do what there is to do in one transaction, sometimes with a lock that is lost."""
        free = sorted(self.locked)
        chosen: list[Part] = []
        for disposition in wanted:
            if disposition is None:
                chosen.append((None, self._body()))
            elif free:
                chosen.append((disposition, free.pop()))
        parts = [self._part(*each) for each in chosen]
        if lost or not parts:
            parts.append(settling(Disposition.COMPLETE, LOST))
        self.ids += 1
        id_ = self.ids.to_bytes(16, "big")
        outcome = transact(self.driver, *parts, id_=id_)
        self.last = id_, parts, outcome
        refused = lost or not chosen
        assert (outcome.error is not None) == refused
        if not refused:
            for each in chosen:
                self._done(*each)

    @rule()
    def repeat(self) -> None:
        """Repeat the last one by its id: it gets its outcome, and nothing happens."""
        if self.last is None:
            return
        id_, parts, first = self.last
        again = transact(self.driver, *parts, id_=id_, age_ms=1)
        assert type(again.error) is type(first.error)
        numbers = [list(part.numbers) for part in first.parts]
        assert [list(part.numbers) for part in again.parts] == numbers

    @invariant()
    def nothing_is_half_done(self) -> None:
        """Compare what is held with the model."""
        if not hasattr(self, "driver"):
            return
        counts = self.driver.counts()
        assert (counts.active, counts.deferred, counts.dead_letter, counts.locked) == (
            len(self.active),
            len(self.deferred),
            len(self.dead),
            len(self.locked),
        )
        held = {row.payload for row in self.driver.peek()}
        assert held == self.active | self.deferred
        assert {row.payload for row in self.driver.peek(dead_letter=True)} == self.dead

    def _body(self) -> bytes:
        self.sent += 1
        return b"%d" % self.sent

    def _part(self, disposition: Disposition | None, body: bytes) -> Append | Settle:
        if disposition is None:
            return sending(self.driver.ref(), body)
        return settling(disposition, self.locked[body])

    def _done(self, disposition: Disposition | None, body: bytes) -> None:
        if disposition is None:
            self.active.add(body)
            return
        if disposition is Disposition.RENEW_LOCK:
            return
        del self.locked[body]
        if disposition is not Disposition.ABANDON:
            self.active.discard(body)
        if disposition is Disposition.DEFER:
            self.deferred.add(body)
        elif disposition is Disposition.DEAD_LETTER:
            self.dead.add(body)


class SqliteTransactionMachine(TransactionMachine):
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


TestTransactionModel = pytest.mark.requirement("R91")(TransactionMachine.TestCase)
TestTransactionModel.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestSqliteTransactionModel = SqliteTransactionMachine.TestCase
TestSqliteTransactionModel.settings = settings(
    max_examples=5,
    stateful_step_count=25,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
