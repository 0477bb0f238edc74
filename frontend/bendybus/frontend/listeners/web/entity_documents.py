"""Queues, topics and subscriptions in Atom documents.

    <QueueDescription> LockDuration, MaxSizeInMegabytes, …, MaxMessageSizeInKilobytes

An element is a setting of the one table of settings, in its ATOM name, or a fact about the entity.
Elements stand in the order in which the service writes them, since older clients read them so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from bendybus.domain import (
    authorization_rules,
    bounds,
    descriptions,
    durations,
    entity_settings,
    subscription_name,
)
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import EntityStatus, Setting, SettingType
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.domain.filters.rule import DEFAULT_NAME, Rule
from bendybus.domain.limits import Tier
from bendybus.domain.shared_access import Policy
from bendybus.frontend.listeners.web import atom, rule_documents
from bendybus.frontend.listeners.web.atom import element, text

if TYPE_CHECKING:
    from bendybus.frontend.core.manage import Runtime

_RULES: Final = "AuthorizationRules"
_KEYS: Final = ("PrimaryKey", "SecondaryKey")
_DEFAULT_RULE: Final = "DefaultRuleDescription"
ELEMENTS: Final[Mapping[EntityKind, tuple[str, ...]]] = {
    EntityKind.QUEUE: (
        "LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession",
        "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration",
        "DuplicateDetectionHistoryTimeWindow", "MaxDeliveryCount", "EnableBatchedOperations",
        "SizeInBytes", "MessageCount", "IsAnonymousAccessible", _RULES, "Status", "ForwardTo",
        "UserMetadata", "CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails",
        "AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus",
        "ForwardDeadLetteredMessagesTo", "EnableExpress", "MaxMessageSizeInKilobytes",
    ),
    EntityKind.TOPIC: (
        "DefaultMessageTimeToLive", "MaxSizeInMegabytes", "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow", "EnableBatchedOperations", "SizeInBytes",
        "FilteringMessagesBeforePublishing", "IsAnonymousAccessible", _RULES, "Status",
        "CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails",
        "SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount", "AutoDeleteOnIdle",
        "EnablePartitioning", "EntityAvailabilityStatus", "EnableSubscriptionPartitioning",
        "EnableExpress", "UserMetadata", "MaxMessageSizeInKilobytes",
    ),
    EntityKind.SUBSCRIPTION: (
        "LockDuration", "RequiresSession", "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration", "DeadLetteringOnFilterEvaluationExceptions",
        "MessageCount", "MaxDeliveryCount", "EnableBatchedOperations", "Status", "ForwardTo",
        "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails", "UserMetadata",
        "ForwardDeadLetteredMessagesTo", "AutoDeleteOnIdle", "EntityAvailabilityStatus",
    ),
}  # fmt: skip
# The first API version that has an element; the other elements are in all of them.
_SINCE: Final = {
    "MaxMessageSizeInKilobytes": "2021-05",
    "SqlFilterCount": "2024-05",
    "CorrelationFilterCount": "2024-05",
}
# What the bus does not have.
_NEVER: Final = {
    "IsAnonymousAccessible": "access without a key",
    "FilteringMessagesBeforePublishing": "filtering before publishing",
    "EnableSubscriptionPartitioning": "partitioned subscriptions of plain topics",
    "IsClientAffine": "subscriptions of one client",
}
# Facts that a client may send back as it got them.
_FACTS: Final = frozenset(
    {
        "SizeInBytes", "MessageCount", "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails",
        "SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount",
        "EntityAvailabilityStatus", "ClientAffineProperties",
    }
)  # fmt: skip
_SETTINGS: Final[Mapping[EntityKind, Mapping[str, Setting]]] = {
    kind: {each.atom_name: each for each in settings if not each.is_list}
    for kind, settings in entity_settings.BY_KIND.items()
}
_DESCRIPTION: Final = "Description"
_KINDS: Final = {f"{kind.value.capitalize()}{_DESCRIPTION}": kind for kind in EntityKind}


@dataclass(frozen=True, slots=True)
class Shown:
    """An entity with its runtime facts.

    `host`: that of the URIs of forwarding destinations. `api_version`: the one that the client
    asked for, such as 2021-05; "": the newest. `policies`: of the namespace, on this entity.
    """

    entity: Entity
    runtime: "Runtime"
    tier: Tier
    host: str = ""
    api_version: str = ""
    policies: Sequence[Policy] = ()
    subscription_count: int = 0
    sql_filter_count: int = 0
    correlation_filter_count: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The description that a client sends. `changes`: the settings in it.

    `policies`: the authorization rules in it; None: it has no list of them.
    """

    kind: EntityKind
    changes: Mapping[str, Any]
    policies: Sequence[Policy] | None = None
    default_rule: Rule | None = field(default=None, compare=False)

    def replaced(self) -> dict[str, Any]:
        """Return all settings after an update, which replaces a description as a whole.

        What cannot change, a subscription's rules, and authorization rules may be left out.
        """
        kept = (each for each in entity_settings.BY_KIND[self.kind] if not each.fixed)
        defaults = {each.name: each.default for each in kept if not each.is_list}
        return {**defaults, **self.changes}

    def created(self) -> dict[str, Any]:
        """Return the settings of a new entity."""
        if self.default_rule is None:
            return dict(self.changes)
        return {**self.changes, "rules": (self.default_rule,)}


