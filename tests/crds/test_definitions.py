"""The CRDs are structural, say what the models say, and are the ones in the repository."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from bendybus.crds import __main__ as command
from bendybus.crds import definitions, entity_manifest, loading
from bendybus.crds.definitions import Definition
from bendybus.crds.entity_manifest import SPECS
from bendybus.crds.namespace_manifest import BusNamespaceSpec
from bendybus.domain import entity, entity_settings
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument

Schema = dict[str, Any]
ENTITIES = pytest.mark.parametrize("kind", EntityKind)
EACH = pytest.mark.parametrize("definition", definitions.ALL, ids=lambda each: each.kind)


def _schema(definition: Definition) -> Schema:
    version = definitions.crd(definition)["spec"]["versions"][0]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def _walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, value in schema.get("properties", {}).items():
        yield from _walk(value, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _walk(schema[key], f"{path}[]")


@EACH
def test_the_schema_is_structural(definition: Definition) -> None:
    forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "title", "const", "not"}

    for path, node in _walk(_schema(definition)):
        assert not forbidden & node.keys(), path
        assert node.get("additionalProperties") is not False, path
        untyped = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
        assert "type" in node or any(node.get(each) for each in untyped), path
        assert node.get("default", "") is not None, path


@EACH
def test_every_field_is_described(definition: Definition) -> None:
    for path, node in _walk(_schema(definition)):
        if path.startswith((".spec", ".status")) and not path.endswith("[]"):
            assert node.get("description", "").endswith("."), path


@EACH
def test_patterns_need_nothing_that_kubernetes_lacks(definition: Definition) -> None:
    for path, node in _walk(_schema(definition)):
        if "pattern" in node:
            assert "(?" not in node["pattern"], path
            re.compile(node["pattern"])


@EACH
def test_only_optional_fields_are_compared_with_has(definition: Definition) -> None:
    """A transition rule that reads a field without value is an error in the cluster."""
    spec = _schema(definition)["properties"]["spec"]

    for rule in definition.rules:
        for path in re.findall(r"(?<!has\()\bself((?:\.\w+)+) == oldSelf", rule["rule"]):
            node = spec
            for name in path.strip(".").split("."):
                required = name in node.get("required", ())
                node = node["properties"][name.strip("_")]
            assert required or "default" in node or f"has(self{path})" in rule["rule"], rule


def test_the_immutable_fields_are_those_of_the_design() -> None:
    fixed = {
        definition.kind: {
            rule["message"].split(" cannot change")[0]
            for rule in definition.rules
            if "oldSelf" in rule["rule"]
        }
        for definition in definitions.ALL
    }

    assert fixed == {
        "BusNamespace": {"sku.tier", "premiumMessagingPartitions", "storage.storageClassName"},
        "Queue": {
            "namespaceRef.name",
            "namespaceRef.namespace",
            "entityName",
            "enablePartitioning",
            "requiresDuplicateDetection",
            "requiresSession",
        },
        "Topic": {
            "namespaceRef.name",
            "namespaceRef.namespace",
            "entityName",
            "enablePartitioning",
            "requiresDuplicateDetection",
        },
        "Subscription": {
            "namespaceRef.name",
            "namespaceRef.namespace",
            "topicName",
            "entityName",
            "requiresSession",
        },
    }
    for kind, settings in entity_settings.BY_KIND.items():
        immutable = {each.manifest_name for each in settings if each.fixed}
        assert immutable <= fixed[loading.ENTITIES[kind].KIND]


@ENTITIES
def test_every_field_of_the_domain_has_a_field_in_the_manifest(kind: EntityKind) -> None:
    spec = SPECS[kind]
    aliases = {field.alias for field in spec.model_fields.values()}

    declared = {each.manifest_name for each in entity_settings.BY_KIND[kind] if each.is_declared}
    assert declared <= aliases
    # Keys are no text for manifests.
    assert not aliases & {"authorizationRules"}


@ENTITIES
def test_the_defaults_of_the_manifest_are_those_of_the_domain(kind: EntityKind) -> None:
    spec = {"topicName": "t"} if kind is EntityKind.SUBSCRIPTION else {}
    manifest = loading.ENTITIES[kind].model_validate({"metadata": {"name": "q"}, "spec": spec})

    assert entity_manifest.to_description(manifest) == entity_settings.TYPES[kind]()


def test_a_manifest_without_spec_is_refused_where_a_field_is_required() -> None:
    required = {each.kind: _schema(each).get("required") for each in definitions.ALL}

    assert required == {
        "BusNamespace": None,
        "Queue": None,
        "Topic": None,
        "Subscription": ["spec"],
    }


def test_the_defaults_in_the_schema_are_those_of_the_model() -> None:
    for definition, model in (
        (definitions.QUEUE, SPECS[EntityKind.QUEUE]),
        (definitions.TOPIC, SPECS[EntityKind.TOPIC]),
        (definitions.BUS_NAMESPACE, BusNamespaceSpec),
    ):
        spec = _schema(definition)["properties"]["spec"]

        assert model.model_validate(spec["default"]) == model()
        for name, node in spec["properties"].items():
            if "default" in node:
                assert model.model_validate({name: node["default"]}) == model(), name


def test_the_default_of_an_object_holds_those_of_its_fields() -> None:
    """The API server evaluates rules on a default as it is written, before it fills anything in."""
    spec = _schema(definitions.BUS_NAMESPACE)["properties"]["spec"]

    assert spec["default"]["sku"] == {"tier": "Standard"}
    assert spec["default"]["storage"] == {"size": "10Gi"}
    assert "autoscaling" not in spec["default"]["frontend"], "what is optional stays away"


@pytest.mark.parametrize(
    "name", ["a", "orders", "a/b", "a.b-c_d", "x_", "-a", "a-", "", "a b", "ä", "a//b"]
)
def test_the_pattern_of_names_refuses_only_what_the_domain_refuses(name: str) -> None:
    fits = re.fullmatch(entity_manifest.ENTITY_NAME_PATTERN, name) is not None
    try:
        entity.check_name(name)
        allowed = True
    except InvalidArgument:
        allowed = False

    assert fits or not allowed
    assert fits == allowed or "//" in name


def test_the_files_in_the_repository_are_what_the_models_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_named(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = command.main(["--check", "--directory", str(tmp_path)])

    assert code == 1
    shown = capsys.readouterr().err
    assert "queues.yaml" in shown
    assert "not what the models say" in shown


@pytest.mark.requirement("R266")
@pytest.mark.parametrize("definition", definitions.ALL, ids=lambda each: each.kind)
def test_a_column_of_kubectl_shows_a_field_that_there_is(definition: Definition) -> None:
    [version] = definitions.crd(definition)["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        found = version["schema"]["openAPIV3Schema"]
        if column["jsonPath"].startswith(".metadata"):
            continue
        for name in column["jsonPath"].partition("[")[0].strip(".").split("."):
            assert name in found["properties"], (column, sorted(found["properties"]))
            found = found["properties"][name]
            if "properties" not in found:
                break


@pytest.mark.requirement("R266")
def test_kubectl_shows_what_an_entity_may_hold_and_where_it_forwards_to() -> None:
    wide = {
        definition.kind: [c["name"] for c in definition.columns if c.get("priority")]
        for definition in definitions.ALL
    }

    assert wide["Queue"] == ["Size", "MaxSizeMB", "Scheduled", "TransferDead", "ForwardTo"]
    assert wide["Topic"] == ["Scheduled", "Size", "MaxSizeMB"]
    assert wide["Subscription"] == ["Size", "TransferDead", "ForwardTo", "Partitions"]
