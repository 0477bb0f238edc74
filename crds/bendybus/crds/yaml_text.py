"""YAML text → documents, with errors that say where: manifests, and those of other operators.

Keys that are written twice are errors: YAML would silently keep the last. Aliases are counted with
all that they stand for, since a short text of aliases of aliases means a document without end.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

import yaml

from bendybus.crds.errors import ManifestError, Problem

_MERGE: Final = "tag:yaml.org,2002:merge"
# Values of one text, those of aliases counted where they are used.
VALUES_MAX: Final = 2_000_000
# Values that are written, which take a kilobyte each while they are read.
WRITTEN_MAX: Final = 1_000_000
# Texts that are the same for every reader of YAML without quotes, but for these.
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./ -]*")
_NO_TEXTS: Final = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf")
)
_TOO_MANY: Final = f"has more than {VALUES_MAX:,} values, with what its aliases stand for"


class _Loader(yaml.SafeLoader):
    """Refuses keys that are written twice, and what aliases make too large."""

    merged = 0
    written = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next value that is written, as the base class does, and count it."""
        self.written += 1
        if self.written > WRITTEN_MAX:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"has more than {WRITTEN_MAX:,} values", mark
            )
        return super().compose_node(parent, index)

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


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, Hashable):
            text = _key(key)
            if text in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r:.100} is there twice", key_node.start_mark
                )
            seen.add(text)
    loader.flatten_mapping(node)
    made: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "found unhashable key", key_node.start_mark
            )
        made[_key(key)] = loader.construct_object(value_node, deep=True)
    return made


def _key(key: Hashable) -> str:
    """Return a key as text, which all are in Kubernetes and in JSON."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    # Not True == 1.
    return str(key).lower() if isinstance(key, bool) else str(key)


def _scalar(loader: _Loader, node: yaml.Node) -> Any:
    """Return a value that is written with a tag, such as `!!int a`, if it is one of that type."""
    try:
        return _CONSTRUCTORS[node.tag](loader, node)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise yaml.constructor.ConstructorError(
            None, None, f"a value is no {node.tag.rpartition(':')[2]}", node.start_mark
        ) from error


def _refused(loader: _Loader, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(
        None, None, f"{node.tag.rpartition(':')[2]} is no type that JSON has", node.start_mark
    )


_CONSTRUCTORS: Final[dict[str | None, Any]] = dict(yaml.SafeLoader.yaml_constructors)
for _type in ("bool", "int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_type}", _scalar)
for _type in ("set", "omap", "pairs", "binary", "timestamp"):
    # JSON has none of them.
    _Loader.add_constructor(f"tag:yaml.org,2002:{_type}", _refused)
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
# A date is text, as in Kubernetes.
_Loader.yaml_implicit_resolvers = {
    first: [each for each in found if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Quotes every text that a reader of YAML might take for another value.

    kubectl reads `n`, `1e3` and `0o17` as other values than this library.
    """

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return a text, in quotes unless it looks like a word."""
        style = None if _WORD.fullmatch(text) and text.lower() not in _NO_TEXTS else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def dump(documents: Sequence[Any]) -> str:
    """Return documents as text, in ASCII: no character of theirs reaches a terminal."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, explicit_start=True))


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
        [reason, *_] = str(error).splitlines() or ["it cannot be read"]
        raise _wrong(source, f"is not YAML: {reason}.") from error
    yield from ((at, each) for at, each in enumerate(found, 1) if each is not None)


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Return how many values there are in one; `sizes`: of those that were counted, by identity."""
    if not isinstance(value, dict | list):
        return 1
    known = sizes.get(id(value))
    if known is None:
        # A value may hold itself: then the recursion ends, and the error says that it is too deep.
        below = value.values() if isinstance(value, dict) else value
        known = 1 + sum(_size(each, sizes) for each in below)
        sizes[id(value)] = known
    return known


def _wrong(where: str, sentence: str) -> ManifestError:
    return ManifestError(Problem(where, "", "", sentence))
