"""Buses with names, texts and numbers that other programs read in another way."""

import json
import time
from typing import Any

import pytest
import yaml

from bendybus.crds.bundle import KINDS
from bendybus.crds.conversion import Conversion, Document, Finding, Outcome
from bendybus.crds.exports import writing
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from bendybus.crds.imports.importer import manifest
from bendybus.crds.object_names import UniqueNames, object_name
from bendybus.domain.entity_kind import EntityKind

pytestmark = pytest.mark.requirement("R663")
QUEUE, TOPIC, SUBSCRIPTION = EntityKind
FORMS = [Form.ARM, Form.ASO, Form.TERRAFORM, Form.EMULATOR]
GIVEN = {"location": "x", "resourceGroup": "g"}
LONG = "a" * 259


def entity(kind: EntityKind, name: str, at: int = 0, **spec: Any) -> Document:
    return manifest(KINDS[kind], f"object-{kind}-{at}", {"entityName": name, **spec})


def subscription(at: int = 0, topic: str = "news", **spec: Any) -> Document:
    return entity(SUBSCRIPTION, f"all-{at}", at, topicName=topic, **spec)


def written(form: Form, *entities: Document, **spec: Any) -> tuple[str, list[str]]:
    """Return the text, and what the report says."""
    documents = [manifest("BusNamespace", "shop-bus", spec), *entities]
    made = writing.write("b", documents, form, GIVEN)
    return writing.text(form, made.documents), list(map(str, made.findings))


def again(form: Form, text: str) -> Conversion:
    return reading.convert("f", form, reading.documents("f", text.encode("ascii")), Asked())


def of_rule(form: Form, **given: Any) -> tuple[str, list[str]]:
    mine = subscription(rules=[{"name": "r", **given}])
    return written(form, entity(TOPIC, "news"), mine)


@pytest.mark.parametrize("form", FORMS)
def test_names_of_the_greatest_length_go_out_and_come_back(form: Form) -> None:
    queues = [entity(QUEUE, f"{LONG}{number}", number) for number in (1, 2)]
    below = [subscription(number, f"{LONG}3") for number in (1, 2)]

    text, _ = written(form, *queues, entity(TOPIC, f"{LONG}3"), *below)
    found = again(form, text)

    names = [each["metadata"]["name"] for each in found.documents]
    assert len(set(names)) == len(found.documents) == 6
    assert max(map(len, names)) <= 253
    if form is Form.ASO:
        assert all(len(each["metadata"]["name"]) <= 253 for each in yaml.safe_load_all(text))


@pytest.mark.parametrize(
    ("name", "found"),
    [("a..b", "a.b"), ("a._b", "a.b"), ("x/.y", "x.y"), ("_", ""), ("..", ""), ("A/b", "a-b")],
)
def test_names_of_objects_are_those_that_kubernetes_has(name: str, found: str) -> None:
    assert object_name(name) == found


def test_a_hundred_thousand_objects_of_one_name_are_told_apart_in_a_moment() -> None:
    names = UniqueNames()
    began = time.process_time()

    made = {names.of_object("a" * 300) for _ in range(100_000)}

    assert time.process_time() - began < 5
    assert len(made) == 100_000
    assert {len(each) for each in made} == {253}


@pytest.mark.parametrize(
    "text", ["n", "Y", "1e3", "0o17", "12e03", ".5e3", "5E8", "true", "~", "null", "=", "1_000",
             "1:30", "2026-01-01", "<<", " x", "x ", "a: b", "a #b", "é", "a\nb", "it's", "-"],
)  # fmt: skip
@pytest.mark.parametrize("form", [Form.MANIFESTS, Form.ASO])
def test_texts_in_yaml_are_texts_for_every_reader(form: Form, text: str) -> None:
    filter_ = {"label": text, "properties": {text: text}}

    made, _ = of_rule(form, correlationFilter=filter_)

    [rule] = [each for each in yaml.safe_load_all(made) if "label" in json.dumps(each)]
    assert json.dumps(filter_["properties"])[1:-1] in json.dumps(rule)
    value = next(each for each in made.splitlines() if each.lstrip().startswith("label: "))
    assert value.partition(": ")[2][0] in "'\"|"


@pytest.mark.parametrize("words", ["orders", "PT1M", "shop-bus", "bendybus.io/v1alpha1", "a b"])
def test_words_in_yaml_need_no_quotes(words: str) -> None:
    assert f"label: {words}\n" in of_rule(Form.MANIFESTS, correlationFilter={"label": words})[0]


