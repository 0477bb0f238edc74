"""Files that are in no form that is read: what they are, and what to do instead. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.imports.aso import Document

_KNOWN: Final = (
    "is in no form that is known here: a template of Azure Resource Manager in JSON, what az "
    "servicebus or terraform show -json prints, manifests of Azure Service Operator, or a "
    "Config.json. If it is one of them, say which with --form."
)
_OF_SUFFIXES: Final = {
    ".bicep": "is Bicep: compile it with bicep build, and convert the JSON.",
    ".bicepparam": "is Bicep: compile it with bicep build-params, and give the JSON with "
    "--parameters, beside the template.",
    ".tf": "is in Terraform's language: convert what terraform show -json prints of a plan.",
    ".tfvars": "has values of variables: convert what terraform show -json prints of a plan.",
    ".tfplan": "is a plan: convert what terraform show -json prints of it.",
}
_PARAMETERS: Final = "has parameters of a template: give it with --parameters, beside the template."
_POWERSHELL: Final = (
    "is what PowerShell prints: convert what az servicebus prints, such as az servicebus queue "
    "list."
)


def check_name(source: str) -> None:
    """Raise ManifestError if a file is, by its name, in a language that is not read."""
    for suffix, sentence in _OF_SUFFIXES.items():
        if source.lower().endswith(suffix):
            raise ManifestError(Problem(source, "", "", sentence))


def error(source: str, found: Sequence[Document]) -> ManifestError:
    """Return the error for the documents of a file, which are in no form that is known."""
    document = found[0][1] if found else None
    if isinstance(document, list) and document:
        document = document[0]
    sentence = _of(document) if isinstance(document, dict) else _KNOWN
    return ManifestError(Problem(source, "", "", sentence))


def _of(document: Mapping[str, Any]) -> str:
    schema, kind = str(document.get("$schema", "")).lower(), document.get("kind")
    if "deploymentparameters" in schema:
        return _PARAMETERS
    if isinstance(kind, str) and "apiVersion" in document:
        version = document["apiVersion"]
        return (
            f"is {kind!r:.60} of {version!r:.60}: only manifests of Bendybus and of Azure Service "
            "Operator are read."
        )
    if "Id" in document and ("ResourceGroupName" in document or "Name" in document):
        return _POWERSHELL
    return _KNOWN