# Writing


def written(shown: Shown) -> str:
    """Return the description of an entity."""
    kind = shown.entity.kind
    known = [name for name in ELEMENTS[kind] if _SINCE.get(name, "") <= (shown.api_version or "9")]
    content = "".join(_written(shown, name) for name in known)
    return atom.description(f"{kind.value.capitalize()}{_DESCRIPTION}", content)


def _written(shown: Shown, name: str) -> str:
    setting = _SETTINGS[shown.entity.kind].get(name)
    if setting is not None:
        return _setting_written(shown, setting)
    if name in _NEVER:
        return element(name, "false")
    return element(name, *_FACT[name](shown))


def _setting_written(shown: Shown, setting: Setting) -> str:
    described = shown.entity.description
    value = getattr(described, setting.name)
    if setting.name == "max_size_in_megabytes":
        value = descriptions.reported_size_mb(described, shown.tier)
    if setting.name == "auto_delete_on_idle_ms" and described.forward_to:
        # An entity that forwards its messages is never idle, and the service shows that.
        value = None
    match setting.type:
        case SettingType.BOOLEAN:
            content = str(value).lower()
        case SettingType.DURATION:
            content = durations.render(value)
        case SettingType.NAME:
            content = f"sb://{text(shown.host)}/{text(value)}" if value else ""
        case _:
            content = text(str(value))
    return element(setting.atom_name, content) if content else ""


def _message_count(shown: Shown) -> str:
    total = shown.runtime.total
    waiting = total.active + total.scheduled + total.deferred + total.transfer
    return str(waiting + total.dead_letter + total.transfer_dead_letter)


def _accessed_at_ms(shown: Shown) -> int:
    accessed_at_ms = shown.runtime.total.accessed_at_ms
    if shown.entity.kind is EntityKind.SUBSCRIPTION:
        # As the service does: of queues and topics that were never used it says never.
        return max(accessed_at_ms, shown.entity.created_at_ms)
    return accessed_at_ms


def _count_details(shown: Shown) -> tuple[str, str]:
    total = shown.runtime.total
    counts = {
        "ActiveMessageCount": total.active,
        "DeadLetterMessageCount": total.dead_letter,
        "ScheduledMessageCount": total.scheduled,
        "TransferMessageCount": total.transfer,
        "TransferDeadLetterMessageCount": total.transfer_dead_letter,
    }
    content = "".join(element(f"d2p1:{name}", str(count)) for name, count in counts.items())
    return content, f' xmlns:d2p1="{atom.COUNTS}"'


