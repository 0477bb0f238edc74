"""Names of locks over AMQP: they lead back to the token, and neighbours do not look alike."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain.lock_token import LockToken
from bendybus.frontend.listeners.amqp import lock_names

TOKENS = st.builds(
    LockToken,
    st.integers(0, 15),
    st.integers(0, 2**20 - 1),
    st.integers(0, 2**44 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**24 - 1),
).map(LockToken.to_bytes)
FIRST = LockToken(3, 7, 1_000, 2, 4_711)


def text_of(name: bytes) -> str:
    """Return a tag as a client sees it that keeps its deliveries by text."""
    return lock_names.tag_of(name).decode(errors="replace")


@given(TOKENS)
def test_a_name_leads_back_to_its_token(token: bytes) -> None:
    assert lock_names.token_of(lock_names.name_of(token)) == token


@given(TOKENS)
def test_a_tag_is_the_name_in_the_byte_order_of_dotnet(token: bytes) -> None:
    name = lock_names.name_of(token)

    assert uuid.UUID(bytes_le=lock_names.tag_of(name)) == uuid.UUID(bytes=name)


@pytest.mark.requirement("R542")
@pytest.mark.parametrize("field", ["counter", "generation", "slot", "partition", "boot"])
def test_names_of_neighbours_differ_in_nearly_every_byte(field: str) -> None:
    first = FIRST._replace(**{field: 0})
    names = [lock_names.name_of(first._replace(**{field: each}).to_bytes()) for each in range(16)]

    differing = [
        sum(one != other for one, other in zip(a, b, strict=True))
        for at, a in enumerate(names)
        for b in names[:at]
    ]
    assert min(differing) >= 12
    assert sum(differing) / len(differing) > 15.5


@pytest.mark.requirement("R542")
def test_tags_differ_as_text() -> None:
    tokens = [FIRST._replace(counter=each).to_bytes() for each in range(20_000)]

    assert len({text_of(lock_names.name_of(each)) for each in tokens}) == len(tokens)
    # What earlier versions sent: bytes that are no UTF-8 all look the same.
    assert len({text_of(each) for each in tokens}) < len(tokens)


@pytest.mark.requirement("R542")
def test_names_are_the_same_at_all_front_ends_and_in_all_versions() -> None:
    name = lock_names.name_of(FIRST.to_bytes())

    assert str(uuid.UUID(bytes=name)) == "08723bfc-19a0-3a56-873c-ec19d12dc1db"
