"""Keys and where they lead. The constants were computed once and must never change."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import partitioning
from bendybus.domain.errors import InvalidOperation
from bendybus.domain.limits import Tier

# CRC-32 of the UTF-8 text, and its remainders of 16 and 4. "123456789" is the check value that
# every description of CRC-32 gives.
GOLDEN = [
    ("123456789", 0xCBF43926, 6, 2),
    ("", 0x00000000, 0, 0),
    ("UA", 0x87CECAE8, 8, 0),
    ("AA", 0xA9601DBD, 13, 1),
    ("a", 0xE8B7BE43, 3, 3),
    ("A", 0xD3D99E8B, 11, 3),
    ("é", 0x0E048D3E, 14, 2),
    ("日本", 0xC7B7CDCC, 12, 0),
    ("customer-42", 0x49FDA815, 5, 1),
    ("session-0", 0x54C78EB8, 8, 0),
]


def key(**given: object) -> str | None:
    values = {
        "session_id": None,
        "partition_key": "",
        "message_id": "",
        "detects_duplicates": False,
    }
    return partitioning.effective_key(**{**values, **given})  # type: ignore[arg-type]


@pytest.mark.requirement("R20")
@pytest.mark.parametrize(("text", "crc", "of_16", "of_4"), GOLDEN)
def test_a_key_keeps_its_partition_for_ever(text: str, crc: int, of_16: int, of_4: int) -> None:
    assert crc32(text.encode()) == crc
    assert partitioning.partition_of(text, 16) == of_16
    assert partitioning.partition_of(text, 4) == of_4


@pytest.mark.requirement("R20")
@given(st.text(), st.sampled_from([1, 2, 4, 8, 16]))
def test_every_text_has_a_partition_in_range(text: str, count: int) -> None:
    found = partitioning.partition_of(text, count)

    assert 0 <= found < count
    assert found == partitioning.partition_of(text, count)


def test_half_a_surrogate_pair_is_a_key_like_any_other() -> None:
    assert 0 <= partitioning.partition_of("\ud800", 16) < 16


def test_keys_are_compared_with_case_and_names_of_queues_without() -> None:
    assert partitioning.partition_of("UA", 16) != partitioning.partition_of("ua", 16)
    assert partitioning.home_partition("Orders", 16) == partitioning.home_partition("ORDERS", 16)


def test_sixteen_partitions_get_about_the_same_share() -> None:
    shares = [0] * 16
    for n in range(16_000):
        shares[partitioning.partition_of(f"customer-{n}", 16)] += 1

    assert min(shares) > 800
    assert max(shares) < 1_200


@pytest.mark.requirement("R22")
def test_a_session_is_the_key_also_when_its_text_is_empty() -> None:
    assert key(session_id="s", message_id="m", detects_duplicates=True) == "s"
    assert key(session_id="", message_id="m", detects_duplicates=True) == ""


@pytest.mark.requirement("R23")
def test_a_partition_key_is_the_key_where_there_is_no_session() -> None:
    assert key(partition_key="p", message_id="m", detects_duplicates=True) == "p"
    assert key(session_id="s", partition_key="s") == "s"


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("session", ["s", ""])
def test_a_session_and_another_partition_key_contradict_each_other(session: str) -> None:
    with pytest.raises(InvalidOperation, match="differs from SessionId") as caught:
        key(session_id=session, partition_key="p")

    assert caught.value.metadata["field"] == "PartitionKey"


@pytest.mark.requirement("R25", "R28")
def test_a_message_id_is_the_key_only_where_duplicates_are_detected() -> None:
    assert key(message_id="m", detects_duplicates=True) == "m"
    assert key(message_id="m") is None
    assert key(detects_duplicates=True) is None


@pytest.mark.requirement("R01")
@pytest.mark.requirement("R03", "R04", "R06")
@pytest.mark.parametrize(
    ("tier", "partitions", "asked", "count"),
    [
        (Tier.STANDARD, 16, True, 16),
        (Tier.STANDARD, 16, False, 1),
        (Tier.BASIC, 16, True, 16),
        (Tier.PREMIUM, 4, False, 4),
        (Tier.PREMIUM, 4, True, 4),
        (Tier.PREMIUM, 1, False, 1),
    ],
)
def test_tier_and_choice_decide_how_a_queue_is_spread(
    tier: Tier, partitions: int, asked: bool, count: int
) -> None:
    found, home = partitioning.placement(
        "Orders", enable_partitioning=asked, tier=tier, partition_count=partitions
    )
    _, same_home = partitioning.placement(
        "oRDERS", enable_partitioning=asked, tier=tier, partition_count=partitions
    )

    assert found == count
    assert 0 <= home < partitions
    assert home == same_home


@pytest.mark.requirement("R202")
@pytest.mark.parametrize(("partitions", "count"), [(1, 1), (2, 2), (4, 2), (16, 2)])
def test_a_migrated_entity_keeps_two_partitions_where_there_are_so_many(
    partitions: int, count: int
) -> None:
    found, _ = partitioning.placement(
        "Orders",
        enable_partitioning=partitions > 1,
        tier=Tier.PREMIUM,
        partition_count=partitions,
        migrated=True,
    )

    assert found == count


@pytest.mark.requirement("R202")
@pytest.mark.parametrize("tier", [Tier.BASIC, Tier.STANDARD])
def test_only_premium_takes_migrated_entities(tier: Tier) -> None:
    with pytest.raises(InvalidOperation, match="only a Premium namespace"):
        partitioning.placement(
            "q", enable_partitioning=True, tier=tier, partition_count=16, migrated=True
        )
