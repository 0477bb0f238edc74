"""YAML files → manifests, with errors that say where and what to do.

Called by `bendybus up` and `apply`. All problems of all files are found before one error is
raised, so that a file is not corrected error by error.
"""

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bendybus.crds import field_errors, suggestions, yaml_text
from bendybus.crds.entity_manifest import EntityManifest, Queue, Subscription, Topic
from bendybus.crds.errors import ManifestError, Problem
from bendybus.crds.manifest import API_VERSION
from bendybus.crds.namespace_manifest import BusNamespace
from bendybus.domain.entity_kind import EntityKind

Manifest = BusNamespace | EntityManifest
ENTITIES: Final[Mapping[EntityKind, type[EntityManifest]]] = MappingProxyType(
    {kind.ENTITY_KIND: kind for kind in (Queue, Topic, Subscription)}
)
KINDS: Final[dict[str, type[BusNamespace] | type[EntityManifest]]] = {
    "BusNamespace": BusNamespace,
    **{kind.KIND: kind for kind in ENTITIES.values()},
}
_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A manifest and where it was read."""

    source: str
    manifest: Manifest

    @property
    def subject(self) -> str:
        """Kind and name, as error sentences call it."""
        return f"{self.manifest.kind} {self.manifest.metadata.name!r}"

    def problem(self, field: str, sentence: str) -> Problem:
        """Return a problem of this manifest."""
        return Problem(self.source, self.subject, field, sentence)


def load(paths: Iterable[Path]) -> list[Loaded]:
    """Return all manifests of files and of the YAML files in directories, in order.

    Raises ManifestError with every problem; then no manifest is returned.
    """
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for path in paths:
        for file in _files(path, problems):
            for source, document in _documents(file, problems):
                result = parse(source, document)
                if isinstance(result, Loaded):
                    loaded.append(result)
                else:
                    problems.extend(result)
    if problems:
        raise ManifestError(*problems)
    return loaded


def _files(path: Path, problems: list[Problem]) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        problems.append(Problem(str(path), "", "", "has no .yaml file. Name a file with -f."))
    return files


def _documents(file: Path, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    try:
        for number, document in yaml_text.parse(str(file), file.read_bytes()):
            yield f"{file}, document {number}", document
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        problems.append(Problem(str(file), "", "", f"{reason}. Check the path after -f."))
    except ManifestError as error:
        problems.extend(error.problems)


def parse(source: str, document: Any) -> Loaded | list[Problem]:
    """Return the manifest in `document`, or what is wrong with it."""
    if not isinstance(document, dict):
        return [
            Problem(source, "", "", "is not a manifest: it needs apiVersion, kind and metadata.")
        ]
    kind = document.get("kind")
    subject = _subject(document)
    if not isinstance(kind, str) or kind not in KINDS:
        return [Problem(source, subject, "kind", _unknown_kind(kind))]
    if document.get("apiVersion") != API_VERSION:
        version = document.get("apiVersion")
        return [Problem(source, subject, "apiVersion", f"{version!r} must be {API_VERSION}.")]
    model = KINDS[kind]
    try:
        return Loaded(source, model.model_validate(document))
    except ValidationError as error:
        return [
            Problem(source, subject, _field(detail), _sentence(model, detail))
            for detail in error.errors()
        ]


def _subject(document: dict[Any, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    kind = document.get("kind")
    return f"{kind} {name!r}" if kind and name else str(kind or "")


def _unknown_kind(kind: object) -> str:
    if kind is None:
        return f"is missing. It must be one of {', '.join(KINDS)}."
    return f"{kind!r} is not known.{suggestions.did_you_mean(str(kind), KINDS)}"


def _field(detail: ErrorDetails) -> str:
    return ".".join(str(part) for part in detail["loc"] if not str(part).endswith("()"))


def _sentence(model: type[BaseModel], detail: ErrorDetails) -> str:
    """Return what to do about one error of pydantic, in our words."""
    if detail["type"] == "extra_forbidden":
        names = _names_at(model, detail["loc"][:-1])
        return f"is not a known field.{suggestions.did_you_mean(str(detail['loc'][-1]), names)}"
    if detail["type"] == "missing":
        return "is missing. It is required."
    if detail["type"] in ("value_error", "assertion_error"):
        return detail["msg"].removeprefix("Value error, ")
    return field_errors.sentence(detail)


def _names_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the field names allowed at `path` inside a manifest of `model`."""
    for part in path:
        for field in model.model_fields.values():
            if part == field.alias:
                model = _model_in(field.annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list):
        for argument in typing.get_args(annotation):
            found = _model_in(argument)
            if found:
                return found
    return None
