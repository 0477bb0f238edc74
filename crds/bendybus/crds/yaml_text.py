"""YAML text → documents, with errors that say where: manifests, and those of other operators.

Keys that are written twice are errors: YAML would silently keep the last. Aliases are counted with
all that they stand for, since a short text of aliases of aliases means a document without end.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Final

import yaml

from bendybus.crds.errors import ManifestError, Problem

_MERGE: Final = "tag:yaml.org,2002:merge"
# Values of one text, those of aliases counted where they are used.
VALUES_MAX: Final = 2_000_000
_TOO_MANY: Final = f"has more than {VALUES_MAX:,} values, with what its aliases stand for"


class _Loader(yaml.SafeLoader):
    """Refuses keys that are written twice, and what aliases make too large."""

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put what `<<` names into a mapping, as the base class does, which does not count."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(each, yaml.MappingNode) and each is not node:
                    self.flatten_mapping(each)
                    self.merged += len(each.value)
                if self.merged > VALUES_MAX:
                    raise yaml.constructor.ConstructorError(None, None, _TOO_MANY, node.start_mark)
        super().flatten_mapping(node)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, Hashable) and key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is there twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse(source: str, data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the documents that are not empty, with their numbers from 1. Raises ManifestError."""
    try:
        found = list(yaml.load_all(data.decode("utf-8-sig"), Loader=_Loader))
        sizes: dict[int, int] = {}
        if sum(_size(each, sizes) for each in found) > VALUES_MAX:
            raise _wrong(source, f"{_TOO_MANY}. Split it.")
    except UnicodeDecodeError as error:
        raise _wrong(source, "is not UTF-8 text. Save it as UTF-8.") from error
    except RecursionError as error:
        raise _wrong(source, "is not YAML that can be read: it is nested too deeply.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source}, line {mark.line + 1}" if mark else source
        raise _wrong(where, f"is not YAML: {error.problem}.") from error
    except (yaml.YAMLError, ValueError) as error:
        # A date such as 2026-02-31 has the form of one, and is none.
        raise _wrong(source, f"is not YAML: {error}.") from error
    yield from ((at, each) for at, each in enumerate(found, 1) if each is not None)


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Return how many values there are in one; `sizes`: of those that were counted, by identity."""
    if not isinstance(value, dict | list):
        return 1
    known = sizes.get(id(value))
    if known is None:
        # Of a value that holds itself: the recursion ends, and what is said is that it is too deep.
        below = value.values() if isinstance(value, dict) else value
        known = 1 + sum(_size(each, sizes) for each in below)
        sizes[id(value)] = known
    return known


def _wrong(where: str, sentence: str) -> ManifestError:
    return ManifestError(Problem(where, "", "", sentence))
