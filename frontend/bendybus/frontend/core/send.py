"""Sends, between listeners and partitions' streams: executes the actions of `send_failover`.

A request names an entity, the limits of its atomic units, and its messages as columns, which are
opaque here: only `columns` looks into them. Outcomes and errors are values; what they become on the
wire is the listener's.
"""

import asyncio
import copy
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.domain import bounds, errors, lifecycle, limits, message_access
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, routing
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import SEND_PART_BYTES, SENDS
from bendybus.frontend.core.quota.room import Holder, Room
from bendybus.frontend.core.send_failover import (
    Action,
    Attempt,
    Finished,
    Frame,
    PartitionLate,
    SendFailover,
    Transmit,
)
from bendybus.frontend.upstreams import send_frames, send_outbox
from bendybus.frontend.upstreams.upstream import Upstream, now_ms

TICK_S: Final = 0.05
# A tick that comes later than this: the process was suspended, or too busy to read answers.
LATE_S: Final = 0.2


# One for each request of a connection, and built for each frame: not frozen, which costs more.
@dataclass(slots=True)
class SendRequest:
    """Messages for an entity, in atomic units."""

    entity: str
    sub_queue: SubQueue
    # Columns of messages; opaque.
    messages: columns.MessageBatch
    # How many messages each unit has; empty: all are one unit.
    group_sizes: Sequence[int] = ()
    # Units with several keys may be split.
    split_by_partition_key: bool = False
    # What is left of the caller's time; 0: the default.
    timeout_ms: int = 0
    # The name of the request, for safe repeats; empty: it has none.
    producer_id: bytes = b""
    producer_sequence: int = 0
    # Since the first try under this name; 0: this is it.
    age_ms: int = 0
    # Where each unit was in the request of the first try; empty: where it is now.
    positions: Sequence[int] = ()
    # Choose the partitions of messages without a key; see `routing`.
    lane: int | None = None
    run: int = 0
    # Where its first message is among those that were sent together under its name.
    position: int = 0
    # Its sizes were compared with the limits before the messages were converted to the contract.
    measured: bool = False
    # Bytes of memory that the request holds until it is answered; 0: the bytes of its messages.
    held_bytes: int = 0


@dataclass(slots=True)
class SendOutcome:
    """What became of a request's units; `failures` and `possible_duplicates` are by unit."""

    entity: Entity
    # One per message, 0 in units that failed.
    numbers: Sequence[int]
    # One per message; empty: none.
    duplicates: Sequence[bool]
    failures: Mapping[int, BusError]
    possible_duplicates: AbstractSet[int]


# Takes the outcome, or why the whole request was refused.
Respond = Callable[[SendOutcome | BusError], None]


class Held(NamedTuple):
    """The room that a request takes of its holder and of its entity."""

    holder: Holder
    size_bytes: int
    entity_uid: str


@dataclass(slots=True)
class Tag:
    """How a frame is answered. `held`: given back then; None: the caller gives it back."""

    respond: Respond
    # When each request in it began.
    began_s: Sequence[float]
    held: Held | None = None


