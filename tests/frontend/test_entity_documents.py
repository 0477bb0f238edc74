"""Entities and rules as Atom documents: what is written is read as it was."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import descriptions, entity_settings, errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import EntityStatus, Setting, SettingType
from bendybus.domain.errors import InvalidArgument, InvalidOperation, all_errors
from bendybus.domain.limits import Tier
from bendybus.domain.shared_access import Policy, Right
from bendybus.frontend.core.manage import Runtime
from bendybus.frontend.listeners.web import (
    atom,
    entity_documents,
    http_statuses,
    requests,
    resources,
)
from bendybus.frontend.listeners.web.entity_documents import ELEMENTS, Shown
from bendybus.frontend.listeners.web.resources import Resource, ResourceKind
from bendybus.frontend.upstreams.unary_calls import Counts

NAMES = {EntityKind.QUEUE: "q", EntityKind.TOPIC: "t", EntityKind.SUBSCRIPTION: "t/Subscriptions/s"}
# What XML 1.0 can say.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r"),
    max_size=40,
)


def entity_of(described: Any) -> Entity:
    return Entity(
        name=NAMES[described.kind],
        uid="uid",
        generation=1,
        origin=Origin.CLIENT,
        description=described,
        partition_count=1,
        home_partition=0,
        created_at_ms=1_700_000_000_123,
        updated_at_ms=1_700_000_000_456,
    )


def shown_of(described: Any, **more: Any) -> Shown:
    runtime = more.pop("runtime", Runtime(Counts(), {0: Counts()}))
    return Shown(entity_of(described), runtime, Tier.STANDARD, host="bus.example:443", **more)


def values_of(setting: Setting) -> st.SearchStrategy[Any]:
    match setting.type:
        case SettingType.BOOLEAN:
            return st.booleans()
        case SettingType.WHOLE:
            return st.integers(1, 10**6)
        case SettingType.DURATION:
            endless = st.none() if setting.endless else st.nothing()
            return st.integers(0, limits.TIME_TO_LIVE_MS_MAX - 1) | endless
        case SettingType.STATUS:
            return st.sampled_from(EntityStatus)
        case SettingType.NAME:
            return st.text(string.ascii_letters + string.digits + "._-/", max_size=30).map(
                lambda name: name.strip("/")
            )
    return TEXTS


def described_of(kind: EntityKind) -> st.SearchStrategy[Any]:
    settings = [each for each in entity_settings.BY_KIND[kind] if not each.is_list]
    return st.builds(
        entity_settings.TYPES[kind], **{each.name: values_of(each) for each in settings}
    )


@pytest.mark.parametrize("kind", EntityKind)
def test_each_setting_is_an_element_in_the_order_of_the_service(kind: EntityKind) -> None:
    settings = {each.atom_name for each in entity_settings.BY_KIND[kind] if each.name != "rules"}

    assert settings <= set(ELEMENTS[kind])
    assert len(set(ELEMENTS[kind])) == len(ELEMENTS[kind])


@given(described=st.sampled_from(EntityKind).flatmap(described_of))
def test_a_description_that_is_written_is_read_as_it_was(described: Any) -> None:
    shown = shown_of(described)

    found = entity_documents.read(atom.described(as_body(entity_documents.written(shown))))

    wanted = entity_settings.values_of(described)
    for name in ("rules", "authorization_rules"):
        wanted.pop(name, None)
    if described.kind is not EntityKind.SUBSCRIPTION:
        wanted["max_size_in_megabytes"] = descriptions.reported_size_mb(described, Tier.STANDARD)
    # What is empty is left out, as the service does.
    if wanted.get("forward_to"):
        # An entity that forwards is shown as never idle.
        wanted["auto_delete_on_idle_ms"] = None
    left_out = {name: value for name, value in wanted.items() if value == ""}
    assert {**left_out, **found.changes} == wanted


def as_body(described: str) -> bytes:
    written = atom.entry("u", "t", described, author="a", created_ms=1, updated_ms=2)
    return written.encode()


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ('<DefaultRuleDescription><Filter i:type="FalseFilter"/></DefaultRuleDescription>',
         ["$Default"]),
        ('<DefaultRuleDescription><Filter i:type="FalseFilter"/><Name>x</Name>'
         "</DefaultRuleDescription>", ["x"]),
        ('<DefaultRuleDescription i:nil="true"/>', None),
    ],
)  # fmt: skip
def test_a_subscription_may_be_created_with_a_rule(content: str, names: list[str] | None) -> None:
    body = as_body(atom.description("SubscriptionDescription", content))

    created = entity_documents.read(atom.described(body)).created()

    found = [rule.name for rule in created["rules"]] if "rules" in created else None
    assert found == names


def test_counts_and_limits_are_shown() -> None:
    total = Counts(5, 2, 3, 1, 1, 700, 1_700_000_000_789, 6, 4)
    runtime = Runtime(total, {0: total, 1: None})

    found = entity_documents.written(shown_of(entity_settings.QueueDescription(), runtime=runtime))

    for wanted in (
        "<MessageCount>21</MessageCount>",
        "<SizeInBytes>700</SizeInBytes>",
        "<AccessedAt>2023-11-14T22:13:20.789Z</AccessedAt>",
        "<d2p1:ActiveMessageCount>5</d2p1:ActiveMessageCount>",
        "<d2p1:DeadLetterMessageCount>2</d2p1:DeadLetterMessageCount>",
        "<d2p1:ScheduledMessageCount>3</d2p1:ScheduledMessageCount>",
        "<d2p1:TransferMessageCount>4</d2p1:TransferMessageCount>",
        "<d2p1:TransferDeadLetterMessageCount>6</d2p1:TransferDeadLetterMessageCount>",
        "<EntityAvailabilityStatus>Limited</EntityAvailabilityStatus>",
    ):
        assert wanted in found


def test_keys_of_policies_are_not_shown() -> None:
    policy = Policy("p", frozenset({Right.SEND}), "q", ("secret-key",))

    found = entity_documents.written(
        shown_of(entity_settings.QueueDescription(), policies=(policy,))
    )

    assert "<KeyName>p</KeyName>" in found
    assert "secret-key" not in found


def test_an_update_replaces_what_may_change_and_keeps_the_rest() -> None:
    body = as_body(
        atom.description("SubscriptionDescription", "<MaxDeliveryCount>3</MaxDeliveryCount>")
    )

    found = entity_documents.read(atom.described(body)).replaced()

    assert found["max_delivery_count"] == 3
    assert found["lock_duration_ms"] == limits.LOCK_DURATION_MS_DEFAULT
    assert not {"requires_session", "rules"} & found.keys()


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("sb://x.example/a/b", "a/b"),
        ("https://x:1/q/", "q"),
        ("amqp://x/a%2Fb", "a/b"),
        ("plain", "plain"),
    ],
)
def test_a_destination_is_an_uri_or_a_name(uri: str, name: str) -> None:
    assert entity_documents.destination(uri) == name


@pytest.mark.parametrize("uri", ["sb://x.example", "sb://x.example/", "//q", "sb://[x/q"])
def test_an_uri_without_an_entity_is_no_destination(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="DlqTo: must be the name of an entity, or a URI"):
        entity_documents.destination(uri, "DlqTo")


def test_policies_of_the_namespace_are_left_as_they_are() -> None:
    policy = Policy("p", frozenset({Right.SEND}), "q", ("secret-key",))
    shown = entity_documents.written(
        shown_of(entity_settings.QueueDescription(), policies=(policy,))
    )
    same = entity_documents.read(atom.described(as_body(shown)))
    empty = entity_documents.read(
        atom.described(as_body(atom.description("QueueDescription", "<AuthorizationRules/>")))
    )

    assert "secret-key" not in shown
    for update in (False, True):
        assert entity_documents.own_rules(same, [policy], update=update) == []
    assert entity_documents.own_rules(empty, [], update=True) == []
    # As the SDK for Go writes a new queue, of which nothing is said of its rules.
    assert entity_documents.own_rules(empty, [policy], update=False) is None
    with pytest.raises(InvalidOperation, match="p: clients cannot change what the manifest"):
        entity_documents.own_rules(empty, [policy], update=True)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/$NamespaceInfo", Resource(ResourceKind.NAMESPACE)),
        ("/$resources/Queues", Resource(ResourceKind.QUEUES)),
        ("/$Resources/topics/", Resource(ResourceKind.TOPICS)),
        ("/a/b", Resource(ResourceKind.ENTITY, "a/b")),
        ("/queues", Resource(ResourceKind.ENTITY, "queues")),
        ("/subscriptions", Resource(ResourceKind.ENTITY, "subscriptions")),
        ("/a/b/Subscriptions", Resource(ResourceKind.SUBSCRIPTIONS, "a/b")),
        ("/a/SUBSCRIPTIONS/s", Resource(ResourceKind.SUBSCRIPTION, "a", "s")),
        ("/a/subscriptions/s/Rules", Resource(ResourceKind.RULES, "a", "s")),
        ("/a/subscriptions/s/rules/$Default", Resource(ResourceKind.RULE, "a", "s", "$Default")),
        ("/a/subscriptions/s/other", None),
        ("/a/subscriptions/s/rules/r/x", None),
        ("/$other", None),
        ("/a//b", None),
        ("/", None),
    ],
)
def test_what_a_path_names(path: str, wanted: Resource | None) -> None:
    assert resources.parse(path) == wanted


def test_each_error_has_a_status() -> None:
    statuses = {each: http_statuses.STATUSES.get(each) for each in all_errors()}

    assert None not in statuses.values()
    assert all(400 <= each.status < 600 for each in http_statuses.STATUSES.values())


def test_sub_codes_tell_what_exists_from_what_is_under_way() -> None:
    """The SDK for JavaScript does not try again what exists."""
    made = http_statuses.of(errors.EntityAlreadyExists("x"))
    under_way = http_statuses.of(errors.GenerationMismatch("x"))

    assert (made, under_way) == ((409, 40900), (409, 40901))


@pytest.mark.parametrize(("after_ms", "after"), [(1, "1"), (1_000, "1"), (2_400, "2"), (0, None)])
def test_an_error_says_after_how_many_seconds_to_try_again(after_ms: int, after: str) -> None:
    found = requests.error_response(errors.ServerBusy("busy", retry_after_ms=after_ms))

    assert (found.status, found.headers.get("Retry-After")) == (503, after)