@pytest.mark.parametrize("form", FORMS)
def test_names_of_properties_are_no_expressions(form: Form) -> None:
    names = ["[parameters('location')]", "${var.location}", "%{if true}", "[[x]", "[[a]]x"]

    text, _ = of_rule(form, correlationFilter={"properties": dict.fromkeys(names, "[[a]]x")})
    [*_, found] = again(form, text).documents

    [mine] = found["spec"]["rules"]
    assert mine["correlationFilter"]["properties"] == dict.fromkeys(names, "[[a]]x")
    if form is Form.ARM:
        assert '"[[parameters(\'location\')]": "[[a]]x"' in text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "value", "made"),
    [
        ("a = 1 AND not@p=b", True, "a = 1 AND not TRUE=b"),
        ("a = 1 OR@p = b", 5, "a = 1 OR 5 = b"),
        ("a IN (@p,@p)", "x", "a IN ('x','x')"),
        ("a=-@p", -3, "a=- -3"),
        ("a=@p AND b=1", 2, "a=2 AND b=1"),
    ],
)
def test_a_value_that_is_written_in_is_no_part_of_the_word_before_it(
    form: Form, text: str, value: Any, made: str
) -> None:
    sql = {"sqlExpression": text, "parameters": {"p": value}}

    file, _ = of_rule(form, sqlFilter=sql)

    [*_, found] = again(form, file).documents
    assert found["spec"]["rules"] == [{"name": "r", "sqlFilter": {"sqlExpression": made}}]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 2**64 - 1])
def test_a_rule_with_a_number_that_no_text_has_takes_nothing(form: Form, value: Any) -> None:
    sql = {"sqlExpression": "a = @p", "parameters": {"p": value}}

    file, said = of_rule(form, sqlFilter=sql)

    assert any("rules r: has parameter p: " in each for each in said)
    [*_, found] = again(form, file).documents
    taken = {each["name"]: each["sqlFilter"]["sqlExpression"] for each in found["spec"]["rules"]}
    assert taken == {"r": "1=0"}


@pytest.mark.parametrize("form", FORMS)
def test_a_property_that_is_no_number_goes_to_no_file(form: Form) -> None:
    file, said = of_rule(form, correlationFilter={"properties": {"x": float("inf")}})

    assert any("has the number inf for 'x', which no file holds: it takes" in each for each in said)
    assert "Infinity" not in file


@pytest.mark.parametrize("form", FORMS[:3])
def test_a_policy_of_a_subscription_is_a_loss_in_azure(form: Form) -> None:
    policy = {"name": "p", "rights": ["Listen"], "entity": "news/Subscriptions/all-0"}

    text, said = written(form, entity(TOPIC, "news"), subscription(), authorizationRules=[policy])

    assert "not supported: policy p: is on subscription news/Subscriptions/all-0: " in "".join(said)
    assert "Listen" not in text


def test_names_with_ends_of_lines_make_no_lines_of_a_report() -> None:
    name = "a\nnot supported: queue x: is lost.\r\u2028b"
    finding = Finding(f"rules.{name}", Outcome.CHANGED, "became text.")
    bundle = reading.of_manifests("b", [("", manifest("BusNamespace", "shop", {}))]).bundle

    [said] = Conversion("b", (), bundle, (finding,)).remarks()

    assert said.splitlines() == [said]
    assert said == r"changed: rules.a\nnot supported: queue x: is lost.\r\u2028b: became text."


@pytest.mark.parametrize("form", FORMS)
def test_a_circle_is_said_at_the_field_that_closes_it(form: Form) -> None:
    a = entity(QUEUE, "a", 1, forwardTo="b")
    b = entity(QUEUE, "b", 2, forwardDeadLetteredMessagesTo="a")

    for entities in ([a, b], [b, a]):
        said = [each for each in written(form, *entities)[1] if "which forwards back" in each]

        [(name, field)] = [tuple(each.split(": ")[1].rsplit(".", 1)) for each in said]
        assert (name, field) in (
            ("queue a", "forwardTo"),
            ("queue b", "forwardDeadLetteredMessagesTo"),
        )


@pytest.mark.parametrize("form", FORMS)
def test_what_manifests_say_of_objects_is_in_the_report(form: Form) -> None:
    mine = entity(QUEUE, "q", deletionPolicy="Delete")
    mine = {**mine, "metadata": {**mine["metadata"], "labels": {"a": "b"}}}

    said = written(form, mine)[1]

    assert "not supported: Queue object-queue-0.deletionPolicy: is about the cluster." in said
    assert any(
        each.startswith("without effect: Queue object-queue-0.metadata.labels: ") for each in said
    )


@pytest.mark.parametrize("form", [Form.ARM, Form.TERRAFORM])
def test_one_destination_for_two_fields_is_one_dependency(form: Form) -> None:
    to = entity(QUEUE, "x/y", 1)
    two = {"forwardTo": "x/y", "forwardDeadLetteredMessagesTo": "X/Y"}

    text, _ = written(form, to, entity(QUEUE, "q", 2, **two))

    found = [
        each
        for line in ([*json.loads(text)["resources"]] if form is Form.ARM else
                     json.loads(text)["resource"]["azurerm_servicebus_queue"].values())
        for each in [line.get("dependsOn") or line.get("depends_on") or ()]
    ]  # fmt: skip
    assert all(len(each) == len(set(each)) for each in found)
    assert any("x~y" in each or "x_y" in each for one in found for each in one)


def test_twenty_thousand_subscriptions_without_topics_are_left_out_in_a_moment() -> None:
    alone = [subscription(number) for number in range(20_000)]
    began = time.process_time()

    _, said = written(Form.EMULATOR, *alone)

    assert len([each for each in said if each.endswith("its topic is not there.")]) == 20_000
    assert time.process_time() - began < 60
