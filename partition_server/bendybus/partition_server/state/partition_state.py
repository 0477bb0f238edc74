"""Everything that a partition knows since its file was opened; the rules read and change it.

What changes goes through its `Journal` and can be taken back; see there.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from bendybus.domain import errors, forwarding, limits, lock_token, message_access
from bendybus.domain.entity import Entity
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.awaiting_room import AwaitingRoom
from bendybus.partition_server.state.budget import Budget, ServeBudget
from bendybus.partition_server.state.catalogue import Catalogue
from bendybus.partition_server.state.clock_guard import ClockGuard
from bendybus.partition_server.state.commands import EntityRef, Now
from bendybus.partition_server.state.drains import Drains
from bendybus.partition_server.state.due_times import DueTimes, Sweep
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.faults import Faults
from bendybus.partition_server.state.forwards import Forwards
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.lanes import Lanes
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.outcomes import Operations
from bendybus.partition_server.state.producer_memory import Producers
from bendybus.partition_server.state.publications import Publications
from bendybus.partition_server.state.queues import Queues
from bendybus.partition_server.state.ready_set import WindowMemory
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.settler_memory import Settlers
from bendybus.partition_server.state.shares import FencePlaces, HeldMessages, OpenStreams
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.state.topics import Topics
from bendybus.partition_server.state.transaction_outcomes import Transactions
from bendybus.partition_server.state.unfinished_work import Deletions, Unfinished
from bendybus.partition_server.store.store import Opened, Store

FENCE_MS: Final = 10_000
COLLECT_EVERY_MS: Final = 500


class PartitionState:
    """State of one partition."""

    # Whether the command that is being handled is a use of its entity; see `rule_table`.
    handles_use = False
    # Whether receivers get messages: until the process is about to stop.
    delivers = True

    def __init__(
        self,
        opened: Opened,
        store: Store,
        now: Now,
        *,
        clock_hold_ms: int,
        machine: str,
        clock_ms: Callable[[], int],
        new_id: Callable[[], UUID],
        forward_refused_ms: int = limits.FORWARD_REFUSED_MS,
    ) -> None:
        """`machine` names the boot of the machine; `clock_ms` goes on during a turn.

        `new_id` is the randomness of rules and of session tokens; for `forward_refused_ms` see
        `Forwards`.
        """
        self.fingerprint = opened.fingerprint
        self.index = opened.fingerprint.partition
        self.boot = opened.boot
        self.store = store
        self.clock_ms = clock_ms
        # Of the stage that is being decided.
        self.journal = journal = Journal()
        self.clock = ClockGuard(now, hold_ms=clock_hold_ms, seen=opened.seen, machine=machine)
        self.new_id = new_id
        self.catalogue = Catalogue(opened.fingerprint, opened.entities)
        self.topics = Topics()
        self.forwards = Forwards(forward_refused_ms, journal)
        self.lanes = Lanes(store.forwards.choices())
        self.held = HeldMessages(journal)
        self.fence_places = FencePlaces(journal)
        self.awaiting = AwaitingRoom(journal)
        self.faults = Faults(journal)
        # Takes frames for other partitions; None: there is no way to them.
        self.forward_link: Caller = None
        # Set by the shell: why sends are refused (no room on the disk), "" if they are not.
        self.sends_refused = ""
        # From somewhere else at every opening: a file that was restored has its boot numbers twice.
        self.lock_generation = now.wall_ms & lock_token.GENERATION_MASK
        self.windows = WindowMemory()
        self.queues = Queues(self.index, journal, self.windows)
        self.due = DueTimes(journal, machine)
        self.streams = OpenStreams()
        self.drains = Drains(opened.leases, now.mono_ms, journal)
        # Streams that are told of changes to the catalogue.
        self.watchers: list[Caller] = []
        self.fenced_until: dict[str, int] = {}
        self.settlers = Settlers()
        self.operations = Operations(now)
        self.producers = Producers(
            opened.producers,
            now,
            opened.producers_unknown,
            journal,
            clock_in_doubt=self.clock.expiry_held(now) or opened.seen is None,
        )
        self.transactions = Transactions(self.producers)
        # What goes on in later turns.
        self.deletions = Deletions(self.operations)
        self.unfinished = Unfinished()
        self.publications = Publications()
        # Slots that have more to deliver, or to look at, than fitted into the last turn.
        self.unserved: dict[int, None] = {}
        self.serve_budget = ServeBudget()
        # When shared bodies are collected that no message has; None: there was none.
        self._collect_mono_ms: int | None = None
        # What the commands of this turn may still do; begun with the first that is divisible.
        self._budget: Budget | None = None
        self._open(opened, now)

    def _open(self, opened: Opened, now: Now) -> None:
        """Take what the file holds of entities."""
        self.queues.open(opened.slots, self.catalogue, now.mono_ms)
        self.topics.open(self.catalogue.existing())
        for uid in self.producers.uids():
            if uid and self.catalogue.by_uid(uid) is None:
                self.producers.drop(uid)
        for queue in self.queues:
            self.watch_forwarding(queue)
        self.start_over()

    def begin_stage(self) -> Stage:
        """Return an empty stage; what was decided before it is committed, or taken back."""
        self.journal.begin()
        return Stage(self.journal, self.due)

    def begin_turn(self) -> None:
        """Let commands and deliveries have their whole budgets again."""
        self.serve_budget.begin()
        self._budget = None

    def budget(self) -> Budget:
        """Return what all commands of this turn may do together."""
        if self._budget is None:
            self._budget = Budget(self.clock_ms)
        return self._budget

    def next_generation(self) -> int:
        """Return what tells a lock from all others of this boot."""
        self.lock_generation = self.lock_generation + 1 & lock_token.GENERATION_MASK
        return self.lock_generation

    def find(self, ref: EntityRef, now: Now, access: Access = Access.RECEIVE) -> MessageQueue:
        """Return the queue that a call is about, and note its use.

        Raises EntityNotFound, GenerationMismatch, MessageNotFound, InvalidOperation or ServerBusy.
        """
        entity = self.catalogue.resolve(ref)
        message_access.check(entity, access)
        queue = self.queues.of(ref.uid, ref.sub_queue)
        if queue is None:
            message_access.check_sub_queue(entity)
            # Only a number leads here: it names this partition.
            text = f"{entity.title} has no messages in partition {self.index}."
            raise errors.MessageNotFound(text, metadata={"entity": entity.name})
        # A call that the fence refuses, too: if another partition says that the entity is in use,
        # it stays, and the next fence would refuse the repeat.
        self.note_use(queue, now)
        self.check_fence(entity, now)
        return queue

    def note_use(self, queue: MessageQueue, now: Now) -> None:
        """Note that a client uses a queue, if the command that is being handled is a use."""
        if self.handles_use:
            queue.used(now)

    def check_fence(self, entity: Entity, now: Now) -> None:
        """Raise ServerBusy for an entity that was idle and is about to be deleted."""
        if self.fenced_until.get(entity.uid, 0) > now.mono_ms:
            raise errors.ServerBusy(
                f"{entity.title} is about to be deleted because it was idle.",
                retry_after_ms=FENCE_MS,
            )

    # Time

    def sweeps_due(self, now: Now, *, expiry_held: bool) -> list[Sweep]:
        """Return what a sweep would find something to do for."""
        waits = self._waits(now, expiry_held)
        return [sweep for sweep, wait in waits if wait <= 0] if waits else []

    def wait_ms(self, now: Now) -> int | None:
        """Return how long nothing is due; None: until a command comes."""
        if self.unserved:
            return 0
        waits = [wait for _, wait in self._waits(now, self.clock.expiry_held(now))]
        if self.queues.dropped:
            waits.append(max(0, self.faults.wait_ms(None, now.mono_ms)))
        return min(waits, default=None)

    def _waits(self, now: Now, expiry_held: bool) -> list[tuple[Sweep, int]]:
        waits = self.due.waits(now, expiry_held=expiry_held)
        if self.deletions:
            waits.append((Sweep.DELETION, 0))
        if self.unfinished:
            waits.append((Sweep.UNFINISHED, 0))
        if self.publications:
            waits.append((Sweep.PUBLISH, 0))
        forward = self.forwards.due.first()
        if forward is not None:
            waits.append((Sweep.FORWARD, forward[0] - now.mono_ms))
        awaiting = self.awaiting.due.first()
        if awaiting is not None:
            waits.append((Sweep.AWAITING_ROOM, awaiting[0] - now.mono_ms))
        if self.store.bodies.has_garbage:
            waits.append((Sweep.BODIES, self._garbage_due_ms(now)))
        drain_end = self.drains.next_end() if self.drains else None
        if drain_end is not None:
            waits.append((Sweep.DRAIN, drain_end - now.mono_ms))
        if self.faults.held:
            faults, mono_ms = self.faults, now.mono_ms
            waits = [(sweep, max(wait, faults.wait_ms(sweep, mono_ms))) for sweep, wait in waits]
        return waits

    def look_again(self, now: Now) -> None:
        """Let sweeps look again at what they passed over because it raised."""
        faults, due = self.faults, self.due
        expires_ms = faults.due_again(Sweep.EXPIRY, now.mono_ms)
        if expires_ms is not None:
            due.expires_at(expires_ms)
        activates_ms = faults.due_again(Sweep.ACTIVATION, now.mono_ms)
        if activates_ms is not None:
            due.activates_at(activates_ms)

    def _garbage_due_ms(self, now: Now) -> int:
        """Return in how many ms bodies are collected: many at a time, so not at once."""
        if self._collect_mono_ms is None:
            self._collect_mono_ms = now.mono_ms + COLLECT_EVERY_MS
        return self._collect_mono_ms - now.mono_ms

    def no_garbage(self) -> None:
        """Note that every body has messages again; at the commit of a collection."""
        self.store.bodies.has_garbage = False
        self._collect_mono_ms = None

    def start_over(self) -> None:
        """Look at everything that has a time."""
        self.due.begin(self.store)
        for queue in self.queues:
            self.watch_keys(queue, 0)

    def extend_locks(self, gap_ms: int) -> None:
        """Give locks the time back that the process was suspended."""
        for queue in self.queues:
            queue.extend_locks(gap_ms)
        self.due.lock_ends.shift(gap_ms)
        self.drains.extend(gap_ms)

    def rewind(self) -> None:
        """Read every queue from its beginning: what was passed over may be alive after all."""
        for queue in self.queues:
            self.read_again(queue)
            self.unserved[queue.slot] = None
        self.forwards.note_all()

    def read_again(self, queue: MessageQueue) -> None:
        """Read a queue from its beginning: also what was taken out of it and not locked."""
        queue.ready.rewind()
        self.lanes.unpark(queue.slot)

    def watch_forwarding(self, queue: MessageQueue) -> None:
        """Note whether a queue forwards its messages, as its entity is now described."""
        forwards = self.forwards_from(queue) and not isinstance(queue, SessionQueue)
        if forwards or queue.slot in self.forwards.sources:
            self.forwards.put(queue.slot, forwards=forwards)

    def forwards_from(self, queue: MessageQueue) -> bool:
        """Whether the messages of a queue are to go on to another entity."""
        named = forwarding.destination_of(queue.entity, queue.state.sub_queue)
        return bool(named or queue.state.destination)

    def destination_of(self, queue: MessageQueue) -> Entity | None:
        """Return where the messages of a queue go on to, None if it is deleted."""
        if queue.state.destination:
            return self.catalogue.by_uid(queue.state.destination)
        name = forwarding.destination_of(queue.entity, queue.state.sub_queue)
        found = self.catalogue.by_key(name.lower())
        return None if found is None or found.deleted else found

    def destination_name(self, queue: MessageQueue) -> str:
        """Return the name of where the messages of a queue go on to, its UID if that is gone."""
        uid = queue.state.destination
        named = forwarding.destination_of(queue.entity, queue.state.sub_queue)
        return self.catalogue.name_of(uid) or uid or named

    def stays(self, queue: MessageQueue, destination: Entity) -> bool:
        """Whether each message of a queue has this partition at its destination, too."""
        if queue.state.destination:
            # Its keys are those of the destination, and have not led here.
            return forwarding.stays_in(destination, self.index)
        return forwarding.stays(queue.entity, destination)

    def watch_keys(self, queue: MessageQueue, since_ms: int) -> None:
        """Look for keys to forget in a queue that detects duplicates, from `since_ms` on."""
        description = queue.entity.description
        if description.requires_duplicate_detection and queue.state.sub_queue is SubQueue.MAIN:
            window_ms = description.duplicate_detection_history_time_window_ms
            self.due.key_ends.add(since_ms + window_ms + 1 if since_ms else 0, queue.slot)
