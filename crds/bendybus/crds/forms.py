"""The settings of a bus in files of other programs: one table for readers, writers and the page.

A row has what differs from the rule that a setting is called as in manifests: `lockDuration` in
templates of Azure Resource Manager, in what `az` prints and in Azure Service Operator,
`LockDuration` in a Config.json, `lock_duration` in Terraform.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds.conversion import Outcome, Reason, no_effect
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
    takes where the setting is left out, by form and kind, where that is not our default. `least`,
    `most`: the bounds of a form's program, where it takes less than Azure.
    """

    setting: str
    terraform: tuple[str, ...] = ()
    lacking: Mapping[Form, tuple[EntityKind, ...]] = field(default_factory=dict)
    absent: Mapping[Form, Mapping[EntityKind, Any]] = field(default_factory=dict)
    least: Mapping[Form, Mapping[EntityKind, int]] = field(default_factory=dict)
    most: Mapping[Form, int] = field(default_factory=dict)

    def bounds(self, form: Form, kind: EntityKind) -> tuple[int | None, int | None]:
        """Return the least and the largest value that a form's program takes; None: as Azure."""
        return self.least.get(form, {}).get(kind), self.most.get(form)

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
    Property("lock_duration_ms", least={Form.EMULATOR: {_SUBSCRIPTION: limits.MINUTE_MS}}),
    Property(
        "default_message_time_to_live_ms",
        ("default_message_ttl",),
        absent={Form.EMULATOR: dict.fromkeys(ALL, _HOUR_MS)},
        least={Form.EMULATOR: dict.fromkeys(ALL, 5 * limits.MINUTE_MS)},
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
def of_other_kinds(form: Form, kind: EntityKind) -> Mapping[str, Reason]:
    """Return the names of settings that only other kinds of entity have, and why they are idle."""
    own = settings(form, kind)
    return {
        name: no_effect(f"a {kind} does not have it.")
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


# Reasons why fields are left out.
NETWORK: Final = Reason("the network of the cluster decides who may connect.")
RECOVERY: Final = Reason("make backups, and restore them elsewhere.")
ELSEWHERE: Final = no_effect("a bus runs where its cluster is.")
_KEYS: Final = Reason("clients sign in with keys of policies.")
_AFFINITY: Final = Reason("subscriptions are not bound to a client's id.")


def _is_at_one_place(value: Any) -> bool:
    """Whether a namespace is replicated to no other region."""
    found = value.get("locations") if isinstance(value, dict) else None
    return isinstance(found, list) and len(found) < 2


def _is_disabled(value: Any) -> bool:
    """Whether a capability of nodes is asked for by no member."""
    if isinstance(value, dict):
        return all(map(_is_disabled, value.values()))
    return value in (None, "Disabled")


@dataclass(frozen=True, slots=True)
class Idle:
    """A field that is left out, and why.

    `terraform`: its names there, if they are other ones. `usual`: whether a value needs no remark.
    """

    name: str
    why: Reason
    terraform: tuple[str, ...] = ()
    usual: Callable[[Any], bool] | None = None

    def names(self, form: Form) -> tuple[str, ...]:
        """Return its names in a form."""
        return (self.terraform or (self.name,)) if form is Form.TERRAFORM else (self.name,)


IDLE_OF_ENTITIES: Final = (
    Idle("isClientAffine", _AFFINITY, ("client_scoped_subscription_enabled",)),
    Idle("clientAffineProperties", _AFFINITY, ("client_scoped_subscription",)),
    Idle("path", no_effect("the name of the resource counts.")),
)
IDLE_OF_NAMESPACES: Final = (
    Idle(
        "minimumTlsVersion",
        Reason("the version is 1.2."),
        ("minimum_tls_version",),
        lambda value: value == "1.2",
    ),
    Idle(
        "publicNetworkAccess",
        NETWORK,
        ("public_network_access_enabled",),
        lambda value: value in ("Enabled", True),
    ),
    Idle("disableLocalAuth", _KEYS),
    Idle(
        "zoneRedundant",
        no_effect("spread the pods of partitions over zones of the cluster."),
        ("zone_redundant",),
    ),
    Idle(
        "encryption",
        Reason("encrypt the volumes of the cluster."),
        ("customer_managed_key",),
    ),
    Idle("privateEndpointConnections", NETWORK),
    Idle("alternateName", Reason("a bus has one name.")),
    Idle("geoDataReplication", RECOVERY, usual=_is_at_one_place),
    Idle(
        "platformCapabilities",
        Reason("nodes of the cluster decide what they can do."),
        usual=_is_disabled,
    ),
)
CAPACITY: Final = no_effect("a bus has what its pods get.")
# Fields of any resource of Azure, by their names in lower case.
OF_RESOURCES: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "location": ELSEWHERE,
        "capacity": CAPACITY,
        "tags": no_effect("labels of its manifest are those of the bus."),
        "identity": no_effect("a bus has no identity in Azure."),
        "network_rule_set": NETWORK,
        # Any resource in a template may have these.
        **dict.fromkeys(("zones", "scope", "extendedlocation", "managedby"), ELSEWHERE),
        **dict.fromkeys(("kind", "plan", "scale", "asserts"), no_effect("it is Azure's own.")),
    }
)
# Types of resources below a namespace that Bendybus has not, by their last part in lower case.
OTHER_RESOURCES: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "networkrulesets": NETWORK,
        "ipfilterrules": NETWORK,
        "virtualnetworkrules": NETWORK,
        "privateendpointconnections": NETWORK,
        "networksecurityperimeterconfigurations": NETWORK,
        "disasterrecoveryconfigs": RECOVERY,
        "migrationconfigurations": Reason("see bendybus create queue --migrated."),
    }
)
# Types of other resources, in files of Azure and of Terraform, that decide who may use a bus.
_OF_ACCESS: Final = ("roleassignments", "role_assignment")


def other(kind: str) -> Reason:
    """Return why a resource of another type is left out."""
    if kind.lower().endswith(_OF_ACCESS):
        return _KEYS
    return Reason(f"is {kind:.100}, no resource of Service Bus.", Outcome.NO_EFFECT)


def idle(fields: tuple[Idle, ...], form: Form) -> dict[str, Reason]:
    """Return the names of fields that are left out in a form, and why."""
    return {name: each.why for each in fields for name in each.names(form)}


def usual(fields: tuple[Idle, ...], form: Form) -> dict[str, Callable[[Any], bool]]:
    """Return which values of such fields need no remark, by the names of the fields."""
    return {name: each.usual for each in fields if each.usual for name in each.names(form)}
