"""Files that are in no form that is read get a sentence that says what to do with them."""

import json
from typing import Any

import pytest

from bendybus.crds.errors import ManifestError
from bendybus.crds.imports import reading

pytestmark = pytest.mark.requirement("R664")
KNOWN = "is in no form that is known here: a template of Azure Resource Manager in JSON"
PARAMETERS = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"
OF_POWERSHELL = {"Id": "/subscriptions/s", "ResourceGroupName": "g", "MaxDeliveryCount": 10}


def refused(source: str, data: bytes) -> str:
    """Return the sentence for a file."""
    with pytest.raises(ManifestError) as error:
        reading.recognised(source, reading.documents(source, data))
    [problem] = error.value.problems
    assert (problem.source, problem.field) == (source, "")
    return problem.sentence


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": 1}, f"{KNOWN}, what az "),
        ({}, KNOWN),
        ([1], KNOWN),
        ("text", KNOWN),
        (7, KNOWN),
        ({"Namespaces": []}, "If it is one of them, say which with --form."),
        ({"$schema": PARAMETERS, "parameters": {}}, "give it with --parameters, beside the"),
        ([OF_POWERSHELL], "is what PowerShell prints: convert what az servicebus prints"),
        (OF_POWERSHELL, "is what PowerShell prints"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "is 'ConfigMap' of 'v1': only manifests of"),
        ({"apiVersion": "v1", "kind": 3}, KNOWN),
    ],
)
def test_content_that_is_not_read_is_named(document: Any, words: str) -> None:
    assert words in refused("file.json", json.dumps(document).encode())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("main.bicep", "is Bicep: compile it with bicep build, and convert the JSON."),
        ("MAIN.BICEP", "is Bicep"),
        ("main.bicepparam", "compile it with bicep build-params, and give the JSON with --param"),
        ("main.tf", "is in Terraform's language: convert what terraform show -json prints of a"),
        ("my.tfvars", "has values of variables: convert what terraform show -json prints of a"),
        ("out.tfplan", "is a plan: convert what terraform show -json prints of it."),
    ],
)
def test_languages_that_are_not_read_are_named_by_their_files(name: str, words: str) -> None:
    assert words in refused(name, b"resource x { }")


def test_what_is_no_text_gets_one_line() -> None:
    with pytest.raises(ManifestError) as error:
        reading.documents("file", b"\x00\x01")

    [problem] = error.value.problems
    assert problem.sentence.startswith("is not YAML: unacceptable character #x0000: ")
    assert "\n" not in problem.sentence
