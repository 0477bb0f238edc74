"""Limits of other programs that Bendybus does not have: values, names, numbers of resources."""

from typing import Any

import pytest

from bendybus.crds.bundle import KINDS
from bendybus.crds.conversion import Document
from bendybus.crds.exports import writing
from bendybus.crds.forms import Form
from bendybus.crds.imports.importer import manifest
from bendybus.domain.entity_kind import EntityKind

pytestmark = pytest.mark.requirement("R661")
QUEUE, TOPIC, SUBSCRIPTION = EntityKind


def bus(*entities: Document, name: str = "shop-bus", **spec: Any) -> list[Document]:
    return [manifest("BusNamespace", name, spec), *entities]


def entity(kind: EntityKind, name: str, **spec: Any) -> Document:
    return manifest(KINDS[kind], f"{kind}-{name}", {"entityName": name, **spec})


def written(form: Form, documents: list[Document]) -> tuple[Any, list[str]]:
    """Return the document, and what the report says."""
    made = writing.write("b", documents, form, {})
    return made.documents[0], list(map(str, made.findings))


def properties(kind: EntityKind, name: str, value: str) -> tuple[Any, list[str]]:
    """Return the properties of an entity in a Config.json, and what the report says of it."""
    topic = {"topicName": "news"} if kind is SUBSCRIPTION else {}
    mine = entity(kind, "mine", **{name: value}, **topic)
    found, said = written(Form.EMULATOR, bus(entity(TOPIC, "news"), mine))
    space = found["UserConfig"]["Namespaces"][0]
    for each in [*space["Queues"], *space["Topics"], *space["Topics"][0].get("Subscriptions", ())]:
        if each["Name"] == "mine":
            return each["Properties"], [line for line in said if f"mine.{name}" in line]
    raise AssertionError(found)


@pytest.mark.parametrize("kind", list(EntityKind))
@pytest.mark.parametrize(
    ("given", "made", "words"),
    [
        ("PT1S", "PT5M", "PT1S became PT5M, the least that the emulator takes."),
        ("PT4M59.999S", "PT5M", "the least that the emulator takes."),
        ("PT5M", "PT5M", ""),
        ("PT10M0.5S", "PT10M1S", "became PT10M1S, as the emulator takes whole seconds."),
        ("PT1H", "PT1H", ""),
        ("PT1H0.001S", "PT1H", "became PT1H, the most that the emulator takes."),
        ("P1D", "PT1H", "P1D became PT1H, the most that the emulator takes."),
    ],
)
def test_the_emulator_takes_times_to_live_in_bounds(
    kind: EntityKind, given: str, made: str, words: str
) -> None:
    found, said = properties(kind, "defaultMessageTimeToLive", given)

    assert found["DefaultMessageTimeToLive"] == made
    assert [words in each for each in said] == ([True] if words else [])


def test_the_emulator_has_longer_locks_of_subscriptions_than_of_queues() -> None:
    found, said = properties(SUBSCRIPTION, "lockDuration", "PT5S")
    same, none = properties(QUEUE, "lockDuration", "PT5S")

    # One minute is what it takes where the setting is left out.
    assert (found.get("LockDuration"), same["LockDuration"]) == (None, "PT5S")
    assert (len(said), none) == (1, [])
    assert "PT5S became PT1M, the least that the emulator takes." in said[0]


def test_the_emulator_has_no_empty_list_of_subscriptions() -> None:
    found, _ = written(Form.EMULATOR, bus(entity(TOPIC, "news")))

    [topic] = found["UserConfig"]["Namespaces"][0]["Topics"]
    assert "Subscriptions" not in topic


@pytest.mark.parametrize("name", ["shop-sb", "shop-mgmt", "shop", "1shop-bus"])
@pytest.mark.parametrize("form", [Form.ARM, Form.TERRAFORM])
def test_names_that_no_namespace_of_azure_has_are_said(form: Form, name: str) -> None:
    _, said = written(form, bus(name=name))

    assert [
        each for each in said if each.startswith(f"changed: BusNamespace {name}: needs another")
    ]


@pytest.mark.parametrize("form", [Form.ARM, Form.TERRAFORM])
def test_names_that_azure_has_are_not_said(form: Form) -> None:
    assert written(form, bus(name="shop-sbx"))[1] == []


def test_a_template_of_more_resources_than_azure_takes_is_said() -> None:
    queues = [entity(QUEUE, f"q{number}") for number in range(800)]

    fits = written(Form.ARM, bus(*queues[1:]))[1]
    _, said = written(Form.ARM, bus(*queues))

    assert fits == []
    assert said == [
        "not supported: resources: are 801, and Azure takes 800 in one template: divide it."
    ]


@pytest.mark.parametrize("form", [Form.ARM, Form.TERRAFORM])
@pytest.mark.parametrize("kind", [QUEUE, TOPIC])
def test_premium_namespaces_of_azure_have_no_express_entities(form: Form, kind: EntityKind) -> None:
    mine = entity(kind, "mine", enableExpress=True)

    kept, none = written(form, bus(mine))
    left, said = written(form, bus(mine, sku={"tier": "Premium"}))

    assert "xpress" in str(kept)
    assert "xpress" not in str(left)
    assert none == []
    assert said == [f"not supported: {kind} mine.enableExpress: Premium namespaces have none."]
