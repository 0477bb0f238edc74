"""Numbers of messages that a transaction schedules, at the front end."""

from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.core import reserved_numbers
from bendybus.frontend.upstreams import unary_calls
from bendybus.v1 import message_pb2
from tests.frontend.transactions import FakePartition, directory

pytestmark = pytest.mark.requirement("R580")


class Numbers:
    """Partitions that give numbers from 1 on."""

    def __init__(self) -> None:
        self.front_end: Any = SimpleNamespace(
            directory=directory(),
            upstreams={index: FakePartition(index) for index in range(4)},
            settings=SimpleNamespace(unary_timeout_s=5.0),
        )
        self.asked: list[tuple[int, int]] = []

    async def reserve_numbers(self, upstream: Any, target: Any, *, count: int) -> int:
        self.asked.append((upstream.partition, count))
        return int(upstream.partition) << 48 | 1


def scheduled(*keys: str) -> message_pb2.MessageBatch:
    return message_pb2.MessageBatch(messages=[b""] * len(keys), partition_keys=keys)


def partition_of(numbers: Numbers, key: str) -> int:
    return int(numbers.front_end.directory.find("orders").partition_of(key))


async def test_each_message_has_a_number_of_the_partition_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = Numbers()
    monkeypatch.setattr(unary_calls, "reserve_numbers", numbers.reserve_numbers)
    keys = ["a", "b", "c", "d", "a"]

    given = await reserved_numbers.reserve(numbers.front_end, "orders", scheduled(*keys))

    assert [number >> 48 for number in given] == [partition_of(numbers, key) for key in keys]
    assert len(set(given)) == len(keys)
    assert sum(count for _, count in numbers.asked) == len(keys)


async def test_more_messages_than_a_transaction_has_are_refused_before_a_partition_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = Numbers()
    monkeypatch.setattr(unary_calls, "reserve_numbers", numbers.reserve_numbers)

    with pytest.raises(errors.InvalidOperation, match="1 to 100 messages"):
        await reserved_numbers.reserve(numbers.front_end, "orders", scheduled(*["k"] * 101))
    assert numbers.asked == []
