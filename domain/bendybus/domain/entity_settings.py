"""The settings of entities: one table for all kinds, and the descriptions that are made of it.

What shows, checks, stores or carries a setting reads this table: manifests and CRDs, the contract,
clients, commands and the operator. A setting is added here, in `management.proto`, and where it
has an effect; typed signatures of the client have what azure-servicebus has. `Setting` is what each
of them has: type, default, and bounds by tier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

from bendybus.domain import authorization_rules, durations, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.limits import Tier
from bendybus.domain.shared_access import Policy

_QUEUE, _TOPIC, _SUBSCRIPTION = EntityKind.QUEUE, EntityKind.TOPIC, EntityKind.SUBSCRIPTION
_HOLDING: Final = (_QUEUE, _SUBSCRIPTION)
_SENT_TO: Final = (_QUEUE, _TOPIC)


class SettingType(Enum):
    """What the values of a setting are."""

    BOOLEAN = "boolean"
    WHOLE = "whole number"
    # Milliseconds; None is without end, where `endless` says that there may be none.
    DURATION = "duration"
    # Of another entity; "" is none.
    NAME = "name"
    TEXT = "text"
    STATUS = "status"
    RULES = "rules"
    # Policies on the entity that its managers set, with their keys.
    AUTHORIZATION_RULES = "authorization rules"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a tier takes: of numbers the value, of texts the length. `one_of`: only these."""

    least: int = 0
    most: int = limits.TIME_TO_LIVE_MS_MAX
    one_of: tuple[int, ...] = ()
    # Instead of naming the bounds; {tier} is filled in.
    sentence: str = ""

    def allow(self, number: int) -> bool:
        """Whether a value is within the bounds."""
        return number in self.one_of if self.one_of else self.least <= number <= self.most


TierBounds = Mapping[Tier, Bounds]


