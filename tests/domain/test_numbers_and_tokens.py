"""Sequence numbers and lock tokens: layouts that files and clients keep."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import lock_token, sequence_number
from bendybus.domain.entity import Entity
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.lock_token import LockToken
from tests.frontend.entities import queue

TOKENS = st.builds(
    LockToken,
    partition=st.integers(0, 2**16 - 1),
    slot=st.integers(0, 2**24 - 1),
    counter=st.integers(0, 2**48 - 1),
    boot=st.integers(0, lock_token.BOOT_MASK),
    generation=st.integers(0, lock_token.GENERATION_MASK),
)
# Partitioned, plain as before 0.13.2, plain.
ENTITIES = st.one_of(
    st.builds(queue, partitions=st.sampled_from([2, 4, 16]), home=st.just(0)),
    st.builds(queue, partitions=st.just(1), home=st.integers(0, 15)),
    st.builds(queue, partitions=st.just(1), home=st.integers(0, 15), plain_numbers=st.just(True)),
)


@pytest.mark.requirement("R17")
def test_a_sequence_number_is_the_partition_then_the_counter() -> None:
    assert sequence_number.base_of(0, plain=False) == 0
    assert sequence_number.base_of(3, plain=False) + 7 == 0x0003_0000_0000_0007
    assert sequence_number.base_of(15, plain=False) + 1 == 4_222_124_650_659_841


@pytest.mark.requirement("R649")
def test_a_sequence_number_of_a_plain_entity_is_the_counter() -> None:
    assert sequence_number.base_of(3, plain=True) == 0


@pytest.mark.requirement("R17")
@pytest.mark.requirement("R649")
@given(ENTITIES, st.integers(0, 15), st.integers(1, sequence_number.COUNTER_MAX))
def test_the_parts_of_a_sequence_number_come_back(
    entity: Entity, partition: int, counter: int
) -> None:
    base = sequence_number.base_of(partition, plain=entity.plain_numbers)
    number = base + counter

    assert 0 <= number < 2**63
    assert sequence_number.counter_of(number) == counter
    assert sequence_number.base_below(number) == base
    if partition in entity.partitions():
        assert sequence_number.partition_of(entity, number) == partition
        assert sequence_number.first_from(entity, partition, number) == number
        assert sequence_number.first_from(entity, partition, base) == base + 1


@pytest.mark.requirement("R649")
@given(ENTITIES, ENTITIES, st.integers(1, sequence_number.COUNTER_MAX))
def test_a_number_of_another_partition_or_form_is_none_of_an_entity(
    entity: Entity, other: Entity, counter: int
) -> None:
    for partition in other.partitions():
        base = sequence_number.base_of(partition, plain=other.plain_numbers)
        found = sequence_number.partition_of(entity, base + counter)
        own = [sequence_number.base_of(p, plain=entity.plain_numbers) for p in entity.partitions()]
        assert (found is None) == (base not in own)


def test_numbers_of_one_partition_rise_with_their_counters() -> None:
    base = sequence_number.base_of(2, plain=False)

    assert base + sequence_number.COUNTER_MAX < sequence_number.base_of(3, plain=False)


def test_a_token_has_the_layout_that_clients_may_keep() -> None:
    token = LockToken(partition=3, slot=2, counter=0x0102_0304_0506, boot=7, generation=9)

    assert token.to_bytes().hex() == "00030000020102030405060007000009"
    assert str(uuid.UUID(bytes=token.to_bytes())) == "00030000-0201-0203-0405-060007000009"


@given(TOKENS)
def test_the_parts_of_a_token_come_back(token: LockToken) -> None:
    packed = token.to_bytes()

    assert len(packed) == lock_token.TOKEN_BYTES
    assert list(lock_token.unpack(packed)) == [token]
    assert lock_token.partition_of(packed) == token.partition


@given(st.lists(st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**24 - 1))))
def test_tokens_are_packed_together_as_one_by_one(locks: list[tuple[int, int]]) -> None:
    packed = lock_token.pack(5, 4, 3, locks)

    singly = [LockToken(5, 4, counter, 3, generation) for counter, generation in locks]
    assert packed == b"".join(token.to_bytes() for token in singly)
    assert list(lock_token.unpack(packed)) == singly


@pytest.mark.parametrize("length", [1, 15, 17])
def test_bytes_that_are_no_tokens_are_refused(length: int) -> None:
    with pytest.raises(InvalidArgument, match="multiple of 16"):
        list(lock_token.unpack(b"x" * length))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], True), ([0], False), ([7], True), ([7, 8, 9], True), ([7, 9, 8], False)],
)
def test_numbers_in_a_row(numbers: list[int], expected: bool) -> None:
    assert sequence_number.consecutive(numbers) is expected
