"""Sends of many clients that go to partitions together, and are answered one by one.

What one iteration of the loop reads is shared, and what comes while a batch is under way goes with
the next one (see `send_lines`). A request counts for the connection that sent it, as any other
does. A batch has a name of this front end, and each request a position in it, by which it may be
repeated without the others.

Shared are small requests of which all messages go to one partition. Another one is sent by itself,
after what waits of its connection.
"""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Final

from bendybus.domain import limits
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns, routing
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.send import (
    Held,
    Respond,
    SendDispatcher,
    SendOutcome,
    SendRequest,
    Tag,
)
from bendybus.frontend.core.send_failover import timed_out
from bendybus.frontend.core.send_lines import SendLine

logger = logging.getLogger(__name__)
# The bounds of a request that is shared: larger ones gain nothing by company.
MESSAGES_MAX: Final = 16
BYTES_MAX: Final = 16 * 1024
# Batches that are sent, or fail at once, before others have a turn of the loop.
BATCHES_A_TURN: Final = 4
# A request with so little time left goes by itself.
HASTY_S: Final = 30.0
# When a line whose partitions are busy is looked at again.
LOOK_S: Final = 0.05
# Timers of the loop have whole milliseconds: just before a moment, one would be due again at once.
TICK_S: Final = 0.001
# Entities whose lines are kept without use; with more, all that are idle go.
ENTITIES_MAX: Final = 1_000


@dataclass(slots=True)
class _Request:
    """A request that waits, or is under way with others."""

    request: SendRequest
    respond: Respond
    holder: Holder
    count: int
    size_bytes: int
    held: Held
    began_s: float
    # On the loop's clock.
    until_s: float

    @property
    def connection(self) -> Hashable:
        """The connection that sent it, under whichever policy."""
        return self.holder.connection

    @property
    def policy(self) -> str:
        """The policy under which it was sent."""
        return self.holder.policy


class SharedSends:
    """Sends without a name, from all connections."""

    def __init__(self, sends: SendDispatcher) -> None:
        self._sends = sends
        self._producer_id = os.urandom(16)
        self._sequence = itertools.count(1)
        # By entity, and by partition; None: any.
        self._lines: dict[str, dict[int | None, _Line]] = {}

    def submit(self, request: SendRequest, respond: Respond, holder: Holder) -> None:
        """Start a request, and give it a name; `respond` is called once, maybe at once."""
        request.producer_id = self._producer_id
        # Under this name it is the first try, and others go with it.
        request.age_ms = 0
        count, size_bytes = columns.count(request.messages), request.messages.ByteSize()
        if count > MESSAGES_MAX or size_bytes > BYTES_MAX:
            self._send_alone(request, respond, holder)
            return
        try:
            entity, routed = self._sends.route(request)
            if len(routed.parts) != 1 or routed.refused:
                self._send_alone(request, respond, holder)
                return
            held = self._sends.take_room(request, holder, entity, 1)
        except BusError as error:
            self._sends.refuse(request, respond, error)
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + (request.timeout_ms or limits.SEND_TIMEOUT_MS_DEFAULT) / 1_000
        began_s = time.perf_counter()
        line = self._line(entity, routed.parts[0].pinned)
        line.put(
            entity, _Request(request, respond, holder, count, size_bytes, held, began_s, until_s)
        )

    def _send_alone(self, request: SendRequest, respond: Respond, holder: Holder) -> None:
        """Send a request by itself, after what waits of its connection for the same entity."""
        entity = self._sends.known(request.entity)
        for pinned, line in self._lines_of(entity):
            if pinned is not None:
                line.flush_of(holder)
        request.producer_sequence = next(self._sequence)
        self._sends.submit(request, respond, holder)

    def _line(self, entity: Entity, pinned: int | None) -> "_Line":
        lines = self._lines.get(entity.uid)
        if lines is None:
            if len(self._lines) >= ENTITIES_MAX:
                self._forget_idle()
            lines = self._lines[entity.uid] = {}
        line = lines.get(pinned)
        if line is None:
            line = lines[pinned] = _Line(self._sends, self._name, entity, pinned)
        return line

    def _lines_of(self, entity: Entity | None) -> Iterable[tuple[int | None, "_Line"]]:
        return () if entity is None else self._lines.get(entity.uid, {}).items()

    def _forget_idle(self) -> None:
        for uid, lines in list(self._lines.items()):
            if all(line.waiting.is_idle for line in lines.values()):
                del self._lines[uid]

    def _name(self) -> tuple[bytes, int]:
        return self._producer_id, next(self._sequence)


