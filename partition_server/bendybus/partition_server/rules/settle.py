"""The rules of settling: what becomes of a locked message, and of a lock that ends.

locked ──complete──► gone                       (delete mode: ──deliver──► gone)
       ──abandon──► ready, delivery count + 1   ─┐ at MaxDeliveryCount or past its time:
       ──lock ends──► ready, + 1 if delivered    ─┴─► dead-letter sub-queue or gone
       ──release──► ready, uncounted
       ──defer──► deferred (received by number only)
       ──dead-letter──► dead-letter sub-queue, with a number of its own there
       ──renew──► locked for a whole lock duration more
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, cast

from bendybus.domain import bounds, errors, limits, lock_token, sequence_number
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import (
    Deliver,
    Delivered,
    Disposition,
    Now,
    Release,
    Settle,
    Settled,
)
from bendybus.partition_server.state.message_queue import Lock, MessageQueue
from bendybus.partition_server.state.settler_memory import Settlers
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.state.unfinished_work import Unfinished, Unsettled
from bendybus.partition_server.store.records import (
    COUNTER_MASK,
    Envelope,
    RowUpdate,
    SlotState,
    row_id,
)
from bendybus.partition_server.store.store import Store

TTL_REASON = "TTLExpiredException"
TTL_DESCRIPTION = "The message expired and was dead lettered."
DELIVERIES_REASON = "MaxDeliveryCountExceeded"


@dataclass(slots=True)
class Place:
    """A (sub-)queue together with its entity and the dead-letter sub-queue of that."""

    entity: Entity
    queue: MessageQueue
    dead_letters: MessageQueue


# Where tokens of other partitions and of deleted queues lead: no locks.
_NO_QUEUE: Final = MessageQueue(SlotState(0, ""))
_NOWHERE: Final = Place(cast(Any, None), _NO_QUEUE, _NO_QUEUE)


class Places(Protocol):
    """What settling needs to know of the partition."""

    partition: int
    boot: int
    store: Store
    settlers: Settlers
    unfinished: Unfinished

    def place(self, slot: int) -> Place | None:
        """Return the place of a slot, None if there is none (any more)."""

    def lock_ends_at(self, mono_ms: int, slot: int) -> None:
        """Look at the locks of a slot at that time."""

    def expires_at(self, wall_ms: int) -> None:
        """Look for expired messages at that time (again)."""


class Settler:
    """Applies dispositions within one stage, as far as the budget of the turn goes."""

    def __init__(
        self,
        places: Places,
        stage: Stage,
        now: Now,
        budget: Callable[[], Budget],
        *,
        expiry_held: bool,
    ) -> None:
        """`budget` is asked for only by what writes more than a few bytes a message."""
        self._places = places
        self._budget = budget
        self._settlers = places.settlers
        self._stage = stage
        self._now = now
        self.expiry_held = expiry_held

    def settle(self, command: Settle) -> Settled | None:
        """Settle token by token; those that cannot be are failures, by index.

        Returns None where the turn may do no more: the rest is answered in a later one.
        """
        bounds.check_settlement(
            command.tokens,
            len(command.changed_properties or b""),
            command.dead_letter_reason,
            command.dead_letter_error_description,
        )
        if command.disposition is Disposition.COMPLETE:
            # Frees pages and writes none, so that the size of messages does not matter.
            count, lost = self._complete(command.tokens, command.entity_uid)
            gone = _lost()
            failures: list[tuple[int, BusError]] = [(index, gone) for index in lost]
            if command.settler_id:
                failures = self._remember(command, failures, gone)
            return Settled(command.settle_id, count, failures)
        if command.disposition is Disposition.RENEW_LOCK:
            return self._renew_all(command)
        return self.go_on(Unsettled(command, count=len(command.tokens) // lock_token.TOKEN_BYTES))

    def go_on(self, unsettled: Unsettled, *, least: int = 0) -> Settled | None:
        """Settle what is left of a frame; None if the turn may do no more before its end.

        `least`: this many are settled whatever the budget says.
        """
        size, start, budget = lock_token.TOKEN_BYTES, unsettled.start, self._budget()
        command = unsettled.command
        rest = replace(command, tokens=command.tokens[start * size :]) if start else command
        # One error for all of them: a frame may have many.
        gone = _lost()
        failures: list[tuple[int, BusError]] = []
        index, stopped = -1, False
        for index, found in enumerate(self._found(rest.tokens, rest.entity_uid)):
            place, counter, lock = found
            if lock is None:
                failures.append((index, gone))
                continue
            if least <= 0 and budget.spent():
                stopped = True
                break
            least -= 1
            try:
                self._other(rest, place, counter, lock)
            except BusError as error:
                failures.append((index, error))
            budget.spend()
        done = index if stopped else index + 1
        if command.settler_id:
            part = replace(rest, tokens=rest.tokens[: done * size]) if stopped else rest
            failures = self._remember(part, failures, gone)
        failures = [*unsettled.failures, *((start + i, error) for i, error in failures)]
        if not stopped:
            if unsettled.waiting:
                self._places.unfinished.ended(self._stage, unsettled)
            return Settled(command.settle_id, unsettled.count, failures, begun=start)
        if not unsettled.waiting:
            self._keep(rest.tokens[done * size :], rest.entity_uid)
        return self._places.unfinished.stop(self._stage, unsettled, start + done, failures)

    def _keep(self, tokens: bytes, entity_uid: str) -> None:
        """Let the locks of what is settled in a later turn not end before it."""
        for place, _, lock in self._found(tokens, entity_uid):
            if lock is not None:
                until_ms = self._now.mono_ms + place.entity.queue.lock_duration_ms
                lock.until_mono_ms = max(lock.until_mono_ms, until_ms)

    def _renew_all(self, command: Settle) -> Settled:
        gone = _lost()
        failures: list[tuple[int, BusError]] = []
        index, lasts_ms = -1, 0
        for index, found in enumerate(self._found(command.tokens, command.entity_uid)):
            place, counter, lock = found
            if lock is None:
                failures.append((index, gone))
            else:
                lasts_ms = self._renew(place, counter, lock)
        until_ms = self._now.wall_ms + lasts_ms if lasts_ms else 0
        return Settled(command.settle_id, index + 1, failures, until_ms, lasts_ms)

    def _remember(
        self, command: Settle, failures: list[tuple[int, BusError]], gone: BusError
    ) -> list[tuple[int, BusError]]:
        """Note what is settled now; return the failures without what was settled before."""
        tokens, size = command.tokens, lock_token.TOKEN_BYTES
        done = tokens
        if failures:
            failed = {index for index, _ in failures}
            rest = (i for i in range(len(tokens) // size) if i not in failed)
            done = b"".join([tokens[i * size : i * size + size] for i in rest])
        if command.repeat and failures:
            lost = {tokens[i * size : i * size + size] for i, error in failures if error is gone}
            before = self._settlers.among(command.settler_id, command.disposition, lost)
            for settler_id, disposition, settled in self._stage.settled:
                if (settler_id, disposition) == (command.settler_id, command.disposition):
                    before.update(settled[i : i + size] for i in range(0, len(settled), size))
            failures = [
                (index, error)
                for index, error in failures
                if error is not gone or tokens[index * size : index * size + size] not in before
            ]
        self._stage.settled.append((command.settler_id, command.disposition, done))
        return failures

    def _other(self, command: Settle, place: Place, counter: int, lock: Lock) -> None:
        if command.disposition is Disposition.ABANDON:
            changed = _merged(lock.changed_properties, command.changed_properties)
            self._stage.unlock(place.queue, counter)
            self.count_delivery(place, counter, lock, changed)
        elif command.disposition is Disposition.DEFER:
            self._defer(place, counter, lock, command.changed_properties)
        elif command.disposition is Disposition.DEAD_LETTER:
            self._dead_letter(place, counter, lock, command)
        else:
            assert command.disposition is Disposition.RELEASE, command.disposition
            self._stage.unlock(place.queue, counter)
            self.give_back(place, counter, lock, lock.size_bytes)

    def deliver(self, command: Deliver) -> Delivered | None:
        """Mark reserved messages as delivered; in delete mode, delete them."""
        lost: list[int] = []
        bounds.check_tokens(command.tokens)
        for index, (_, _, lock) in enumerate(self._found(command.tokens)):
            if lock is None:
                lost.append(index)
            elif lock.delete:
                # A receiver has one mode: all of them are to be deleted.
                _, lost = self._complete(command.tokens)
                return Delivered(command.deliver_id, lost)
            else:
                lock.delivered = True
        return Delivered(command.deliver_id, lost) if lost else None

    def release(self, command: Release) -> None:
        """Give back what is still locked; no delivery is counted."""
        bounds.check_tokens(command.tokens)
        for place, counter, lock in self._found(command.tokens):
            if lock is not None:
                self._stage.unlock(place.queue, counter)
                self.give_back(place, counter, lock, lock.size_bytes)

    def lock_over(self, place: Place, counter: int, lock: Lock) -> None:
        """End a lock whose time is over: a delivery, if the client had the message."""
        self._stage.unlock(place.queue, counter)
        if lock.delivered:
            self.count_delivery(place, counter, lock, lock.changed_properties)
        else:
            self.give_back(place, counter, lock, lock.size_bytes)

    def count_delivery(self, place: Place, counter: int, lock: Lock, changed: bytes | None) -> None:
        """Make a failed delivery durable and let the message be received again, or not."""
        count = min(lock.delivery_count + 1, limits.DELIVERY_COUNT_STORED_MAX)
        most = place.entity.queue.max_delivery_count
        if count >= most and not place.queue.state.dead_letter:
            envelope = self._envelope(place.queue, counter)
            if envelope is not None:
                self.move_to_dead_letters(
                    place,
                    envelope._replace(row=envelope.row._replace(delivery_count=count)),
                    DELIVERIES_REASON,
                    f"Message could not be consumed after {count} delivery attempts.",
                    changed=changed,
                )
            return
        added_bytes = self._update(place, counter, lock, int(lock.deferred), count, changed)
        self.give_back(place, counter, lock, lock.size_bytes + added_bytes)

    def _update(
        self, place: Place, counter: int, lock: Lock, state: int, count: int, changed: bytes | None
    ) -> int:
        """Write what changes of a message that stays; return what is added to its size."""
        self._stage.touch(place.queue)
        # The file has the whole message anew.
        self._budget().spend(lock.size_bytes, rows=0)
        added_bytes = len(changed or b"") - len(lock.changed_properties or b"")
        place.queue.state.size_bytes += added_bytes
        id_ = row_id(place.queue.state.slot, counter)
        self._stage.changes.updates.append(RowUpdate(id_, state, count, changed, added_bytes))
        return added_bytes

    def give_back(self, place: Place, counter: int, lock: Lock, size_bytes: int) -> None:
        """Return a message to its place, unless its time to live is over by now."""
        if lock.expires_ms is not None:
            if lock.expires_ms <= self._now.wall_ms and not self.expiry_held:
                id_ = row_id(place.queue.state.slot, counter)
                if self._budget().spent():
                    self._places.unfinished.expire_later(self._stage, id_)
                else:
                    self.expire(place, id_, int(lock.deferred), size_bytes)
                return
            # Expiry may have passed over it while it was locked.
            self._places.expires_at(lock.expires_ms)
        if not lock.deferred:
            self._stage.returned.append((place.queue, counter))

    def expire(self, place: Place, id_: int, state: int, size_bytes: int) -> None:
        """End a message whose time to live is over: dead-letter it or drop it."""
        if place.entity.queue.dead_lettering_on_message_expiration:
            envelope = self._envelope(place.queue, id_ & COUNTER_MASK)
            if envelope is not None:
                self.move_to_dead_letters(place, envelope, TTL_REASON, TTL_DESCRIPTION)
            return
        self._budget().spend(size_bytes, rows=0)
        self._stage.remove(place.queue, id_, state, size_bytes)
        self._forget_update(id_)

    def move_to_dead_letters(
        self,
        place: Place,
        envelope: Envelope,
        reason: str,
        description: str,
        *,
        changed: bytes | None = None,
    ) -> None:
        """Move a message that is not locked (any more) to the dead-letter sub-queue.

        `changed`: its changed properties from now on, with those that it has.
        """
        row = envelope.row
        update = self._forget_update(row.id)
        added_bytes = 0 if update is None else update.added_bytes
        self._budget().spend(envelope.size(), rows=0)
        self._stage.uncount(place.queue, row.state, envelope.size() + added_bytes)
        if update is not None:
            count, changed = update.delivery_count, update.changed_properties
            row = row._replace(delivery_count=count)
        target = place.dead_letters.state
        original = row.enqueued_sequence_number or sequence_number.compose(
            self._places.partition, row.counter
        )
        properties = changed or row.changed_properties
        texts = (reason, description, row.dead_letter_source or "")
        moved = row._replace(
            id=row_id(target.slot, target.counter + 1),
            state=0,
            expires_ms=None,
            scheduled_ms=0,
            changed_properties=properties,
            dead_letter_reason=reason,
            dead_letter_error_description=description,
            enqueued_sequence_number=original,
            extra_bytes=len(properties or b"") + sum(map(len, texts)),
        )
        self._stage.move(place.dead_letters, row.id, moved, envelope.payload_bytes)

    def _found(
        self, tokens: bytes, entity_uid: str = ""
    ) -> Iterator[tuple[Place, int, Lock | None]]:
        """Yield (place, counter, lock) per token; no lock where it is lost or another entity's."""
        places, now_ms = self._places, self._now.mono_ms
        boot = places.boot & lock_token.BOOT_MASK
        known, place = -1, _NOWHERE
        for high, low in lock_token.words(tokens):
            where = high >> 24
            if where != known:
                known, place = where, self._place(where, entity_uid)
            counter = (high & 0xFFFFFF) << 24 | low >> 40
            lock = place.queue.locks.get(counter)
            if (
                lock is not None
                and lock.generation == low & lock_token.GENERATION_MASK
                and low >> 24 & lock_token.BOOT_MASK == boot
                and lock.until_mono_ms > now_ms
            ):
                yield place, counter, lock
            else:
                yield place, counter, None

    def _place(self, where: int, entity_uid: str) -> Place:
        """Return the place of a token's partition and slot, one without locks if there is none."""
        if where >> 24 != self._places.partition:
            return _NOWHERE
        place = self._places.place(where & 0xFFFFFF)
        if place is None or (entity_uid and place.entity.uid != entity_uid):
            return _NOWHERE
        place.queue.last_used_mono_ms = self._now.mono_ms
        return place

    def _complete(self, tokens: bytes, entity_uid: str = "") -> tuple[int, list[int]]:
        """Delete locked messages; return how many tokens there were, and which were lost."""
        lost: list[int] = []
        index, at, slot = -1, _NOWHERE, 0
        ids: list[int] = []
        deferred = size_bytes = 0
        for index, (place, counter, lock) in enumerate(self._found(tokens, entity_uid)):
            if lock is None:
                lost.append(index)
                continue
            if place is not at:
                if ids:
                    self._stage.remove_many(at.queue, ids, deferred, size_bytes)
                at, slot, ids, deferred, size_bytes = place, place.queue.state.slot, [], 0, 0
            del place.queue.locks[counter]
            self._stage.unlocked.append((place.queue, counter, lock))
            ids.append(row_id(slot, counter))
            deferred += lock.deferred
            size_bytes += lock.size_bytes
        if ids:
            self._stage.remove_many(at.queue, ids, deferred, size_bytes)
        return index + 1, lost

    def _renew(self, place: Place, counter: int, lock: Lock) -> int:
        lasts_ms = place.entity.queue.lock_duration_ms
        lock.until_mono_ms = self._now.mono_ms + lasts_ms
        place.queue.watch_lock(lock.until_mono_ms, [(counter, lock.generation)])
        self._places.lock_ends_at(lock.until_mono_ms, place.queue.state.slot)
        return lasts_ms

    def _defer(self, place: Place, counter: int, lock: Lock, changes: bytes | None) -> None:
        if place.queue.state.dead_letter and lock.deferred:
            raise errors.InvalidOperation("the message is deferred already.")
        changed = _merged(lock.changed_properties, changes)
        self._stage.unlock(place.queue, counter)
        if lock.expires_ms is not None:
            if lock.expires_ms <= self._now.wall_ms and not self.expiry_held:
                state, count = int(lock.deferred), lock.delivery_count
                added_bytes = self._update(place, counter, lock, state, count, changed)
                self.give_back(place, counter, lock, lock.size_bytes + added_bytes)
                return
            # Expiry may have passed over it while it was locked.
            self._places.expires_at(lock.expires_ms)
        self._update(place, counter, lock, 1, lock.delivery_count, changed)
        if not lock.deferred:
            place.queue.state.active -= 1
            place.queue.state.deferred += 1

    def _dead_letter(self, place: Place, counter: int, lock: Lock, command: Settle) -> None:
        if place.queue.state.dead_letter:
            raise errors.InvalidOperation(
                f"queue {place.entity.name!r}: a message of the dead-letter sub-queue cannot be "
                "dead-lettered again. Complete, abandon or defer it.",
                metadata={"entity": place.entity.name},
            )
        changed = _merged(lock.changed_properties, command.changed_properties)
        envelope = self._envelope(place.queue, counter)
        if envelope is None:
            raise errors.MessageLockLost(f"message {counter} is gone.")
        self._stage.unlock(place.queue, counter)
        self.move_to_dead_letters(
            place,
            envelope,
            command.dead_letter_reason,
            command.dead_letter_error_description,
            changed=changed,
        )

    def _envelope(self, queue: MessageQueue, counter: int) -> Envelope | None:
        return self._places.store.envelope(row_id(queue.state.slot, counter))

    def _forget_update(self, id_: int) -> RowUpdate | None:
        # A row that is deleted in the same transaction needs no update before.
        updates = self._stage.changes.updates
        return updates.pop() if updates and updates[-1].id == id_ else None


def _lost() -> BusError:
    return errors.MessageLockLost(
        "the lock on the message is lost: it ended, the message was settled before, or the "
        "partition was restarted. The message, if still there, will be delivered again."
    )


def _merged(before: bytes | None, changes: bytes | None) -> bytes | None:
    """Return both changes; serialised maps are merged by concatenation, the later one wins."""
    if not changes:
        return before
    merged = (before or b"") + changes
    if len(merged) > limits.HEADER_BYTES_MAX:
        raise errors.InvalidArgument(
            "changed_properties",
            f"{len(merged)} bytes are more than the {limits.HEADER_BYTES_MAX} that all changes of "
            "a message may take.",
        )
    return merged
