"""Messages that are named by numbers which no partition of their entity can have given."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import by_number
from bendybus.frontend.core.quota.bounds import UNFINISHED_MAX
from bendybus.frontend.upstreams import unary_calls
from tests import sequence_numbers
from tests.frontend.entities import queue

PARTITIONS = 4
KNOWN = sequence_numbers.of(1, 7)


def bus(entity: Entity) -> Any:
    """A front end whose partitions are never to be asked."""
    return SimpleNamespace(
        directory=SimpleNamespace(find=lambda _: entity),
        upstreams={n: SimpleNamespace(partition=n, available=True) for n in range(PARTITIONS)},
        settings=SimpleNamespace(unary_timeout_s=1.0),
        cancellations=by_number.Unfinished(),
    )


@pytest.mark.requirement("R525")
@pytest.mark.parametrize("number", [45, sequence_numbers.of(2, 7)])
async def test_a_number_of_a_partition_that_a_plain_queue_is_not_in_is_named(number: int) -> None:
    front_end = bus(queue("orders", partitions=1, home=1))
    asked = by_number.Operation("orders", SubQueue.MAIN, [KNOWN, number])

    for call in (
        by_number.receive_deferred(front_end, asked, ReceiveMode.PEEK_LOCK),
        by_number.cancel_scheduled(front_end, asked),
    ):
        with pytest.raises(errors.MessageNotFound, match=f"sequence number {number}") as raised:
            await call
        assert raised.value.metadata["sequence_number"] == str(number)


@pytest.mark.requirement("R525")
async def test_a_number_of_another_partition_than_that_of_the_session_is_not_found() -> None:
    front_end = bus(queue("orders", partitions=PARTITIONS))
    asked = by_number.Operation("orders", SubQueue.MAIN, [KNOWN])
    token = (2).to_bytes(2, "big") + bytes(14)

    with pytest.raises(errors.MessageNotFound, match=f"sequence number {KNOWN}"):
        await by_number.receive_deferred(front_end, asked, ReceiveMode.PEEK_LOCK, token)


async def test_numbers_of_several_partitions_take_a_call_each() -> None:
    front_end = bus(queue("orders", partitions=PARTITIONS))
    asked = by_number.Operation("orders", SubQueue.MAIN, [KNOWN, 45])

    with pytest.raises(errors.InvalidOperation, match=r"belong to partitions \[0, 1\]"):
        await by_number.receive_deferred(front_end, asked, ReceiveMode.PEEK_LOCK)


@pytest.mark.requirement("R571")
@pytest.mark.parametrize("given", [b"", b"n" * 16])
async def test_a_partition_that_cancels_at_the_check_knows_the_next_step_as_a_repeat(
    monkeypatch: pytest.MonkeyPatch, given: bytes
) -> None:
    asked: list[tuple[int, bytes, bool]] = []

    async def cancel(upstream: Any, _: Any, name: Any, *, only_check: bool, **__: Any) -> None:
        asked.append((upstream.partition, name.operation_id, only_check))

    monkeypatch.setattr(unary_calls, "cancel_scheduled", cancel)
    front_end = bus(queue("orders", partitions=PARTITIONS))

    await by_number.cancel_scheduled(
        front_end, by_number.Operation("orders", SubQueue.MAIN, [KNOWN, 45], given)
    )

    assert [(number, check) for number, _, check in asked] == [
        (1, True), (0, True), (1, False), (0, False)
    ]  # fmt: skip
    [name] = {name for _, name, _ in asked}
    assert len(name) == 16
    assert not given or name == given


@pytest.mark.requirement("R571")
async def test_a_repeat_of_what_a_partition_kept_from_being_done_has_its_name_and_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, given = [1_000], []
    failure: list[errors.BusError] = [errors.PartitionUnavailable("It is away.")]

    async def cancel(upstream: Any, _: Any, name: Any, **__: Any) -> None:
        given.append((name.operation_id, name.age_ms))
        if upstream.partition == 1 and failure:
            raise failure.pop()

    monkeypatch.setattr(unary_calls, "cancel_scheduled", cancel)
    front_end = bus(queue("orders", partitions=PARTITIONS))
    front_end.cancellations = by_number.Unfinished(lambda: now[0])

    async def call(*numbers: int) -> set[tuple[bytes, int]]:
        given.clear()
        asked = by_number.Operation("orders", SubQueue.MAIN, numbers)
        with contextlib.suppress(errors.BusError):
            await by_number.cancel_scheduled(front_end, asked)
        return set(given)

    [(name, age_ms)] = await call(KNOWN, 45)
    now[0] += 7_000
    [(other, _)] = await call(KNOWN, 46)
    # In whatever order.
    failure.append(errors.OutcomeUnknown("It may be done."))
    [again] = await call(45, KNOWN)
    [third] = await call(45, KNOWN)
    # The third was done: this is no repeat of it.
    [(new, _)] = await call(45, KNOWN)
    failure.append(errors.MessageNotFound("There is none."))
    [(found_none, _)] = await call(45, KNOWN)
    [(after, _)] = await call(45, KNOWN)

    assert (age_ms, again, third) == (0, (name, 7_000), (name, 7_000))
    assert len({name, other, new, found_none, after}) == 5


async def test_names_of_what_nobody_repeats_are_forgotten() -> None:
    now = [1_000]
    unfinished = by_number.Unfinished(lambda: now[0])

    def tried(number: int) -> bytes:
        with (
            contextlib.suppress(errors.RetryableError),
            unfinished.named(number.to_bytes(4)) as name,
        ):
            found = name.operation_id
            raise errors.ServiceTimeout("It takes long.")
        return found

    first = tried(0)
    assert tried(0) == first
    for number in range(1, UNFINISHED_MAX + 1):
        last = tried(number)
    assert tried(0) != first
    now[0] += by_number.UNFINISHED_MS + 1
    assert tried(UNFINISHED_MAX) != last


@pytest.mark.requirement("R571")
def test_the_name_of_what_was_cancelled_with_its_caller_is_kept() -> None:
    unfinished = by_number.Unfinished()
    with contextlib.suppress(asyncio.CancelledError), unfinished.named(b"list") as first:
        raise asyncio.CancelledError

    with unfinished.named(b"list") as again:
        assert again.operation_id == first.operation_id


@pytest.mark.requirement("R649")
@pytest.mark.parametrize("number", [sequence_numbers.of(2, 7), sequence_numbers.of(1, 7)])
async def test_numbers_of_a_plain_queue_are_in_its_partition_and_others_are_not_found(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    entity = queue("orders", partitions=1, home=2, plain_numbers=True)
    asked: list[tuple[int, Any]] = []

    async def cancel(upstream: Any, *_: Any, numbers: Any, only_check: bool) -> None:
        asked.append((upstream.partition, numbers))

    monkeypatch.setattr(unary_calls, "cancel_scheduled", cancel)
    await by_number.cancel_scheduled(
        bus(entity), by_number.Operation("orders", SubQueue.MAIN, [7, 8])
    )
    assert asked == [(2, [7, 8])]

    with pytest.raises(errors.MessageNotFound, match=f"sequence number {number}"):
        await by_number.cancel_scheduled(
            bus(entity), by_number.Operation("orders", SubQueue.MAIN, [7, number])
        )
