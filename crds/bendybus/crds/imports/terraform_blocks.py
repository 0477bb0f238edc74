"""The resources of a Terraform file, wherever its form has them. Pure."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bendybus.crds import json_text
from bendybus.crds.conversion import Outcome, Reason
from bendybus.crds.field_reader import FieldReader
from bendybus.crds.imports import terraform_text
from bendybus.crds.imports.terraform_parents import MANAGED, PREFIX, Block

_VERSION: Final = re.compile(r"([0-9]{1,4})\.[0-9]{1,4}")
_STATE_VERSION: Final = 4
_MODULES_DEPTH_MAX: Final = 50
_DATA: Final = "data"
_SHOW: Final = "convert what terraform show -json prints of a plan."
# Blocks of a configuration for Terraform alone. A key // is a comment.
_NOT_NEEDED: Final = (
    *("variable", "locals", "data", "output", "provider", "terraform", "//", "check"),
    *("moved", "import", "removed"),
)
_FOR_TERRAFORM: Final = ("count", "for_each", "dynamic")
_DEPOSED: Final = Reason(
    "is deposed: the next apply deletes it. Nothing is made of it.", Outcome.NO_EFFECT
)


def managed(reader: FieldReader, document: Mapping[str, Any]) -> Iterator[Block]:
    """Yield every managed resource with its values. Errors become problems of the reader."""
    if "format_version" in document or "planned_values" in document:
        shown = str(document.get("format_version", "1.0"))
        found = _VERSION.fullmatch(shown)
        if found is None or int(found[1]) > 1:
            reader.problem("format_version", f"must be 1.x or 0.x (got {shown!r:.40}).")
            return
        for name in ("planned_values", "values"):
            if name in document:
                yield from _modules(reader, name, document[name], MANAGED)
                return
    elif "version" in document:
        if document["version"] == _STATE_VERSION:
            yield from _of_state(reader, document)
        else:
            words = f"must be {_STATE_VERSION}. Convert what terraform show -json prints."
            reader.problem("version", words)
    else:
        yield from _of_configuration(reader, document)


def data(document: Mapping[str, Any]) -> list[Block]:
    """Return the data sources of a plan or a state: what belongs to them needs their names."""
    silent = FieldReader("")
    before = document.get("prior_state")
    values = before.get("values") if isinstance(before, dict) else None
    found = list(_modules(silent, "prior_state.values", values, _DATA))
    for name in ("values", "planned_values"):
        known = {each.address for each in found}
        more = _modules(silent, name, document.get(name), _DATA)
        found += [each for each in more if each.address not in known]
    return [*found, *_of_state(silent, document, _DATA)]


def items(reader: FieldReader, place: str, value: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return a list of an object; none if it is absent, or, with a problem, no list."""
    found = value.get(name)
    if found is None:
        return ()
    if not isinstance(found, list):
        reader.wrong(json_text.step(place, name), "a list, [ … ]", found)
        return ()
    return found


def _modules(reader: FieldReader, place: str, values: Any, mode: str) -> Iterator[Block]:
    if values is not None and not isinstance(values, dict):
        reader.wrong(place, "an object, { … }", values)
        return
    root = (values or {}).get("root_module")
    waiting = deque([(json_text.step(place, "root_module"), root, 0)])
    while waiting:
        at, module, depth = waiting.popleft()
        if module is None:
            continue
        if not isinstance(module, dict) or depth > _MODULES_DEPTH_MAX:
            reader.problem(at, f"must be a module, at most {_MODULES_DEPTH_MAX} deep.")
            continue
        address = str(module.get("address", ""))
        for number, each in enumerate(items(reader, at, module, "resources")):
            where = f"{at}.resources[{number}]"
            if not isinstance(each, dict):
                reader.wrong(where, "an object, { … }", each)
            elif each.get("mode", MANAGED) != mode:
                continue
            elif "deposed_key" in each:
                reader.left_out(where, _DEPOSED)
            else:
                yield _block(each, address, each.get("index"), where, "values", each, mode)
        for number, each in enumerate(items(reader, at, module, "child_modules")):
            waiting.append((f"{at}.child_modules[{number}]", each, depth + 1))


def _block(
    about: Mapping[str, Any],
    module: str,
    index: Any,
    place: str,
    field: str,
    having: Mapping[str, Any],
    mode: str = MANAGED,
) -> Block:
    kind, name = str(about.get("type", "")), str(about.get("name", ""))
    at = json_text.step(place, field)
    return Block(kind, name, module, index, at, having.get(field), mode)


def _of_state(
    reader: FieldReader, document: Mapping[str, Any], mode: str = MANAGED
) -> Iterator[Block]:
    for number, each in enumerate(items(reader, "", document, "resources")):
        where = f"resources[{number}]"
        if not isinstance(each, dict):
            reader.wrong(where, "an object, { … }", each)
            continue
        if each.get("mode", MANAGED) != mode:
            continue
        module = str(each.get("module", ""))
        for at, instance in enumerate(items(reader, where, each, "instances")):
            place = f"{where}.instances[{at}]"
            if not isinstance(instance, dict):
                reader.wrong(place, "an object, { … }", instance)
            elif "deposed" in instance:
                reader.left_out(place, _DEPOSED)
            else:
                index = instance.get("index_key")
                yield _block(each, module, index, place, "attributes", instance, mode)


def _of_configuration(reader: FieldReader, document: Mapping[str, Any]) -> Iterator[Block]:
    for name in document:
        if name in _NOT_NEEDED:
            reader.taken(json_text.step("", name), "is not needed.")
        elif name == "module":
            reader.problem(name, f"is not in this file: {_SHOW}")
        elif name != "resource":
            reader.not_supported(json_text.step("", name), "is not a known block.")
    for place, kinds in _objects(reader, "resource", document.get("resource")):
        for kind, named in kinds.items():
            for where, bodies in _objects(reader, json_text.step(place, kind), named):
                for name, body in bodies.items():
                    yield from _of_bodies(reader, kind, name, json_text.step(where, name), body)


def _objects(
    reader: FieldReader, place: str, value: Any
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield an object, or those of a list: JSON has blocks in both ways."""
    listed = isinstance(value, list)
    for number, each in enumerate(value if listed else [value]):
        at = f"{place}[{number}]" if listed else place
        if isinstance(each, dict):
            yield at, each
        elif each is not None:
            reader.wrong(at, "an object, { … }", each)


def _of_bodies(
    reader: FieldReader, kind: str, name: str, place: str, value: Any
) -> Iterator[Block]:
    for at, body in _objects(reader, place, value):
        for each in _FOR_TERRAFORM if kind.startswith(PREFIX) else ():
            if each in body:
                reader.problem(json_text.step(at, each), f"needs Terraform: {_SHOW}")
        yield Block(kind, name, "", None, at, terraform_text.read(body))
