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
from typing import Final

from bendybus.cli.errors import CliError, UsageError
from bendybus.crds.bundle import KINDS, Bundle, NamespaceSettings
from bendybus.crds.errors import ManifestError
from bendybus.domain.entity_kind import EntityKind
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
    from bendybus.crds import bundling, loading, manifest

    head = {
        "apiVersion": manifest.API_VERSION,
        "kind": KINDS[EntityKind.QUEUE],
        # The name of an object of Kubernetes; that of the queue may have other characters.
        "metadata": {"name": "queue"},
    }
    found = [
        loading.parse(f"--queue {name}", {**head, "spec": {"entityName": name}}) for name in names
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