def bounds_in(*tiers: Tier, least: int = 0, most: int = limits.TIME_TO_LIVE_MS_MAX) -> TierBounds:
    """Return the same bounds for some tiers."""
    return dict.fromkeys(tiers, Bounds(least, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. Its `name` is that in descriptions and in the contract, unit last."""

    name: str
    type: SettingType
    default: Any
    # What it does, in a sentence for users; `what_of`: of kinds that need another one.
    what: str
    what_of: Mapping[EntityKind, str] = field(default_factory=dict)
    kinds: tuple[EntityKind, ...] = tuple(EntityKind)
    # Cannot change after the entity was created.
    fixed: bool = False
    # By the tiers that have it.
    bounds: TierBounds = field(default_factory=lambda: bounds_in(*Tier))
    # Also of new entities, and of values that change; earlier versions took more.
    bounds_of_new: TierBounds = field(default_factory=lambda: bounds_in(*Tier))
    # A duration that may be None; `omitted`: what that means, where no tier decides otherwise.
    endless: bool = False
    omitted: str = ""
    # The version of stored entries that has it; where it is set, no earlier program may read one.
    since: int = 1
    # The default, 0, stands for a value that the tier decides.
    left_to_tier: bool = False

    @property
    def attribute(self) -> str:
        """Its name in Python models: durations are values with a unit there."""
        return self.name.removesuffix("_ms")

    @property
    def manifest_name(self) -> str:
        """Its name in manifests and error sentences."""
        first, *others = self.attribute.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def atom_name(self) -> str:
        """Its name in administration over HTTP, and in the documents of Azure."""
        return self.manifest_name[:1].upper() + self.manifest_name[1:]

    @property
    def is_text(self) -> bool:
        """Whether its values are texts whose length users choose."""
        return self.type in (SettingType.NAME, SettingType.TEXT)

    @property
    def is_list(self) -> bool:
        """Whether it is a list of rules, which texts and documents of single values do not have."""
        return self.type in (SettingType.RULES, SettingType.AUTHORIZATION_RULES)

    @property
    def is_declared(self) -> bool:
        """Whether manifests have it. Keys are no text for manifests: clients set these."""
        return self.type is not SettingType.AUTHORIZATION_RULES

    @property
    def least(self) -> int:
        """The smallest value that any tier takes; of what may be left to the tier, 1."""
        if self.left_to_tier:
            return 1
        return min(min(each.one_of, default=each.least) for each in self.bounds.values())

    @property
    def most(self) -> int:
        """The largest value, or length, that any tier takes."""
        return max(max(each.one_of, default=each.most) for each in self.bounds.values())

    def sentence(self, kind: EntityKind) -> str:
        """Return what it does to an entity of a kind."""
        return self.what_of.get(kind, self.what).format(kind=kind)

    def check(self, value: Any, tier: Tier) -> None:
        """Raise InvalidArgument for a value that no entity of a tier can have."""
        self._check(self.bounds, value, tier)

    def check_new(self, value: Any, tier: Tier) -> None:
        """Raise InvalidArgument for a value that only an entity of an earlier version can have."""
        self._check(self.bounds_of_new, value, tier)

    def from_text(self, text: str) -> int | None:
        """Return the value of a duration. Raises InvalidArgument."""
        milliseconds = durations.parse(self.manifest_name, text)
        if milliseconds is None and not self.endless:
            return limits.TIME_TO_LIVE_MS_MAX
        return milliseconds

    def _check(self, by_tier: TierBounds, value: Any, tier: Tier) -> None:
        numeric = self.type in (SettingType.WHOLE, SettingType.DURATION)
        if value == self.default and (not numeric or value is None or self.left_to_tier):
            # Not set.
            return
        if self.type is SettingType.AUTHORIZATION_RULES:
            authorization_rules.check(value)
        bounds = by_tier.get(tier)
        if bounds is None:
            raise InvalidArgument(
                self.manifest_name,
                f"needs a namespace of tier {' or '.join(by_tier)}; this one is {tier}.",
            )
        if numeric or self.is_text:
            number = len(value) if self.is_text else value
            if not bounds.allow(number):
                raise InvalidArgument(self.manifest_name, self._refusal(bounds, number, tier))

    def _refusal(self, bounds: Bounds, number: int, tier: Tier) -> str:
        if bounds.sentence:
            return bounds.sentence.format(tier=tier)
        if bounds.one_of:
            return f"must be one of {', '.join(map(str, bounds.one_of))} (got {number})."
        if self.is_text:
            return f"must be at most {bounds.most} characters (got {number})."
        if not self.endless:
            shown = durations.render if self.type is SettingType.DURATION else str
            return f"must be {shown(bounds.least)} to {shown(bounds.most)} (got {shown(number)})."
        if number < bounds.least:
            hint = f"; omit it for {self.omitted}" if self.omitted else ""
            return f"must be at least {durations.render(bounds.least)}{hint}."
        return f"must be at most {durations.render(bounds.most)} in the {tier} tier."


class EntityStatus(StrEnum):
    """Which operations on its messages an entity accepts."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"

    @property
    def sends(self) -> bool:
        """Whether messages may be sent."""
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def receives(self) -> bool:
        """Whether messages may be received."""
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)


_FORWARDING: Final = bounds_in(*limits.FORWARDING_TIERS, most=limits.ENTITY_NAME_CHARS_MAX)
# In the order of manifests.
TABLE: Final = (
    Setting(
        name="enable_partitioning",
        type=SettingType.BOOLEAN,
        default=False,
        what="Whether it is spread over all partitions or stored in one. Cannot change.",
        kinds=_SENT_TO,
        fixed=True,
    ),
    # Of a topic: of the messages of all its subscriptions together.
    Setting(
        name="max_size_in_megabytes",
        type=SettingType.WHOLE,
        default=limits.QUEUE_SIZE_MB_DEFAULT,
        what="Of each partition. Basic and Standard: 1024, 2048, 3072, 4096 or 5120.",
        what_of={
            _TOPIC: "Of each partition, for all its subscriptions together. Standard: 1024, 2048, "
            "3072, 4096 or 5120."
        },
        kinds=_SENT_TO,
        bounds={
            **dict.fromkeys(Tier, Bounds(one_of=limits.QUEUE_SIZES_MB)),
            Tier.PREMIUM: Bounds(1, limits.PREMIUM_QUEUE_SIZE_MB_MAX),
        },
        bounds_of_new={
            **bounds_in(*Tier),
            Tier.PREMIUM: Bounds(one_of=limits.PREMIUM_QUEUE_SIZES_MB),
        },
    ),
    Setting(
        name="max_message_size_in_kilobytes",
        type=SettingType.WHOLE,
        default=0,
        what="Premium only; default 1024. Basic and Standard always allow 256.",
        what_of={_TOPIC: "Premium only; default 1024. Standard always allows 256."},
        kinds=_SENT_TO,
        bounds={
            **dict.fromkeys(
                Tier,
                Bounds(
                    one_of=(limits.STANDARD_MESSAGE_BYTES_MAX // limits.KB,),
                    sentence="can be set only in Premium; {tier} allows 256.",
                ),
            ),
            Tier.PREMIUM: Bounds(limits.PREMIUM_MESSAGE_KB_MIN, limits.PREMIUM_MESSAGE_KB_MAX),
        },
        left_to_tier=True,
    ),
    Setting(
        name="lock_duration_ms",
        type=SettingType.DURATION,
        default=limits.LOCK_DURATION_MS_DEFAULT,
        what="How long a received message stays locked: PT5S to PT5M.",
        kinds=_HOLDING,
        bounds=bounds_in(
            *Tier, least=limits.LOCK_DURATION_MS_MIN, most=limits.LOCK_DURATION_MS_MAX
        ),
    ),
    # Of a message in a subscription, the shorter of its own and its topic's counts.
    Setting(
        name="default_message_time_to_live_ms",
        type=SettingType.DURATION,
        default=None,
        what="Maximum time to live of messages.",
        what_of={
            _SUBSCRIPTION: "Maximum time to live of its messages; the shorter of this and the "
            "topic's counts."
        },
        bounds={
            **bounds_in(*Tier, least=limits.SECOND_MS),
            Tier.BASIC: Bounds(limits.SECOND_MS, limits.BASIC_TIME_TO_LIVE_MS_MAX),
        },
        endless=True,
    ),
    Setting(
        name="max_delivery_count",
        type=SettingType.WHOLE,
        default=limits.MAX_DELIVERY_COUNT_DEFAULT,
        what="Number of deliveries without settlement before a message is dead-lettered.",
        kinds=_HOLDING,
        bounds=bounds_in(*Tier, least=1, most=limits.MAX_DELIVERY_COUNT_MAX),
    ),
    # Up to version 0.4 every tier detected duplicates.
    Setting(
        name="requires_duplicate_detection",
        type=SettingType.BOOLEAN,
        default=False,
        what="Drop messages with a known MessageId. Cannot change.",
        kinds=_SENT_TO,
        fixed=True,
        bounds_of_new=bounds_in(*limits.DUPLICATE_DETECTION_TIERS),
    ),
    Setting(
        name="duplicate_detection_history_time_window_ms",
        type=SettingType.DURATION,
        default=limits.DUPLICATE_WINDOW_MS_DEFAULT,
        what="How long MessageIds are remembered: PT20S to P7D.",
        kinds=_SENT_TO,
        bounds=bounds_in(
            *Tier, least=limits.DUPLICATE_WINDOW_MS_MIN, most=limits.DUPLICATE_WINDOW_MS_MAX
        ),
    ),
    Setting(
        name="requires_session",
        type=SettingType.BOOLEAN,
        default=False,
        what="Receive messages by session, in order. Cannot change.",
        kinds=_HOLDING,
        fixed=True,
        bounds=bounds_in(*limits.SESSION_TIERS),
    ),
    Setting(
        name="dead_lettering_on_message_expiration",
        type=SettingType.BOOLEAN,
        default=False,
        what="Whether expired messages are dead-lettered or dropped.",
        kinds=_HOLDING,
    ),
    Setting(
        name="dead_lettering_on_filter_evaluation_exceptions",
        type=SettingType.BOOLEAN,
        default=True,
        what="Whether messages that a rule fails on are dead-lettered or dropped.",
        kinds=(_SUBSCRIPTION,),
    ),
    Setting(
        name="forward_to",
        type=SettingType.NAME,
        default="",
        what="Queue or topic that its messages go on to.",
        kinds=_HOLDING,
        bounds=_FORWARDING,
        since=3,
    ),
    Setting(
        name="forward_dead_lettered_messages_to",
        type=SettingType.NAME,
        default="",
        what="Queue or topic that its dead letters go on to.",
        kinds=_HOLDING,
        bounds=_FORWARDING,
        since=3,
    ),
    Setting(
        name="auto_delete_on_idle_ms",
        type=SettingType.DURATION,
        default=None,
        what="Delete the {kind} when it was not used for so long; PT5M or more.",
        what_of={
            _TOPIC: "Delete the topic with its subscriptions when none of them was used for so "
            "long; PT5M or more."
        },
        bounds=bounds_in(*Tier, least=limits.AUTO_DELETE_ON_IDLE_MS_MIN),
        endless=True,
        omitted="never",
    ),
    Setting(
        name="status",
        type=SettingType.STATUS,
        default=EntityStatus.ACTIVE,
        what="Which operations the queue accepts.",
        what_of={
            _TOPIC: "Whether the topic accepts messages.",
            _SUBSCRIPTION: "Whether the subscription takes messages and delivers them.",
        },
    ),
    Setting(
        name="user_metadata",
        type=SettingType.TEXT,
        default="",
        what="Free text.",
        bounds=bounds_in(*Tier, most=limits.USER_METADATA_CHARS_MAX),
    ),
    # Kept for tools that compare what they set with what they find.
    Setting(
        name="enable_batched_operations",
        type=SettingType.BOOLEAN,
        default=True,
        what="Shown as it was set; every partition commits in batches.",
        since=4,
    ),
    Setting(
        name="support_ordering",
        type=SettingType.BOOLEAN,
        default=True,
        what="Shown as it was set; messages of one partition or session stay in order.",
        kinds=_SENT_TO,
        since=4,
    ),
    Setting(
        name="enable_express",
        type=SettingType.BOOLEAN,
        default=False,
        what="Shown as it was set; every message is on disk before it is accepted.",
        kinds=_SENT_TO,
        since=5,
    ),
    Setting(
        name="authorization_rules",
        type=SettingType.AUTHORIZATION_RULES,
        default=(),
        what="Policies on it with keys of their own, set by administration clients.",
        kinds=_SENT_TO,
        since=5,
    ),
    Setting(
        name="rules",
        type=SettingType.RULES,
        default=rule_set.DEFAULT,
        what="All its rules; none: it takes no message. Omitted: as they are, for clients to "
        "change; at first $Default, which takes every message.",
        kinds=(_SUBSCRIPTION,),
    ),
)
# The version of stored entries with all these settings.
VERSION: Final = max(each.since for each in TABLE)
BY_NAME: Final[Mapping[str, Setting]] = MappingProxyType({each.name: each for each in TABLE})
_DEFAULT: Final[Mapping[str, Any]] = {each.name: each.default for each in TABLE}


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """What a queue is to be. Durations in milliseconds, None is without end."""

    enable_partitioning: bool = _DEFAULT["enable_partitioning"]
    lock_duration_ms: int = _DEFAULT["lock_duration_ms"]
    max_size_in_megabytes: int = _DEFAULT["max_size_in_megabytes"]
    max_message_size_in_kilobytes: int = _DEFAULT["max_message_size_in_kilobytes"]
    requires_duplicate_detection: bool = _DEFAULT["requires_duplicate_detection"]
    duplicate_detection_history_time_window_ms: int = _DEFAULT[
        "duplicate_detection_history_time_window_ms"
    ]
    requires_session: bool = _DEFAULT["requires_session"]
    default_message_time_to_live_ms: int | None = _DEFAULT["default_message_time_to_live_ms"]
    dead_lettering_on_message_expiration: bool = _DEFAULT["dead_lettering_on_message_expiration"]
    max_delivery_count: int = _DEFAULT["max_delivery_count"]
    auto_delete_on_idle_ms: int | None = _DEFAULT["auto_delete_on_idle_ms"]
    status: EntityStatus = _DEFAULT["status"]
    forward_to: str = _DEFAULT["forward_to"]
    forward_dead_lettered_messages_to: str = _DEFAULT["forward_dead_lettered_messages_to"]
    user_metadata: str = _DEFAULT["user_metadata"]
    enable_batched_operations: bool = _DEFAULT["enable_batched_operations"]
    support_ordering: bool = _DEFAULT["support_ordering"]
    enable_express: bool = _DEFAULT["enable_express"]
    authorization_rules: tuple[Policy, ...] = _DEFAULT["authorization_rules"]

    kind: ClassVar = EntityKind.QUEUE
    statuses: ClassVar = tuple(EntityStatus)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """What a topic is to be. Durations in milliseconds, None is without end."""

    enable_partitioning: bool = _DEFAULT["enable_partitioning"]
    max_size_in_megabytes: int = _DEFAULT["max_size_in_megabytes"]
    max_message_size_in_kilobytes: int = _DEFAULT["max_message_size_in_kilobytes"]
    requires_duplicate_detection: bool = _DEFAULT["requires_duplicate_detection"]
    duplicate_detection_history_time_window_ms: int = _DEFAULT[
        "duplicate_detection_history_time_window_ms"
    ]
    default_message_time_to_live_ms: int | None = _DEFAULT["default_message_time_to_live_ms"]
    auto_delete_on_idle_ms: int | None = _DEFAULT["auto_delete_on_idle_ms"]
    status: EntityStatus = _DEFAULT["status"]
    user_metadata: str = _DEFAULT["user_metadata"]
    enable_batched_operations: bool = _DEFAULT["enable_batched_operations"]
    support_ordering: bool = _DEFAULT["support_ordering"]
    enable_express: bool = _DEFAULT["enable_express"]
    authorization_rules: tuple[Policy, ...] = _DEFAULT["authorization_rules"]

    kind: ClassVar = EntityKind.TOPIC
    statuses: ClassVar = (
        EntityStatus.ACTIVE,
        EntityStatus.DISABLED,
        EntityStatus.SEND_DISABLED,
    )

    # What rules of messages read of every entity, and what a topic has no setting for: messages
    # wait in it only until they are due, and are received from its subscriptions.
    lock_duration_ms: ClassVar[int] = _DEFAULT["lock_duration_ms"]
    requires_session: ClassVar[bool] = False
    dead_lettering_on_message_expiration: ClassVar[bool] = False
    max_delivery_count: ClassVar[int] = _DEFAULT["max_delivery_count"]
    forward_to: ClassVar[str] = ""
    forward_dead_lettered_messages_to: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class SubscriptionDescription:
    """What a subscription is to be. Durations in milliseconds, None is without end."""

    lock_duration_ms: int = _DEFAULT["lock_duration_ms"]
    requires_session: bool = _DEFAULT["requires_session"]
    default_message_time_to_live_ms: int | None = _DEFAULT["default_message_time_to_live_ms"]
    dead_lettering_on_message_expiration: bool = _DEFAULT["dead_lettering_on_message_expiration"]
    dead_lettering_on_filter_evaluation_exceptions: bool = _DEFAULT[
        "dead_lettering_on_filter_evaluation_exceptions"
    ]
    max_delivery_count: int = _DEFAULT["max_delivery_count"]
    auto_delete_on_idle_ms: int | None = _DEFAULT["auto_delete_on_idle_ms"]
    status: EntityStatus = _DEFAULT["status"]
    forward_to: str = _DEFAULT["forward_to"]
    forward_dead_lettered_messages_to: str = _DEFAULT["forward_dead_lettered_messages_to"]
    user_metadata: str = _DEFAULT["user_metadata"]
    # Which messages of its topic it takes. Empty: no message.
    rules: RuleSet = _DEFAULT["rules"]
    enable_batched_operations: bool = _DEFAULT["enable_batched_operations"]

    kind: ClassVar = EntityKind.SUBSCRIPTION
    statuses: ClassVar = (
        EntityStatus.ACTIVE,
        EntityStatus.DISABLED,
        EntityStatus.RECEIVE_DISABLED,
    )

    # What rules of messages read of every entity, and what is the topic's: it looks for duplicates
    # once for all subscriptions, and what they hold counts to its size.
    requires_duplicate_detection: ClassVar[bool] = False
    duplicate_detection_history_time_window_ms: ClassVar[int] = 0
    max_size_in_megabytes: ClassVar[int] = 0
    max_message_size_in_kilobytes: ClassVar[int] = 0
    # Those of its topic are for it, too.
    authorization_rules: ClassVar[tuple[Policy, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", rule_set.of(self.rules))


Description = QueueDescription | TopicDescription | SubscriptionDescription
TYPES: Final[Mapping[EntityKind, type[Description]]] = MappingProxyType(
    {each.kind: each for each in (QueueDescription, TopicDescription, SubscriptionDescription)}
)
# The settings of each kind, in the order of its description.
BY_KIND: Final[Mapping[EntityKind, tuple[Setting, ...]]] = MappingProxyType(
    {kind: tuple(BY_NAME[each.name] for each in fields(made)) for kind, made in TYPES.items()}
)


def version_of(values: Mapping[str, Any]) -> int:
    """Return the version of the first programs that keep some settings with these values."""
    kept = (BY_NAME[name] for name, value in values.items() if value != BY_NAME[name].default)
    return max((each.since for each in kept), default=1)


def values_of(described: Description) -> dict[str, Any]:
    """Return the settings of a description, by name."""
    return {each.name: getattr(described, each.name) for each in BY_KIND[described.kind]}
