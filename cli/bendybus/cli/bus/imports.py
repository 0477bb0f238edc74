"""Files of other programs, as `convert` reads them: which form a file has, and values for it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bendybus.cli.bus import emulator_configs
from bendybus.cli.bus.manifests import STDIN
from bendybus.cli.errors import UsageError
from bendybus.crds.forms import Form
from bendybus.crds.imports.asked import Asked

if TYPE_CHECKING:
    from bendybus.crds.conversion import Conversion

# Azure takes templates of 4 MB.
_BYTES_MAX: Final = 16 * 1024 * 1024


def read(
    path: Path, form: Form | None, asked: Asked, *, partition_count: int | None = None
) -> "Conversion":
    """Return the manifests of a file. Raises CliError, or ManifestError with every problem.

    `form`: None recognises it. `partition_count`: of the bus of a Config.json, which has no word
    for that.
    """
    from bendybus.crds.imports import reading

    source, data = _input(path)
    found = reading.documents(source, data)
    form = form or reading.recognised(source, found)
    if form is not Form.EMULATOR and partition_count is not None:
        raise UsageError(
            "--premium is for a Config.json: this file says premiumMessagingPartitions itself."
        )
    if asked.given and form not in (Form.ARM, Form.TERRAFORM):
        raise UsageError("--set and --parameters are for templates, and this file is none.")
    if asked.only and form in (Form.EMULATOR, Form.MANIFESTS):
        raise UsageError("--only: this file has one namespace. Leave it out.")
    count = emulator_configs.PARTITIONS_DEFAULT if partition_count is None else partition_count
    return reading.convert(source, form, found, asked, partition_count=count)


def values(pairs: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Return the values of `--parameters` and `--set`, which goes before it. Raises CliError."""
    found: dict[str, Any] = {}
    if file is not None:
        from bendybus.crds import json_text
        from bendybus.crds.imports import arm_template

        source, data = _input(file)
        found |= arm_template.parameter_values(source, json_text.parse(source, data))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--set: must be NAME=VALUE (got {pair!r:.100}).")
        found[name] = value
    return found


def _input(path: Path) -> tuple[str, bytes]:
    if path == STDIN:
        source, data = "stdin", sys.stdin.buffer.read(_BYTES_MAX + 1)
    else:
        source, data = str(path), emulator_configs.content(path, "the file to convert")
    if len(data) > _BYTES_MAX:
        raise UsageError(f"{source}: has more than {_BYTES_MAX >> 20} MB. Split the file.")
    return source, data
