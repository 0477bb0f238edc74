"""`convert`: files of other programs as manifests, and a bus in the forms of other programs."""

import json
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bendybus.cli.bus import emulator_configs, exports, imports
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output
from bendybus.crds.forms import Form
from bendybus.crds.imports.asked import Asked

if TYPE_CHECKING:
    from bendybus.crds.conversion import Conversion


class As(StrEnum):
    """A form that is written."""

    MANIFESTS = "manifests"
    ARM = "arm"
    ASO = "aso"
    TERRAFORM = "terraform"
    EMULATOR = "emulator"


# Values that files of Azure Service Operator need, and that nothing else asks for.
_OF_OPERATOR = ("location", "resourceGroup")


class Report(StrEnum):
    """The form of the report, on stderr."""

    TEXT = "text"
    JSON = "json"


def convert(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Template of Azure Resource Manager (JSON, as Bicep compiles it), what terraform "
            "show -json or az servicebus prints, manifests of Azure Service Operator, Config.json "
            "of the emulator, or manifests; - for stdin; none: the bus that runs."
        ),
    ] = None,
    as_: Annotated[
        As,
        typer.Option("--as", help="The form to write."),
    ] = As.MANIFESTS,
    premium: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="A Premium bus of 1, 2, 4, 8 or 16 partitions, where the file does not say.",
        ),
    ] = None,
    settings: imports.Settings = None,
    parameters: imports.Parameters = None,
    only: imports.Only = "",
    form: Annotated[
        Form | None, typer.Option(help="The form of the file; recognised by default.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if anything was changed or is not supported.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there; not on stdout.")
    ] = None,
    report: Annotated[
        Report, typer.Option(help="On stderr: text, or json: one line for each field.")
    ] = Report.TEXT,
    output: Annotated[
        Output,
        typer.Option(
            "--output", "-o", help="json or yaml: the documents with the report, as one object."
        ),
    ] = Output.TABLE,
) -> None:
    """Convert files of other programs to manifests, and a bus to their forms."""
    if premium is not None:
        emulator_configs.check_premium(premium)
    if file is not None and to is not None and to.exists() and file.exists() and to.samefile(file):
        raise UsageError(f"--to: {to} is the file to convert. Choose another.")
    given = imports.values(settings or (), parameters)
    wanted = Form(as_.value)
    for_writing = {}
    if wanted is Form.ASO:
        for_writing = {name: given[name] for name in _OF_OPERATOR if name in given}
    if file is not None:
        # A template may have parameters of the same names.
        asked = Asked(given, only, premium=premium, spare=frozenset(for_writing))
        found = imports.read(file, form, asked)
    elif (left := given.keys() - for_writing) or only or premium is not None or form is not None:
        option = "--set" if left else "--only" if only else "--form" if form else "--premium"
        raise UsageError(f"{option} is for a file to convert. Name one, or leave it out.")
    else:
        found = exports.running(context.obj)
    _say(_written(found, wanted, for_writing), wanted, strict, to, report, output)


def _written(found: "Conversion", wanted: Form, given: dict[str, Any]) -> "Conversion":
    """Return the documents of the form, with what they lack in the report, too."""
    from bendybus.crds import policy_names
    from bendybus.crds.exports import writing

    made = writing.write(found.source, found.documents, wanted, given, found.policies)
    # Other forms have the own names of policies.
    renamed = [policy_names.WHY.format(name=name) for name in found.policies]
    in_manifests = wanted is Form.MANIFESTS
    kept = [each for each in found.findings if in_manifests or each.detail not in renamed]
    return replace(found, documents=made.documents, findings=(*kept, *made.findings))


def _say(
    found: "Conversion", form: Form, strict: bool, to: Path | None, report: Report, output: Output
) -> None:
    from bendybus.crds.exports import writing
    from bendybus.crds.imports import reading

    left = len(found.differences()) if strict else 0
    text = "" if left else writing.text(form, found.documents)
    if form in (Form.MANIFESTS, Form.ASO) and len(text) > reading.YAML_BYTES_MAX:
        printing.note(
            f"{found.source}: {len(text) >> 20} MB of YAML: bendybus convert reads "
            f"{reading.YAML_BYTES_MAX >> 20} MB at most. bendybus up and apply read all of it."
        )
    if to is not None and not left:
        to.write_text(text, encoding="utf-8")
    if output.structured:
        facts = {"source": found.source, "form": form.value}
        hidden = left or to is not None
        made = [] if hidden else [json.loads(json.dumps(each)) for each in found.documents]
        findings = [asdict(each) for each in found.findings]
        printing.structured({**facts, "documents": made, "report": findings}, output)
    elif to is None:
        print(text, end="", flush=True)
    if report is Report.JSON:
        for finding in found.findings:
            printing.note(printing.json_text(asdict(finding)))
    elif not output.structured:
        emulator_configs.say_report(found)
    if left:
        fields = "1 field was" if left == 1 else f"{left} fields were"
        raise CliError(
            f"--strict: {fields} changed or {'is' if left == 1 else 'are'} not supported. "
            "Nothing is written."
        )
