"""Entities and rules as Atom documents: what is written is read as it was."""

import math
import string
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import descriptions, entity_settings, errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import EntityStatus, Setting, SettingType
from bendybus.domain.errors import InvalidArgument, InvalidOperation, all_errors
from bendybus.domain.filters.rule import (
    SYSTEM_PROPERTIES,
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.values import Timestamp
from bendybus.domain.limits import Tier
from bendybus.domain.shared_access import Policy, Right
from bendybus.frontend.core.manage import Runtime
from bendybus.frontend.listeners.web import (
    atom,
    entity_documents,
    http_statuses,
    requests,
    resources,
    rule_documents,
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
    settings = [each for each in entity_settings.BY_KIND[kind] if each.name != "rules"]
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
    wanted.pop("rules", None)
    if described.kind is not EntityKind.SUBSCRIPTION:
        wanted["max_size_in_megabytes"] = descriptions.reported_size_mb(described, Tier.STANDARD)
    # What is empty is left out, as the service does.
    left_out = {name: value for name, value in wanted.items() if value == ""}
    assert {**left_out, **found.changes} == wanted


def as_body(described: str) -> bytes:
    written = atom.entry("u", "t", described, author="a", created_ms=1, updated_ms=2)
    return written.encode()


CONSTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=20),
    st.uuids(),
    st.integers(0, 253_402_300_799_999).map(Timestamp),
)
PROPERTIES = st.dictionaries(TEXTS, CONSTANTS, max_size=4)
FILTERS = st.one_of(
    st.just(TrueFilter()),
    st.just(FalseFilter()),
    st.builds(SqlFilter, TEXTS, PROPERTIES),
    st.builds(
        CorrelationFilter,
        **{name: st.none() | TEXTS.filter(bool) for name in SYSTEM_PROPERTIES},
        properties=PROPERTIES,
    ),
)
RULES = st.builds(
    Rule, TEXTS.map(str.strip), FILTERS, st.none() | st.builds(SqlRuleAction, TEXTS, PROPERTIES)
)


@given(rule=RULES)
def test_a_rule_that_is_written_is_read_as_it_was(rule: Rule) -> None:
    found = rule_documents.read(atom.described(as_body(rule_documents.written(rule))))

    assert found == rule


def rule_of(values: str) -> Rule:
    """Return the rule of a document whose filter has these values."""
    content = f'<Filter i:type="CorrelationFilter"><Properties>{values}</Properties></Filter>'
    return rule_documents.read(
        atom.described(as_body(atom.description("RuleDescription", content)))
    )


def value_of(kind: str, text: str, key: str = "k") -> str:
    value = f'<Key>{key}</Key><Value i:type="d:{kind}" xmlns:d="x">{text}</Value>'
    return f"<KeyValueOfstringanyType>{value}</KeyValueOfstringanyType>"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1_0"), ("int", "\u0663"), ("long", "0x10"), ("long", "1.0"), ("int", "\u20031"),
        ("double", "nan"), ("double", "inf"), ("double", "Infinity"), ("double", "1_0.5"),
        ("double", "\u0663.5"), ("double", "."), ("float", "1e"), ("decimal", "1e5"),
        ("decimal", "INF"), ("boolean", "True"), ("boolean", "TRUE"), ("boolean", ""),
        ("dateTime", "20260705T111213Z"), ("dateTime", "2026-W27-1T00:00:00Z"),
        ("dateTime", "2026-186T00:00:00"), ("dateTime", "2026-07-05T11:12Z"),
        ("dateTime", "2026-07-05T11:12:13,5Z"), ("dateTime", "2026-07-05 11:12:13"),
        ("dateTime", "2026-02-30T00:00:00Z"), ("dateTime", "2026-07-05T11:12:13+2500"),
        ("guid", "12345678123456781234567812345678"),
        ("guid", "urn:uuid:12345678-1234-5678-1234-567812345678"),
    ],
)  # fmt: skip
def test_only_the_forms_of_xml_schema_are_values(kind: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"is not a valid {kind}"):
        rule_of(value_of(kind, text))


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("int", "+007", 7), ("int", " -1\n", -1), ("double", ".5", 0.5), ("double", "-5.E+1", -50),
        ("double", "-INF", -math.inf), ("decimal", "-1.50", -1.5), ("boolean", " false ", False),
        ("dateTime", "2026-07-05T11:12:13+02:00", Timestamp(1_783_242_733_000)),
        ("dateTime", "1970-01-01T00:00:00.0019999", Timestamp(1)),
        ("dateTime", "1969-12-31T23:59:59.9995Z", Timestamp(-1)),
        # The last moment of .NET's calendar.
        ("dateTime", "9999-12-31T23:59:59.9999999", Timestamp(253_402_300_799_999)),
        ("base64Binary", "AQ\n ID", b"\1\2\3"),
    ],
)  # fmt: skip
def test_each_form_of_xml_schema_is_read(kind: str, text: str, wanted: Any) -> None:
    found = rule_of(value_of(kind, text)).filter

    assert isinstance(found, CorrelationFilter)
    assert found.properties == {"k": wanted}


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "INF"), (-math.inf, "-INF"), (math.nan, "NaN"), (1e22, "1e+22")]
)
def test_numbers_are_written_as_xml_schema_has_them(value: float, text: str) -> None:
    found = rule_documents.written(Rule("r", SqlFilter("a = @p", {"@p": value})))

    assert f'i:type="d6p1:double">{text}</Value>' in found


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-(2**31) - 1, "long"), (-(2**31), "int"), (2**31 - 1, "int"), (2**31, "long"),
        (2**63 - 1, "long"), (2**63, "unsignedLong"),
    ],
)  # fmt: skip
def test_an_integer_is_of_the_smallest_type_that_has_it(value: int, kind: str) -> None:
    found = rule_documents.written(Rule("r", SqlFilter("a = @p", {"@p": value})))

    assert f'i:type="d6p1:{kind}">{value}</Value>' in found