class _Line:
    """The requests that wait for a partition of an entity, or for any."""

    def __init__(
        self,
        sends: SendDispatcher,
        name: Callable[[], tuple[bytes, int]],
        entity: Entity,
        pinned: int | None,
    ) -> None:
        self.entity = entity
        self._sends = sends
        self._name = name
        self._pinned = pinned
        self._loop = asyncio.get_running_loop()
        producer_id, sequence = name()
        partitions = range(entity.partition_count) if pinned is None else (pinned,)
        self.waiting: SendLine[_Request] = SendLine(
            partitions, routing.first_choice(entity, producer_id, sequence)
        )
        self._due = self._looking = False

    def put(self, entity: Entity, request: _Request) -> None:
        """Add a request, which is sent with what else this iteration of the loop reads."""
        self.entity = entity
        self.waiting.put(request)
        self._flush_soon()

    def flush_of(self, holder: Holder) -> None:
        """Send what waits of a connection, before what it sends next."""
        while batch := self.waiting.next_of(holder.connection):
            self._send(*batch)

    def _flush_soon(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._due = False
        for _ in range(BATCHES_A_TURN):
            now_s = self._loop.time()
            batch = self.waiting.next(now_s, self._sends.available)
            if batch is None:
                break
            self._send(*batch)
        else:
            self._flush_soon()
            return
        if self.waiting and self._pinned is None and not self._looking:
            # As time goes by a run becomes shorter, and what is under way holds up no more.
            self._looking = True
            held_up_s = self.waiting.held_up_s(now_s)
            self._loop.call_later(held_up_s + TICK_S if held_up_s else LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = False
        if self.waiting:
            self._flush_soon()

    def _send(self, partition: int, requests: Sequence[_Request]) -> None:
        now_s = self._loop.time()
        groups: list[list[_Request]] = []
        joins = False
        for each in requests:
            if each.until_s <= now_s:
                self._sends.give_room(each.held)
                respond = partial(_respond, each)
                self._sends.refuse(each.request, respond, timed_out(self.entity))
                continue
            # A request with little time left goes alone: one deadline holds for all of a batch.
            hasty = each.until_s <= now_s + HASTY_S
            if joins and not hasty:
                groups[-1].append(each)
            else:
                groups.append([each])
            joins = not hasty
        if not groups:
            self.waiting.answered(partition, now_s)
        for _ in groups[1:]:
            self.waiting.also(partition)
        for group in groups:
            self._start(partition, group, now_s)

    def _start(self, partition: int, requests: Sequence[_Request], now_s: float) -> None:
        producer_id, sequence = self._name()
        lane = routing.lane_to(self.entity, producer_id, partition)
        sizes: list[int] = []
        at = 0
        for each in requests:
            request = each.request
            request.producer_sequence, request.lane = sequence, lane
            request.run, request.position = limits.FRAME_MESSAGES_MAX, at
            sizes += request.group_sizes or (each.count,)
            at += each.count
        left_s = min(each.until_s for each in requests) - now_s
        batch = requests[0].request
        if len(requests) > 1:
            batch = replace(
                batch,
                messages=columns.joined([each.request.messages for each in requests]),
                group_sizes=sizes,
                timeout_ms=max(1, round(left_s * 1_000)),
                measured=all(each.request.measured for each in requests),
            )
        part = routing.Part(routing.units_of(at, sizes), self._pinned, partition)
        self._sends.start(
            batch,
            self.entity,
            routing.Routed([part], []),
            Tag(partial(self._answered, partition, requests), [each.began_s for each in requests]),
        )

    def _answered(
        self, partition: int, requests: Sequence[_Request], result: SendOutcome | BusError
    ) -> None:
        self.waiting.answered(partition, self._loop.time())
        for each in requests:
            self._sends.give_room(each.held)
        for each, own in zip(requests, _outcomes(requests, result), strict=True):
            _respond(each, own)
        if self.waiting:
            # In a turn of its own: this may be in the middle of the dispatcher's actions.
            self._flush_soon()


def _respond(request: _Request, result: SendOutcome | BusError) -> None:
    try:
        request.respond(result)
    except Exception:  # it costs one client its answer, never the others theirs
        logger.exception("shared sends: an answer could not be delivered")


def _outcomes(
    requests: Sequence[_Request], result: SendOutcome | BusError
) -> Iterator[SendOutcome | BusError]:
    """Yield what became of each request."""
    if isinstance(result, BusError) or len(requests) == 1:
        yield from repeat(result, len(requests))
        return
    failures, twice = result.failures, result.possible_duplicates
    at = unit = 0
    for each in requests:
        end, units = at + each.count, range(len(each.request.group_sizes) or 1)
        yield SendOutcome(
            result.entity,
            result.numbers[at:end],
            result.duplicates[at:end],
            {n: failures[unit + n] for n in units if unit + n in failures} if failures else {},
            {n for n in units if unit + n in twice} if twice else frozenset(),
        )
        at, unit = end, unit + len(units)
