"""The settings of a bus in files of other programs: one table for readers, writers and the page.

A row has what differs from the rule that a setting is called as in manifests: `lockDuration` in
templates of Azure Resource Manager, in what `az` prints and in Azure Service Operator,
`LockDuration` in a Config.json, `lock_duration` in Terraform.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from bendybus.domain import durations, entity_settings, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType

_QUEUE, _TOPIC, _SUBSCRIPTION = EntityKind.QUEUE, EntityKind.TOPIC, EntityKind.SUBSCRIPTION


class Form(StrEnum):
    """A form of file."""

    MANIFESTS = "manifests"
    ARM = "arm"
    AZ = "az"
    ASO = "aso"
    TERRAFORM = "terraform"
    EMULATOR = "emulator"


TITLES: Final[Mapping[Form, str]] = MappingProxyType(
    {
        Form.MANIFESTS: "manifests",
        Form.ARM: "Azure Resource Manager",
        Form.AZ: "az servicebus",
        Form.ASO: "Azure Service Operator",
        Form.TERRAFORM: "Terraform",
        Form.EMULATOR: "the emulator",
    }
)
ALL: Final = tuple(EntityKind)
_HOUR_MS: Final = 60 * limits.MINUTE_MS
_BOTH: Final = (Form.TERRAFORM, Form.ASO)
_OF_AZURE: Final = (Form.ARM, *_BOTH)


@dataclass(frozen=True, slots=True)
class Property:
    """How files have one setting of entities.

    `terraform`: its names there, the one that is written first; none: as in Azure, in snake case.
    `lacking`: the kinds of entity that cannot have it in a form. `absent`: the value that a form
    takes where the setting is left out, by form and kind, where that is not our default. `most`:
    the largest value that a form's program takes, where it takes less than Azure.
    """

    setting: str
    terraform: tuple[str, ...] = ()
    lacking: Mapping[Form, tuple[EntityKind, ...]] = field(default_factory=dict)
    absent: Mapping[Form, Mapping[EntityKind, Any]] = field(default_factory=dict)
    most: Mapping[Form, int] = field(default_factory=dict)

    def names(self, form: Form) -> tuple[str, ...]:
        """Return its names in a form, that of today first."""
        known = entity_settings.BY_NAME[self.setting]
        if form is Form.TERRAFORM:
            return self.terraform or (known.attribute,)
        return (known.atom_name if form is Form.EMULATOR else known.manifest_name,)


_NOT_EMULATOR: Final = {Form.EMULATOR: ALL}
TABLE: Final = (
    Property(
        "enable_partitioning",
        ("partitioning_enabled", "enable_partitioning"),
        lacking=_NOT_EMULATOR,
    ),
    Property("max_size_in_megabytes", lacking=_NOT_EMULATOR),
    Property("max_message_size_in_kilobytes", lacking=_NOT_EMULATOR),
    Property("lock_duration_ms"),
    Property(
        "default_message_time_to_live_ms",
        ("default_message_ttl",),
        absent={Form.EMULATOR: dict.fromkeys(ALL, _HOUR_MS)},
        most={Form.EMULATOR: _HOUR_MS},
    ),
    Property(
        "max_delivery_count",
        absent={
            Form.EMULATOR: dict.fromkeys(ALL, 3),
            # The provider requires it.
            Form.TERRAFORM: {_SUBSCRIPTION: None},
        },
        most={Form.EMULATOR: 10},
    ),
    Property("requires_duplicate_detection"),
    Property(
        "duplicate_detection_history_time_window_ms",
        absent={Form.EMULATOR: dict.fromkeys(ALL, limits.DUPLICATE_WINDOW_MS_MIN)},
        most={Form.EMULATOR: 5 * limits.MINUTE_MS},
    ),
    Property("requires_session"),
    Property("dead_lettering_on_message_expiration"),
    Property(
        "dead_lettering_on_filter_evaluation_exceptions",
        ("dead_lettering_on_filter_evaluation_error",),
        lacking=_NOT_EMULATOR,
    ),
    Property("forward_to"),
    Property("forward_dead_lettered_messages_to"),
    Property("auto_delete_on_idle_ms", lacking=_NOT_EMULATOR),
    Property("status", lacking={Form.EMULATOR: ALL, Form.ASO: ALL}),
    Property("user_metadata", lacking=dict.fromkeys((Form.EMULATOR, *_BOTH), ALL)),
    Property(
        "enable_batched_operations",
        ("batched_operations_enabled", "enable_batched_operations"),
        lacking=_NOT_EMULATOR,
        absent={Form.TERRAFORM: {_TOPIC: False, _SUBSCRIPTION: False}},
    ),
    Property(
        "support_ordering",
        lacking={Form.EMULATOR: ALL, **dict.fromkeys(_OF_AZURE, (_QUEUE,))},
        absent={Form.TERRAFORM: {_TOPIC: False}},
    ),
    Property("enable_express", ("express_enabled", "enable_express"), lacking=_NOT_EMULATOR),
    # Lists, which files have as entries of their own.
    Property("authorization_rules", lacking=_NOT_EMULATOR),
    Property("rules"),
)
BY_SETTING: Final[Mapping[str, Property]] = MappingProxyType({each.setting: each for each in TABLE})


@cache
def settings(form: Form, kind: EntityKind) -> Mapping[str, Setting]:
    """Return the settings of single values that a kind of entity may have, by each of their names.

    Readers take also what the form's own program lacks.
    """
    return {
        name: each
        for each in entity_settings.BY_KIND[kind]
        if not each.is_list
        for name in BY_SETTING[each.name].names(form)
    }


@cache
def of_other_kinds(form: Form, kind: EntityKind) -> Mapping[str, str]:
    """Return the names of settings that only other kinds of entity have, and what to say."""
    own = settings(form, kind)
    return {
        name: f"has no effect on a {kind}."
        for other in EntityKind
        for name in settings(form, other)
        if name not in own
    }


def lacks(form: Form, kind: EntityKind, setting: str) -> bool:
    """Whether a form cannot hold a setting."""
    return kind in BY_SETTING[setting].lacking.get(form, ())


def absent(form: Form, kind: EntityKind, setting: str) -> Any:
    """Return the value that a form takes where a setting is left out, as descriptions have it."""
    own = entity_settings.BY_NAME[setting].default
    return BY_SETTING[setting].absent.get(form, {}).get(kind, own)


def differs(form: Form, kind: EntityKind, setting: str) -> bool:
    """Whether a form takes another value than Azure and Bendybus where a setting is left out."""
    own = entity_settings.BY_NAME[setting].default
    return bool(absent(form, kind, setting) not in (own, None))


def said_always(form: Form, kind: EntityKind, setting: str) -> bool:
    """Whether a file must have a setting: what it means where it is left out is not ours."""
    return kind in BY_SETTING[setting].absent.get(form, {})


def shown(setting: Setting, value: Any) -> str:
    """Return a value of a description as files write it."""
    if setting.type is SettingType.DURATION:
        return durations.render(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


# Reasons why fields have no effect here.
NETWORK: Final = "has no effect: the network of the cluster decides who may connect."
RECOVERY: Final = "is not supported: make backups, and restore them elsewhere."
ELSEWHERE: Final = "has no effect here: a bus runs where its cluster is."
_AFFINITY: Final = "is not supported: subscriptions are not bound to a client's id."
_KEYS: Final = "is not supported: clients sign in with keys of policies."
_VOLUMES: Final = "has no effect: encrypt the volumes of the cluster."
_REPORTED: Final = "is what the service reports."


@dataclass(frozen=True, slots=True)
class Idle:
    """A field that has no effect here, and why.

    `terraform`: its names there, if they are other ones. `usual`: values that need no remark.
    """

    name: str
    why: str
    terraform: tuple[str, ...] = ()
    usual: tuple[Any, ...] = ()

    def names(self, form: Form) -> tuple[str, ...]:
        """Return its names in a form."""
        return (self.terraform or (self.name,)) if form is Form.TERRAFORM else (self.name,)


IDLE_OF_ENTITIES: Final = (
    Idle("isClientAffine", _AFFINITY, ("client_scoped_subscription_enabled",)),
    Idle("clientAffineProperties", _AFFINITY, ("client_scoped_subscription",)),
    Idle("path", "has no effect: the name of the resource counts."),
)
IDLE_OF_NAMESPACES: Final = (
    Idle("minimumTlsVersion", "has no effect: it is 1.2.", ("minimum_tls_version",), ("1.2",)),
    Idle(
        "publicNetworkAccess",
        NETWORK,
        ("public_network_access_enabled",),
        ("Enabled", True),
    ),
    Idle("disableLocalAuth", _KEYS),
    Idle(
        "zoneRedundant",
        "has no effect: spread the pods of partitions over zones of the cluster.",
        ("zone_redundant",),
    ),
    Idle("encryption", _VOLUMES, ("customer_managed_key",)),
    Idle("privateEndpointConnections", NETWORK),
    Idle("alternateName", "is not supported: a bus has one name."),
    Idle("geoDataReplication", RECOVERY),
    Idle("platformCapabilities", "is not supported: nodes of the cluster decide what they can do."),
)
# Fields of any resource of Azure, by their names in lower case.
OF_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "location": ELSEWHERE,
        "capacity": "has no effect: a bus has what its pods get.",
        "tags": "has no effect: labels of its manifest are those of the bus.",
        "identity": "is not supported: a bus has no identity in Azure.",
        "network_rule_set": NETWORK,
    }
)
# Types of resources below a namespace that Bendybus has not, by their last part in lower case.
OTHER_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "networkrulesets": NETWORK,
        "ipfilterrules": NETWORK,
        "virtualnetworkrules": NETWORK,
        "privateendpointconnections": NETWORK,
        "networksecurityperimeterconfigurations": NETWORK,
        "disasterrecoveryconfigs": RECOVERY,
        "migrationconfigurations": "is not supported: see bendybus create queue --migrated.",
    }
)


def idle(fields: tuple[Idle, ...], form: Form) -> dict[str, str]:
    """Return the names of fields without effect in a form, and why they have none."""
    return {name: each.why for each in fields for name in each.names(form)}


def usual(fields: tuple[Idle, ...], form: Form) -> dict[str, tuple[Any, ...]]:
    """Return values of such fields that need no remark, by the names of the fields."""
    return {name: each.usual for each in fields for name in each.names(form)}