def _authorization_rules(shown: Shown) -> str:
    # Without the keys of policies of the namespace: who manages an entity need not have them.
    others = (replace(each, keys=()) for each in shown.policies)
    both = (*others, *shown.entity.description.authorization_rules)
    return "".join(map(_policy_written, both))


def _policy_written(policy: Policy) -> str:
    """Return a rule without times: the service has none of them (TestAdminClient_UpdateQueue)."""
    keys = zip(_KEYS, policy.keys, strict=False)
    rights = "".join(element("AccessRights", str(each)) for each in sorted(policy.rights))
    return element(
        "AuthorizationRule",
        "<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue>"
        f"<Rights>{rights}</Rights>"
        f"<KeyName>{text(policy.name)}</KeyName>"
        + "".join(element(name, text(key)) for name, key in keys),
        ' i:type="SharedAccessAuthorizationRule"',
    )


# The content of an element, and its attributes.
_FACT: Final[Mapping[str, Callable[[Shown], tuple[str, ...]]]] = {
    "SizeInBytes": lambda shown: (str(shown.runtime.total.size_in_bytes),),
    "MessageCount": lambda shown: (_message_count(shown),),
    _RULES: lambda shown: (_authorization_rules(shown),),
    "CreatedAt": lambda shown: (atom.moment(shown.entity.created_at_ms),),
    "UpdatedAt": lambda shown: (atom.moment(shown.entity.updated_at_ms),),
    "AccessedAt": lambda shown: (atom.moment(_accessed_at_ms(shown)),),
    "CountDetails": _count_details,
    "SubscriptionCount": lambda shown: (str(shown.subscription_count),),
    "SqlFilterCount": lambda shown: (str(shown.sql_filter_count),),
    "CorrelationFilterCount": lambda shown: (str(shown.correlation_filter_count),),
    "EntityAvailabilityStatus": lambda shown: (
        "Limited" if shown.runtime.limited else "Available",
    ),
}


# Reading


def read(described: Element, host: str = "") -> Wanted:
    """Return the settings of a description. Raises InvalidArgument, InvalidOperation.

    `host`: the one that the client used, perhaps with a port. A URI of a destination must have it.
    """
    kind = _KINDS.get(atom.local(described))
    if kind is None:
        raise InvalidArgument(
            "body",
            f"must be one of {', '.join([*_KINDS, rule_documents.DESCRIPTION])} "
            f"(got {atom.local(described)[:100]!r}).",
        )
    changes: dict[str, Any] = {}
    policies: list[Policy] | None = None
    default_rule: Rule | None = None
    for name, each in atom.children(described):
        setting = _SETTINGS[kind].get(name)
        if setting is not None:
            if atom.text_of(each) or setting.is_text:
                changes[setting.name] = _setting_read(setting, each, host)
        elif name == _RULES and kind is not EntityKind.SUBSCRIPTION:
            policies = [_policy_read(rule) for rule in each]
        elif name == _DEFAULT_RULE and kind is EntityKind.SUBSCRIPTION:
            default_rule = None if atom.is_nil(each) else _default_rule(each)
        elif name in _NEVER:
            _refuse(name, each)
        elif name not in _FACTS:
            raise InvalidArgument(name, f"is unknown to a {kind}.")
    return Wanted(kind, changes, policies, default_rule)


def _default_rule(given: Element) -> Rule:
    """Return the rule of a new subscription; without a name, it takes that of the default rule."""
    found = rule_documents.read(given)
    return found if found.name else replace(found, name=DEFAULT_NAME)


