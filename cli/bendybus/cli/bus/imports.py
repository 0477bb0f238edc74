"""Files of other programs, as `convert` reads them: which form a file has, and values for it."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bendybus.cli.bus import emulator_configs
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.bus.manifests import STDIN
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing
from bendybus.crds.bundle import NamespaceSettings
from bendybus.crds.forms import Form
from bendybus.crds.imports.asked import Asked
from bendybus.domain.errors import BusError

if TYPE_CHECKING:
    from bendybus.crds.bundle import Bundle
    from bendybus.crds.conversion import Conversion, Document

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A value that the file asks for by name; repeat it."
    ),
]
Parameters = Annotated[Path | None, typer.Option(metavar="FILE", help="Parameters of a template.")]
Only = Annotated[
    str, typer.Option(metavar="NAME", help="The namespace to take, where a file has several.")
]
# Azure takes templates of 4 MB.
_BYTES_MAX: Final = 16 * 1024 * 1024


def read(
    path: Path,
    form: Form | None,
    asked: Asked,
    *,
    instead: str = "",
) -> "Conversion":
    """Return the manifests of a file. Raises CliError, or ManifestError with every problem.

    `form`: None recognises it. `instead`: the option for manifests, where they are no file of
    another program.
    """
    from bendybus.crds.imports import reading

    source, data = _input(path)
    found = reading.documents(source, data)
    form = form or reading.recognised(source, found)
    if form is Form.MANIFESTS and instead:
        raise UsageError(f"{source} has manifests: give it with {instead}.")
    if form is Form.MANIFESTS and asked.premium is not None:
        raise UsageError("--premium: manifests say premiumMessagingPartitions. Leave it out.")
    if asked.needed and form not in (Form.ARM, Form.TERRAFORM):
        names = ", ".join(asked.needed)
        raise UsageError(
            f"--set and --parameters are for templates, and this file is none (got {names:.200})."
        )
    if asked.only and form in (Form.EMULATOR, Form.MANIFESTS):
        raise UsageError("--only is for files of Azure and of Terraform. Leave it out.")
    return reading.convert(source, form, found, asked)


def for_running(path: Path, asked: Asked, running: NamespaceSettings) -> "Bundle":
    """Return the entities of a file for a bus that runs, and say the report on stderr.

    Whatever name the namespace has in the file, its entities are made on that bus: it has the
    partitions that the file asks for, or CliError is raised. Raises ManifestError, too.
    """
    from bendybus.crds import bundling

    mine = replace(asked, running=lambda: running, meant=True)
    found = read(path, None, mine, instead="bendybus apply -f")
    emulator_configs.say_report(found)
    say_policies(found)
    own = found.bundle.namespace.name
    if own != running.name:
        printing.note(f"{found.source}: what is in {own} is made on bus {running.name}.")
    # As manifests are applied: what clients made is not taken over, and rules are kept.
    bundle = replace(
        found.bundle,
        namespace=replace(found.bundle.namespace, name=running.name),
        default_rules=False,
        takes_over=False,
    )
    try:
        bundling.check_against(running, bundle)
    except BusError as error:
        raise CliError(error.message) from error
    return bundle


def for_cluster(path: Path, asked: Asked, choice: ClusterChoice) -> str:
    """Return the manifests of a file, as YAML, and say the report on stderr.

    A namespace of the file is made a bus. If a bus is chosen, or the file only names a namespace,
    the entities are for that bus, or for the only one there is. Raises CliError, or ManifestError
    with every problem.
    """
    from bendybus.cli.bus import exports
    from bendybus.crds.exports import writing

    known: list[NamespaceSettings] = []

    def running() -> NamespaceSettings:
        known.append(exports.settings_on_cluster(choice))
        return known[-1]

    asked = replace(asked, running=running, meant=bool(choice.bus))
    found = read(path, None, asked, instead="bendybus apply -f")
    emulator_configs.say_report(found)
    if choice.bus and not known:
        running()
    documents = _on(known[0], found) if known else found.documents
    return writing.text(Form.MANIFESTS, documents)


def _on(running: NamespaceSettings, found: "Conversion") -> "tuple[Document, ...]":
    """Return the entities of a file for a bus that has a manifest of its own. Raises CliError."""
    from bendybus.crds import bundling

    own = found.bundle.namespace.name
    try:
        bundling.check_against(
            running,
            replace(found.bundle, namespace=replace(found.bundle.namespace, name=running.name)),
        )
    except BusError as error:
        raise CliError(error.message) from error
    if own != running.name:
        printing.note(f"{found.source}: what is in {own} is made on bus {running.name}.")
    if _has_policies(found):
        printing.note(
            f"{found.source}: its policies are left out. Add them to the manifest of bus "
            f"{running.name}; bendybus convert prints them."
        )
    of_bus = {"namespaceRef": {"name": running.name}}
    return tuple(
        {**each, "spec": {**each["spec"], **of_bus}}
        for each in found.documents
        if each["kind"] != "BusNamespace"
    )


def _has_policies(found: "Conversion") -> bool:
    return any("authorizationRules" in each["spec"] for each in found.documents)


def say_policies(found: "Conversion") -> None:
    """Say on stderr that policies are not those of a bus on one machine, if a file has any."""
    if _has_policies(found):
        printing.note(
            f"{found.source}: its policies are left out: a bus on one machine takes every key, and "
            "on a cluster they are in the manifest of the bus; bendybus convert prints them."
        )


def values(pairs: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Return the values of `--parameters` and `--set`, which goes before it. Raises CliError."""
    found: dict[str, Any] = {}
    if file is not None:
        from bendybus.crds import json_text
        from bendybus.crds.imports import arm_template, unknown_files

        source, data = _input(file, "the file of parameters")
        unknown_files.check_name(source)
        found |= arm_template.parameter_values(source, json_text.parse(source, data))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--set: must be NAME=VALUE (got {pair!r:.100}).")
        found[name] = value
    return found


def _input(path: Path, name: str = "the file to convert") -> tuple[str, bytes]:
    if path == STDIN:
        source, data = "stdin", sys.stdin.buffer.read(_BYTES_MAX + 1)
    else:
        source, data = (
            str(path),
            emulator_configs.content(path, name, most=_BYTES_MAX + 1),
        )
    if len(data) > _BYTES_MAX:
        raise UsageError(f"{source}: has more than {_BYTES_MAX >> 20} MB. Split the file.")
    return source, data
