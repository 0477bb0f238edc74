"""The report of a Terraform file has each field and no key, and names each problem."""

from typing import Any

import pytest

from bendybus.crds.conversion import Outcome
from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from tests.crds.reports import reported
from tests.crds.terraform_documents import (
    IDS,
    converted,
    plan,
    problems,
    raw_state,
    resource,
    shown_state,
    specs,
    written,
)

pytestmark = pytest.mark.requirement("R658")
NAMESPACE = resource("namespace", "main", name="shop", sku="Standard")
ROOT = "planned_values.root_module"
AT = "values.root_module.resources"
KEY = "s3cret-k3y"
KEYS = ("primary_key", "secondary_key", "primary_connection_string", "secondary_connection_string",
        "primary_connection_string_alias", "default_primary_key", "default_secondary_key",
        "default_primary_connection_string")  # fmt: skip


def details(document: Any) -> dict[str, tuple[Outcome, str]]:
    """Return the outcome of each field; there is one finding for each."""
    found = [each for each in converted(document).findings if each.outcome is not Outcome.DEFAULT]
    paths = [each.path for each in found]
    assert sorted(set(paths)) == sorted(paths)
    return {each.path: (each.outcome, each.detail) for each in found}


def rule(**values: Any) -> dict[str, Any]:
    """Return a state with one rule, resource number 3."""
    return shown_state(
        NAMESPACE,
        resource("topic", "t", name="news", namespace_id=f"{IDS}/shop"),
        resource("subscription", "s", name="all", topic_id=f"{IDS}/shop/topics/news"),
        resource("subscription_rule", "r", name="r",
                 subscription_id=f"{IDS}/shop/topics/news/subscriptions/all", **values),
    )  # fmt: skip


@pytest.mark.parametrize("made", [shown_state, raw_state])
def test_every_field_has_one_finding_and_no_key_is_in_it(made: Any) -> None:
    values = {
        "id": f"{IDS}/shop/queues/q",
        "name": "q",
        "namespace_id": f"{IDS}/shop",
        "namespace_name": "shop",
        "resource_group_name": "g",
        "timeouts": {"create": "1h"},
        "lock_duration": "PT1M",
        "max_size_in_megabytes": 0,
        "forward_to": "",
        "new_setting": {"a": [KEY]},
        "rights": ["Manage"],
    }
    policy = {"name": "app", "listen": True, "send": False, "manage": None, "rights": KEY,
              "namespace_id": f"{IDS}/shop"} | dict.fromkeys(KEYS, KEY)  # fmt: skip
    document = made(
        NAMESPACE,
        resource("queue", "q", **values),
        resource("namespace_authorization_rule", "app", **policy),
    )

    found = converted(document)

    paths = {each.path for each in found.findings}
    for number, fields in ((1, values), (2, policy)):
        place = f"{AT}[{number}].values"
        if made is raw_state:
            place = f"resources[{number}].instances[0].attributes"
        assert {f"{place}.{name}" for name in fields} <= paths
    assert KEY not in "".join(map(str, found.findings))
    assert KEY not in str(found.documents)
    details(document)


def test_what_the_cluster_decides_is_reported_with_its_reason() -> None:
    document = shown_state(
        resource("namespace", "main", name="shop", sku="Standard", location="eu", tags={"a": "b"},
                 network_rule_set=[{"default_action": "Deny"}], identity=[{"type": "x"}],
                 local_auth_enabled="false", zone_redundant=True, minimum_tls_version="1.0"),
        resource("namespace_network_rule_set", "n", namespace_id="x"),
        resource("namespace_disaster_recovery_config", "d", name="alias"),
        {"type": "azurerm_storage_account", "name": "s", "values": {"key": KEY}},
    )  # fmt: skip

    found = {path: said for path, (outcome, said) in details(document).items()
             if outcome in (Outcome.NOT_SUPPORTED, Outcome.NO_EFFECT)}  # fmt: skip

    assert found.keys() == {
        *(f"{AT}[0].values.{name}" for name in ("location", "tags", "network_rule_set", "identity",
          "local_auth_enabled", "zone_redundant", "minimum_tls_version")),
        *(f"{AT}[{number}].values" for number in (1, 2, 3)),
    }  # fmt: skip
    assert "network of the cluster" in found[f"{AT}[0].values.network_rule_set"]


def test_what_a_plan_deletes_or_does_not_know_is_reported() -> None:
    unknown = {"id": True, "lock_duration": True, "forward_to": True, "status": True}
    change = {"type": "azurerm_servicebus_queue", "name": "q", "change": {
        "actions": ["create"], "after_unknown": unknown}}  # fmt: skip
    gone = {"type": "azurerm_servicebus_queue", "name": "old", "change": {"actions": ["delete"]}}
    left = {"type": "azurerm_servicebus_queue", "name": "let", "change": {"actions": ["forget"]}}
    nested = {"type": "azurerm_servicebus_subscription_rule", "name": "r",
              "change": {"after_unknown": {"correlation_filter": [{"label": True}]}}}  # fmt: skip
    document = plan(
        NAMESPACE,
        resource("queue", "q", name="q"),
        root={"resources": [
            written("queue", "q", lock_duration=["x"], forward_to=["y"]),
            written("subscription_rule", "r", correlation_filter=["z"]),
        ]},
        resource_changes=[change, gone, left, nested],
        errored=True,
    )  # fmt: skip

    found = {each.path: each.detail for each in reported(converted(document))}

    unknown_at = "resource_changes[0].change.after_unknown"
    assert found == {
        f"{unknown_at}.lock_duration": "is not known before the plan is applied, and left out.",
        f"{unknown_at}.forward_to": "is not known before the plan is applied, and left out.",
        "resource_changes[1]": "is deleted by the plan. Nothing is made of it.",
        "resource_changes[2]": "is forgotten by the plan. Nothing is made of it.",
        "resource_changes[3].change.after_unknown.correlation_filter[0].label":
            "is not known before the plan is applied, and left out.",
        "errored": "is true: the plan stopped with an error, and may lack resources.",
    }  # fmt: skip


