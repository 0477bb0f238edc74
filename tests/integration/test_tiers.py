"""What each tier allows, at its limits and past them, through the public clients."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import (
    HttpResponseError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
)
from bendybus.client.management import CorrelationRuleFilter, SqlRuleFilter
from bendybus.domain.limits import Tier
from tests.integration.processes import Bus, eventually

# Tier and number of partitions.
BASIC, STANDARD = (Tier.BASIC, 16), (Tier.STANDARD, 16)
PREMIUM, PARTITIONED = (Tier.PREMIUM, 1), (Tier.PREMIUM, 4)
ALL = (BASIC, STANDARD, PREMIUM, PARTITIONED)
GB = 1_024
REFUSED = HttpResponseError
FORTNIGHT = timedelta(days=14)


@pytest.fixture(scope="module")
def bus_of(
    standard_bus: Bus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Bus]]:
    """Return a function that returns the bus of a tier."""
    made: dict[Any, Bus] = {STANDARD: standard_bus}

    def of(kind: tuple[Tier, int]) -> Bus:
        if kind not in made:
            tier, partitions = kind
            folder = tmp_path_factory.mktemp(f"{tier}-{partitions}")
            made[kind] = Bus(folder, partitions=partitions, tier=tier)
        return made[kind]

    yield of
    for kind, bus in made.items():
        if kind != STANDARD:
            bus.end()


# Setting, value, and the tiers that take it.
MATRIX: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("max_size_in_megabytes", 1 * GB, ALL),
    ("max_size_in_megabytes", 5 * GB, ALL),
    ("max_size_in_megabytes", 6 * GB, ()),
    ("max_size_in_megabytes", 10 * GB, (PREMIUM, PARTITIONED)),
    ("max_size_in_megabytes", 80 * GB, (PREMIUM, PARTITIONED)),
    ("max_size_in_megabytes", 81 * GB, ()),
    ("max_size_in_megabytes", 1_000, ()),
    ("max_message_size_in_kilobytes", 256, (BASIC, STANDARD)),
    ("max_message_size_in_kilobytes", 1_024, (PREMIUM, PARTITIONED)),
    ("max_message_size_in_kilobytes", 102_400, (PREMIUM,)),
    ("max_message_size_in_kilobytes", 102_401, ()),
    ("default_message_time_to_live", FORTNIGHT, ALL),
    ("default_message_time_to_live", FORTNIGHT + timedelta(seconds=1), ALL[1:]),
    ("lock_duration", timedelta(minutes=5), ALL),
    ("lock_duration", timedelta(minutes=5, seconds=1), ()),
    ("requires_session", True, ALL[1:]),
    ("requires_duplicate_detection", True, ALL[1:]),
    ("enable_partitioning", True, (BASIC, STANDARD, PARTITIONED)),
    ("enable_partitioning", False, (BASIC, STANDARD, PREMIUM)),
    ("max_delivery_count", 1, ALL),
    ("max_delivery_count", 0, ()),
)


@pytest.mark.requirement("R325")
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def test_each_setting_at_its_limit_and_past_it(bus_of: Callable[..., Bus], kind: Any) -> None:
    with bus_of(kind).administration() as administration:
        for row, (setting, value, tiers) in enumerate(MATRIX):
            name = f"q{row}"
            if kind in tiers:
                made = administration.create_queue(name, **{setting: value})
                assert getattr(made, setting) == value, (setting, value)
                got = administration.get_queue(name)
                administration.update_queue(got)
                again = administration.get_queue(name)
                assert dict(again.items()) == dict(got.items()), (setting, value)
                administration.delete_queue(name)
            else:
                with pytest.raises(REFUSED):
                    administration.create_queue(name, **{setting: value})


@pytest.mark.requirement("R325")
@pytest.mark.parametrize(
    ("kind", "batch_bytes", "time_to_live", "partitioned"),
    [
        (BASIC, 262_144, FORTNIGHT, False),
        (STANDARD, 262_144, None, False),
        (PREMIUM, 1_048_576, None, False),
        (PARTITIONED, 1_048_576, None, True),
    ],
    ids=str,
)
def test_defaults(
    bus_of: Callable[..., Bus],
    kind: Any,
    batch_bytes: int,
    time_to_live: timedelta | None,
    partitioned: bool,
) -> None:
    bus = bus_of(kind)
    with bus.administration() as administration, bus.client() as client:
        made = administration.create_queue("defaults")
        assert made.max_size_in_megabytes == GB
        assert made.enable_partitioning is partitioned
        if time_to_live is not None:
            assert made.default_message_time_to_live == time_to_live
        else:
            assert isinstance(made.default_message_time_to_live, timedelta)
            assert made.default_message_time_to_live > FORTNIGHT
        sender = client.get_queue_sender("defaults")
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == batch_bytes
        with pytest.raises(ValueError, match="max_size_in_bytes"):
            sender.create_message_batch(max_size_in_bytes=batch_bytes + 1)
        with pytest.raises(MessageSizeExceededError):
            batch.add_message(ServiceBusMessage(b"x" * batch_bytes))
        batch.add_message(ServiceBusMessage(b"x" * (batch_bytes - 2_000)))
        sender.send_messages(batch)


def test_a_batch_for_what_is_not_there(bus_of: Callable[..., Bus]) -> None:
    with bus_of(PREMIUM).client() as client, pytest.raises(MessagingEntityNotFoundError):
        client.get_queue_sender("nowhere").create_message_batch()


def test_a_batch_while_the_bus_is_away(tmp_path: Path) -> None:
    text = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=local;"
    with ServiceBusClient.from_connection_string(
        f"{text}UseDevelopmentEmulator=true", retry_total=0
    ) as client:
        batch = client.get_queue_sender("orders").create_message_batch()

    assert batch.max_size_in_bytes == 262_144


@pytest.mark.requirement("R326")
def test_sizes_of_partitioned_entities_of_standard(standard_bus: Bus) -> None:
    with standard_bus.administration() as administration:
        for given, shown in ((None, 16 * GB), (5 * GB, 80 * GB), (80 * GB, 80 * GB)):
            options: dict[str, Any] = {} if given is None else {"max_size_in_megabytes": given}
            made = administration.create_queue("sized", enable_partitioning=True, **options)
            assert made.max_size_in_megabytes == shown
            [listed] = [each for each in administration.list_queues() if each.name == "sized"]
            assert listed.max_size_in_megabytes == shown
            administration.update_queue(listed)
            assert administration.get_queue("sized").max_size_in_megabytes == shown
            listed.max_size_in_megabytes = 2 * GB
            administration.update_queue(listed)
            assert administration.get_queue("sized").max_size_in_megabytes == 32 * GB
            administration.delete_queue("sized")
        with pytest.raises(HttpResponseError, match="must be one of 1024"):
            administration.create_queue("plain", max_size_in_megabytes=80 * GB)


@pytest.mark.requirement("R326")
@pytest.mark.parametrize("kind", [PREMIUM, PARTITIONED])
def test_sizes_of_premium_are_those_that_were_given(
    bus_of: Callable[..., Bus], kind: tuple[Tier, int]
) -> None:
    with bus_of(kind).administration() as administration:
        made = administration.create_queue("sized", max_size_in_megabytes=5 * GB)
        assert made.max_size_in_megabytes == 5 * GB
        administration.update_queue(made)
        assert administration.get_queue("sized").max_size_in_megabytes == 5 * GB
        administration.delete_queue("sized")


@pytest.mark.requirement("R326")
def test_a_topic_counts_its_filters(bus_of: Callable[..., Bus]) -> None:
    with bus_of(PREMIUM).administration() as administration:
        administration.create_topic("news")
        for name in "ab":
            administration.create_subscription("news", name)
            administration.create_rule("news", name, "r", filter=SqlRuleFilter("x = 1"))
        administration.create_rule("news", "a", "s", filter=SqlRuleFilter("x = 2"))
        administration.create_rule("news", "a", "t", filter=CorrelationRuleFilter(label="x"))
        found = administration.get_topic_runtime_properties("news")

    assert found.subscription_count == 2
    # As the service does: what is always true is a SQL filter.
    assert (found.sql_filter_count, found.correlation_filter_count) == (5, 1)


@pytest.mark.requirement("R326")
def test_lists_and_gets_say_the_same_in_an_outage(tmp_path: Path) -> None:
    bus = Bus(tmp_path, partitions=2)
    try:
        with bus.administration() as administration:
            assert administration.create_queue("orders").availability_status == "Available"
            bus.partitions[1].end()

            def limited() -> bool:
                [listed] = administration.list_queues()
                return bool(listed.availability_status == "Limited")

            eventually(limited, what="Limited in the list")
            assert administration.get_queue("orders").availability_status == "Limited"
    finally:
        bus.end()
