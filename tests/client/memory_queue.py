"""A queue in memory, with just enough behaviour for the client's tests. Time is the wall's."""

import time
import uuid
from dataclasses import dataclass, field

from bendybus.domain import errors
from bendybus.v1 import message_pb2, receiver_pb2

PARTITION = 3
FIRST_NUMBER = PARTITION << 48 | 1


@dataclass
class Stored:
    """A message in the queue."""

    number: int
    payload: bytes
    enqueued_ms: int
    message_id: str = ""
    partition_key: str = ""
    session_id: str | None = None
    ttl_ms: int = 0
    scheduled_ms: int = 0
    delivery_count: int = 0
    deferred: bool = False
    token: bytes = b""
    locked_until_ms: int = 0
    changed: message_pb2.ValueMap = field(default_factory=message_pb2.ValueMap)
    reason: str = ""
    description: str = ""
    head: bytes = b""
    format: int = 0


def now_ms() -> int:
    """Return the wall clock."""
    return round(time.time() * 1_000)


class MemoryQueue:
    """Messages by number."""

    def __init__(self, lock_ms: int = 30_000) -> None:
        self.lock_ms = lock_ms
        self.messages: dict[int, Stored] = {}
        self.dead: MemoryQueue | None = None
        self._next = FIRST_NUMBER

    def append(self, batch: message_pb2.MessageBatch) -> list[int]:
        """Store a batch and return its numbers."""
        numbers = []
        for index, payload in enumerate(batch.messages):
            stored = Stored(self._next, payload, now_ms())
            stored.message_id = batch.message_ids[index] if batch.message_ids else ""
            stored.partition_key = batch.partition_keys[index] if batch.partition_keys else ""
            if batch.session_ids and (not batch.session_present or batch.session_present[index]):
                stored.session_id = batch.session_ids[index]
            stored.ttl_ms = batch.time_to_live_ms[index] if batch.time_to_live_ms else 0
            if batch.scheduled_enqueue_time_ms:
                stored.scheduled_ms = batch.scheduled_enqueue_time_ms[index]
            stored.head = batch.heads[index] if batch.heads else b""
            stored.format = batch.formats[index] if batch.formats else 0
            self.put(stored)
            numbers.append(stored.number)
        return numbers

    def put(self, stored: Stored) -> None:
        """Store a message under the next number."""
        stored.number = self._next
        self._next += 1
        self.messages[stored.number] = stored

    def lock(self, most: int, *, delete: bool) -> list[Stored]:
        """Lock, or delete, the oldest messages that may be received."""
        now = now_ms()
        found: list[Stored] = []
        for stored in list(self.messages.values()):
            if len(found) == most:
                break
            if stored.deferred or stored.scheduled_ms > now or self._locked(stored, now):
                continue
            found.append(self.give(stored, delete=delete))
        return found

    def give(self, stored: Stored, *, delete: bool) -> Stored:
        """Lock or delete one message."""
        if delete:
            del self.messages[stored.number]
            stored.token = b""
        else:
            stored.token = uuid.uuid4().bytes
            stored.locked_until_ms = now_ms() + self.lock_ms
        return stored

    def settle(self, frame: receiver_pb2.SettleFrame, token: bytes) -> None:
        """Settle one message. Raises MessageLockLost."""
        now = now_ms()
        stored = next((one for one in self.messages.values() if one.token == token), None)
        if stored is None or stored.locked_until_ms <= now:
            raise errors.MessageLockLost("The lock is lost.")
        kind = frame.disposition
        if kind == receiver_pb2.DISPOSITION_RENEW_LOCK:
            stored.locked_until_ms = now + self.lock_ms
            return
        for name, value in frame.changed_properties.entries.items():
            stored.changed.entries[name].CopyFrom(value)
        stored.token = b""
        if kind == receiver_pb2.DISPOSITION_ABANDON:
            stored.delivery_count += 1
        elif kind == receiver_pb2.DISPOSITION_DEFER:
            stored.deferred = True
        elif kind != receiver_pb2.DISPOSITION_RELEASE:
            del self.messages[stored.number]
            if kind == receiver_pb2.DISPOSITION_DEAD_LETTER and self.dead is not None:
                stored.reason = frame.dead_letter_reason
                stored.description = frame.dead_letter_error_description
                self.dead.put(stored)

    def delivered(self, found: list[Stored]) -> message_pb2.DeliveredBatch:
        """Return messages as they travel."""
        batch = message_pb2.DeliveredBatch(partition=PARTITION)
        for stored in found:
            batch.messages.append(stored.payload)
            batch.heads.append(stored.head)
            batch.formats.append(stored.format)
            batch.sequence_numbers.append(stored.number)
            batch.enqueued_time_ms.append(stored.enqueued_ms)
            batch.message_ids.append(stored.message_id)
            batch.partition_keys.append(stored.partition_key)
            batch.session_ids.append(stored.session_id or "")
            batch.session_present.append(stored.session_id is not None)
            batch.time_to_live_ms.append(stored.ttl_ms)
            batch.scheduled_enqueue_time_ms.append(stored.scheduled_ms)
            batch.delivery_counts.append(stored.delivery_count)
            state = message_pb2.MESSAGE_STATE_ACTIVE
            if stored.deferred:
                state = message_pb2.MESSAGE_STATE_DEFERRED
            elif stored.scheduled_ms > now_ms():
                state = message_pb2.MESSAGE_STATE_SCHEDULED
            batch.states.append(state)
            batch.changed_properties.append(stored.changed.SerializeToString())
            batch.dead_letter_reasons.append(stored.reason)
            batch.dead_letter_error_descriptions.append(stored.description)
        if found and found[0].token:
            batch.lock_tokens = b"".join(stored.token for stored in found)
            batch.locked_until_ms = found[0].locked_until_ms
            batch.lock_remaining_ms = max(1, found[0].locked_until_ms - now_ms())
        return batch

    def _locked(self, stored: Stored, now: int) -> bool:
        if stored.token and stored.locked_until_ms <= now:
            stored.token = b""
            stored.delivery_count += 1
        return bool(stored.token)
