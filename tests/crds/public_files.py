"""The files of other programs that are converted as a test: tests/crds/corpus/index.toml.

Each input has the shape of a public file, whose text stays where it is.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

INDEX: Final = "index.toml"
CORPUS: Final = Path(__file__).parent / "corpus"


@dataclass(frozen=True, slots=True)
class PublicFile:
    """An input, and the outcome of its conversion: `manifests`, or why it is `refused`.

    `source`: the public file, as owner/name:path. `form`: as `bendybus convert --form` has it.
    `given`: as --set has it. `manifests`: the settings by kind and name. `reported`: some of the
    fields that the report names as changed or not supported. `refused`: words of the sentence by
    field; the field "" is the whole file.
    """

    file: str
    source: str
    form: str
    given: Mapping[str, str] = field(default_factory=dict)
    manifests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reported: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def read(corpus: Path = CORPUS) -> list[PublicFile]:
    """Return the files of a folder's index, in its order; none if there is no index."""
    index = corpus / INDEX
    if not index.exists():
        return []
    entries = tomllib.loads(index.read_text(encoding="utf-8"))["file"]
    return [PublicFile(**{**each, "reported": tuple(each.get("reported", ()))}) for each in entries]
