"""Manifests → text in a form, with a report on what it cannot hold. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import forms, yaml_text
from bendybus.crds.conversion import Document, Finding
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.exports import arm, aso, bus, emulator, terraform
from bendybus.crds.exports.writer import Writer
from bendybus.crds.forms import Form

# Values that manifests of Azure Service Operator need and that a bus does not have.
LOCATION: Final = "location"
GROUP: Final = "resourceGroup"


@dataclass(frozen=True, slots=True)
class Written:
    """A file in a form: its documents, and what became of the bus in it."""

    documents: tuple[Document, ...]
    findings: tuple[Finding, ...] = ()


def text(form: Form, documents: Sequence[Document]) -> str:
    """Return documents as a file: YAML of manifests, JSON of the other forms.

    It is of ASCII: no character of a bus reaches the terminal.
    """
    if form in (Form.MANIFESTS, Form.ASO):
        # Through JSON, since values of an enumeration are texts of a class of their own.
        plain = [json.loads(json.dumps(each)) for each in documents]
        return yaml_text.dump(plain)
    return json.dumps(documents[0], indent=2, allow_nan=False) + "\n"


def write(
    source: str,
    documents: Sequence[Document],
    form: Form,
    given: Mapping[str, Any],
    policies: Mapping[str, str] = MappingProxyType({}),
) -> Written:
    """Return manifests in another form. Raises ManifestError.

    `given`: values that the form needs and a bus does not have, by name. `policies`: names of
    policies that are called otherwise in manifests, by their names there.
    """
    if form is Form.MANIFESTS:
        return Written(tuple(documents))
    found = bus.of_documents(source, documents, policies)
    writer = Writer(form, found)
    if form is Form.ASO:
        return _of_operator(source, found, writer, given)
    made = {
        Form.ARM: arm.template,
        Form.TERRAFORM: terraform.configuration,
        Form.EMULATOR: emulator.configuration,
    }[form](found, writer)
    return Written((made,), tuple(writer.findings))


def _of_operator(source: str, found: bus.Bus, writer: Writer, given: Mapping[str, Any]) -> Written:
    missing = [each for each in (LOCATION, GROUP) if not given.get(each)]
    if missing:
        title = forms.TITLES[Form.ASO]
        raise ManifestError(
            *(
                Problem(source, "", each, f"is needed by {title}: give it with --set {each}=NAME.")
                for each in missing
            )
        )
    made = aso.manifests(found, writer, str(given[LOCATION]), str(given[GROUP]))
    return Written(tuple(made), tuple(writer.findings))
