"""The broker of one partition: every rule comes together here, and nothing of the world does.

The shell (`running`) turns the wheel:

    stage = partition.decide(commands, now)     updates counters; sends no replies
    store.commit(stage.changes)                 the only write
    answers = partition.apply(stage, now)       STRICTLY AFTER the commit: readers see, asks are
                                                served, replies are sent
    … or partition.abandon(stage, error)        the commit failed: as if nothing had been decided

Sweeps are stages of the same kind. Reads need the store and so happen in `apply`.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from bendybus.domain import bounds, errors, lock_token
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import browse, counts, receive, send
from bendybus.partition_server.rules.batch_delete import Deletions
from bendybus.partition_server.rules.settle import Place, Settler
from bendybus.partition_server.rules.sweep import Kind, Sweeper, remove_dropped
from bendybus.partition_server.state import producer_memory
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.catalogue import Catalogue
from bendybus.partition_server.state.clock_guard import ClockGuard
from bendybus.partition_server.state.commands import (
    Append,
    Appended,
    ApplyEntity,
    Ask,
    AskRefused,
    CancelScheduled,
    CatalogueChanged,
    Command,
    CommitEntity,
    Counts,
    DeleteMessages,
    Deliver,
    Delivered,
    Done,
    EntityCounts,
    EntityRef,
    Failed,
    FenceIdle,
    Now,
    Peek,
    ReceiveDeferred,
    Release,
    Settle,
    Settled,
    StreamEnded,
    Watch,
    Withdraw,
    Withdrawn,
)
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.operation_memory import Operations
from bendybus.partition_server.state.producer_memory import Producers
from bendybus.partition_server.state.settler_memory import Settlers
from bendybus.partition_server.state.stage import Answer, Stage, failure_of
from bendybus.partition_server.state.unfinished_work import Unfinished
from bendybus.partition_server.store.records import SLOT_MAX, SlotState
from bendybus.partition_server.store.store import Opened, Store

FENCE_MS: Final = 10_000
CLOCK_HOLD_MS: Final = 5 * 60 * 1_000
# Commands that read the store before they decide: they get a stage of their own.
ALONE: Final = (CancelScheduled, DeleteMessages, ReceiveDeferred, CommitEntity, ApplyEntity)


class Partition:
    """State of one partition since its file was opened."""

    def __init__(
        self,
        opened: Opened,
        store: Store,
        now: Now,
        *,
        clock_hold_ms: int = CLOCK_HOLD_MS,
        machine: str = "",
        clock_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`machine` names the boot of the machine; `clock_ms` goes on during a turn."""
        self.fingerprint: Fingerprint = opened.fingerprint
        self.partition = opened.fingerprint.partition
        self.boot = opened.boot
        self.store = store
        self.catalogue = Catalogue(opened.fingerprint, opened.entities)
        self.clock = ClockGuard(now, hold_ms=clock_hold_ms, seen=opened.seen, machine=machine)
        self._clock_ms = clock_ms
        self._corrections = 0
        self._expiry_held = self.clock.expiry_held(now)
        # Set by the shell: why sends are refused (no room on the disk), "" if they are not.
        self.sends_refused = ""
        # From somewhere else at every opening: a file that was restored has its boot numbers twice.
        self.lock_generation = now.wall_ms & lock_token.GENERATION_MASK
        self.asks_at: dict[tuple[Any, int], int] = {}
        self.settlers = Settlers()
        self.operations = Operations(now)
        self._producers = Producers(
            opened.producers,
            now,
            opened.producers_forgotten_until_ms,
            clock_in_doubt=self._expiry_held or opened.seen is None,
        )
        self.sweeper = Sweeper(machine)
        # Queues that have more to give, or to look at, than fitted into the last turn.
        self.unserved: dict[int, None] = {}
        self.serving = receive.Serving()
        self.deletions = Deletions()
        self.unfinished = Unfinished()
        # What the commands of this turn may still settle; begun with the first that is divisible.
        self._budget: Budget | None = None
        self._places: dict[int, Place] = {}
        self._main_slots: dict[str, int] = {}
        # After the highest slot that was in use since the file was opened; even.
        self._slots_end = 0
        self._dropped: dict[int, SlotState] = {}
        self._dropping = False
        self._fenced_until: dict[str, int] = {}
        self._watchers: list[Any] = []
        self._open_places(opened.slots, now)
        for entity in self.catalogue.existing():
            self._ensure_slots(entity, now)
        self.sweeper.begin(self)
        for place in self._places.values():
            self._watch_keys(place, 0)

    # The wheel

    @staticmethod
    def grouped(commands: Iterable[Command]) -> Iterable[list[Command]]:
        """Split commands into stages: in order, some alone."""
        group: list[Command] = []
        for command in commands:
            if isinstance(command, ALONE):
                if group:
                    yield group
                    group = []
                yield [command]
            else:
                group.append(command)
        if group:
            yield group

    def decide(self, commands: Iterable[Command], now: Now) -> Stage:
        """Decide on commands in their order; see the module's docstring."""
        stage = Stage()
        held = self.clock.expiry_held(now)
        settler = Settler(self, stage, now, self._budget_of_turn, expiry_held=held)
        for command in commands:
            if isinstance(command, Append):
                self._append(command, stage, now)
            elif isinstance(command, Settle):
                self._settle(command, settler, stage)
            elif isinstance(command, Deliver):
                self._deliver(command, settler, stage)
            elif isinstance(command, Release):
                # Not answered, whatever it names.
                with contextlib.suppress(BusError):
                    settler.release(command)
            elif isinstance(command, StreamEnded):
                # Its asks of this very group would be opened after its end, and lock for nobody.
                stage.after[:] = [
                    other
                    for other in stage.after
                    if getattr(other, "stream", None) != command.stream
                ]
                self._stream_ended(command.stream, settler)
            elif isinstance(command, ALONE):
                self._decide_alone(command, stage, now)
            else:
                stage.after.append(command)
        return stage

    def sweep(self, now: Now) -> Stage | None:
        """Decide on what is due by time, within a budget; None if nothing is."""
        held = self._check_clock(now)
        self.sweeper.deletions = len(self.deletions)
        self.sweeper.unfinished = len(self.unfinished)
        due = self.sweeper.due(now, expiry_held=held)
        if not due and not self._dropped:
            self._dropping = False
            return None
        stage, budget = Stage(), Budget(self._clock_ms)
        # In turn with what is due: rows of a deleted queue may themselves be what is due.
        self._dropping = bool(self._dropped) and not (due and self._dropping)
        if due and not self._dropping:
            self._sweep(self.sweeper.next_kind(due), stage, now, budget)
        else:
            slot = next(iter(self._dropped.values()))
            remove_dropped(self, slot, stage.changes, budget)
        return stage

    def _sweep(self, kind: Kind, stage: Stage, now: Now, budget: Budget) -> None:
        settler = Settler(self, stage, now, lambda: budget, expiry_held=self._expiry_held)
        match kind:
            case Kind.LOCK_ENDS:
                self.sweeper.end_locks(self, settler, now, budget)
            case Kind.ACTIVATION:
                self.sweeper.activate(self, stage, now, budget)
            case Kind.EXPIRY:
                self.sweeper.expire(self, settler, stage, now, budget)
            case Kind.HISTORY:
                self.sweeper.forget_keys(self, stage, now, budget)
            case Kind.DELETION:
                self.deletions.go_on(self, stage, budget)
            case Kind.MARK:
                self.sweeper.mark(stage, now)
            case Kind.UNFINISHED:
                self.sweeper.finish(self, settler, stage, now, budget)

    def _check_clock(self, now: Now) -> bool:
        """Return whether expiry is held; look at everything again where a clock was corrected."""
        held = self.clock.expiry_held(now)
        if self._expiry_held and not held:
            # What was passed over meanwhile is due now; keys may wait for a time that was wrong.
            self.sweeper.begin(self)
            for place in self._places.values():
                self._watch_keys(place, 0)
        self._expiry_held = held
        if self.clock.corrections != self._corrections:
            self._corrections = self.clock.corrections
            for slot, place in self._places.items():
                place.queue.rewind()
                self.unserved[slot] = None
        return held

    def note_clock(self, now: Now) -> Stage:
        """Decide on noting the clocks in the file, at its closing."""
        stage = Stage()
        if not self.clock.expiry_held(now):
            self.sweeper.mark(stage, now)
        return stage

    def go_on(self, now: Now) -> list[Answer]:
        """End a turn of commands: serve what did not fit into the last one; return what to tell
        whom.
        """
        answers: list[Answer] = []
        self.serving.begin()
        self._budget = None
        for slot in list(self.unserved):
            if self.serving.spent():
                break
            # At the end of the row, if it is not served whole now.
            del self.unserved[slot]
            self._serve(slot, answers, now)
        return answers

    def apply(self, stage: Stage, now: Now) -> list[Answer]:
        """Let everybody see a committed stage; return what to tell whom, in order."""
        for moved in stage.on_commit:
            moved()
        for entity in stage.changes.entities:
            self._take_entity(entity, stage, now)
        for key in stage.changes.entities_forgotten:
            self.catalogue.forget(key)
        for slot in stage.changes.slots_removed:
            self._dropped.pop(slot, None)
        for queue, counter in stage.vanished:
            queue.forget([counter])
        served: dict[int, MessageQueue] = {}
        for touched in stage.touched.values():
            for row in touched.fresh:
                if row.expires_ms is not None or row.scheduled_ms:
                    self.sweeper.saw(row)
            touched.queue.push_hot(touched.fresh, touched.caught_up and not touched.cold)
            served[touched.queue.state.slot] = touched.queue
        for queue, counter in stage.returned:
            queue.give_back(counter)
            served[queue.state.slot] = queue
        for slot in {entry.slot for entry in stage.changes.history}:
            if slot in self._places:
                self._watch_keys(self._places[slot], now.wall_ms)
        stage.be_remembered(self.settlers, self.operations, now)
        answers = stage.answers
        for command in stage.after:
            self._after(command, answers, now, served)
        for slot, queue in served.items():
            if queue.asks:
                self._serve(slot, answers, now)
        return answers

    def abandon(self, stage: Stage, error: BusError, now: Now) -> list[Answer]:
        """Take a stage back whose commit failed; return what to tell whom."""
        self.take_back(stage, now)
        self.deletions.failed(self.operations, stage, error, now)
        answers = [Answer(to, failure_of(value, error)) for to, value in stage.answers]
        answers += self.unfinished.failed(stage, error)
        for command in stage.after:
            self._after(command, answers, now, {})
        return answers

    def take_back(self, stage: Stage, now: Now) -> None:
        """Undo a stage whose commit failed, so that its commands can be decided again."""
        stage.roll_back()
        self._producers.roll_back(stage.changes)
        for queue, counter, lock in stage.unlocked:
            self.lock_ends_at(max(lock.until_mono_ms, now.mono_ms), queue.state.slot)
            assert counter in queue.locks

    def refuse_sends(self, commands: Iterable[Command], error: BusError, now: Now) -> list[Answer]:
        """Return the answers to sends that find no room; what is stored already is told so."""
        return [
            Answer(command.reply_to, self._producers.refused(command, error, now))
            for command in commands
            if isinstance(command, Append)
        ]

    def stood_still(self, gap_ms: int) -> None:
        """Give locks the time back that the process stood still."""
        for place in self._places.values():
            place.queue.extend_locks(gap_ms)
        self.sweeper.lock_looks.shift(gap_ms)

    def wait_ms(self, now: Now) -> int | None:
        """Return how long nothing is due; None: until somebody asks for something."""
        if self._dropped or self.unserved or self.deletions or self.unfinished:
            return 0
        return self.sweeper.wait_ms(now, expiry_held=self.clock.expiry_held(now))

    # What the rules of settling, sweeping and reserving need to know (settling.Places)

    def place(self, slot: int) -> Place | None:
        """Return the place of a slot."""
        return self._places.get(slot)

    def lock_ends_at(self, mono_ms: int, slot: int) -> None:
        """Look at the locks of a slot at that time."""
        self.sweeper.lock_looks.at(mono_ms, slot)

    def expires_at(self, wall_ms: int) -> None:
        """Look for expired messages at that time (again)."""
        self.sweeper.expires_at(wall_ms)

    def find(self, ref: EntityRef, now: Now) -> Place:
        """Return the place that a call is about, and note that it is in use."""
        entity = self.catalogue.resolve(ref)
        slot = self._main_slots.get(ref.uid)
        if slot is None:
            # Only a number leads here: its top 16 bits are the partition.
            text = f"queue {entity.name!r} has no messages in partition {self.partition}."
            raise errors.MessageNotFound(text, metadata={"entity": entity.name})
        if self._fenced_until.get(ref.uid, 0) > now.mono_ms:
            raise errors.ServerBusy(
                f"queue {entity.name!r} is about to be deleted because it was idle.",
                retry_after_ms=FENCE_MS,
            )
        place = self._places[slot | 1 if ref.dead_letter else slot]
        place.queue.used(now.wall_ms, now.mono_ms)
        return place

    # Deciding

    def _append(self, command: Append, stage: Stage, now: Now) -> None:
        try:
            outcome = self._appended(command, stage, now)
        except BusError as error:
            stage.answer(command.reply_to, Failed(error))
        else:
            stage.answer(command.reply_to, outcome)

    def _appended(self, command: Append, stage: Stage, now: Now) -> Appended:
        place = self.find(command.entity, now)
        if command.entity.dead_letter:
            raise errors.InvalidOperation(
                f"queue {place.entity.name!r}: messages cannot be sent to a dead-letter sub-queue."
            )
        bounds.check_producer(
            command.producer_id,
            command.producer_sequence,
            command.age_ms,
            command.deadline_mono_ms,
        )
        known = self._producers.find(command, now)
        if known is not None and known.rest is None:
            return known.outcome
        # A repeat of a part of which some units are known stores the others.
        fresh = command if known is None or known.rest is None else known.rest
        try:
            send.check_sends(place.entity, fresh, now, self.partition, self.sends_refused)
        except BusError as error:
            if known is None:
                raise
            return producer_memory.refuse_rest(command, known, error)
        appender = send.Appender(
            stage,
            self.store,
            place.queue,
            entity=place.entity,
            partition=self.partition,
            tier=self.fingerprint.tier,
            quota_used=place.queue.size_bytes() + place.dead_letters.size_bytes(),
            now=now,
            clock_held=self.clock.expiry_held(now),
        )
        outcome = appender.run(fresh)
        self._producers.remember(fresh, outcome, now, stage.changes)
        if stage.changes.producers_forgotten and not self.clock.expiry_held(now):
            # The next opening compares its clock with the one that says when this was forgotten.
            self.sweeper.mark(stage, now)
        return outcome if known is None else producer_memory.merge(command, known, outcome)

    def _budget_of_turn(self) -> Budget:
        if self._budget is None:
            self._budget = Budget(self._clock_ms)
        return self._budget

    def _settle(self, command: Settle, settler: Settler, stage: Stage) -> None:
        try:
            settled = settler.settle(command)
            if settled is not None:
                stage.answer(command.stream, settled)
        except BusError as error:
            count = len(command.tokens) // lock_token.TOKEN_BYTES or 1
            failures = [(i, error) for i in range(count)]
            stage.answer(command.stream, Settled(command.settle_id, count, failures))

    def _deliver(self, command: Deliver, settler: Settler, stage: Stage) -> None:
        try:
            delivered = settler.deliver(command)
        except BusError as error:
            delivered = Delivered(command.deliver_id, error=error)
        if delivered is not None:
            stage.answer(command.stream, delivered)

    def _stream_ended(self, stream: Any, settler: Settler) -> None:
        if stream in self._watchers:
            self._watchers.remove(stream)
        for key in [key for key in self.asks_at if key[0] == stream]:
            del self.asks_at[key]
        for place in self._places.values():
            queue = place.queue
            if queue.asks:
                for key in [key for key in queue.asks if key[0] == stream]:
                    del queue.asks[key]
            held = [
                (counter, lock)
                for counter, lock in queue.locks.items()
                if lock.stream == stream and not lock.delivered
            ]
            for counter, lock in held:
                settler.lock_over(place, counter, lock)

    def _decide_alone(self, command: Command, stage: Stage, now: Now) -> None:
        if isinstance(command, DeleteMessages):
            self.deletions.begin(self, command, stage, now, Budget(self._clock_ms))
            return
        try:
            value = self._alone(command, stage, now)
        except BusError as error:
            value = Failed(error)
        stage.answer(command.reply_to, value)  # type: ignore[union-attr]

    def _alone(self, command: Command, stage: Stage, now: Now) -> Any:
        if isinstance(command, CommitEntity):
            entity = self.catalogue.decide(command, now)
            if self.catalogue.by_uid(entity.uid) != entity:
                self._change_catalogue(entity, stage)
            return entity
        if isinstance(command, ApplyEntity):
            if self.catalogue.accept(command.entity):
                self._change_catalogue(command.entity, stage)
            return Done()
        if isinstance(command, ReceiveDeferred):
            return receive.receive_deferred_once(self, command, stage, now)
        assert isinstance(command, CancelScheduled), command
        return browse.cancel_scheduled_once(self, command, stage, now)

    def _change_catalogue(self, entity: Entity, stage: Stage) -> None:
        stage.changes.entities.append(entity)
        # Never the name that changes now: its tombstone, if it has one, stays or becomes an entity.
        forgotten = (key for key in self.catalogue.forgettable() if key != entity.key)
        stage.changes.entities_forgotten.extend(forgotten)

    # After the commit

    def _after(
        self,
        command: Command,
        answers: list[Answer],
        now: Now,
        served: dict[int, MessageQueue],
    ) -> None:
        if isinstance(command, Ask):
            try:
                place = receive.open_ask(self, command, now)
            except BusError as error:
                answers.append(Answer(command.stream, AskRefused(command.ask_id, error)))
            else:
                served[place.queue.state.slot] = place.queue
        elif isinstance(command, Withdraw):
            # It may have come with its ask: what is there is given first.
            slot = self.asks_at.get((command.stream, command.ask_id), -1)
            self._serve(slot, answers, now, receive.Serving())
            receive.withdraw(self, command)
            answers.append(Answer(command.stream, Withdrawn(command.ask_id)))
        elif isinstance(command, Watch):
            self._watchers.append(command.stream)
            everything = CatalogueChanged(self.catalogue.all(), snapshot=True)
            answers.append(Answer(command.stream, everything))
        else:
            try:
                value = self._read(command, now)
            except BusError as error:
                value = Failed(error)
            answers.append(Answer(command.reply_to, value))  # type: ignore[union-attr]

    def _read(self, command: Command, now: Now) -> Any:
        if isinstance(command, Peek):
            return browse.peek(self, command, now)
        if isinstance(command, Counts):
            return self._counts(command, now)
        assert isinstance(command, FenceIdle), command
        return self._fence(command, now)

    def _serve(
        self,
        slot: int,
        answers: list[Answer],
        now: Now,
        serving: receive.Serving | None = None,
    ) -> None:
        place = self._places.get(slot)
        serving = serving or self.serving
        if place is None or receive.serve(self, place, answers, now, serving):
            self.unserved.pop(slot, None)
        else:
            self.unserved[slot] = None

    def _counts(self, command: Counts, now: Now) -> list[EntityCounts]:
        uids = command.uids or list(self._main_slots)
        return [self._count(uid, now) for uid in uids if uid in self._main_slots]

    def _count(self, uid: str, now: Now) -> EntityCounts:
        main, dead = (self._places[self._main_slots[uid] | i] for i in (0, 1))
        return counts.count(main, dead.queue, now)

    def _fence(self, command: FenceIdle, now: Now) -> bool:
        entity = self.catalogue.by_uid(command.uid)
        if entity is None or entity.orphaned or entity.generation != command.generation:
            return False
        if command.uid in self._main_slots:
            if self._count(command.uid, now).idle_ms < command.idle_ms:
                return False
            self._fenced_until[command.uid] = now.mono_ms + FENCE_MS
        return True

    # Entities and their slots

    def _take_entity(self, entity: Entity, stage: Stage, now: Now) -> None:
        old = self.catalogue.by_key(entity.key)
        self.catalogue.put(entity)
        if old is not None and (entity.deleted or old.uid != entity.uid):
            self._drop(old, stage.answers)
        if not entity.deleted:
            self._ensure_slots(entity, now)
            self._refuse_asks(entity, stage.answers)
            if entity.uid in self._main_slots:
                # Its window may be another one now.
                self._watch_keys(self._places[self._main_slots[entity.uid]], 0)
        for watcher in self._watchers:
            stage.answer(watcher, CatalogueChanged([entity], snapshot=False))

    def new_slots(self, entity: Entity) -> list[SlotState]:
        """Return the slots that an entry of the catalogue needs here and does not have yet."""
        if entity.deleted or entity.uid in self._main_slots:
            return []
        if self.partition not in entity.partitions():
            return []
        main = self._free_slot()
        return [SlotState(main, entity.uid), SlotState(main | 1, entity.uid)]

    def _free_slot(self) -> int:
        """Return the number of a pair of slots that nothing uses: after all others, if it can."""
        if self._slots_end < SLOT_MAX:
            return self._slots_end
        used = self._places.keys() | self._dropped.keys()
        main = next((n for n in range(0, SLOT_MAX, 2) if n not in used and n + 1 not in used), None)
        if main is None:
            raise errors.QuotaExceeded("the partition's file has no slot left for an entity.")
        return main

    def _ensure_slots(self, entity: Entity, now: Now) -> None:
        slots = self.new_slots(entity)
        if slots:
            self._open_places(slots, now)
        for i in (0, 1):
            if entity.uid in self._main_slots:
                self._places[self._main_slots[entity.uid] | i].entity = entity

    def _open_places(self, slots: Sequence[SlotState], now: Now) -> None:
        known = {slot.slot: slot for slot in slots}
        for main in sorted({number & ~1 for number in known}):
            uid = known[main if main in known else main | 1].uid
            # A slot is written when its first message is; its partner may still be missing.
            pair = [known.get(number) or SlotState(number, uid) for number in (main, main | 1)]
            self._slots_end = max(self._slots_end, main + 2)
            entity = self.catalogue.by_uid(uid)
            if entity is None:
                self._dropped.update({slot.slot: slot for slot in pair})
                continue
            first, second = (MessageQueue(slot, last_used_mono_ms=now.mono_ms) for slot in pair)
            self._places[main] = Place(entity, first, second)
            self._places[main | 1] = Place(entity, second, second)
            self._main_slots[uid] = main

    def _drop(self, entity: Entity, answers: list[Answer]) -> None:
        main = self._main_slots.pop(entity.uid, None)
        if main is None:
            return
        gone = errors.EntityNotFound(f"queue {entity.name!r} was deleted.")
        for slot in (main, main | 1):
            queue = self._places.pop(slot).queue
            for key, ask in queue.asks.items():
                self.asks_at.pop(key, None)
                answers.append(Answer(ask.stream, AskRefused(ask.ask_id, gone)))
            queue.state.dropped = True
            self._dropped[slot] = queue.state
        self._fenced_until.pop(entity.uid, None)

    def _refuse_asks(self, entity: Entity, answers: list[Answer]) -> None:
        """Close the asks of older generations: the front end asks again with what it knows now."""
        changed = errors.GenerationMismatch(f"queue {entity.name!r} was changed.")
        main = self._main_slots.get(entity.uid)
        for slot in () if main is None else (main, main | 1):
            asks = self._places[slot].queue.asks
            while asks:
                key, ask = asks.popitem(last=False)
                self.asks_at.pop(key, None)
                answers.append(Answer(ask.stream, AskRefused(ask.ask_id, changed)))

    def _watch_keys(self, place: Place, since_ms: int) -> None:
        """Look for keys to forget in a queue that detects duplicates, from `since_ms` on."""
        detects = place.entity.queue.requires_duplicate_detection
        if detects and not place.queue.state.dead_letter:
            window_ms = place.entity.queue.duplicate_detection_history_time_window_ms
            due_ms = since_ms + window_ms + 1 if since_ms else 0
            self.sweeper.key_looks.at(due_ms, place.queue.state.slot)
