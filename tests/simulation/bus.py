"""A whole bus without network, threads or clocks: real rules, a seeded world.

One front end (the real `SendFailover` and `Cache`s) and its clients exchange messages with the
partitions of `partitions`. Everything that happens is drawn from one seed, so that a failure can be
seen again.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from bendybus.domain import errors, limits, lock_token
from bendybus.domain.disposition import Disposition
from bendybus.frontend.core import routing
from bendybus.frontend.core.credit import Credit
from bendybus.frontend.core.lease import lease_of_messages
from bendybus.frontend.core.partition_asks import AskPartition, GiveBack, HandOver, WithdrawAsk
from bendybus.frontend.core.receive_cache import Cache
from bendybus.frontend.core.routing import Keys
from bendybus.frontend.core.send_failover import (
    Finished,
    Frame,
    PartitionLate,
    SendFailover,
    Transmit,
)
from bendybus.partition_server.state.answers import (
    Appended,
    AskRefused,
    Failed,
    Reserved,
    Settled,
    Withdrawn,
)
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    Deliver,
    EntityRef,
    Release,
    Settle,
    StreamEnded,
    Withdraw,
)
from tests import sequence_numbers
from tests.simulation.credit_ledger import CreditLedger
from tests.simulation.messages import Lease, Sent
from tests.simulation.partitions import PARTITIONS, Partitions
from tests.simulation.send_streams import SendStreams

Done = Callable[[], None]


class Bus(Partitions):
    """The simulated world; time in ms."""

    def __init__(self, seed: int, *, silent_crashes: float = 0.002) -> None:
        super().__init__(seed, silent_crashes)
        self.abandoned = 0.1
        self._ids = itertools.count(1)
        self.board = SendFailover(lambda partition: partition not in self.down)
        self.links: list[Cache] = []
        self.asks: dict[int, Cache] = {}
        self.acknowledged: dict[str, int] = {}
        # Told to callers: nothing is stored; or, it may be.
        self.failed: set[str] = set()
        self.unknown: set[str] = set()
        self.possible_duplicates: set[str] = set()
        self.delivered: dict[str, int] = {}
        # Under which numbers a message was delivered: more than one, and it was stored twice.
        self.numbers: dict[str, set[int]] = {}
        self.completed: set[str] = set()
        self.completed_numbers: set[int] = set()
        self.leases: list[Lease] = []
        self.returned_after_complete: list[Lease] = []
        self.credit = CreditLedger(self.random)
        self._frames = 0
        self.sends = SendStreams(PARTITIONS, self._command, self.after)

    def tick(self) -> None:
        """Let every partition and the front end look at the time."""
        for node in self.nodes:
            self._step(node)
        self.tick_front_end()

    def tick_front_end(self) -> None:
        """Let the front end look at the time."""
        self._perform_sends(self.board.due(self.now))
        for link in self.links:
            self._perform_link(link, link.due(self.now))
            following = link.next_due()
            assert following is None or following > self.now, "an alarm that rings for ever"

    # The front end

    def _returned(self, index: int) -> None:
        for link in self.links:
            self._perform_link(link, link.partition_back(index, self.now))

    def _lost(self, index: int) -> None:
        self.sends.lost(index)
        self._perform_sends(self.board.lost(index, "gone", self.now))
        for link in self.links:
            self._perform_link(link, link.partition_lost(index, self.now))

    def _stalled(self, index: int, why: str) -> None:
        self._perform_sends(self.board.stalled(index, why, self.now))

    def _answered(self, index: int, to: Any, value: Any) -> None:
        if isinstance(to, int):
            self.sends.answered(index, to)
            self.board.heard(index, self.now)
        if isinstance(value, Appended):
            actions = self.board.answered(
                to, value.numbers, value.duplicates, value.failures, self.now
            )
            self._perform_sends(actions)
        elif isinstance(value, Failed):
            self._perform_sends(self.board.refused(to, value.error, self.now))
        elif isinstance(value, Reserved):
            self._reserved(index, value)
        elif isinstance(value, Withdrawn | AskRefused):
            link = self.asks.pop(value.ask_id, None)
            if link is not None:
                self._perform_link(link, link.ask_ended(value.ask_id, index, self.now))
        elif isinstance(value, Settled):
            _, (lease, disposition) = to
            if not value.failures and disposition is Disposition.COMPLETE:
                self.completed.add(lease.payload)
                self.completed_numbers.add(lease.number)

    def _reserved(self, index: int, value: Reserved) -> None:
        tokens = lock_token.pack(
            index,
            value.delivery.slot,
            value.delivery.boot & lock_token.BOOT_MASK,
            [
                (row.counter, generation)
                for row, generation in zip(
                    value.delivery.rows, value.delivery.generations, strict=True
                )
            ],
        )
        data: Any = [
            Lease(
                row.payload.decode(),
                sequence_numbers.of(index, row.counter),
                tokens[i * 16 : i * 16 + 16],
            )
            for i, row in enumerate(value.delivery.rows)
        ]
        link = self.asks.get(value.ask_id)
        if link is None:
            self._command(
                index, Release(self._stream(index), b"".join(lease.token for lease in data))
            )
            return
        del self.asks[value.ask_id]
        actions = link.reserved(
            value.ask_id,
            index,
            data,
            [1] * len(data),
            lease=lease_of_messages(self.now + value.lock_remaining_ms, value.lock_remaining_ms),
            more=value.more,
            now_ms=self.now,
        )
        self._perform_link(link, actions)

    def _late(self, index: int) -> None:
        """Open the partition's breaker; the next probe may close it."""
        self.down.add(index)
        self._stalled(index, "late")
        node = self.nodes[index]
        if node.rules is not None and node.stalled_until <= self.now:
            self.after(250, partial(self._back, index, node.generation))

    def _perform_sends(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, PartitionLate):
                # In a turn of its own, as in the front end.
                self.after(0, partial(self._late, action.partition))
            elif isinstance(action, Finished):
                self._finished(action.frame)
            else:
                assert isinstance(action, Transmit)
                self.sends.put(action.attempt.partition, self._append(action.attempt))

    def _append(self, attempt: Any) -> Append:
        frame, part = attempt.frame, attempt.part
        messages = [i for start, end in part.spans for i in range(start, end)]
        offsets = frame.offsets or [0] * frame.count
        spans = [n for u in part.units for n in (u.start + offsets[u.group], u.end - u.start)]
        payloads, keys = frame.data
        return Append(
            attempt.attempt_id,
            EntityRef(self.entity.uid, self.entity.generation),
            Batch(
                [payloads[i] for i in messages],
                partition_keys=[keys[i] for i in messages] if keys else (),
            ),
            [unit.end - unit.start for unit in part.units],
            frame.producer_id,
            frame.producer_sequence,
            spans,
            frame.age_ms,
            attempt.deadline_ms,
        )

    def _perform_link(self, link: Cache, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, AskPartition):
                self.asks[action.ask_id] = link
                ref = EntityRef(self.entity.uid, self.entity.generation)
                stream = self._stream(action.partition)
                ask = Ask(stream, action.ask_id, ref, False, action.messages, action.size_bytes)
                self._command(action.partition, ask)
            elif isinstance(action, WithdrawAsk):
                self._command(
                    action.partition, Withdraw(self._stream(action.partition), action.ask_id)
                )
            elif isinstance(action, GiveBack):
                data: Any = action.data
                tokens = b"".join(lease.token for lease in data[action.start : action.end])
                self._command(action.partition, Release(self._stream(action.partition), tokens))
            else:
                assert isinstance(action, HandOver)
                self.credit.use(action)
                slices: Any = action.slices
                for data, start, end, partition, _ in slices:
                    leases = data[start:end]
                    tokens = b"".join(lease.token for lease in leases)
                    self._command(partition, Deliver(self._stream(partition), 0, tokens))
                    for lease in leases:
                        self._got(lease)

    # Clients

    def send(self, payloads: list[str], key: str = "") -> None:
        """Send one atomic unit; try again what failed in a way that may be tried again."""
        self.send_units([(payloads, key)])

    def send_units(self, units: list[tuple[list[str], str]]) -> None:
        """Send units of several tasks, with and without keys, that share a frame."""
        self._send_named(units, self.now)

    def send_together(self, units: list[tuple[list[str], str]], lane: int, done: Done) -> None:
        """Send units of several clients to one partition; `done` is called with the outcome."""
        self._send_named(units, self.now, lane=lane, done=done)

    def _send_named(
        self,
        units: list[tuple[list[str], str]],
        began: int,
        *,
        lane: int | None = None,
        done: Done | None = None,
    ) -> None:
        positions = itertools.accumulate((len(payloads) for payloads, _ in units), initial=0)
        self._frames += 1
        named = [Sent(*unit, at, lane) for unit, at in zip(units, positions, strict=False)]
        self._try_send(named, self._frames, began, again=False, done=done)

    def _try_send(
        self,
        units: list["Sent"],
        sequence: int,
        began: int,
        *,
        again: bool,
        done: Done | None = None,
    ) -> None:
        payloads = [payload for unit in units for payload in unit.payloads]
        keys = [unit.key for unit in units for _ in unit.payloads]
        keys = keys if any(keys) else []
        sizes = [len(unit.payloads) for unit in units]
        positions = [unit.position for unit in units] if again else []
        offsets = routing.offsets_of(positions, len(payloads), sizes)
        tag: Any = (units, sequence, began, done)
        lane, run = units[0].lane, limits.FRAME_MESSAGES_MAX
        if lane is None:
            lane, run = sequence, routing.RUN
        messages: Any = ([p.encode() for p in payloads], keys)
        frame = Frame(
            tag,
            self.entity,
            messages,
            len(payloads),
            self.now + 8_000,
            max(1, self.now - began) if again else 0,
            b"producer",
            sequence,
            offsets=offsets,
        )
        routed = routing.route(
            self.entity,
            Keys(len(payloads), partition_keys=keys),
            sizes,
            lane=routing.first_choice(self.entity, b"producer", lane),
            split=False,
            offsets=offsets,
            run=run,
        )
        self._perform_sends(self.board.submit(frame, routed, self.now))

    def _finished(self, frame: Frame) -> None:
        tag: Any = frame.tag
        units, sequence, began, done = tag
        if done is not None:
            done()
        at, unknown, refused = 0, [], []
        for group, unit in enumerate(units):
            end = at + len(unit.payloads)
            error = frame.failures.get(group)
            if error is None:
                for payload, number in zip(unit.payloads, frame.numbers[at:end], strict=True):
                    self.acknowledged[payload] = number
                if group in frame.possible_duplicates:
                    self.possible_duplicates.update(unit.payloads)
            elif isinstance(error, errors.OutcomeUnknown):
                unknown.append(unit)
            else:
                refused.append(unit)
            at = end
        # As the client library: units that may be stored keep their name, the rest gets a new one.
        late = self.now - began >= 30_000
        for unit in (*unknown, *refused) if late else ():
            (self.unknown if unit in unknown else self.failed).update(unit.payloads)
        # Sends that went together are repeated apart: their clients do not wait for each other.
        apart = [[unit] for unit in unknown] if done is not None else [unknown]
        for each in apart if unknown and not late else ():
            self.after(200, partial(self._try_send, each, sequence, began, again=True))
        if refused and not late:
            pairs = [(unit.payloads, unit.key) for unit in refused]
            self.after(200, partial(self._send_named, pairs, began))

    def add_receiver(self) -> Cache:
        """Open a receiver."""
        link = Cache(
            range(PARTITIONS),
            lambda partition: partition not in self.down,
            lambda: next(self._ids),
            self.now,
        )
        self.links.append(link)
        return link

    def receive(self, link: Cache, messages: int) -> None:
        """Ask for messages."""
        tag: Any = next(self._ids)
        credit = Credit(tag, messages, 1 << 20, self.now + 2_000, lapses=True)
        self._perform_link(link, link.grant(self.credit.grant(credit), self.now))

    def grant(self, link: Cache, messages: int) -> None:
        """Grant credit that stays until it is used up or drained."""
        tag: Any = link
        credit = Credit(tag, messages, 1 << 20)
        self._perform_link(link, link.grant(self.credit.grant(credit), self.now))

    def drain(self) -> None:
        """Drain some credit."""
        credit = self.credit.any_that_stays()
        if credit is not None:
            link: Any = credit.tag
            self._perform_link(link, link.drain(credit, self.now))

    def _got(self, lease: Lease) -> None:
        self.delivered[lease.payload] = self.delivered.get(lease.payload, 0) + 1
        self.numbers.setdefault(lease.payload, set()).add(lease.number)
        if lease.number in self.completed_numbers:
            self.returned_after_complete.append(lease)
        self.leases.append(lease)

    def settle_some(self, count: int) -> None:
        """Complete or abandon some of what was received."""
        self.random.shuffle(self.leases)
        for _ in range(min(count, len(self.leases))):
            lease = self.leases.pop()
            abandon = self.random.random() < self.abandoned
            disposition = Disposition.ABANDON if abandon else Disposition.COMPLETE
            partition = lock_token.partition_of(lease.token)
            if partition not in self.down:
                tag = (lease, disposition)
                self._command(partition, Settle(("settle", tag), 0, disposition, lease.token))

    def close_receiver(self, link: Cache) -> None:
        """End a receiver."""
        self.links.remove(link)
        self._perform_link(link, link.close())
        self.links.append(link)

    def end_streams(self, index: int) -> None:
        """Let the front end's stream to a partition break and open again."""
        node = self.nodes[index]
        self._command(index, StreamEnded(self._stream(index)))
        node.stream += 1
        for link in self.links:
            self._perform_link(link, link.partition_lost(index, self.now))
