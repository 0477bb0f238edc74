"""Whatever stands in a file of Terraform or of the operator: manifests, or what is wrong."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.crds import json_text
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from tests.crds.terraform_documents import (
    IDS,
    configuration,
    data,
    module,
    plan,
    raw_state,
    references,
    resource,
    shown_state,
    written,
)

NAMES = st.sampled_from(
    ["name", "Name", "id", "sku", "values", "properties", "sqlExpression", "a.b", "", "0", "label",
     "sql_filter", "correlation_filter", "namespace_id", "topic_id", "references", "filterType",
     "contentType", "content_type", "rights", "listen", "status", "index", "mode", "type"]
)  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=6)
    | st.sampled_from(["shop", "news", "PT1M", "${a}", "$${a}", f"{IDS}/shop", f"{IDS}/shop/topics",
                       "var.x", "module.m.o", "module.m[0]", "azurerm_servicebus_topic.news",
                       "data", "managed", "azurerm_servicebus_queue", "9" * 30, "²"])
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=4),
    max_leaves=8,
)
RULE = {"name": "r", "filter_type": "CorrelationFilter",
        "correlation_filter": [{"label": "x", "properties": {"a": "b"}}]}  # fmt: skip
RESOURCES = (
    resource("namespace", "main", name="shop", sku="Standard", capacity=0, location="eu"),
    resource("topic", "news", name="news", namespace_id=f"{IDS}/shop", enable_partitioning=False),
    resource("subscription", "all", "a", name="all", topic_id=f"{IDS}/shop/topics/news"),
    resource("subscription_rule", "r", **RULE,
             subscription_id=f"{IDS}/shop/topics/news/subscriptions/all"),
    resource("queue_authorization_rule", "p", name="p", queue_id=f"{IDS}/shop/queues/q",
             listen=True, send=False, primary_key="k"),
    resource("queue", "q", name="q", namespace_name="shop", lock_duration="PT1M"),
)  # fmt: skip
IN_MODULES = plan(
    RESOURCES[0],
    resource("topic", "news", name="news"),
    modules=[module('module.m["a"]', resource("subscription", "all", name="all"),
                    resource("subscription_rule", "r", **RULE))],
    root={
        "resources": [written("topic", "news", namespace_id=["azurerm_servicebus_namespace.main"])],
        "module_calls": {"m": {
            "expressions": references(topic_id=["azurerm_servicebus_topic.news.id", "each.key"]),
            "module": {"resources": [
                written("subscription", "all", topic_id=["var.topic_id"]),
                written("subscription_rule", "r",
                        subscription_id=["azurerm_servicebus_subscription.all"]),
            ]},
        }},
    },
    prior_state={"values": {"root_module": module("", data("namespace", "x", name="hub"))}},
    resource_changes=[{"type": "azurerm_servicebus_topic", "name": "news", "module_address": "",
                       "change": {"actions": ["create"], "after_unknown": {"status": True}}}],
)  # fmt: skip
CONFIGURATION = configuration(
    namespace={"main": {"name": "shop", "sku": "Standard", "location": "${var.location}"}},
    topic={"news": [{"name": "news", "namespace_id": "${azurerm_servicebus_namespace.main.id}"}]},
    subscription={"all": {"name": "all", "topic_id": "${azurerm_servicebus_topic.news.id}",
                          "forward_to": "${azurerm_servicebus_topic.news.name}"}},
)  # fmt: skip
OF_TERRAFORM = (
    shown_state(*RESOURCES), raw_state(*RESOURCES), IN_MODULES, CONFIGURATION,
)  # fmt: skip


def _an_object(kind: str, name: str, owner: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "servicebus.azure.com/v1api20240101",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"owner": {"name": owner}, "azureName": name, **spec},
    }


OF_OPERATOR = (
    _an_object("Namespace", "shop", "g", sku={"name": "Standard"}),
    _an_object("NamespacesTopic", "news", "shop", enablePartitioning=True),
    _an_object("NamespacesTopicsSubscription", "all", "news", lockDuration="PT1M"),
    _an_object("NamespacesTopicsSubscriptionsRule", "r", "all", filterType="CorrelationFilter",
               correlationFilter={"label": "x", "properties": {"a": "b"}}),
    _an_object("NamespacesAuthorizationRule", "p", "shop", rights=["Send"]),
    {"apiVersion": "v1", "kind": "List", "items": [_an_object("NamespacesQueue", "q", "shop")]},
)  # fmt: skip


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    below: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    below = list(enumerate(value)) if isinstance(value, list) else below
    for name, each in below:
        yield from _paths(each, (*path, name))


def with_tree(document: Any, path: tuple[Any, ...], tree: Any, name: str | None) -> Any:
    """Return a document with a tree at a path; `name`: as a further field there."""
    made = copy.deepcopy(document)
    if not path and name is None:
        return tree
    above = made
    for step in path if name is not None else path[:-1]:
        above = above[step]
    if name is None:
        above[path[-1]] = tree
    elif isinstance(above, dict):
        above[name] = tree
    return made


@st.composite
def changed(draw: st.DrawFn, documents: tuple[Any, ...]) -> Any:
    document = draw(st.sampled_from(documents))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(_paths(document))))
        document = with_tree(document, path, draw(TREES), draw(st.none() | NAMES))
    return document


def converted(form: Form, text: str) -> Conversion | None:
    """Return the conversion, if the file is one; what is wrong has one sentence each."""
    try:
        found = reading.documents("bus.txt", text.encode("utf-8", "surrogatepass"))
        return reading.convert("bus.txt", form, found, Asked())
    except ManifestError as error:
        _check_sentences(error)
        return None


def _check_sentences(error: ManifestError) -> None:
    assert all(each.sentence and "\n" not in each.sentence for each in error.problems)


@pytest.mark.requirement("R658")
@settings(max_examples=400, deadline=None)
@given(document=changed(OF_TERRAFORM))
def test_any_file_of_terraform_is_converted_or_refused(document: Any) -> None:
    found = converted(Form.TERRAFORM, json.dumps(document))

    if found is not None:
        _check_accounted(document, found)


def _check_accounted(document: Any, found: Conversion) -> None:
    """Check that each leaf of a managed resource has a finding at its place, or above it."""
    places = {each.path for each in found.findings}
    for path in _paths(document):
        number = path.index("resources") + 1 if "resources" in path else 0
        if path[:1] not in (("values",), ("planned_values",)) or path[number + 1 :][:1] != (
            "values",
        ):
            continue
        shown, steps, value, of = "", [], document, None
        for at, step in enumerate(path):
            shown = f"{shown}[{step}]" if isinstance(step, int) else json_text.step(shown, step)
            steps.append(shown)
            value = value[step]
            of = value if at == number else of
        if (
            isinstance(of, dict)
            and of.get("mode") == "managed"
            and (not isinstance(value, dict | list))
        ):
            assert places.intersection(steps), shown


@pytest.mark.requirement("R659")
@pytest.mark.parametrize("as_yaml", [False, True])
@settings(max_examples=250, deadline=None)
@given(objects=changed((list(OF_OPERATOR),)))
def test_any_file_of_the_operator_is_converted_or_refused(as_yaml: bool, objects: Any) -> None:
    if as_yaml:
        text = yaml.safe_dump_all(objects if isinstance(objects, list) else [objects])
    else:
        text = json.dumps({"kind": "List", "items": objects})

    converted(Form.ASO, text)
