"""The table of settings in forms is whole, and every reader takes every setting by its names."""

import json
from typing import Any

import pytest

from bendybus.crds import forms
from bendybus.crds.bundle import KINDS
from bendybus.crds.conversion import Conversion, Outcome
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from bendybus.domain import entity_settings
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType
from tests.crds.terraform_documents import IDS, resource, shown_state

pytestmark = pytest.mark.requirement("R660")
READ = (Form.ARM, Form.AZ, Form.ASO, Form.TERRAFORM, Form.EMULATOR)
QUEUE, TOPIC, SUBSCRIPTION = EntityKind.QUEUE, EntityKind.TOPIC, EntityKind.SUBSCRIPTION
PATHS = {QUEUE: "queues/one", TOPIC: "topics/one", SUBSCRIPTION: "topics/t/subscriptions/one"}
TYPES = {QUEUE: "queues", TOPIC: "topics", SUBSCRIPTION: "topics/subscriptions"}
ASO = {QUEUE: "NamespacesQueue", TOPIC: "NamespacesTopic",
       SUBSCRIPTION: "NamespacesTopicsSubscription"}  # fmt: skip
# The names of azurerm 4.0, as its pages have them, and those before.
OF_PROVIDER = (
    "lock_duration", "max_message_size_in_kilobytes", "max_size_in_megabytes",
    "requires_duplicate_detection", "requires_session", "default_message_ttl",
    "dead_lettering_on_message_expiration", "dead_lettering_on_filter_evaluation_error",
    "duplicate_detection_history_time_window", "max_delivery_count", "status",
    "batched_operations_enabled", "auto_delete_on_idle", "partitioning_enabled",
    "express_enabled", "forward_to", "forward_dead_lettered_messages_to",
)  # fmt: skip
OLD_NAMES = {
    "enable_partitioning": "partitioning_enabled",
    "enable_batched_operations": "batched_operations_enabled",
    "enable_express": "express_enabled",
}
NUMBERS = {"max_size_in_megabytes": 2_048, "max_message_size_in_kilobytes": 2_048,
           "max_delivery_count": 7}  # fmt: skip

# The bus decides them as a whole.
NOT_OF_EMULATOR = ("enable_partitioning", "enable_express")


def a_value(setting: Setting) -> Any:
    """Return a value that is not the default, as manifests have it."""
    match setting.type:
        case SettingType.BOOLEAN:
            return not setting.default
        case SettingType.WHOLE:
            return NUMBERS[setting.name]
        case SettingType.DURATION:
            return "PT5M"
        case SettingType.STATUS:
            return "Disabled"
        case SettingType.NAME:
            return "to"
        case _:
            return "note"


def arm(kind: EntityKind, tier: str, fields: dict[str, Any]) -> Any:
    def one(types: str, name: str, **parts: Any) -> dict[str, Any]:
        return {"type": f"Microsoft.ServiceBus/namespaces{types}", "name": name,
                "apiVersion": "2021-11-01", **parts}  # fmt: skip

    name = "shop/t/one" if kind is SUBSCRIPTION else "shop/one"
    return {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "resources": [
            one("", "shop", sku={"name": tier}),
            one("/queues", "shop/to"),
            one("/topics", "shop/t"),
            one(f"/{TYPES[kind]}", name, properties=fields),
        ],
    }


def az(kind: EntityKind, tier: str, fields: dict[str, Any]) -> Any:
    return [
        {"id": f"{IDS}/shop", "sku": {"name": tier}},
        {"id": f"{IDS}/shop/queues/to"},
        {"id": f"{IDS}/shop/topics/t"},
        {"id": f"{IDS}/shop/{PATHS[kind]}", **fields},
    ]


