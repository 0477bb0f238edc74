"""One fault of the files at each call of a run: what callers were told is true, and it goes on."""

import errno
import queue
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker import disk_space, partition_thread
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.settings import Settings
from bendybus.partition_server.state.answers import Failed, Reserved, Withdrawn
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    CancelScheduled,
    CommitEntity,
    Deliver,
    EntityRef,
    Peek,
    Release,
    Settle,
    Withdraw,
)
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import fingerprint, tokens_of
from tests.partition_server.faulty_files import Call, Faults, described, failing

WAIT_S = 20.0
TRIES = 100
# Several pages.
LARGE = b"dead-letter" * 2_000
LATER_MS = 4_000_000_000_000
# Where messages are: (sub-queue, state).
ACTIVE, DEFERRED, SCHEDULED = (SubQueue.MAIN, 0), (SubQueue.MAIN, 1), (SubQueue.MAIN, 2)
DEAD = (SubQueue.DEAD_LETTER, 0)
GONE = None
Place = tuple[SubQueue, int] | None


class Caller:
    """A partition, and a caller that repeats what was not done and believes what it is told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: queue.Queue[Answer] = queue.Queue()
        self._serial = 0
        self._names = 0
        self._ref = EntityRef("uid", 1)
        self.thread = self._started()

    def _started(self) -> PartitionThread:
        store = SqliteStore(self._folder, fingerprint(), reserve_bytes=1 << 14)
        settings = Settings(data=self._folder, namespace_uid="u", free_space_min_bytes=0)
        thread = PartitionThread(settings, store, self._take)
        thread.start()
        return thread

    def _take(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._answers.put(answer)

    def restart(self) -> None:
        """Stop and start again."""
        self.thread.stop()
        self.thread = self._started()

    def _ask(self, make: Callable[[str], Any], *also: Callable[[str], Any]) -> Any:
        """Submit commands under a name of their own; return the last one's answer."""
        self._serial += 1
        me = f"caller {self._serial}"
        assert self.thread.submit(*(each(me) for each in (make, *also)))
        while (answer := self._answers.get(timeout=WAIT_S)).to != me:
            pass
        return answer.value

    def places(self) -> dict[bytes, list[Place]]:
        """Return where each message is, once the partition answers that."""
        deadline = time.monotonic() + WAIT_S
        found: dict[bytes, list[Place]] = {}
        for sub_queue in (SubQueue.MAIN, SubQueue.DEAD_LETTER):
            ref = self._ref._replace(sub_queue=sub_queue)
            peeked: Any = Failed(errors.BusError(""))
            while isinstance(peeked, Failed):
                assert time.monotonic() < deadline, f"does not recover: {peeked.error}"
                peeked = self._ask(partial(_peek, ref))
            for row in peeked.delivery.rows:
                found.setdefault(row.payload, []).append((sub_queue, row.state))
        return found

    def _until_done(
        self, what: bytes, after: Place, attempt: Callable[[int], BaseException | None]
    ) -> None:
        """Try until the answer is yes; compare each answer with what is there then."""
        before = (self.places().get(what) or [GONE])[0]
        unknown = False
        for number in range(TRIES):
            error = attempt(number)
            now = self.places().get(what) or [GONE]
            assert len(now) == 1, f"{what[:20]!r} is stored {len(now)} times"
            assert now[0] in (before, after), f"{what[:20]!r} is at {now[0]}"
            unknown = unknown or isinstance(error, errors.OutcomeUnknown)
            if error is None or (unknown and now[0] == after):
                assert now[0] == after, f"{what[:20]!r}: acknowledged, and not done"
                return
            assert now[0] == before or unknown, f"{what[:20]!r}: refused ({error}), and done"
            assert str(error), "an error says what is wrong"
        raise AssertionError(f"{what[:20]!r} is never done")

    def create(self) -> None:
        """Create the queue."""
        action = EntityAction.CREATE
        for _ in range(TRIES):
            made = self._ask(lambda me: CommitEntity(me, action, "q", Origin.CLIENT, uid="uid"))
            if not isinstance(made, Failed) or isinstance(made.error, errors.EntityAlreadyExists):
                return
        raise AssertionError("it is never created")

    def send(self, payload: bytes, after: Place = ACTIVE, **columns: Any) -> None:
        """Send a message under a name, and repeat it under that name."""
        self._names += 1
        name, began = self._names, time.monotonic()

        def attempt(number: int) -> BaseException | None:
            age_ms = 1 + int((time.monotonic() - began) * 1000) if number else 0
            batch = Batch([payload], **columns)
            answer = self._ask(
                lambda me: Append(me, self._ref, batch, (), b"p" * 16, name, age_ms=age_ms)
            )
            return answer.error if isinstance(answer, Failed) else None

        self._until_done(payload, after, attempt)

    def settle(self, payload: bytes, disposition: Disposition, after: Place) -> None:
        """Receive a message and settle it; again with the same lock, if it is still good."""
        held: list[bytes] = []

        def attempt(number: int) -> BaseException | None:
            held[:] = held or self._received(payload)
            if not held:
                return errors.PartitionUnavailable("it is not there")
            answer = self._ask(lambda me: Settle(me, 1, disposition, held[0]))
            if isinstance(answer, Failed):
                return answer.error
            if not answer.failures:
                return None
            if isinstance(answer.failures[0][1], errors.MessageLockLost):
                held.clear()
            return answer.failures[0][1]

        self._until_done(payload, after, attempt)

    def _received(self, payload: bytes) -> list[bytes]:
        """Return the token of a message that is delivered now; what else came is released."""
        self._serial += 1
        stream, found = f"stream {self._serial}", []
        assert self.thread.submit(Ask(stream, 1, self._ref, False, 50, 1 << 20))
        assert self.thread.submit(Withdraw(stream, 1))
        while not isinstance(value := self._answers.get(timeout=WAIT_S).value, Withdrawn):
            if isinstance(value, Failed):
                return []
            if isinstance(value, Reserved):
                packed, rows = tokens_of(value), value.delivery.rows
                tokens = [packed[i * 16 : i * 16 + 16] for i in range(len(rows))]
                found += [t for t, row in zip(tokens, rows, strict=True) if row.payload == payload]
                others = [token for token in tokens if token not in found]
                assert self.thread.submit(Release(stream, b"".join(others)))
        if found:
            assert self.thread.submit(Deliver(stream, 2, found[0]))
        return found

    def cancel(self, payload: bytes, counter: int) -> None:
        """Cancel a scheduled message."""

        def attempt(number: int) -> BaseException | None:
            answer = self._ask(lambda me: CancelScheduled(me, self._ref, [counter]))
            return answer.error if isinstance(answer, Failed) else None

        self._until_done(payload, GONE, attempt)


