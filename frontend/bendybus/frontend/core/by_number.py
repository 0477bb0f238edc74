"""Operations on messages that are named by sequence number: each in the partition of its number."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bendybus.domain import (
    bounds,
    errors,
    limits,
    lock_token,
    message_access,
    sequence_number,
)
from bendybus.domain.entity import Entity
from bendybus.domain.message_access import Access
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, fan_out
from bendybus.frontend.core.quota.bounds import UNFINISHED_MAX
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import Repeatable, Target
from bendybus.frontend.upstreams.upstream import now_ms

if TYPE_CHECKING:
    from bendybus.frontend.core.front_end import FrontEnd

_NAME_BYTES: Final = limits.OPERATION_ID_BYTES_MAX
# Longer than SDKs repeat a request; partitions remember outcomes for some minutes.
UNFINISHED_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class Operation:
    """The messages, and the name under which the operation may be repeated; empty: it may not."""

    entity: str
    sub_queue: SubQueue
    sequence_numbers: Sequence[int]
    operation_id: bytes = b""
    # Since the first try; 0: this is it.
    age_ms: int = 0

    @property
    def name(self) -> Repeatable:
        """The name under which it may be repeated."""
        return Repeatable(self.operation_id, self.age_ms)


class Unfinished:
    """Names of operations whose outcome their callers do not know: a repeat has the same name.

    For callers whose protocol has no names, such as AMQP. So that what the first try did is not
    missing for the second.
    """

    def __init__(self, now_ms: Callable[[], int] = now_ms) -> None:
        self._now_ms = now_ms
        # By what was asked for, oldest first: the name, and when the first try began.
        self._names: dict[bytes, tuple[bytes, int]] = {}

    @contextlib.contextmanager
    def named(self, what: bytes) -> Iterator[Repeatable]:
        """Yield the name of an operation; keep it if the block raises what may be repeated.

        Or if it is cancelled: a caller that went away repeats it from elsewhere.
        """
        now_ms = self._now_ms()
        name, began_ms = self._names.pop(what, (b"", 0))
        if not name or now_ms - began_ms > UNFINISHED_MS:
            name, began_ms = os.urandom(_NAME_BYTES), now_ms
        try:
            yield Repeatable(name, now_ms - began_ms)
        except (errors.RetryableError, errors.OutcomeUnknown, asyncio.CancelledError):
            while len(self._names) >= UNFINISHED_MAX:
                del self._names[next(iter(self._names))]
            self._names[what] = name, began_ms
            raise


async def cancel_scheduled(front_end: "FrontEnd", asked: Operation) -> None:
    """Delete scheduled messages, all or none. Raises the domain error.

    Those of several partitions are looked for in all of them before the first is deleted. What
    becomes due, or a partition that goes away, between the two steps can leave a part of them; a
    repeat finishes what a partition kept from being done.
    """
    target, by_partition = _located(front_end, asked, Access.SEND)
    if asked.operation_id:
        await _cancel(front_end, target, by_partition, asked.name)
        return
    with front_end.cancellations.named(_what(target.entity, asked.sequence_numbers)) as name:
        await _cancel(front_end, target, by_partition, name)


def _what(entity: Entity, numbers: Iterable[int]) -> bytes:
    """Return a key that a cancellation shares with its repeat only."""
    text = f"{entity.uid} {sorted(set(numbers))}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


async def _cancel(
    front_end: "FrontEnd",
    target: Target,
    by_partition: Mapping[int, Sequence[int]],
    name: Repeatable,
) -> None:
    async def cancel(*, only_check: bool) -> None:
        await fan_out.gather(
            front_end.upstreams,
            by_partition,
            lambda upstream: unary_calls.cancel_scheduled(
                upstream,
                target,
                name,
                numbers=by_partition[upstream.partition],
                only_check=only_check,
            ),
            what="sequence_numbers",
        )

    if len(by_partition) > 1:
        await cancel(only_check=True)
    await cancel(only_check=False)


async def receive_deferred(
    front_end: "FrontEnd", asked: Operation, mode: ReceiveMode, session_token: bytes = b""
) -> list[columns.DeliveredBatch]:
    """Lock deferred messages of one partition, or delete and return them. Raises the domain error.

    Not of several: locking in one and failing in another would leave locks behind.
    """
    target, by_partition = _located(front_end, asked, Access.RECEIVE)
    if session_token:
        bounds.check_session_token(session_token)
        _check_held(target, by_partition, lock_token.partition_of(session_token))
    if len(by_partition) > 1:
        raise errors.InvalidOperation(
            f"{target.entity.title}: the sequence numbers belong to partitions "
            f"{sorted(by_partition)}; one call takes those of one partition. Make one call for "
            "each.",
            metadata={"entity": target.entity.name, "field": "sequence_numbers"},
        )
    answers = await fan_out.gather(
        front_end.upstreams,
        by_partition,
        lambda upstream: unary_calls.receive_deferred(
            upstream,
            target,
            asked.name,
            mode=mode,
            numbers=by_partition[upstream.partition],
            session_token=session_token,
        ),
        what="sequence_numbers",
    )
    return list(answers.values())


def _located(
    front_end: "FrontEnd", asked: Operation, access: Access
) -> tuple[Target, dict[int, list[int]]]:
    """Return the sub-queue and the numbers by partition.

    Raises MessageNotFound for a number of a partition that has no messages of the entity.
    """
    entity = front_end.directory.find(asked.entity)
    message_access.check(entity, access)
    bounds.check_numbers("sequence_numbers", asked.sequence_numbers)
    by_partition: dict[int, list[int]] = {}
    for number in asked.sequence_numbers:
        by_partition.setdefault(partition_of(entity, number), []).append(number)
    target = Target(entity, asked.sub_queue, front_end.settings.unary_timeout_s)
    return target, by_partition


def _check_held(target: Target, by_partition: dict[int, list[int]], held: int) -> None:
    """Raise MessageNotFound for a number of another partition than that of the session."""
    for partition, numbers in by_partition.items():
        if partition != held:
            raise _unknown(target.entity, numbers[0])


def partition_of(entity: Entity, number: int) -> int:
    """Return the partition of a number. Raises MessageNotFound if no message can have it."""
    partition = sequence_number.partition_of(entity, number)
    if partition is None:
        raise _unknown(entity, number)
    return partition


def _unknown(entity: Entity, number: int) -> errors.MessageNotFound:
    return errors.MessageNotFound(
        f"{entity.title}: no message has the sequence number {number}.",
        metadata={"entity": entity.name, "sequence_number": str(number)},
    )
