"""Strategies for manifests of whole buses, as they are written in each form and read again."""

from typing import Any

from hypothesis import strategies as st

from bendybus.crds.bundle import KINDS
from bendybus.crds.conversion import Document
from bendybus.crds.imports.importer import manifest
from bendybus.domain import durations, entity_settings
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType
from bendybus.domain.limits import Tier

BUS = "shop-bus"
# Names that differ, in any case, and as names of objects and of blocks, too.
QUEUES = ("orders", "orders/eu", "orders-eu", "Orders.US", "a_b", "dead")
TOPICS = ("news", "news/all", "1st")
SUBSCRIPTIONS = ("all", "All.eu", "x-1")
TEXTS = st.sampled_from(["x", "a b", "[sys]", "it's", "${a}", "%{b}", "é", "[[c]", "1"])
DURATIONS_MS = st.sampled_from([20_000, 60_000, 300_000, 3_600_000, 1_209_600_000])


def _value(setting: Setting, kind: EntityKind, tier: Tier) -> st.SearchStrategy[Any]:
    match setting.type:
        case SettingType.BOOLEAN:
            return st.booleans()
        case SettingType.DURATION:
            return _duration(setting, tier)
        case SettingType.STATUS:
            statuses = entity_settings.TYPES[kind].statuses
            return st.sampled_from([each.value for each in statuses])
        case SettingType.TEXT:
            return TEXTS
    if setting.name == "max_message_size_in_kilobytes":
        return st.sampled_from([2_048, 1_024] if tier is Tier.PREMIUM else [256])
    if setting.name == "max_delivery_count":
        return st.sampled_from([1, 3, 10, 11, 2_000])
    return st.sampled_from([1_024, 2_048, 5_120])


def _duration(setting: Setting, tier: Tier) -> st.SearchStrategy[str]:
    bounds = setting.bounds[tier]
    found = DURATIONS_MS.filter(lambda each: bounds.least <= each <= bounds.most)
    return found.map(durations.render)


@st.composite
def _settings(draw: st.DrawFn, kind: EntityKind, tier: Tier, count: int) -> dict[str, Any]:
    """Return some settings of an entity, forwarding and rules apart."""
    made: dict[str, Any] = {}
    for setting in entity_settings.BY_KIND[kind]:
        if not setting.is_declared or setting.type in (SettingType.NAME, SettingType.RULES):
            continue
        if tier not in setting.bounds or tier not in setting.bounds_of_new:
            continue
        if setting.name == "enable_partitioning" and tier is Tier.PREMIUM:
            continue
        if setting.name == "max_message_size_in_kilobytes" and count > 1:
            continue
        if draw(st.integers(0, 3)) == 0:
            made[setting.manifest_name] = draw(_value(setting, kind, tier))
    return made


CONSTANTS = st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | TEXTS
CORRELATION = st.fixed_dictionaries(
    {"label": TEXTS},
    optional={
        "correlationId": TEXTS,
        "replyToSessionId": TEXTS,
        "contentType": TEXTS,
        "properties": st.dictionaries(st.sampled_from(["a", "b.c", "d_e"]), CONSTANTS, min_size=1),
    },
)
SQL = st.fixed_dictionaries(
    {"sqlExpression": st.sampled_from(["a = 1", "sys.Label = 'x${y}' AND [b] > 3", "c LIKE 'é%'"])}
) | st.fixed_dictionaries(
    {
        "sqlExpression": st.just("a = @p OR '@p' = b OR [@p] IN (1, -@p)"),
        "parameters": st.fixed_dictionaries({"p": st.integers(-3, 3) | st.just(0.5)}),
    }
)
ACTIONS = st.just({"sqlExpression": "SET a = 'it''s ${b}'"})
RULE = st.one_of(
    st.fixed_dictionaries({"correlationFilter": CORRELATION}, optional={"action": ACTIONS}),
    st.fixed_dictionaries({"sqlFilter": SQL}, optional={"action": ACTIONS}),
    st.fixed_dictionaries({"booleanFilter": st.booleans()}),
)


@st.composite
def _rules(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from(["$Default", "r", "R.2", "r-3"]), unique=True))
    return [{"name": name, **draw(RULE)} for name in names]


@st.composite
def buses(draw: st.DrawFn) -> list[Document]:
    """Return the manifests of a bus. Not all can be: forwarding in a circle cannot."""
    tier = draw(st.sampled_from([Tier.STANDARD, Tier.PREMIUM, Tier.BASIC]))
    count = draw(st.sampled_from([1, 2, 4, 8])) if tier is Tier.PREMIUM else 16
    queues = draw(st.lists(st.sampled_from(QUEUES), unique=True))
    topics: list[str] = []
    if tier is not Tier.BASIC:
        topics = draw(st.lists(st.sampled_from(TOPICS), unique=True))
    made: list[Document] = []

    def add(kind: EntityKind, name: str, topic: str = "", **more: Any) -> None:
        spec = {"namespaceRef": {"name": BUS}, "entityName": name}
        spec |= {"topicName": topic} if topic else {}
        spec |= draw(_settings(kind, tier, count)) | more
        if kind is not EntityKind.TOPIC and tier is not Tier.BASIC and (queues or topics):
            for field in ("forwardTo", "forwardDeadLetteredMessagesTo"):
                if draw(st.integers(0, 3)) == 0:
                    spec[field] = draw(st.sampled_from([*queues, *topics]))
        made.append(manifest(KINDS[kind], f"object-{len(made)}", spec))

    for name in queues:
        add(EntityKind.QUEUE, name)
    for topic in topics:
        add(EntityKind.TOPIC, topic)
        for name in draw(st.lists(st.sampled_from(SUBSCRIPTIONS), unique=True)):
            rules = {"rules": draw(_rules())} if draw(st.booleans()) else {}
            add(EntityKind.SUBSCRIPTION, name, topic, **rules)
    return [_namespace(draw, tier, count, [*queues, *topics]), *made]


def _namespace(draw: st.DrawFn, tier: Tier, count: int, entities: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"sku": {"tier": tier.value}}
    if tier is Tier.PREMIUM:
        spec["premiumMessagingPartitions"] = count
    rights = st.sampled_from([["Listen"], ["Send", "Listen"], ["Manage"]])
    names = draw(st.lists(st.sampled_from(["app", "App-2", "reader"]), unique=True))
    policies: list[dict[str, Any]] = [{"name": name, "rights": draw(rights)} for name in names]
    for each in policies:
        named = draw(st.booleans())
        if named and entities:
            each["entity"] = draw(st.sampled_from(entities))
    return manifest("BusNamespace", BUS, spec | {"authorizationRules": policies})