def _peek(ref: EntityRef, me: str) -> Peek:
    return Peek(me, ref, 0, 100, 1 << 20)


def play(folder: Path, faults: Faults) -> None:
    """Do everything once, while one fault happens somewhere."""
    with failing(faults):
        caller = Caller(folder)
        try:
            caller.create()
            caller.send(b"complete")
            caller.send(b"defer")
            caller.send(LARGE)
            caller.send(b"cancel", SCHEDULED, scheduled_ms=[LATER_MS])
            caller.settle(b"complete", Disposition.COMPLETE, GONE)
            caller.settle(b"defer", Disposition.DEFER, DEFERRED)
            caller.settle(LARGE, Disposition.DEAD_LETTER, DEAD)
            caller.cancel(b"cancel", 4)
            caller.send(b"with an end", time_to_live_ms=[3_600_000])
            caller.restart()
            caller.send(b"last")
            faults.end()
            caller.restart()
            expected = [[ACTIVE], [ACTIVE], [DEAD], [DEFERRED]]
            assert sorted(caller.places().values(), key=str) == sorted(expected, key=str)
        finally:
            caller.thread.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between tries, and checkpoint in the middle of the run."""
    monkeypatch.setattr(partition_thread, "REOPEN_S", 0.001)
    monkeypatch.setattr(disk_space, "FULL_S", 0.001)
    monkeypatch.setattr(file_format, "WAL_PAGES_MAX", 8)


@pytest.mark.parametrize(
    ("call", "error", "times", "half", "step"),
    [
        # All calls take minutes; other steps find other calls.
        (Call.WRITE, errno.EIO, 1, True, 13),
        (Call.WRITE, errno.ENOSPC, 4, False, 11),
        (Call.SYNC, errno.EIO, 1, False, 3),
    ],
)
def test_a_fault_at_any_call_makes_no_answer_wrong(
    tmp_path: Path, call: Call, error: int, times: int, half: bool, step: int
) -> None:
    for nth in range(1, 10_000, step):
        faults = Faults(call, error, nth=nth, times=times, half=half)
        folder = tmp_path / f"{nth}"

        try:
            play(folder, faults)
        except AssertionError as wrong:
            raise AssertionError(f"{described(faults)}, call {nth}: {wrong}") from wrong

        if not faults.happened:
            break
    assert nth > 20
