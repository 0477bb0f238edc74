"""`convert`: files of other programs as manifests, with a report."""

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml

from bendybus.cli.bus import emulator_configs, imports
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing
from bendybus.crds.forms import Form
from bendybus.crds.imports.asked import Asked


class Report(StrEnum):
    """The form of the report, on stderr."""

    TEXT = "text"
    JSON = "json"


def convert(
    file: Annotated[
        Path,
        typer.Argument(
            help="Config.json of the emulator, a template of Azure Resource Manager in JSON, as "
            "Bicep compiles it, or what az servicebus prints; - for stdin."
        ),
    ],
    premium: Annotated[
        int | None,
        typer.Option(metavar="N", help="Partitions for a Config.json: 1, 2, 4, 8 or 16."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A value that the template asks for; repeat it."
        ),
    ] = None,
    parameters: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Parameters of the template.")
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="NAME", help="Of several namespaces in the file: this one.")
    ] = "",
    form: Annotated[
        Form | None, typer.Option(help="The form of the file; recognised by default.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if anything was changed or is not supported.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the manifests there; not on stdout.")
    ] = None,
    report: Annotated[
        Report, typer.Option(help="On stderr: text, or json: one line for each field.")
    ] = Report.TEXT,
) -> None:
    """Convert files of other programs to manifests: Config.json, templates of Azure, az."""
    if premium is not None:
        emulator_configs.check_premium(premium)
    if to is not None and to.exists() and file.exists() and to.samefile(file):
        raise UsageError(f"--to: {to} is the file to convert. Choose another.")
    asked = Asked(imports.values(settings or (), parameters), only)
    conversion = imports.read(file, form, asked, partition_count=premium)
    # Escaped: no character of a file reaches the terminal.
    text = yaml.safe_dump_all(
        # Through JSON, since values of an enumeration are texts of a class of their own.
        [json.loads(json.dumps(each)) for each in conversion.documents],
        sort_keys=False,
        explicit_start=True,
    )
    if strict and (left := conversion.differences()):
        emulator_configs.say_report(conversion)
        raise CliError(
            f"--strict: {len(left)} fields were changed or are not supported. Nothing is written."
        )
    if to is None:
        print(text, end="", flush=True)
    else:
        to.write_text(text, encoding="utf-8")
    if report is Report.JSON:
        for finding in conversion.findings:
            printing.note(printing.json_text(asdict(finding)))
    else:
        emulator_configs.say_report(conversion)