class SendDispatcher:
    """All sends of this front end."""

    def __init__(
        self,
        upstreams: dict[int, Upstream],
        directory: Directory,
        metrics: Metrics,
        room: Room | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._directory = directory
        self._metrics = metrics
        self._attempts = SendFailover(lambda partition: upstreams[partition].available)
        # For sends that come without a producer of their own.
        self._producer_id = os.urandom(16)
        self._sequence = 0
        self._room = room or Room(SENDS)
        self._ticking = False
        # When the next tick is due; seconds of the loop's clock.
        self._due_s = 0.0

    def submit(self, request: SendRequest, respond: Respond, holder: Holder) -> None:
        """Start a request; `respond` is called once, maybe at once."""
        try:
            entity, routed = self.route(request)
            held = self.take_room(request, holder, entity, len(routed.parts))
        except BusError as error:
            self.refuse(request, respond, error)
            return
        self.start(request, entity, routed, Tag(respond, (time.perf_counter(),), held))

    def start(self, request: SendRequest, entity: Entity, routed: routing.Routed, tag: Tag) -> None:
        """Start a request that is checked and routed, and for which room was taken."""
        count = columns.count(request.messages)
        frame = Frame(
            tag=tag,
            entity=entity,
            data=request.messages,
            count=count,
            deadline_ms=now_ms() + (request.timeout_ms or limits.SEND_TIMEOUT_MS_DEFAULT),
            age_ms=request.age_ms,
            producer_id=request.producer_id,
            producer_sequence=request.producer_sequence,
            measured=request.measured,
        )
        if request.positions:
            # A repeat of some units of a frame.
            frame.offsets = routing.offsets_of(request.positions, count, request.group_sizes)
        self._execute(self._attempts.submit(frame, routed, now_ms()))
        self._start_ticking()

    def refuse(self, request: SendRequest, respond: Respond, error: BusError) -> None:
        """Answer a request that was not started."""
        self._metrics.refused(request.entity, error)
        respond(error)

    def known(self, name: str) -> Entity | None:
        """Return the entity of that name, if there is one."""
        return self._directory.known(name)

    def available(self, partition: int) -> bool:
        """Whether a partition can be reached."""
        return self._upstreams[partition].available

    async def send(self, request: SendRequest, holder: Holder) -> SendOutcome:
        """Send one request and return its outcome. Raises why it was refused."""
        return await outcome_of(self.submit, request, holder)

    # From partitions

    def answered(self, partition: int, answer: send_frames.Answer) -> None:
        """Take a partition's answer to a frame."""
        now = now_ms()
        self._attempts.heard(partition, now)
        if answer.error is not None:
            actions = self._attempts.refused(answer.frame_id, answer.error, now)
        else:
            actions = self._attempts.answered(
                answer.frame_id, answer.numbers, answer.duplicates, answer.failures, now
            )
        self._execute(actions)

    def lost(self, partition: int, why: str) -> None:
        """Take the end of a partition's stream: the outcomes of what it had are unknown."""
        self._execute(self._attempts.lost(partition, why, now_ms()))

    def stalled(self, partition: int, why: str) -> None:
        """Take note that a partition's circuit breaker opened."""
        self._execute(self._attempts.stalled(partition, why, now_ms()))

    def under_way(self) -> int:
        """Return how many parts of requests wait for partitions."""
        return len(self._attempts)

    # Inside

    def route(self, request: SendRequest) -> tuple[Entity, routing.Routed]:
        """Check a request; return its entity, and which partition gets what.

        Gives it a name, if it has none. Raises why it is refused.
        """
        entity = self._directory.find(request.entity)
        message_access.check(entity, Access.SEND)
        if request.sub_queue is not SubQueue.MAIN:
            raise errors.InvalidOperation(
                f"{entity.title}: messages cannot be sent to a dead-letter sub-queue. Send "
                "to the queue itself.",
                metadata={"entity": entity.name},
            )
        if entity.orphaned and not request.age_ms:
            # A repeat goes on to the partition: it may be stored already, and is then answered so.
            raise lifecycle.refuse_sends(entity.name, entity.kind)
        keys = columns.keys(request.messages)
        if not 0 < keys.count <= limits.FRAME_MESSAGES_MAX:
            bounds.check_count("messages", keys.count, limits.FRAME_MESSAGES_MAX)
        if len(request.group_sizes) > keys.count:
            # Before anything walks the sizes: each unit has at least one message.
            raise routing.bad_sizes(keys.count)
        # Before anything reads a column at a message's index.
        faults = columns.faults(request.messages)
        if request.split_by_partition_key:
            self._check_split(request)
        bounds.check_producer(request.producer_id, request.producer_sequence, request.age_ms, 0)
        bounds.check_number("timeout_ms", request.timeout_ms, bounds.TIME_MS_MAX)
        bounds.check_number("run", request.run, limits.FRAME_MESSAGES_MAX)
        if not request.producer_id:
            self._sequence += 1
            request.producer_id, request.producer_sequence = self._producer_id, self._sequence
        turn = request.producer_sequence if request.lane is None else request.lane
        offsets: Sequence[int] = ()
        if request.positions:
            # A repeat of some units of a frame.
            offsets = routing.offsets_of(request.positions, keys.count, request.group_sizes)
        routed = routing.route(
            entity,
            keys,
            request.group_sizes,
            lane=routing.first_choice(entity, request.producer_id, turn),
            split=request.split_by_partition_key,
            offsets=offsets,
            run=request.run or routing.RUN,
        )
        return entity, routing.without_faults(routed, faults) if faults else routed

    def take_room(self, request: SendRequest, holder: Holder, entity: Entity, parts: int) -> Held:
        """Take room for a request of `parts` partitions. Raises ServerBusy."""
        size_bytes = request.held_bytes or request.messages.ByteSize()
        held = Held(holder, size_bytes + parts * SEND_PART_BYTES, entity.uid)
        if not self._room.take(*held):
            raise errors.ServerBusy(
                f"too many sends are under way, of this connection, of this policy, to "
                f"{entity.name!r} or of all. Wait for answers, and retry.",
                retry_after_ms=500,
            )
        return held

    def give_room(self, held: Held) -> None:
        """Give room back."""
        self._room.give(*held)

    def _check_split(self, request: SendRequest) -> None:
        """Raise MessageSizeExceeded for a unit that is too large, though its pieces are not."""
        fingerprint = self._directory.fingerprint
        assert fingerprint is not None, "entities are known"
        most, start = limits.batch_bytes_max(fingerprint.tier), 0
        sizes = columns.sizes(request.messages)
        for size in request.group_sizes or (len(sizes),):
            found = sum(sizes[start : start + size])
            if size > 1 and found > most:
                raise errors.MessageSizeExceeded(
                    f"{request.entity!r}: a batch of {found} bytes is larger than the {most} "
                    "allowed, also when it is split by partition key. Send less at a time.",
                    metadata={"entity": request.entity, "limit": str(most)},
                )
            start += size

    def _execute(self, actions: Sequence[Action]) -> None:
        waiting = deque(actions)
        while waiting:
            action = waiting.popleft()
            if isinstance(action, Transmit):
                waiting += self._transmit(action.attempt)
            elif isinstance(action, Finished):
                self._finish(action.frame)
            else:
                assert isinstance(action, PartitionLate), action
                # In a turn of its own: the breaker that opens comes back here, to `stalled`.
                late = self._upstreams[action.partition].miss
                asyncio.get_running_loop().call_soon(late, "a send was not answered in time")

    def _transmit(self, attempt: Attempt) -> Sequence[Action]:
        upstream, entity = self._upstreams[attempt.partition], attempt.frame.entity
        if attempt.last_error is not None:
            # As it is known now: what was refused may need a newer generation.
            entity = self._directory.by_uid(entity.uid) or entity
        if upstream.sends.put(_frame_of(attempt, entity, upstream), send_outbox.lane_of(entity)):
            return ()
        error = errors.ServerBusy(
            f"partition {attempt.partition}: request queue is full. Retry.",
            retry_after_ms=500,
            metadata={"partition": str(attempt.partition)},
        )
        return self._attempts.refused(attempt.attempt_id, error, now_ms())

    def _finish(self, frame: Frame) -> None:
        tag = frame.tag
        if tag.held is not None:
            self._room.give(*tag.held)
        stored = frame.count
        if frame.failures:
            # Units may share their errors.
            for error, count in Counter(frame.failures.values()).items():
                self._metrics.refused(frame.entity.name, error, count)
            # A number is 0 where a unit failed.
            stored = sum(map(bool, frame.numbers))
        if stored:
            now_s = time.perf_counter()
            times_s = [now_s - began_s for began_s in tag.began_s]
            self._metrics.sent(frame.entity.name, stored, times_s)
        if frame.possible_duplicates:
            self._metrics.possible_duplicates.counts[frame.entity.name] += frame.messages_twice
        tag.respond(
            SendOutcome(
                frame.entity,
                frame.numbers,
                frame.duplicates,
                frame.failures,
                frame.possible_duplicates - frame.failures.keys(),
            )
        )

    def _start_ticking(self) -> None:
        if not self._ticking and len(self._attempts):
            self._ticking = True
            loop = asyncio.get_running_loop()
            self._due_s = loop.time() + TICK_S
            loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        late_s = asyncio.get_running_loop().time() - self._due_s
        if late_s > LATE_S:
            self._attempts.suspended(int(late_s * 1000), now_ms())
        self._execute(self._attempts.due(now_ms()))
        self._start_ticking()


async def outcome_of(
    submit: Callable[[SendRequest, Respond, Holder], None], request: SendRequest, holder: Holder
) -> SendOutcome:
    """Submit a request and return its outcome. Raises why it was refused: an error of its own."""
    future: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()

    def respond(result: SendOutcome | BusError) -> None:
        if future.done():
            return
        if isinstance(result, BusError):
            # Others that fail with it raise theirs, and what ends a call clears its frames.
            future.set_exception(copy.copy(result))
        else:
            future.set_result(result)

    submit(request, respond, holder)
    return await future


def _frame_of(attempt: Attempt, entity: Entity, upstream: Upstream) -> send_frames.Frame:
    """Return the frame of an attempt."""
    frame, part = attempt.frame, attempt.part
    messages = frame.data if part.count == frame.count else columns.pick(frame.data, part.spans)
    sizes: list[int] = []
    if len(part.units) > 1:
        singles = part.count == len(part.units)
        sizes = [1] * part.count if singles else [unit.end - unit.start for unit in part.units]
    offset = upstream.clock_offset_ms
    return send_frames.request(
        partition=attempt.partition,
        frame_id=attempt.attempt_id,
        entity=entity,
        messages=messages,
        group_sizes=sizes,
        producer_id=frame.producer_id,
        producer_sequence=frame.producer_sequence,
        spans=_spans(frame, part),
        age_ms=frame.age_ms,
        deadline_monotonic_ms=0 if offset is None else attempt.deadline_ms + offset,
        measured=frame.measured,
    )


def _spans(frame: Frame, part: routing.Part) -> list[int]:
    """Return where the part's messages are in the frame of the first try."""
    if frame.offsets:
        offsets = frame.offsets
        return [n for u in part.units for n in (offsets[u.group] + u.start, u.end - u.start)]
    return [n for start, end in part.spans for n in (start, end - start)]
