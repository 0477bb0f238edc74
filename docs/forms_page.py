"""Reference page of the settings in files of other programs, from the table of forms."""

from collections.abc import Iterator
from typing import Final

from bendybus.crds import forms
from bendybus.crds.forms import Form, Idle, Property
from bendybus.domain import entity_settings
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType

_WRITTEN: Final = (Form.ARM, Form.ASO, Form.TERRAFORM, Form.EMULATOR)
_UNITS: Final = {
    "max_size_in_megabytes": "MB of a partition; of all 16 in what Azure reports of Standard",
    "max_message_size_in_kilobytes": "KB",
}
_HEAD: Final = """\
# Settings in files of other programs
`bendybus convert` reads and writes settings by this table, which has their names and losses in \
each form. Case does not count where a file is read. The report names every other field.

## Entities
Templates of Azure Resource Manager, what `az servicebus` prints, and manifests of Azure Service \
Operator have the names of our manifests; Config.json of the emulator begins them with a capital.

| setting | Terraform | values | where it is left out | not in |
|---|---|---|---|---|
"""
# Here; in templates and manifests of the operator; in Terraform; in Config.json.
_OTHERS: Final = (
    (
        "`sku.tier`",
        "`sku.name` or `sku.tier`; left out: Standard",
        "`sku`",
        "Premium always",
    ),
    (
        "`premiumMessagingPartitions`",
        "the same, 1, 2 or 4; 8 and 16 are written as 4",
        "`premium_messaging_partitions`; 0 is none",
        "`--premium`; not written",
    ),
    (
        "`authorizationRules`, without keys",
        "`authorizationRules` of the namespace, of queues and of topics",
        "`…_authorization_rule` with `listen`, `send`, `manage`",
        "not there",
    ),
    ("`rules`", "`rules` below subscriptions", "`…_subscription_rule`", "`Rules`"),
    (
        "`sqlFilter`, with `parameters`",
        "`sqlFilter`; parameters become part of the expression",
        "`sql_filter`",
        "`SqlFilter`",
    ),
    (
        "`correlationFilter`; `properties` are text, numbers, true or false",
        "`correlationFilter`; properties are text",
        "`correlation_filter`",
        "`CorrelationFilter`",
    ),
    ("`booleanFilter`", "`sqlFilter` with `1=1` or `1=0`", "the same", "the same"),
    ("a slash in a name", "`~`", "`~`", "a slash"),
)
_OF_OTHERS: Final = """
## Namespaces, policies and rules
| here | in templates and manifests of the operator | Terraform | Config.json |
|---|---|---|---|
"""
_IDLE: Final = """
Storage, front ends, resources and images of a BusNamespace have no place in other forms.

## Fields that are left out here
| field | Terraform | what the report says |
|---|---|---|
"""


def page() -> str:
    """Return the page."""
    rows = "".join(f"{each}\n" for each in _rows())
    idle = "".join(
        f"{_idle(each)}\n" for each in (*forms.IDLE_OF_NAMESPACES, *forms.IDLE_OF_ENTITIES)
    )
    others = "".join(f"| {' | '.join(each)} |\n" for each in _OTHERS)
    return _HEAD + rows + _OF_OTHERS + others + _IDLE + idle


def _rows() -> Iterator[str]:
    for each in forms.TABLE:
        setting = entity_settings.BY_NAME[each.setting]
        if setting.is_list:
            continue
        terraform = ", before ".join(f"`{name}`" for name in each.names(Form.TERRAFORM))
        if set(each.lacking.get(Form.TERRAFORM, ())) == set(EntityKind):
            terraform = ""
        cells = [
            f"`{setting.manifest_name}`",
            terraform,
            _values(setting),
            _left_out(each, setting),
            _not_in(each),
        ]
        yield f"| {' | '.join(cells)} |"


def _values(setting: Setting) -> str:
    if setting.name in _UNITS:
        return _UNITS[setting.name]
    if setting.type is SettingType.DURATION:
        return "ISO 8601"
    names = {SettingType.NAME: "name", SettingType.STATUS: "name of a status"}
    return names.get(setting.type, str(setting.type.value))


def _left_out(row: Property, setting: Setting) -> str:
    """Return the value of a setting that a file lacks, for each form that has another default."""
    said = ["as the tier has it" if setting.left_to_tier else _shown(setting, setting.default)]
    for form, by_kind in row.absent.items():
        values = {kind: value for kind, value in by_kind.items() if value is not None}
        if not values:
            said.append(f"{_of_kinds(tuple(by_kind))}{forms.TITLES[form]} requires it")
        for value in dict.fromkeys(values.values()):
            kinds = tuple(kind for kind, each in values.items() if each == value)
            what = forms.shown(setting, value)
            said.append(f"{_of_kinds(kinds)}{forms.TITLES[form]} takes {what}")
    return "; ".join(said)


def _shown(setting: Setting, value: object) -> str:
    if value is None:
        return "never"
    return "none" if value == "" else forms.shown(setting, value)


def _of_kinds(kinds: tuple[EntityKind, ...]) -> str:
    return "" if set(kinds) == set(EntityKind) else f"of a {' or '.join(kinds)} "


def _not_in(row: Property) -> str:
    said = []
    for form in _WRITTEN:
        kinds = row.lacking.get(form, ())
        if kinds:
            said.append(f"{_of_kinds(tuple(kinds))}{forms.TITLES[form]}")
        setting = entity_settings.BY_NAME[row.setting]
        by_kind = row.least.get(form, {})
        for least in dict.fromkeys(by_kind.values()):
            kinds = tuple(kind for kind, each in by_kind.items() if each == least)
            what = forms.shown(setting, least)
            said.append(f"{_of_kinds(kinds)}{forms.TITLES[form]}: {what} at least")
        if form in row.most:
            said.append(f"{forms.TITLES[form]}: {forms.shown(setting, row.most[form])} at most")
    return "; ".join(said)


def _idle(field: Idle) -> str:
    terraform = ", ".join(f"`{name}`" for name in field.terraform)
    return f"| `{field.name}` | {terraform} | {field.why.outcome}: {field.why.detail} |"