def test_objects_that_the_next_apply_deletes_are_not_made() -> None:
    queue = resource("queue", "q", name="q", namespace_id=f"{IDS}/shop")
    shown = shown_state(NAMESPACE, queue, {**queue, "deposed_key": "a1"})
    raw = raw_state(NAMESPACE, queue)
    raw["resources"][1]["instances"].append({"attributes": queue["values"], "deposed": "a1"})

    for document, place in ((shown, f"{AT}[2]"), (raw, "resources[1].instances[1]")):
        assert specs(document)["Queue q"] == {}
        [left] = reported(converted(document))
        assert left.path == place


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"filter_type": "SqlFilter"}, "sql_filter: is required, and not known in this file."),
        ({"filter_type": "CorrelationFilter"}, "correlation_filter: is missing."),
        ({"filter_type": "SqlFilter", "sql_filter": "a >"}, "sql_filter: "),
        ({"filter_type": "SqlFilter", "sql_filter": 7}, "sql_filter: must be text (got 7)."),
        ({"filter_type": "SqlFilter", "sql_filter": "1=1", "action": "SET"}, "action: "),
        ({"filter_type": "Nothing", "sql_filter": "1=1"}, "filter_type: 'Nothing' is not a type"),
        ({"filter_type": "CorrelationFilter", "correlation_filter": [{"label": "a"}, {}]},
         "correlation_filter: must have one filter (got 2)."),
        ({"filter_type": "CorrelationFilter", "correlation_filter": [{"label": ""}]},
         "correlation_filter[0]: must have at least one property. Known: correlation_id, "),
        ({"filter_type": "CorrelationFilter", "correlation_filter": [{"content_type": 1}]},
         "correlation_filter[0].content_type: must be text (got 1)."),
        ({"filter_type": "CorrelationFilter",
          "correlation_filter": [{"content_type": "a", "contentType": "b"}]},
         f"correlation_filter[0].contentType: is the same field as {AT}[3].values."),
        ({"filter_type": "CorrelationFilter", "correlation_filter": [{"properties": {"a.b": []}}]},
         'correlation_filter[0].properties["a.b"]: must be text, a number, true or false'),
        ({"filter_type": "CorrelationFilter", "correlation_filter": [{"label": "x" * 70_000}]},
         "correlation_filter[0].label: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_said_at_its_field(values: dict[str, Any], said: str) -> None:
    [first, *_] = problems(rule(**values))

    assert first.startswith(f"{AT}[3].values.{said}")


def test_a_rule_with_a_field_of_templates_has_a_field_that_is_not_known() -> None:
    document = rule(filter_type="SqlFilter", sql_filter="a = 1", sqlFilter="b = 2", listen=True)

    left = {each.path for each in reported(converted(document))}

    assert left == {f"{AT}[3].values.{name}" for name in ("sqlFilter", "listen")}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"format_version": "2.0", "planned_values": {}}, "format_version: must be 1.x or 0.x"),
        ({"format_version": [], "planned_values": {}}, "format_version: must be 1.x or 0.x"),
        ({"version": 3, "terraform_version": "0.11.0", "modules": []}, "version: must be 4."),
        ({"terraform_version": "1.9.0"}, "has no resource of Service Bus."),
        ({"planned_values": {}}, "has no resource of Service Bus."),
        ({"planned_values": []}, "planned_values: must be an object"),
        ({"terraform_version": "1", "resource": {"azurerm_servicebus_queue": []}}, "has no res"),
        ({"resource": [{"azurerm_servicebus_queue": {"q": 3}}]},
         "resource[0].azurerm_servicebus_queue.q: must be an object"),
        ({"resource": {}, "module": {}}, "module: is not in this file"),
        (shown_state(resource("queue", "q", name="q", namespace_id="shop")),
         f"{AT}[0].values.namespace_id: must be the id of a namespace in Azure."),
        (shown_state(resource("queue", "q", name=None, namespace_id=f"{IDS}/shop")),
         f"{AT}[0].values.name: must be the name"),
        (shown_state(resource("namespace", "n", name="shop", sku="Gold")), f"{AT}[0].values.sku: "),
        (shown_state(resource("namespace", "n", name="shop", local_auth_enabled="no")),
         f"{AT}[0].values.local_auth_enabled: must be true or false (got 'no')."),
        (shown_state(NAMESPACE, resource("namespace_authorization_rule", "a", name="a",
                                         namespace_id=f"{IDS}/shop", listen="yes")),
         f"{AT}[1].values.listen: must be true or false (got 'yes')."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(document: Any, said: str) -> None:
    source = "bus.json"

    with pytest.raises(ManifestError) as error:
        reading.convert(source, Form.TERRAFORM, [("", document)], Asked())

    assert str(error.value.problems[0]).removeprefix(f"{source}: ").startswith(said)
