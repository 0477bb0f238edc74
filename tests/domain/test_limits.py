"""Every quota of the service: its value, what is accepted at it and refused one past it."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import ValidationError

from bendybus.client import ServiceBusClient
from bendybus.crds.namespace_manifest import BusNamespaceSpec
from bendybus.domain import bounds, descriptions, entity, limits, subscription_name, transactions
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import (
    Description,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from bendybus.domain.errors import BusError, InvalidArgument, InvalidOperation
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier

QUEUE, TOPIC, SUBSCRIPTION = QueueDescription(), TopicDescription(), SubscriptionDescription()


def setting(field: str, of: Description = QUEUE, tier: Tier = Tier.STANDARD) -> Any:
    """Return a check of one setting's value."""

    def check(value: Any) -> None:
        wanted: Any = of
        changed = replace(wanted, **{field: value})
        descriptions.check(changed, tier=tier, partition_count=16)

    return check


def rule(make: Callable[[int], Rule]) -> Callable[[int], None]:
    """Return a check of a rule of a size."""
    return lambda size: rules.check(make(size), partitioned=False)


def check_text(field: str, text: str) -> None:
    """Check one text of a message, which is a column of a frame."""
    columns = {name: [text] if name == field else [] for name in ("ids", "keys", "sessions")}
    ids, keys, sessions = columns["ids"], columns["keys"], columns["sessions"]
    found = list(bounds.message_faults(ids, keys, sessions, [], []))
    assert bounds.messages_fit(ids, keys, sessions, [], []) == (not found)
    if found:
        raise found[0][1]


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota: its documented value, and a check that refuses `past` and accepts `at`."""

    value: int
    check: Callable[[int], None]
    past: int = 1


# Name in limits.py → what the service documents, and how the rules treat it.
QUOTAS: dict[str, Quota] = {
    "ENTITY_NAME_CHARS_MAX": Quota(260, lambda n: entity.check_new_name("x" * n)),
    "SUBSCRIPTION_NAME_CHARS_MAX": Quota(50, lambda n: subscription_name.check("x" * n)),
    "ENTITY_PATH_CHARS_MAX": Quota(512, lambda n: bounds.check_path("x" * n)),
    "USER_METADATA_CHARS_MAX": Quota(1_024, lambda n: setting("user_metadata")("x" * n)),
    "LOCK_DURATION_MS_MIN": Quota(5_000, setting("lock_duration_ms"), past=-1),
    "LOCK_DURATION_MS_MAX": Quota(300_000, setting("lock_duration_ms")),
    "MAX_DELIVERY_COUNT_MAX": Quota(2**31 - 1, setting("max_delivery_count")),
    "DUPLICATE_WINDOW_MS_MIN": Quota(
        20_000, setting("duplicate_detection_history_time_window_ms"), past=-1
    ),
    "DUPLICATE_WINDOW_MS_MAX": Quota(
        7 * 86_400_000, setting("duplicate_detection_history_time_window_ms")
    ),
    "AUTO_DELETE_ON_IDLE_MS_MIN": Quota(300_000, setting("auto_delete_on_idle_ms"), past=-1),
    "TIME_TO_LIVE_MS_MAX": Quota(922_337_203_685_477, setting("default_message_time_to_live_ms")),
    "BASIC_TIME_TO_LIVE_MS_MAX": Quota(
        14 * 86_400_000, setting("default_message_time_to_live_ms", tier=Tier.BASIC)
    ),
    "PREMIUM_QUEUE_SIZE_MB_MAX": Quota(81_920, setting("max_size_in_megabytes", tier=Tier.PREMIUM)),
    "PREMIUM_MESSAGE_KB_MIN": Quota(
        1_024, setting("max_message_size_in_kilobytes", tier=Tier.PREMIUM), past=-1
    ),
    "PREMIUM_MESSAGE_KB_MAX": Quota(
        102_400, setting("max_message_size_in_kilobytes", tier=Tier.PREMIUM)
    ),
    "DEAD_LETTER_TEXT_CHARS_MAX": Quota(
        4_096, lambda n: bounds.check_settlement(b"x" * 16, 0, "x" * n, "")
    ),
    "RULE_NAME_CHARS_MAX": Quota(50, rule(lambda n: Rule("x" * n))),
    "SQL_TEXT_CHARS_MAX": Quota(1_024, rule(lambda n: Rule("r", SqlFilter("a=1".ljust(n))))),
    "SQL_ACTION_STATEMENTS_MAX": Quota(
        32, rule(lambda n: Rule("r", action=SqlRuleAction("SET a=1;" * n)))
    ),
    "TRANSACTION_MESSAGES_MAX": Quota(100, lambda n: transactions.check_size(n, 1)),
    "TRANSACTION_MS_MAX": Quota(120_000, transactions.check_age),
}
# Proven where the rule is, with the state that it needs: by tests of these requirements or names.
ELSEWHERE: dict[str, str] = {
    "STANDARD_PARTITION_COUNT": "R05",
    "PREMIUM_PARTITION_COUNTS": "R06",
    "MIGRATED_PARTITION_COUNT": "R202",
    "ENTITIES_PER_NAMESPACE": "R44",
    "PARTITIONED_ENTITIES_PER_NAMESPACE": "R44",
    "SUBSCRIPTIONS_PER_TOPIC": "R82",
    "TOPIC_TIERS": "R80",
    "SESSION_TIERS": "test_a_basic_namespace_has_queues_and_nothing_more",
    "FORWARDING_TIERS": "R148",
    "FORWARD_HOPS_MAX": "R142",
    "DUPLICATE_DETECTION_TIERS": "test_a_basic_namespace_has_queues_and_nothing_more",
    "QUEUE_SIZES_MB": "test_sizes_of_queues_are_those_of_the_service",
    "STANDARD_MESSAGE_BYTES_MAX": "test_the_largest_message",
    "PREMIUM_PARTITIONED_MESSAGE_BYTES_MAX": "test_the_largest_message",
    "STANDARD_BATCH_BYTES_MAX": "test_the_largest_batch_and_batch_delete",
    "PREMIUM_BATCH_BYTES_MAX": "test_the_largest_batch_and_batch_delete",
    "DELETE_MESSAGES_MAX": "test_the_largest_batch_and_batch_delete",
    "PREMIUM_QUEUE_SIZES_MB": "test_sizes_of_new_queues_in_premium_are_those_of_the_service",
    "PREMIUM_DELETE_MESSAGES_MAX": "test_the_largest_batch_and_batch_delete",
    "KEY_CHARS_MAX": "test_ids_and_keys_have_128_characters",
    "PROPERTY_BYTES_MAX": "tests/client and tests/frontend",
    "HEADER_BYTES_MAX": "tests/client and tests/frontend",
    "AUTHORIZATION_RULES_MAX": "test_a_namespace_has_at_most_12_policies_of_its_own",
    "AUTHORIZATION_NAME_CHARS_MAX": "tests/domain/test_authorization_rules.py",
    "AUTHORIZATION_KEY_CHARS_MAX": "tests/domain/test_authorization_rules.py",
    "PREFETCH_MESSAGES_MAX": "test_a_receiver_prefetches_at_most_50000_messages",
    "PEEK_BYTES_MAX": "tests/partition_server/test_browse.py",
    "RECEIVERS_PER_ENTITY": "tests/partition_server/test_receive.py",
    "SQL_FILTERS_PER_TOPIC": "tests/partition_server/test_rules.py",
    "CORRELATION_FILTERS_PER_TOPIC": "tests/partition_server/test_rules.py",
}


@pytest.mark.requirement("R201")
@pytest.mark.parametrize("name", QUOTAS)
def test_a_quota_is_the_documented_one_and_refuses_one_past_it(name: str) -> None:
    quota = QUOTAS[name]

    assert getattr(limits, name) == quota.value
    quota.check(quota.value)
    with pytest.raises(BusError) as caught:
        quota.check(quota.value + quota.past)
    assert isinstance(caught.value, InvalidArgument | InvalidOperation)


@pytest.mark.requirement("R201")
def test_every_quota_of_the_table_has_a_test() -> None:
    """Defaults follow from the service too, and are compared in the tests of descriptions."""
    source = inspect.getsource(limits).partition("# Our own bounds")[0]
    names = set(re.findall(r"^([A-Z][A-Z_]+)\b", source, re.MULTILINE))
    bases = {"KB", "MB", "SECOND_MS", "MINUTE_MS", "DAY_MS"}
    quotas = {name for name in names - bases if not name.endswith("_DEFAULT")}

    assert quotas - QUOTAS.keys() == ELSEWHERE.keys()


@pytest.mark.requirement("R201")
@pytest.mark.parametrize("field", ["ids", "keys", "sessions"])
def test_ids_and_keys_have_128_characters(field: str) -> None:
    assert limits.KEY_CHARS_MAX == 128

    check_text(field, "x" * 128)
    with pytest.raises(InvalidArgument, match="at most 128 characters"):
        check_text(field, "x" * 129)


@pytest.mark.requirement("R201")
def test_sizes_of_queues_are_those_of_the_service() -> None:
    for of in (QUEUE, TOPIC):
        check = setting("max_size_in_megabytes", of)
        for size in (1024, 2048, 3072, 4096, 5120):
            check(size)
        for size in (0, 1023, 1025, 5121):
            with pytest.raises(InvalidArgument, match="must be one of 1024"):
                check(size)


@pytest.mark.requirement("R325")
def test_sizes_of_new_queues_in_premium_are_those_of_the_service() -> None:
    def check(size: int, current: Description | None = None) -> None:
        wanted = replace(QUEUE, max_size_in_megabytes=size)
        descriptions.check(wanted, tier=Tier.PREMIUM, partition_count=1)
        descriptions.check_new(wanted, tier=Tier.PREMIUM, partition_count=1, current=current)

    for size in (1024, 2048, 3072, 4096, 5120, 10240, 20480, 40960, 81920):
        check(size)
    odd = replace(QUEUE, max_size_in_megabytes=50_000)
    for current in (None, QUEUE):
        with pytest.raises(InvalidArgument, match=r"must be one of 1024.* 81920 \(got 50000\)"):
            check(50_000, current)
    # Of an earlier version.
    check(50_000, odd)


@pytest.mark.requirement("R325")
@pytest.mark.parametrize(
    ("tier", "count", "kilobytes", "taken"),
    [
        (Tier.PREMIUM, 1, 102_400, True),
        (Tier.PREMIUM, 4, 1_024, True),
        (Tier.PREMIUM, 4, 1_025, False),
    ],
)
def test_larger_messages_are_of_one_partition(
    tier: Tier, count: int, kilobytes: int, taken: bool
) -> None:
    wanted = replace(QUEUE, max_message_size_in_kilobytes=kilobytes)
    descriptions.check_new(wanted, tier=tier, partition_count=count, current=wanted)
    if taken:
        descriptions.check_new(wanted, tier=tier, partition_count=count)
        return
    with pytest.raises(InvalidArgument, match="larger messages need a namespace of one partition"):
        descriptions.check_new(wanted, tier=tier, partition_count=count)


@pytest.mark.requirement("R325")
def test_a_client_cannot_ask_for_an_entity_without_partitioning() -> None:
    # The SDK for .NET always says one or the other.
    with pytest.raises(InvalidArgument, match="Set it to true, or leave it out"):
        descriptions.check_choice(
            {"enable_partitioning": False}, tier=Tier.PREMIUM, partition_count=4
        )

    for changes in ({}, {"enable_partitioning": True}):
        descriptions.check_choice(changes, tier=Tier.PREMIUM, partition_count=4)


@pytest.mark.requirement("R325")
def test_messages_of_basic_expire_after_14_days_but_where_they_did_not() -> None:
    def settled(wanted: Description, current: Description | None) -> int | None:
        kept = descriptions.settled(wanted, tier=Tier.BASIC, partition_count=16, current=current)
        return kept.default_message_time_to_live_ms

    fortnight = 14 * limits.DAY_MS
    bounded = replace(QUEUE, default_message_time_to_live_ms=fortnight)
    short = replace(QUEUE, default_message_time_to_live_ms=60_000)
    assert settled(QUEUE, None) == fortnight
    assert settled(QUEUE, bounded) == fortnight
    assert settled(QUEUE, QUEUE) is None
    assert settled(short, None) == 60_000


def made(tier: Tier, count: int, kilobytes: int = 0) -> Entity:
    """Return a queue as a namespace of this tier keeps it."""
    wanted = replace(QUEUE, max_message_size_in_kilobytes=kilobytes)
    settled = descriptions.settled(wanted, tier=tier, partition_count=count)
    return Entity("q", "u", 1, Origin.CLIENT, settled, count, 0, 0, 0)


@pytest.mark.requirement("R201")
@pytest.mark.parametrize(
    ("tier", "count", "kilobytes", "largest"),
    [
        (Tier.BASIC, 1, 0, 256 * 1024),
        (Tier.STANDARD, 1, 0, 256 * 1024),
        (Tier.STANDARD, 16, 0, 256 * 1024),
        (Tier.PREMIUM, 1, 0, 1024 * 1024),
        (Tier.PREMIUM, 1, 102_400, 100 * 1024 * 1024),
        (Tier.PREMIUM, 2, 0, 1024 * 1024),
        # Whatever it sets for itself.
        (Tier.PREMIUM, 2, 102_400, 1024 * 1024),
        (Tier.PREMIUM, 16, 2_048, 1024 * 1024),
    ],
)
def test_the_largest_message(tier: Tier, count: int, kilobytes: int, largest: int) -> None:
    assert made(tier, count, kilobytes).message_bytes_max(tier) == largest


@pytest.mark.requirement("R201")
def test_the_largest_batch_and_batch_delete() -> None:
    sizes = {tier: limits.batch_bytes_max(tier) for tier in Tier}
    deletes = {tier: limits.delete_messages_max(tier) for tier in Tier}

    assert sizes == {Tier.BASIC: 262_144, Tier.STANDARD: 262_144, Tier.PREMIUM: 1_048_576}
    assert deletes == {Tier.BASIC: 500, Tier.STANDARD: 500, Tier.PREMIUM: 4_000}


@pytest.mark.requirement("R200")
def test_a_basic_namespace_has_queues_and_nothing_more() -> None:
    for tier in Tier:
        descriptions.check(QUEUE, tier=tier, partition_count=16)
        descriptions.check_new(QUEUE, tier=tier, partition_count=16)
        full = tier is not Tier.BASIC
        for refused in (
            lambda tier=tier: setting("requires_session", tier=tier)(True),
            lambda tier=tier: descriptions.check_new(
                replace(QUEUE, requires_duplicate_detection=True), tier=tier, partition_count=16
            ),
            lambda tier=tier: descriptions.check(TOPIC, tier=tier, partition_count=16),
            lambda tier=tier: descriptions.check(SUBSCRIPTION, tier=tier, partition_count=16),
            lambda tier=tier: transactions.check_allowed(tier),
        ):
            if full:
                refused()
                continue
            with pytest.raises(BusError, match="Basic"):
                refused()


@pytest.mark.requirement("R201")
def test_a_namespace_has_at_most_12_policies_of_its_own() -> None:
    def check(count: int) -> None:
        rules = [{"name": f"p{n}", "rights": ["Send"]} for n in range(count)]
        BusNamespaceSpec.model_validate({"authorizationRules": rules})

    assert limits.AUTHORIZATION_RULES_MAX == 12
    check(12)
    with pytest.raises(ValidationError, match="at most 12 items"):
        check(13)


@pytest.mark.requirement("R201")
def test_a_receiver_prefetches_at_most_50000_messages() -> None:
    text = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b"
    client = ServiceBusClient.from_connection_string(text)

    assert limits.PREFETCH_MESSAGES_MAX == 50_000
    client.get_queue_receiver("q", prefetch_count=50_000)
    with pytest.raises(ValueError, match="50000"):
        client.get_queue_receiver("q", prefetch_count=50_001)