def _setting_read(setting: Setting, given: Element, host: str) -> Any:
    content, name = atom.text_of(given), setting.atom_name
    match setting.type:
        case SettingType.BOOLEAN:
            return _boolean(name, content)
        case SettingType.WHOLE:
            return _whole(name, content)
        case SettingType.DURATION:
            return setting.from_text(content)
        case SettingType.STATUS:
            if content not in list(EntityStatus):
                allowed = ", ".join(EntityStatus)
                raise InvalidArgument(name, f"must be one of {allowed} (got {content[:100]!r}).")
            return EntityStatus(content)
        case SettingType.NAME:
            return destination(content, name, host)
    # As it was written, white space included.
    return given.text or ""


def destination(uri: str, field_name: str = "ForwardTo", host: str = "") -> str:
    """Return the name of an entity from its URI, or from the name itself.

    Raises InvalidArgument, also for the URI of another host than `host`.
    """
    if "//" not in uri:
        return uri
    try:
        parts = urlsplit(uri)
        name, named = unquote(parts.path).strip("/"), parts.hostname or ""
    except ValueError:
        name = named = ""
    # Without the ports: those of AMQP and HTTP differ, and the SDK for Java leaves them out.
    if name and host and named != urlsplit(f"//{host}").hostname:
        raise InvalidArgument(
            field_name,
            f"{uri[:100]!r} is on another host than this bus, {host!r}: messages are forwarded "
            "within a bus only.",
        )
    if not name:
        raise InvalidArgument(
            field_name, f"must be the name of an entity, or a URI that has one (got {uri[:100]!r})."
        )
    return name


def _boolean(name: str, content: str) -> bool:
    if content.lower() not in ("true", "false", "1", "0"):
        raise InvalidArgument(name, f"must be true or false (got {content[:100]!r}).")
    return content.lower() in ("true", "1")


def _whole(name: str, content: str) -> int:
    if not (content.isascii() and content.isdigit()) or len(content) > len(str(bounds.NUMBER_MAX)):
        raise InvalidArgument(name, f"must be a whole number (got {content[:100]!r}).")
    return int(content)


def _refuse(name: str, given: Element) -> None:
    content = atom.text_of(given)
    if content and _boolean(name, content):
        raise InvalidOperation(
            f"{name}: {_NEVER[name]} is not supported; leave it out, or set it to false.",
            metadata={"field": name},
        )


def _policy_read(given: Element) -> Policy:
    found = atom.child_map(given)
    if "KeyName" not in found or "Rights" not in found:
        raise InvalidArgument(_RULES, "each must have a KeyName and Rights.")
    rights = map(atom.text_of, found["Rights"])
    keys = (atom.text_of(found[name]) if name in found else "" for name in _KEYS)
    try:
        return authorization_rules.rule(atom.text_of(found["KeyName"]), rights, *keys)
    except InvalidArgument as error:
        raise error.named(_RULES) from error


def own_rules(wanted: Wanted, policies: Sequence[Policy], *, update: bool) -> list[Policy] | None:
    """Return the authorization rules that an entity is to have itself; None: those that it has.

    `policies` of the namespace that are on the entity are shown among them, without keys. Raises
    InvalidOperation if a description has one of these with other rights, or lacks one at an update.
    At creation an empty list is the same as none: the SDK for Go writes it for every new entity.
    """
    if wanted.policies is None or not (update or wanted.policies):
        return None
    declared = {each.name: each.rights for each in policies}
    # A rule with keys is the entity's own, even under the name of a declared one.
    shown = {
        each.name: each.rights
        for each in wanted.policies
        if each.name in declared and not any(each.keys)
    }
    if shown != declared if update else not shown.items() <= declared.items():
        names = ", ".join(sorted(declared))
        raise InvalidOperation(
            f"{_RULES}: {names}: clients cannot change what the manifest of the BusNamespace, or "
            "the file of --access-policies, declares. Leave it as it is shown, without keys, or "
            "change it there.",
            metadata={"field": _RULES},
        )
    return [each for each in wanted.policies if any(each.keys) or each.name not in declared]


def title_of(entity: Entity) -> str:
    """Return the title of an entity's entry: of a subscription its name within its topic."""
    parts = subscription_name.split(entity.name)
    return entity.name if parts is None else parts[1]