def aso(kind: EntityKind, tier: str, fields: dict[str, Any]) -> Any:
    def one(kind: str, name: str, owner: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "servicebus.azure.com/v1api20240101", "kind": kind,
                "metadata": {"name": name}, "spec": {"owner": {"name": owner}, **spec}}  # fmt: skip

    items = [
        one("Namespace", "shop", "group", sku={"name": tier}),
        one("NamespacesQueue", "to", "shop"),
        one("NamespacesTopic", "t", "shop"),
        one(ASO[kind], "one", "t" if kind is SUBSCRIPTION else "shop", **fields),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def terraform(kind: EntityKind, tier: str, fields: dict[str, Any]) -> Any:
    of_shop = {"namespace_id": f"{IDS}/shop"}
    parent = {"topic_id": f"{IDS}/shop/topics/t"} if kind is SUBSCRIPTION else of_shop
    return shown_state(
        resource("namespace", "main", name="shop", sku=tier),
        resource("queue", "to", name="to", **of_shop),
        resource("topic", "t", name="t", **of_shop),
        resource(kind.value, "one", name="one", **parent, **fields),
    )


def emulator(kind: EntityKind, tier: str, fields: dict[str, Any]) -> Any:
    assert tier
    one = {"Name": "one", "Properties": fields}
    topic: dict[str, Any] = {"Name": "t", "Subscriptions": [one] if kind is SUBSCRIPTION else []}
    queues = [{"Name": "to"}, *([one] if kind is QUEUE else [])]
    namespace = {"Name": "shop", "Queues": queues, "Topics": [topic, *([one] * (kind is TOPIC))]}
    return {"UserConfig": {"Namespaces": [namespace]}}


FILES = {Form.ARM: arm, Form.AZ: az, Form.ASO: aso, Form.TERRAFORM: terraform,
         Form.EMULATOR: emulator}  # fmt: skip


def converted(form: Form, kind: EntityKind, tier: str, fields: dict[str, Any]) -> Conversion:
    data = json.dumps(FILES[form](kind, tier, fields)).encode()
    found = reading.documents("bus.json", data)
    assert reading.recognised("bus.json", found) is form
    return reading.convert("bus.json", form, found, Asked())


def spec(found: Conversion, kind: EntityKind) -> dict[str, Any]:
    """Return the spec of the entity called one."""
    [made] = [
        each["spec"]
        for each in found.documents
        if each["kind"] == KINDS[kind]
        and "one" in (each["metadata"]["name"], each["spec"].get("entityName"))
    ]
    return dict(made)


def every_setting() -> list[Any]:
    """Return each setting of each kind in each form, and whether its value is in quotes."""
    return [
        pytest.param(form, kind, setting, name, quoted, id=f"{form}-{kind}-{name}-{quoted}")
        for form in READ
        for kind in EntityKind
        for name, setting in forms.settings(form, kind).items()
        for quoted in (False, True)
        if form is not Form.EMULATOR or not (quoted or setting.name in NOT_OF_EMULATOR)
    ]


def test_the_table_has_a_row_for_every_setting_and_no_other() -> None:
    rows = [each.setting for each in forms.TABLE]

    assert rows == [each.name for each in entity_settings.TABLE]
    assert forms.BY_SETTING.keys() == set(rows)


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("kind", EntityKind)
def test_no_two_settings_of_a_kind_have_one_name_in_any_case(form: Form, kind: EntityKind) -> None:
    settings = [each for each in entity_settings.BY_KIND[kind] if not each.is_list]
    names = [name.lower() for each in settings for name in forms.BY_SETTING[each.name].names(form)]

    assert sorted(set(names)) == sorted(names)
    assert not {*names} & {each.lower() for each in forms.idle(forms.IDLE_OF_ENTITIES, form)}


def test_names_in_terraform_are_those_of_the_provider() -> None:
    found = {name for kind in EntityKind for name in forms.settings(Form.TERRAFORM, kind)}

    assert found == {*OF_PROVIDER, *OLD_NAMES, "user_metadata", "support_ordering"}
    for old, name in OLD_NAMES.items():
        settings = forms.settings(Form.TERRAFORM, QUEUE)
        assert settings[old] is settings[name]


@pytest.mark.parametrize(("form", "kind", "setting", "name", "quoted"), every_setting())
def test_every_reader_takes_every_setting_by_each_of_its_names(
    form: Form, kind: EntityKind, setting: Setting, name: str, quoted: bool
) -> None:
    tier = "Premium" if setting.name == "max_message_size_in_kilobytes" else "Standard"
    wanted = a_value(setting)
    value = json.dumps(wanted) if quoted and not isinstance(wanted, str) else wanted

    found = converted(form, kind, tier, {name: value})

    assert spec(found, kind)[setting.manifest_name] == wanted
    [said] = [each for each in found.findings if each.path.endswith(f".{name}")
              and each.outcome is not Outcome.DEFAULT]  # fmt: skip
    assert said.outcome is Outcome.TAKEN


@pytest.mark.parametrize("form", READ)
@pytest.mark.parametrize("kind", EntityKind)
def test_a_default_that_differs_is_written_out_or_named(form: Form, kind: EntityKind) -> None:
    found = converted(form, kind, "Standard", {})

    made = spec(found, kind)
    named = {each.path for each in found.findings if each.outcome is Outcome.DEFAULT}
    for setting in entity_settings.BY_KIND[kind]:
        own = forms.BY_SETTING[setting.name].names(form)[0]
        differs = forms.differs(form, kind, setting.name)
        # A window has no effect where no duplicates are looked for.
        if setting.name == "duplicate_detection_history_time_window_ms":
            differs = False
        is_named = any(each.endswith(f"{_entity(form, kind)}.{own}") for each in named)
        assert is_named is differs, setting.name
        if differs and form is Form.TERRAFORM:
            assert made[setting.manifest_name] == forms.absent(form, kind, setting.name)
        elif setting.is_declared:
            assert setting.manifest_name not in made


def _entity(form: Form, kind: EntityKind) -> str:
    """Return the end of the path of the entity called one."""
    of_emulator = {QUEUE: "Queues[1]", TOPIC: "Topics[1]", SUBSCRIPTION: "Subscriptions[0]"}
    return {
        Form.ARM: "resources[3].properties",
        Form.AZ: "[3]",
        Form.ASO: "items[3].spec",
        Form.TERRAFORM: "resources[3].values",
        Form.EMULATOR: f"{of_emulator[kind]}.Properties",
    }[form]


def test_terraform_does_not_batch_or_order_where_azure_does() -> None:
    assert (
        spec(converted(Form.TERRAFORM, TOPIC, "Standard", {}), TOPIC)["enableBatchedOperations"]
        is False
    )
    assert "enableBatchedOperations" not in spec(
        converted(Form.TERRAFORM, QUEUE, "Standard", {}), QUEUE
    )
