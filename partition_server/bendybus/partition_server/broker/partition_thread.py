"""The thread of one partition: takes commands, decides, commits, and only then answers.

One thread owns the file and all state of the partition; the event loop hands commands in through
the inbox and gets answers back in one call per turn. Order of a turn: clocks → decide → commit →
apply → answers. A commit that finds no room is taken back and the store goes on; any other
failure closes the store, answers all callers that wait, and reopens it.

Logs and counts the faults of a partition (see `state.faults`): each counted, few logged whole.

A fault that is met again and again, by a client that repeats its command or a sweep that is due
again, must not fill the log: its traceback is logged once in a while, with how many there were.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.partition_server.broker import clocks, disk_space
from bendybus.partition_server.broker.disk_space import DiskSpace
from bendybus.partition_server.broker.inbox import Inbox
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.settings import Settings
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Ask,
    AttachSession,
    Command,
    Now,
    StreamEnded,
    Watch,
    stores,
)
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.faults import Fault, RuleFailed
from bendybus.partition_server.state.figures import Figures
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.store.errors import (
    FileRefused,
    NotCommitted,
    StoreError,
    StoreFull,
    Unwritable,
)
from bendybus.partition_server.store.sqlite_store import SqliteStore

logger = logging.getLogger(__name__)
# The longest wait: keeps the standstill check and the disk check honest, costs next to nothing.
WAIT_S_MAX: Final = 1.0
REOPEN_S: Final = 1.0
# In this time of a turn, reads of many rows begin: each takes up to three times as long.
LOOK_S: Final = 0.005


class PartitionThread:
    """Runs one partition; `deliver` is called on this thread with answers, a turn at a time."""

    def __init__(
        self,
        settings: Settings,
        store: SqliteStore,
        deliver: Callable[[Sequence[Answer]], None],
        clock: Callable[[], Now] = clocks.read_clocks,
    ) -> None:
        self.index = store.fingerprint.partition
        self.store = store
        self.figures = Figures()
        self._fault_log = FaultLog(self.index, self.figures)
        # Stable words for EchoResponse.conditions; replaced whole, read by any thread.
        self.conditions: tuple[str, ...] = ("StoreOpening",)
        self.serving = False
        # Why the thread ended without being told to; the process must not go on without it.
        self.died: BaseException | None = None
        # Where frames for other partitions go, see `Outgoing`; set before `start`.
        self.forward_link: Caller = None
        self._settings = settings
        self._deliver = deliver
        self._clock = clock
        self._inbox = Inbox()
        self._stopping = threading.Event()
        self._partition: Partition | None = None
        # Streams that wait for answers: told when the store fails, for their locks are void then.
        self._streams: set[Caller] = set()
        # Commands whose COMMIT may have been executed: until they are answered, no caller may be
        # told that they were not.
        self._uncertain: Sequence[Command] = ()
        # How many commands of this turn are answered.
        self._answered = 0
        # Callers that wait for the end of what was begun in earlier turns.
        self._abandoned: list[Caller] = []
        self._failure = "it is starting"
        self._disk = DiskSpace(store, settings.free_space_min_bytes)
        self._machine = clocks.read_machine()
        self._thread = threading.Thread(target=self._run, name=f"partition-{self.index}")

    def start(self) -> StoreError | None:
        """Open the file and begin; return why it cannot be opened, if so (it is tried again)."""
        failure: StoreError | None = None
        try:
            self._open()
        except StoreError as error:
            failure = error
            self._close(str(error))
        self._thread.start()
        return failure

    def stop(self) -> None:
        """Finish what waits, checkpoint, close the file. Blocks."""
        self._stopping.set()
        self._inbox.wake()
        if self._thread.is_alive():
            self._thread.join()
        self.store.close()

    def submit(self, *commands: Command) -> bool:
        """Hand commands in, all or none; False when the request queue is full."""
        return self._inbox.put(*commands)

    # The thread

    def _run(self) -> None:
        try:
            self._loop()
            if self._partition is not None:
                self._commit(self._partition.note_clock(self._clock()))
                self.store.checkpoint()
        except StoreError as error:
            logger.warning("partition %d: could not checkpoint at the end: %s", self.index, error)
        except BaseException as error:
            # Not even opening the file again helps. `server` ends the process.
            self.died = error
            self.conditions = ("ThreadDied",)
            logger.critical(
                "partition %d: its thread ended",
                self.index,
                exc_info=error,
                extra={"partition": self.index, "action": "thread-died"},
            )
        finally:
            self.serving = False
            self.store.close()

    def _loop(self) -> None:
        while True:
            commands: list[Command] = []
            try:
                commands = self._inbox.take(self._wait_s())
                if self._stopping.is_set() and not commands:
                    return
                self._turn(commands)
            except Exception as error:
                # The boundary of this thread: whatever went wrong, the file is reopened and the
                # state read again. Callers that were answered already are not answered again.
                if not isinstance(error, StoreError):
                    logger.exception("partition %d: internal error", self.index)
                self._close(str(error) or type(error).__name__)
                self._refuse(commands[self._answered :])
            finally:
                self._uncertain = ()

    def _wait_s(self) -> float:
        if self._stopping.is_set():
            return 0.0
        wait_s = WAIT_S_MAX
        if self._partition is not None:
            now = self._clock()
            due_ms = self._partition.state.wait_ms(now)
            if due_ms is not None and not self._disk.full():
                wait_s = max(0.0, min(wait_s, due_ms / 1000))
            if self._disk.shrinking:
                wait_s = min(wait_s, disk_space.SHRINK_EVERY_S)
            self._partition.state.clock.waiting(now.mono_ms, now.mono_ms + round(wait_s * 1000))
        return wait_s

    def _turn(self, commands: list[Command]) -> None:
        partition = self._partition
        self._answered = 0
        if partition is None:
            while (look := self._inbox.take_look()) is not None:
                commands.append(look)
            self._refuse(commands)
            self._answered = len(commands)
            self._reopen()
            return
        began_s = time.perf_counter()
        now = self._clock()
        gap_ms = partition.state.clock.observe(now)
        if gap_ms:
            logger.warning(
                "partition %d: made no progress for %d ms (suspended or busy); locks are extended",
                self.index,
                gap_ms,
                extra={"partition": self.index, "action": "standstill"},
            )
            partition.state.extend_locks(gap_ms)
        self._check_disk(partition, now, commands)
        self._note_streams(commands)
        # One alone begins.
        begins = self._inbox.begins if len(commands) > 1 else None
        try:
            for group in list(partition.grouped(commands)):
                self._decide(group, partition, now, begins)
        finally:
            if self._inbox.left:
                commands[:] = self._begun(commands)
                self._inbox.put_back()
        self._look(partition, now, commands, began_s + LOOK_S)
        self._deliver_all(partition.go_on(now))
        swept = None if self._disk.full() else self._sweep(partition, now)
        if swept is not None:
            try:
                self._finish(swept, partition, now)
            except Unwritable as error:
                partition.cannot_write(error, now)
        faults = partition.state.faults
        if faults.noted:
            self._fault_log.note(faults.take(), now.mono_ms)
        if commands or swept is not None:
            self.figures.turned(time.perf_counter() - began_s)

    def _look(
        self, partition: Partition, now: Now, commands: list[Command], until_s: float
    ) -> None:
        """Do more of what reads many rows, while this turn has time for it."""
        while time.perf_counter() < until_s:
            look = self._inbox.take_look()
            if look is None:
                return
            commands.append(look)
            self._decide([look], partition, now)

    def _sweep(self, partition: Partition, now: Now) -> Stage | None:
        """Decide on what is due by time; None: nothing is, or there is no room to try it."""
        try:
            return partition.sweep(now)
        except StoreFull as error:
            self._no_room(error)
            return None

    def _decide(
        self,
        group: Sequence[Command],
        partition: Partition,
        now: Now,
        begins: Callable[[Command], bool] | None = None,
    ) -> None:
        """Decide on those of a group that begin, commit and answer."""
        try:
            stage = partition.decide(group, now, begins)
        except RuleFailed:
            for part, commands in partition.stages(self._begun(group), now):
                self._perform(part, commands, partition, now)
        else:
            self._perform(stage, self._begun(group) if self._inbox.left else group, partition, now)

    def _begun(self, commands: Sequence[Command]) -> list[Command]:
        """Return commands without those that the turn has no time for."""
        left = set(map(id, self._inbox.left))
        return [command for command in commands if id(command) not in left]

    def _perform(
        self, stage: Stage, group: Sequence[Command], partition: Partition, now: Now
    ) -> None:
        """Commit what a group decided, and answer.

        Without room, sends are refused and the rest is decided again: what settles, deletes or
        expires makes room, and may use the reserve for it.
        """
        try:
            self._commit(stage, group)
        except Unwritable as error:
            partition.take_back(stage)
            self._perform_alone(group, partition, now, error)
            return
        except StoreFull as error:
            partition.take_back(stage)
            self._no_room(error)
            refusal = self._unavailable(str(error))
            refusals = partition.refuse_sends(group, refusal, now)
            rest = [command for command in group if not stores(command)]
            for again, part in partition.stages(rest, now) if rest else ():
                self._finish(again, partition, now, part)
            # STRICTLY LAST: if the rest fails, the whole group is answered there, once.
            self._deliver_all(refusals)
            self._deliver_all(partition.refuse_waiting(refusal))
        else:
            self._deliver_all(partition.apply(stage, now))
        self._answered += len(group)
        self._uncertain = ()

    def _perform_alone(
        self, group: Sequence[Command], partition: Partition, now: Now, error: Unwritable
    ) -> None:
        """Refuse the command that the store cannot write; decide on the others again."""
        if len(group) == 1:
            self._deliver_all(partition.apply(partition.refusal(group[0], error, now), now))
            self._answered += 1
            return
        for command in group:
            self._decide([command], partition, now)

    def _finish(
        self, stage: Stage, partition: Partition, now: Now, commands: Sequence[Command] = ()
    ) -> None:
        """Commit and answer; without room, answer that."""
        try:
            self._commit(stage, commands)
        except StoreFull as error:
            self._no_room(error)
            answers = partition.abandon(stage, self._unavailable(str(error)), now, commands)
        else:
            try:
                answers = partition.apply(stage, now)
            except Exception:
                if not commands:
                    # A sweep is committed: callers whose work it ended are known nowhere else.
                    self._deliver_all(stage.answers)
                raise
        self._deliver_all(answers)

    def _commit(self, stage: Stage, commands: Sequence[Command] = ()) -> None:
        """Commit what `commands` decided: from here on until they are answered, unless the store
        says that it was not committed, their outcome is unknown.
        """
        if stage.changes:
            began = time.perf_counter()
            self._uncertain = commands
            try:
                self.store.commit(stage.changes)
            except (NotCommitted, StoreFull):
                self._uncertain = ()
                raise
            self.figures.committed(stage.changes, time.perf_counter() - began)

    def _deliver_all(self, answers: list[Answer]) -> None:
        if answers:
            self._deliver(answers)

    def _note_streams(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, StreamEnded):
                self._streams.discard(command.stream)
            elif isinstance(command, Ask | Watch | AcceptSession | AttachSession):
                self._streams.add(command.stream)

    def _refuse(self, commands: Sequence[Command]) -> None:
        error = self._unavailable(self._failure)
        unknown = self._outcome_unknown(self._failure)
        uncertain = set(map(id, self._uncertain))
        # All streams end: their locks and asks are void.
        answers = [Answer(stream, Failed(error)) for stream in self._streams]
        waiting = dict.fromkeys(self._abandoned)
        answers += [Answer(to, Failed(unknown)) for to in waiting if to not in self._streams]
        self._streams.clear()
        self._abandoned.clear()
        for command in commands:
            if not isinstance(command, StreamEnded):
                failed = Failed(unknown if id(command) in uncertain else error)
                answers.append(Answer(command.reply_to, failed))
        self._deliver_all(answers)

    def _outcome_unknown(self, why: str) -> BusError:
        return errors.OutcomeUnknown(
            f"partition {self.index} failed while it stored this ({why}): it may or may not be "
            "stored. Repeat it under the same name.",
            metadata={"partition": str(self.index)},
        )

    def _unavailable(self, why: str) -> BusError:
        return errors.PartitionUnavailable(
            f"partition {self.index} cannot store or read messages: {why}.",
            metadata={"partition": str(self.index)},
        )

    # Opening, closing, room

    def _open(self) -> None:
        opened = self.store.open()
        now = self._clock()
        self._partition = Partition(
            opened,
            self.store,
            now,
            clock_hold_ms=self._settings.clock_hold_ms,
            machine=self._machine,
            clock_ms=lambda: self._clock().mono_ms,
            new_id=uuid.uuid4,
            forward_refused_ms=self._settings.forward_refused_ms,
        )
        self._partition.state.forward_link = self.forward_link
        self._failure = ""
        self.serving = True
        self._disk.check_soon()
        self._check_disk(self._partition, now)
        logger.info(
            "partition %d: open, boot %d",
            self.index,
            opened.boot,
            extra={"partition": self.index, "action": "open", "boot": opened.boot},
        )

    def _close(self, why: str) -> None:
        logger.error(
            "partition %d: store failed: %s",
            self.index,
            why,
            extra={"partition": self.index, "action": "store-failed"},
        )
        self._failure = why
        if self._partition is not None:
            self._abandoned += self._partition.state.deletions.callers()
            self._abandoned += self._partition.state.unfinished.callers()
            self._abandoned += self._partition.state.publications.callers()
        self._partition = None
        self.serving = False
        self.conditions = ("StoreFailed",)
        self.store.close()

    def _reopen(self) -> None:
        try:
            self._open()
        except (FileRefused, StoreError) as error:
            if str(error) != self._failure:
                logger.error("partition %d: %s", self.index, error)
            self._failure = str(error)
            self._stopping.wait(REOPEN_S)

    def _no_room(self, error: StoreFull) -> None:
        given = self._disk.ran_out()
        logger.error(
            "partition %d: disk full: %s%s",
            self.index,
            error,
            "; the reserve is given up" if given else "",
            extra={"partition": self.index, "action": "disk-full"},
        )

    def _check_disk(self, partition: Partition, now: Now, commands: Sequence[Command] = ()) -> None:
        """Refuse sends while there is too little room."""
        sending = any(map(stores, commands))
        refused = self._disk.check(partition.state.sends_refused, sending=sending)
        partition.state.sends_refused = refused
        held = partition.state.clock.expiry_held(now)
        self.figures.window_bytes = partition.state.windows.used_bytes
        waiting = self.figures.awaiting_room = partition.state.awaiting.count()
        words = (("ClockJump", held), ("DiskLow", refused), ("TopicFull", waiting))
        self.conditions = tuple(word for word, holds in words if holds)


logger = logging.getLogger(__name__)
# Between two tracebacks of the same fault.
AGAIN_MS: Final = 60_000
# Different faults that are told apart.
KINDS_MAX: Final = 1_000


class _Logged(NamedTuple):
    at_mono_ms: int
    since: int  # how many more there were


class FaultLog:
    """The faults of one partition."""

    def __init__(self, index: int, figures: Figures) -> None:
        self._index = index
        self._figures = figures
        self._logged: dict[tuple[str, str, str], _Logged] = {}

    def note(self, faults: Sequence[Fault], now_mono_ms: int) -> None:
        """Count faults, and log those that were not logged just now."""
        for fault in faults:
            self._figures.met_fault(fault.work, fault.entity)
            key = (fault.work, fault.entity, type(fault.error).__name__)
            last = self._logged.get(key)
            if last is not None and now_mono_ms - last.at_mono_ms < AGAIN_MS:
                self._logged[key] = last._replace(since=last.since + 1)
                continue
            if last is None and len(self._logged) >= KINDS_MAX:
                del self._logged[next(iter(self._logged))]
            self._logged[key] = _Logged(now_mono_ms, 0)
            self._log(fault, last.since if last else 0)

    def _log(self, fault: Fault, since: int) -> None:
        logger.error(
            "partition %d: internal error in %s of %r (%d more since it was logged)",
            self._index,
            fault.work,
            fault.entity,
            since,
            exc_info=fault.error,
            extra={
                "partition": self._index,
                "action": "internal-error",
                "work": fault.work,
                "entity": fault.entity,
            },
        )
