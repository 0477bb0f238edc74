"""Drives a session-aware queue of one partition: what receivers of sessions do."""

import dataclasses
from typing import Any

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import QueueDescription
from bendybus.partition_server.state.answers import (
    Appended,
    EntityCounts,
    Recalled,
    Reserved,
    SessionOffered,
    SessionResult,
    Transacted,
)
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Append,
    Ask,
    CloseSession,
    ConfirmSession,
    Deliver,
    EntityRef,
    Settle,
    Transact,
    Withdraw,
)
from bendybus.partition_server.state.session_lock import SessionLock
from bendybus.partition_server.state.session_queue import SessionQueue
from tests.partition_server.driver import Driver
from tests.partition_server.transacting import ID

LOCK_MS = 30_000


class Sessions:
    """The session-aware queue `orders` of a driver."""

    def __init__(self, driver: Driver, **changes: Any) -> None:
        self.driver = driver
        self._ids = 1_000
        self.create({"lock_duration_ms": LOCK_MS, "max_delivery_count": 3, **changes})

    def create(self, changes: dict[str, Any]) -> None:
        """Create what has the sessions."""
        self.driver.put(QueueDescription(requires_session=True, **changes))

    def ref(self) -> EntityRef:
        """Return a reference to what has the sessions, as it is now."""
        return self.driver.ref()

    def counts(self) -> EntityCounts:
        """Return what it holds."""
        return self.driver.counts()

    def next_id(self) -> int:
        """Return an id for an ask or a request."""
        self._ids += 1
        return self._ids

    def send(self, *messages: tuple[str, bytes], **columns: Any) -> list[Any]:
        """Send (session, payload) pairs; return the answers that this gives to others."""
        ids = [session_id for session_id, _ in messages]
        batch = Batch([payload for _, payload in messages], session_ids=ids, **columns)
        appended, *others = self.driver.run(Append("t", self.ref(), batch))
        assert isinstance(appended, Appended), appended
        assert not appended.failures, appended
        return others

    def ask_accept(self, session_id: str | None = None, *, stream: str = "s") -> list[Any]:
        """Ask for a session; return the answers, which are none while it waits."""
        ref = self.ref()
        return self.driver.run(AcceptSession(stream, self.next_id(), ref, session_id))

    def confirm(self, offer: SessionOffered, *, stream: str = "s") -> SessionResult:
        """Confirm an offer."""
        [result] = self.driver.run(ConfirmSession(stream, self.next_id(), offer.session_token))
        assert isinstance(result, SessionResult), result
        return result

    def accept(self, session_id: str | None = None, *, stream: str = "s") -> bytes:
        """Accept a session that is there; return its token."""
        [offer] = self.ask_accept(session_id, stream=stream)
        assert isinstance(offer, SessionOffered), offer
        assert session_id is None or offer.session_id == session_id
        assert self.confirm(offer, stream=stream).error is None
        return offer.session_token

    def reserve(
        self, token: bytes, count: int = 10, *, stream: str = "s", delete: bool = False
    ) -> list[tuple[Any, bytes]]:
        """Reserve what is there of a session; return (row, token) pairs."""
        answers = self.ask(token, count, stream=stream, delete=delete)
        self.driver.run(Withdraw(stream, self._ids))
        return [p for a in answers if isinstance(a, Reserved) for p in self.driver.tokens(a)]

    def ask(
        self, token: bytes, count: int = 10, *, stream: str = "s", delete: bool = False
    ) -> list[Any]:
        """Ask for messages of a session; return the answers."""
        ref = self.ref()
        return self.driver.run(
            Ask(stream, self.next_id(), ref, delete, count, 1 << 24, session_token=token)
        )

    def receive(
        self, token: bytes, count: int = 10, *, stream: str = "s", delete: bool = False
    ) -> list[tuple[Any, bytes]]:
        """Receive what is there of a session; return (row, token) pairs."""
        pairs = self.reserve(token, count, stream=stream, delete=delete)
        if pairs:
            self.driver.run(Deliver(stream, 1, b"".join(each for _, each in pairs)))
        return pairs

    def close(self, token: bytes, *, stream: str = "s") -> SessionResult:
        """Give up a session."""
        result = self.driver.run(CloseSession(stream, self.next_id(), token))[0]
        assert isinstance(result, SessionResult), result
        return result


def recalled(answers: list[Any]) -> list[bytes]:
    """Return the tokens that answers take back."""
    tokens = b"".join(answer.tokens for answer in answers if isinstance(answer, Recalled))
    return [tokens[at : at + 16] for at in range(0, len(tokens), 16)]


def payloads(pairs: list[tuple[Any, bytes]]) -> list[bytes]:
    """Return the payloads of what was received."""
    return [row.payload for row, _ in pairs]


def settle(sessions: Sessions, disposition: Disposition, *tokens: bytes, **extra: Any) -> list[Any]:
    """Settle and return all answers."""
    return sessions.driver.run(Settle("s", 1, disposition, b"".join(tokens), **extra))


def transact(sessions: Sessions, *parts: Append | Settle, id_: bytes = ID) -> list[Any]:
    """Run a transaction; return all answers, its own first."""
    answers = sessions.driver.run(Transact("t", sessions.ref(), id_, parts))
    own = [each for each in answers if isinstance(each, Transacted)]
    assert len(own) == 1, answers
    return own + [each for each in answers if each is not own[0]]


def held(sessions: Sessions) -> SessionLock:
    """Return the lock of the only session that has one."""
    queue = next(iter(sessions.driver.partition.state.queues))
    assert isinstance(queue, SessionQueue)
    [lock] = queue.held.values()
    return lock


def picture(lock: SessionLock) -> list[Any]:
    """Return all that there is to know of a lock."""
    return [getattr(lock, each.name) for each in dataclasses.fields(lock)]