def test_values_are_written_in_one_order() -> None:
    names = [f"p{number}" for number in range(20)]
    first = CorrelationFilter(properties=dict.fromkeys(names, 1))
    second = CorrelationFilter(properties=dict.fromkeys(reversed(names), 1))

    assert rule_documents.written(Rule("r", first)) == rule_documents.written(Rule("r", second))


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="must have each key once \\(got 'k' twice\\)"):
        rule_of(value_of("int", "1") + value_of("int", "2"))


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


def test_the_beginning_of_1970_is_a_time_in_a_rule() -> None:
    rule = Rule("r", SqlFilter("a = @p", {"@p": Timestamp(0)}), None)

    found = rule_documents.read(atom.described(as_body(rule_documents.written(rule))))

    assert found == rule


def test_a_time_that_no_calendar_has_is_refused_and_if_stored_does_not_hide_its_rule() -> None:
    stored = Rule("r", SqlFilter("a = @p", {"@p": Timestamp(-(2**62))}), None)
    written = rule_documents.written(stored)
    earlier = as_body(written.replace("00:00:00.000Z", "00:00:00+14:00"))

    assert "0001-01-01T00:00:00.000Z" in written
    with pytest.raises(InvalidArgument, match="is not a valid dateTime"):
        rule_documents.read(atom.described(earlier))


@pytest.mark.parametrize(
    "inside", ["<b/>" * 100_000, "<b>" * 70_000 + "</b>" * 70_000], ids=["wide", "deep"]
)
def test_a_body_of_many_elements_is_refused_before_all_of_it_is_read(inside: str) -> None:
    # What follows is not XML: who reads on finds that.
    body = f"<entry><content>{inside}</wrong>".encode()

    with pytest.raises(InvalidArgument, match="must have at most 4000 elements"):
        atom.described(body)


def many_attributes(name: str, count: int) -> str:
    return f"<b {' '.join(f'{name}{number}={number!r}' for number in map(str, range(count)))}/>"


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        (many_attributes("a", 45_000), "must have no tag or comment of 8192 bytes or more"),
        (many_attributes("xmlns:a", 30_000), "must have no tag or comment of 8192 bytes or more"),
        (f"<!--{'x' * 300_000}-->", "must have no tag or comment of 8192 bytes or more"),
        (many_attributes("a", 300) * 90, "must have at most 4000 attributes"),
        ("<!---->" * 70_000, "must have at most 4000 elements"),
        ("<?a?>" * 100_000, "must have at most 4000 elements"),
    ],
    ids=["attributes", "namespaces", "comment", "attributes of many", "comments", "instructions"],
)
def test_markup_that_takes_long_is_refused_before_all_of_it_is_read(
    inside: str, sentence: str
) -> None:
    body = f"<entry><content>{inside}</wrong>"

    for encoding in ("utf-8", "utf-16"):
        with pytest.raises(InvalidArgument, match=sentence):
            atom.described(body.encode(encoding))


def test_comments_of_a_document_are_skipped() -> None:
    found = atom.described(b"<entry><!-- a --><content><?b c?><!-- d --><x>y</x></content></entry>")

    assert (atom.local(found), atom.text_of(found)) == ("x", "y")


@given(text=st.text(max_size=60))
def test_any_text_is_well_formed(text: str) -> None:
    document = atom.entry(text, text, "<x/>", author=text, created_ms=0, updated_ms=0)

    assert atom.local(atom.described(document.encode())) == "x"


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


def test_authorization_rules_are_left_as_they_are() -> None:
    policy = Policy("p", frozenset({Right.SEND}), "q", ("secret-key",))
    shown = entity_documents.written(
        shown_of(entity_settings.QueueDescription(), policies=(policy,))
    )
    same = entity_documents.read(atom.described(as_body(shown)))
    empty = entity_documents.read(
        atom.described(as_body(atom.description("QueueDescription", "<AuthorizationRules/>")))
    )

    for update in (False, True):
        entity_documents.check_policies(same, [policy], update=update)
        entity_documents.check_policies(empty, [], update=update)
        with pytest.raises(InvalidOperation, match="policies cannot be changed by clients"):
            entity_documents.check_policies(same, [], update=update)
    # As the SDK for Go writes a new queue, of which nothing is said of its rules.
    entity_documents.check_policies(empty, [policy], update=False)
    with pytest.raises(InvalidOperation, match="policies cannot be changed by clients"):
        entity_documents.check_policies(empty, [policy], update=True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "x"), ("int", "9" * 30), ("int", "9" * 6_000), ("boolean", "maybe"),
        ("double", "one"), ("dateTime", "yesterday"), ("guid", "1"), ("base64Binary", "?"),
        ("duration", "PT1S"), ("", "x"),
    ],
)  # fmt: skip
def test_a_value_that_its_type_does_not_have_is_refused(kind: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"Filter\.Properties"):
        rule_of(value_of(kind, text))


def test_values_of_other_clients_are_read() -> None:
    values = {
        "short": "7", "unsignedByte": " 8 ", "decimal": "1.5", "float": "INF", "boolean": "1",
        "guid": "{12345678-1234-5678-1234-567812345678}",
    }  # fmt: skip
    content = "".join(value_of(kind, text, key=kind) for kind, text in values.items())

    found = rule_of(content).filter

    assert isinstance(found, CorrelationFilter)
    assert found.properties == {
        "short": 7, "unsignedByte": 8, "decimal": 1.5, "float": math.inf, "boolean": True,
        "guid": UUID("12345678-1234-5678-1234-567812345678"),
    }  # fmt: skip


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
