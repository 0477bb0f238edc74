"""Manifests on the command line: files, folders, and `-` for standard input.

The models of manifests are imported where manifests are read, and only there: pydantic takes
longer than most commands.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bendybus.cli.bus import name_values
from bendybus.cli.errors import CliError, UsageError
from bendybus.crds.bundle import KINDS, Bundle, NamespaceSettings
from bendybus.crds.errors import ManifestError, Problem
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import BusError

STDIN: Final = Path("-")


@contextmanager
def readable(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Give files that exist as long as the block: what stdin has is written into one."""
    if STDIN not in files:
        yield list(files)
        return
    if files.count(STDIN) > 1:
        raise UsageError("--file -: standard input can be read only once.")
    with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
        path = Path(folder) / "stdin.yaml"
        path.write_bytes(sys.stdin.buffer.read())
        try:
            yield [path if file == STDIN else file for file in files]
        except ManifestError as error:
            # The user named no such file.
            raise ManifestError(
                *(
                    replace(problem, source=problem.source.replace(str(path), "stdin", 1))
                    for problem in error.problems
                )
            ) from error


def load(files: Sequence[Path], *, running: NamespaceSettings | None = None) -> Bundle:
    """Return the one bus that manifests describe. Raises ManifestError."""
    from bendybus.crds import bundling, loading

    return bundling.bundle(loading.load(files), running=running)


def of_queues(names: Sequence[str]) -> Bundle:
    """Return a bus without manifests, with queues of these names. Raises ManifestError."""
    from bendybus.crds import bundling, loading

    found = [
        loading.parse(
            f"--queue {name}", _document({"namespaceRef": {"name": "default"}, "entityName": name})
        )
        for name in names
    ]
    for each in found:
        if not isinstance(each, loading.Loaded):
            raise ManifestError(*each)
    return bundling.bundle([each for each in found if isinstance(each, loading.Loaded)])


def load_for(running: NamespaceSettings, files: Sequence[Path]) -> Bundle:
    """Return manifests, checked against a running bus. Raises CliError."""
    from bendybus.crds import bundling

    bundle = load(files, running=running)
    try:
        bundling.check_against(running, bundle)
    except BusError as error:
        raise CliError(error.message) from error
    return bundle


def description(name: str, fields: Sequence[str], namespace: NamespaceSettings) -> QueueDescription:
    """Return the queue that `FIELD=VALUE`s describe, with a manifest's names and checks."""
    from bendybus.crds import bundling, loading

    spec: dict[str, Any] = {"namespaceRef": {"name": namespace.name}, "entityName": name}
    for field, value in name_values.parse("--set", "FIELD=VALUE", fields).items():
        spec[field] = _scalar(value)
    found = loading.parse("--set", _document(spec))
    try:
        if not isinstance(found, loading.Loaded):
            raise ManifestError(*found)
        (wish,) = bundling.bundle([found], running=namespace).entities
        assert isinstance(wish.description, QueueDescription)
        return wish.description
    except ManifestError as error:
        raise UsageError("\n".join(_told(problem) for problem in error.problems)) from error


def _document(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a queue."""
    from bendybus.crds import manifest

    return {
        "apiVersion": manifest.API_VERSION,
        "kind": KINDS[EntityKind.QUEUE],
        # The name of an object of Kubernetes; that of the queue may have other characters.
        "metadata": {"name": "queue"},
        "spec": spec,
    }


def _told(problem: Problem) -> str:
    """Return the problems, by the path given on the command line."""
    field = problem.field.removeprefix("spec.")
    where = "Name of the queue" if field == "entityName" else f"--set {field}"
    return f"{where}: {problem.sentence}"


def _scalar(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() else text
