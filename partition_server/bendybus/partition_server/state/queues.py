"""The queues of a partition in memory: by slot, and by entity and sub-queue.

A slot is a number inside the partition's file that belongs to one (sub-)queue. It is written with
the queue's first message; until then only this opening of the file knows it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from bendybus.domain import errors, limits, sequence_number
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.sub_queue import OF_KIND, ON_NEED, SubQueue
from bendybus.partition_server.state.catalogue import Catalogue
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.ready_set import WindowMemory
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.store.records import SLOT_MAX, SlotState


class Queues:
    """Every queue that holds, or may hold, messages of this partition."""

    def __init__(self, partition: int, journal: Journal, windows: WindowMemory) -> None:
        self._partition = partition
        self._journal = journal
        self._windows = windows
        self._by_slot: dict[int, MessageQueue] = {}
        self._by_uid: dict[str, dict[SubQueue, MessageQueue]] = {}
        # Transfer queues: by entity, and by the UID of their destinations.
        self._transfers: dict[str, dict[str, MessageQueue]] = {}
        # The UIDs in order; None: to be sorted when they are asked for.
        self._ordered: list[str] | None = None
        # After the highest slot that was in use since the file was opened.
        self._slots_end = 0
        # Of deleted entities: their rows are still to be removed, then they are.
        self.dropped: dict[int, SlotState] = {}

    def __iter__(self) -> Iterator[MessageQueue]:
        return iter(self._by_slot.values())

    def at(self, slot: int) -> MessageQueue | None:
        """Return the queue in a slot, None if there is none (any more)."""
        return self._by_slot.get(slot)

    def of(self, uid: str, sub_queue: SubQueue) -> MessageQueue | None:
        """Return a queue of an entity, None if this partition holds nothing of the entity."""
        queues = self._by_uid.get(uid)
        if queues is None:
            return None
        found = queues.get(sub_queue)
        return self._needed(queues[SubQueue.MAIN], sub_queue) if found is None else found

    def transfer_dead_letters_of(self, queue: MessageQueue) -> MessageQueue:
        """Return where messages of an entity are that could not be forwarded."""
        found = self.of(queue.entity.uid, SubQueue.TRANSFER_DEAD_LETTER)
        assert found is not None, queue.entity
        return found

    def main_of(self, uid: str) -> MessageQueue:
        """Return the queue that receivers of an entity that has one here receive from."""
        return self._by_uid[uid][SubQueue.MAIN]

    def dead_letters_of(self, queue: MessageQueue) -> MessageQueue:
        """Return the dead-letter sub-queue of the entity that `queue` belongs to."""
        return self._by_uid[queue.entity.uid][SubQueue.DEAD_LETTER]

    def all_of(self, uid: str) -> Sequence[MessageQueue]:
        """Return the queues of an entity; none if this partition holds nothing of it."""
        found = list(self._by_uid.get(uid, {}).values())
        return found + self.transfers_of(uid) if self._transfers else found

    def transfers_of(self, uid: str) -> list[MessageQueue]:
        """Return the transfer queues of an entity, one for each destination."""
        return list(self._transfers.get(uid, {}).values())

    def is_awaited(self, uid: str) -> bool:
        """Whether a transfer queue has messages for an entity."""
        found = (known.get(uid) for known in self._transfers.values())
        return any(queue is not None and queue.state.active for queue in found)

    def transfer_to(self, uid: str, destination: Entity) -> MessageQueue | None:
        """Return where an entity keeps what it sends to another one, None: it has sent nothing."""
        return self._transfers.get(uid, {}).get(destination.uid)

    def make_transfer(
        self, queue: MessageQueue, destination: Entity, *, spare: int
    ) -> MessageQueue:
        """Make a transfer queue. Raises QuotaExceeded for too many destinations.

        `spare`: how many of those that there are will be dropped for it.
        """
        known = len(self._transfers.get(queue.entity.uid, {})) - spare
        if known >= limits.TRANSFER_DESTINATIONS_MAX:
            raise errors.QuotaExceeded(
                f"{queue.entity.title} sends to {known} other entities in transactions; at "
                "most that many are possible. Use one that sends to fewer.",
                metadata={"entity": queue.entity.name},
            )
        mono_ms = queue.last_used_mono_ms
        return self._make(queue.entity, SubQueue.TRANSFER, mono_ms, destination.uid)

    def drop_transfer(self, queue: MessageQueue) -> None:
        """Take a transfer queue out that is empty, and whose destination is deleted."""
        del self._transfers[queue.entity.uid][queue.state.destination]
        self._drop(queue)

    def uids_after(self, uid: str, most: int) -> list[str]:
        """Return UIDs of entities that have queues here, in order: those that follow one."""
        if self._ordered is None:
            self._ordered = sorted(self._by_uid)
        first = bisect_right(self._ordered, uid)
        return self._ordered[first : first + most]

    def has(self, uid: str) -> bool:
        """Whether an entity has queues here."""
        return uid in self._by_uid

    def last_used_mono_ms(self, uid: str) -> int:
        """Return when an entity that has queues here was used last; transfers do not count."""
        return max(queue.last_used_mono_ms for queue in self._by_uid[uid].values())

    def size_bytes(self, uid: str) -> int:
        """Return what all queues of an entity count to its quota."""
        size_bytes = 0
        for queue in self._by_uid[uid].values():
            size_bytes += queue.state.size_bytes
        if self._transfers:
            size_bytes += sum(queue.state.size_bytes for queue in self.transfers_of(uid))
        return size_bytes

    def open(self, slots: Iterable[SlotState], catalogue: Catalogue, mono_ms: int) -> None:
        """Take what the file holds, then make what the entities of the catalogue still need."""
        for slot in slots:
            self._slots_end = max(self._slots_end, slot.slot + 1)
            entity = catalogue.by_uid(slot.uid)
            if entity is None:
                self.dropped[slot.slot] = slot
            else:
                self._put(self._queue(slot, entity, mono_ms))
        for entity in catalogue.existing():
            self.ensure(entity, mono_ms)

    def ensure(self, entity: Entity, mono_ms: int) -> None:
        """Make the queues that an entity needs here and does not have yet; describe all by it."""
        known = self._by_uid.get(entity.uid, {})
        if entity.deleted or not (known or self._partition in entity.partitions()):
            return
        for queue in self.all_of(entity.uid):
            queue.entity = entity
        for sub_queue in OF_KIND[entity.kind]:
            if sub_queue not in known:
                self._make(entity, sub_queue, mono_ms)

    def drop(self, entity: Entity) -> Sequence[MessageQueue]:
        """Take the queues of a deleted entity out; return them."""
        gone = self.all_of(entity.uid)
        self._ordered = None
        self._by_uid.pop(entity.uid, None)
        self._transfers.pop(entity.uid, None)
        for queue in gone:
            self._drop(queue)
        return gone

    def _drop(self, queue: MessageQueue) -> None:
        del self._by_slot[queue.slot]
        queue.state.dropped = True
        self.dropped[queue.slot] = queue.state

    def _needed(self, main: MessageQueue, sub_queue: SubQueue) -> MessageQueue | None:
        """Return a sub-queue that is made now, None if the kind of entity has none such."""
        if sub_queue not in ON_NEED[main.entity.kind]:
            return None
        return self._make(main.entity, sub_queue, main.last_used_mono_ms)

    def _make(
        self, entity: Entity, sub_queue: SubQueue, mono_ms: int, destination: str = ""
    ) -> MessageQueue:
        slot = SlotState(self._free_slot(), entity.uid, sub_queue, destination=destination)
        made = self._queue(slot, entity, mono_ms)
        self._journal.note(self._unmake, made, self._slots_end)
        self._put(made)
        self._slots_end = max(self._slots_end, slot.slot + 1)
        return made

    def _unmake(self, queue: MessageQueue, slots_end: int) -> None:
        """Take back `_make`, however far it came; nothing of the queue was committed."""
        state, self._slots_end = queue.state, slots_end
        self._by_slot.pop(queue.slot, None)
        if state.sub_queue is SubQueue.TRANSFER:
            of_entity = self._transfers.get(state.uid, {})
            of_entity.pop(state.destination, None)
            if not of_entity:
                self._transfers.pop(state.uid, None)
        else:
            self._by_uid.get(state.uid, {}).pop(state.sub_queue, None)

    def _put(self, queue: MessageQueue) -> None:
        state = queue.state
        if state.sub_queue is SubQueue.TRANSFER:
            self._transfers.setdefault(state.uid, {})[state.destination] = queue
        else:
            if state.uid not in self._by_uid:
                self._ordered = None
            self._by_uid.setdefault(state.uid, {})[state.sub_queue] = queue
        self._by_slot[queue.slot] = queue

    def _free_slot(self) -> int:
        """Return the number of a slot that nothing uses: after all others, if there is room."""
        if self._slots_end < SLOT_MAX:
            return self._slots_end
        used = self._by_slot.keys() | self.dropped.keys()
        slot = next((n for n in range(SLOT_MAX) if n not in used), None)
        if slot is None:
            raise errors.QuotaExceeded("the partition's file has no slot left for an entity.")
        return slot

    def _queue(self, slot: SlotState, entity: Entity, mono_ms: int) -> MessageQueue:
        """Return the queue of a slot; dead-letter sub-queues are read without sessions."""
        slot.has_copies = entity.kind is EntityKind.SUBSCRIPTION
        slot.by_session = entity.description.requires_session and slot.sub_queue is SubQueue.MAIN
        made = SessionQueue if slot.by_session else MessageQueue
        return made(
            slot,
            entity,
            journal=self._journal,
            windows=self._windows,
            last_used_mono_ms=mono_ms,
            base=sequence_number.base_of(self._partition, plain=entity.plain_numbers),
        )
