"""`convert`: the Config.json of the official emulator as manifests, with a report."""

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml

from bendybus.cli.bus import emulator_configs
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing


class Report(StrEnum):
    """The form of the report, on stderr."""

    TEXT = "text"
    JSON = "json"


def convert(
    file: Annotated[Path, typer.Argument(help="Config.json of the emulator, or - for stdin.")],
    premium: Annotated[
        int, typer.Option(metavar="N", help="Number of partitions: 1, 2, 4, 8 or 16.")
    ] = emulator_configs.PARTITIONS_DEFAULT,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the manifests there; not on stdout.")
    ] = None,
    report: Annotated[
        Report, typer.Option(help="On stderr: text, or json: one line for each field.")
    ] = Report.TEXT,
) -> None:
    """Convert a Config.json of the official emulator to manifests."""
    emulator_configs.check_premium(premium)
    if to is not None and to.exists() and file.exists() and to.samefile(file):
        raise UsageError(f"--to: {to} is the file to convert. Choose another.")
    conversion = emulator_configs.read(file, partition_count=premium)
    # Escaped: no character of a file reaches the terminal.
    text = yaml.safe_dump_all(
        # Through JSON, since values of an enumeration are texts of a class of their own.
        [json.loads(json.dumps(each)) for each in conversion.documents],
        sort_keys=False,
        explicit_start=True,
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
