"""A file of another program → manifests: its form is recognised, and its reader called. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from bendybus.crds import bundling, emulator_config, json_text, loading, yaml_text
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.forms import Form
from bendybus.crds.imports import arm, arm_template, aso, az, terraform, unknown_files
from bendybus.crds.imports.asked import Asked
from bendybus.crds.imports.aso import Document
from bendybus.crds.loading import Loaded
from bendybus.crds.manifest import API_VERSION

# YAML is read a hundred times slower than JSON.
YAML_BYTES_MAX: Final = 4 * 1024 * 1024


def documents(source: str, data: bytes) -> list[Document]:
    """Return the documents of a file in JSON or YAML, with their places. Raises ManifestError."""
    unknown_files.check_name(source)
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start in (b"{", b"[", b""):
        return [("", json_text.parse(source, data))]
    if len(data) > YAML_BYTES_MAX:
        sentence = f"has more than {YAML_BYTES_MAX >> 20} MB of YAML. Split it."
        raise ManifestError(Problem(source, "", "", sentence))
    return [(f"document {at}", each) for at, each in yaml_text.parse(source, data)]


def recognised(source: str, found: Sequence[Document]) -> Form:
    """Return the form of a file. Raises ManifestError if it has none that is known."""
    alone = found[0][1] if len(found) == 1 else None
    if any(isinstance(each, dict) and each.get("apiVersion") == API_VERSION for _, each in found):
        return Form.MANIFESTS
    if aso.is_one(found):
        return Form.ASO
    if arm_template.is_template(alone):
        return Form.ARM
    if terraform.is_one(alone):
        return Form.TERRAFORM
    # An empty list is what az prints where there is nothing.
    if alone == [] or az.is_printed(alone):
        return Form.AZ
    if emulator_config.is_one(alone):
        return Form.EMULATOR
    raise unknown_files.error(source, found)


def convert(source: str, form: Form, found: Sequence[Document], asked: Asked) -> Conversion:
    """Return the manifests of a file. Raises ManifestError with every problem."""
    try:
        return _converted(source, form, found, asked)
    except RecursionError as error:
        raise ManifestError(Problem(source, "", "", "is nested too deeply.")) from error


def _converted(source: str, form: Form, found: Sequence[Document], asked: Asked) -> Conversion:
    if form is Form.MANIFESTS:
        return of_manifests(source, found)
    if form is Form.ASO:
        return arm.of_resources(source, form, asked, lambda reader: aso.read(reader, found))
    if len(found) != 1:
        sentence = f"has {len(found)} documents, and a file of this form has one."
        raise ManifestError(Problem(source, "", "", sentence))
    document: Any = found[0][1]
    if form is Form.EMULATOR:
        return emulator_config.convert(source, document, asked)
    if form is Form.AZ:
        return arm.of_resources(source, form, asked, lambda reader: az.read(reader, document))
    if not isinstance(document, dict):
        raise unknown_files.error(source, found)
    if form is Form.ARM:
        return arm.convert(source, document, asked)
    return arm.of_resources(
        source, form, asked, lambda reader: terraform.read(reader, document, asked)
    )


def of_manifests(source: str, found: Sequence[Document]) -> Conversion:
    """Return the bus of manifests, which are as they are. Raises ManifestError."""
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for place, each in found:
        result = loading.parse(f"{source}, {place}" if place else source, each)
        if isinstance(result, Loaded):
            loaded.append(result)
        else:
            problems.extend(result)
    if problems:
        raise ManifestError(*problems)
    documents = tuple(each for _, each in found)
    return Conversion(source, documents, bundling.bundle(loaded), ())
