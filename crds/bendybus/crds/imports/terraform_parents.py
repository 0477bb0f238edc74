"""What a resource of a Terraform file belongs to: by an id, a name, or the configuration.

Ids are known in a state, and in a plan for what exists already. Else the configuration of the plan
has references, as they were written, without their values:

    azurerm_servicebus_topic.news         a resource of the same module, one instance or all
    var.NAME                              what the call of the module passes
    module.NAME.OUTPUT                    an output of a module that is called

`each.` and `count.` say which instance: the one with the same index. What is left open is asked for
by its address.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import json_text
from bendybus.crds.field_reader import FieldReader
from bendybus.crds.imports import arm_id
from bendybus.crds.imports.terraform_text import Expression

_PREFIX: Final = "azurerm_servicebus_"
_POLICIES: Final = "authorizationrules"
# Types of the provider, without its prefix, and their types in Azure.
BLOCKS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "namespace": ("namespaces",),
        "queue": ("namespaces", "queues"),
        "topic": ("namespaces", "topics"),
        "subscription": ("namespaces", "topics", "subscriptions"),
        "subscription_rule": ("namespaces", "topics", "subscriptions", "rules"),
        "namespace_authorization_rule": ("namespaces", _POLICIES),
        "queue_authorization_rule": ("namespaces", "queues", _POLICIES),
        "topic_authorization_rule": ("namespaces", "topics", _POLICIES),
    }
)
_BY_TYPES: Final = {types: kind for kind, types in BLOCKS.items()}
# Of a resource, or an output of a module, in a list of references.
_RESOURCE: Final = re.compile(r"(?:data\.)?azurerm_servicebus_(\w+)\.([\w-]+)(?:\[(.+?)\])?")
_OUTPUT: Final = re.compile(r"module\.([\w-]+)(?:\[(.+?)\])?\.([\w-]+)")
_IN_TEXT: Final = re.compile(r"\$\{([^}]+)\}")
_NAME_OF: Final = re.compile(r"\$\{azurerm_servicebus_(\w+)\.([\w-]+)\.name\}")
_STEP: Final = re.compile(r"module\.([\w-]+)(\[[^\]]*\])?")
_LOOKS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Block:
    """A resource of the file. `module`: its address; `index`: of `count` or `for_each`."""

    type: str
    name: str
    module: str
    index: Any
    place: str
    values: Any

    @property
    def kind(self) -> str:
        """Its type without the provider's prefix."""
        return self.type.removeprefix(_PREFIX)

    @property
    def address(self) -> str:
        """Its address, as Terraform prints it."""
        index = "" if self.index is None else f"[{_shown(self.index)}]"
        module = f"{self.module}." if self.module else ""
        return f"{module}{self.type}.{self.name}{index}"


def _shown(index: Any) -> str:
    return f'"{index}"' if isinstance(index, str) else str(index)


class Parents:
    """Names of resources and of what they belong to, from the namespace on."""

    def __init__(
        self,
        reader: FieldReader,
        blocks: Sequence[Block],
        configuration: Any,
        given: Mapping[str, Any],
    ) -> None:
        self._reader = reader
        self._configuration = configuration if isinstance(configuration, dict) else {}
        self._given = given
        self._asked: set[str] = set()
        self._names: dict[str, tuple[str, ...] | None] = {}
        self._by_type: dict[str, list[Block]] = {}
        self._by_name: dict[tuple[str, str, str], list[Block]] = {}
        self._looks = 0
        for each in blocks:
            if each.kind in BLOCKS and isinstance(each.values, dict):
                self._by_type.setdefault(each.kind, []).append(each)
                self._by_name.setdefault((each.module, each.kind, each.name), []).append(each)

    def unused(self) -> list[str]:
        """Return the names of given values that nothing asked for."""
        return [each for each in self._given if each not in self._asked]

    def names(self, block: Block) -> tuple[str, ...] | None:
        """Return the names of a resource; None, with a problem, if one is not known."""
        if block.address not in self._names:
            # What belongs to itself has no names.
            self._names[block.address] = None
            self._names[block.address] = self._find(block)
        return self._names[block.address]

    def name(self, place: str, text: str) -> str | None:
        """Return the name of the entity that a reference in configuration means."""
        found = _NAME_OF.fullmatch(text)
        blocks = self._by_name.get(("", found[1], found[2]), []) if found is not None else []
        names = self.names(blocks[0]) if len(blocks) == 1 else None
        if names is None:
            self._reader.problem(
                place, "is an expression: convert what terraform show -json prints of a plan."
            )
            return None
        return names[-1]

    def written(self, type_name: str, name: str, module: str) -> Mapping[str, Any]:
        """Return the arguments that the configuration has for a resource."""
        for each in _items(self._module(module).get("resources")):
            if each.get("type") == type_name and each.get("name") == name:
                found = each.get("expressions")
                return found if isinstance(found, dict) else {}
        return {}

    def _find(self, block: Block) -> tuple[str, ...] | None:
        own, place = block.values.get("name"), json_text.step(block.place, "name")
        if not isinstance(own, str) or not own or isinstance(own, Expression):
            self._reader.problem(place, "must be the name: it is not known in this file.")
            return None
        types = BLOCKS[block.kind][:-1]
        if not types:
            return (own,)
        above = self._by_id(block, types) or self._by_names(block, types)
        above = above or self._by_reference(block, types)
        return None if above is None else (*above, arm_id.entity_name(own))

    def _by_id(self, block: Block, types: tuple[str, ...]) -> tuple[str, ...] | None:
        for field in (f"{_BY_TYPES[types]}_id", "id"):
            value = block.values.get(field)
            found = arm_id.parse(value) if isinstance(value, str) else None
            if found is not None and found[0][: len(types)] == types:
                self._reader.taken(json_text.step(block.place, field))
                return found[1][: len(types)]
        return None

    def _by_names(self, block: Block, types: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return names as versions before 3.0 have them, each in a field of its own."""
        fields = [f"{_BY_TYPES[types[: at + 1]]}_name" for at in range(len(types))]
        found = [block.values.get(each) for each in fields]
        if not all(
            isinstance(each, str) and each and not isinstance(each, Expression) for each in found
        ):
            return None
        for each in fields:
            self._reader.taken(json_text.step(block.place, each))
        return tuple(map(arm_id.entity_name, map(str, found)))

    def _by_reference(self, block: Block, types: tuple[str, ...]) -> tuple[str, ...] | None:
        kind = _BY_TYPES[types]
        field = f"{kind}_id"
        place, asked = json_text.step(block.place, field), f"{block.address}.{field}"
        self._asked.add(asked)
        if asked in self._given:
            return self._of_given(place, types, str(self._given[asked]))
        self._looks = 0
        found = list(self._targets(self._references(block, field), block.module, block.index, kind))
        found = list({each.address: each for each in found}.values())
        same = [each for each in found if each.index == block.index]
        if len(found) > 1 and len(same) == 1:
            found = same
        if not found and len(self._by_type.get(kind, ())) == 1:
            # One namespace, or one topic, in the whole file.
            found = self._by_type[kind]
        if len(found) == 1:
            names = self.names(found[0])
            if names is not None:
                self._reader.taken(place, f"is {found[0].address}.")
            else:
                self._reader.problem(place, f"is {found[0].address}, whose names are not known.")
            return names
        what = "none" if not found else f"{len(found)} of them"
        self._reader.problem(
            place,
            f"is not known before the plan is applied, and its references name {what}: give its "
            f"name with --set '{asked}=NAME'.",
        )
        return None

    def _of_given(self, place: str, types: tuple[str, ...], text: str) -> tuple[str, ...] | None:
        """Return the names that a user gives: an id, or NAMESPACE/TOPIC."""
        found = arm_id.parse(text)
        names = found[1] if found is not None else tuple(text.split("/"))
        if len(names) == 1 and len(types) > 1 and len(self._by_type.get("namespace", ())) == 1:
            names = (*(self.names(self._by_type["namespace"][0]) or ()), *names)
        if len(names) != len(types) or not all(names):
            wanted = "/".join(_BY_TYPES[types[: at + 1]].upper() for at in range(len(types)))
            self._reader.problem(place, f"is given as {text!r:.200}, and must be {wanted}.")
            return None
        return tuple(map(arm_id.entity_name, names))

    def _references(self, block: Block, field: str) -> list[str]:
        """Return what an argument refers to, as it was written."""
        if not self._configuration:
            text = block.values.get(field) or block.values.get(field.replace("_id", "_name"))
            return _IN_TEXT.findall(text) if isinstance(text, Expression) else []
        written = self.written(block.type, block.name, block.module)
        return _references(written, field) or _references(written, field.replace("_id", "_name"))

    def _module(self, address: str) -> Mapping[str, Any]:
        module = self._configuration
        for name, _ in _STEP.findall(address):
            calls = module.get("module_calls")
            call = calls.get(name) if isinstance(calls, dict) else None
            found = call.get("module") if isinstance(call, dict) else None
            module = found if isinstance(found, dict) else {}
        return module

    def _targets(
        self, references: list[str], module: str, index: Any, kind: str
    ) -> Iterator[Block]:
        """Yield the resources of a kind that references lead to, from within a module."""
        self._looks += 1
        if self._looks > _LOOKS_MAX:
            # Variables that refer to each other in a circle.
            return
        for text in references:
            resource, output = _RESOURCE.match(text), _OUTPUT.match(text)
            if resource is not None and resource[1] == kind:
                found = self._by_name.get((module, kind, resource[2]), [])
                yield from _chosen(found, resource[3], index)
            elif output is not None:
                yield from self._of_output(output, module, index, kind)
            elif text.startswith("var.") and module:
                above, (name, own) = _above(module)
                calls = self._module(above).get("module_calls")
                call = calls.get(name) if isinstance(calls, dict) else None
                passed = call.get("expressions") if isinstance(call, dict) else None
                variable = text.removeprefix("var.").partition(".")[0]
                yield from self._targets(_references(passed, variable), above, own, kind)

    def _of_output(
        self, output: re.Match[str], module: str, index: Any, kind: str
    ) -> Iterator[Block]:
        base = f"{module}.module.{output[1]}" if module else f"module.{output[1]}"
        inside = sorted(
            {
                each.module
                for each in self._by_type.get(kind, ())
                if each.module == base or each.module.startswith(f"{base}[")
            }
        )
        wanted = f"{base}[{output[2] or _shown(index)}]"
        inside = [each for each in inside if each == wanted] or inside
        outputs = self._module(base).get("outputs")
        body = outputs.get(output[3]) if isinstance(outputs, dict) else None
        for each in inside:
            yield from self._targets(_references(body, "expression"), each, index, kind)


def _chosen(found: list[Block], written: str | None, index: Any) -> list[Block]:
    """Return the instances that a reference means: the one that it names, or that of the index."""
    wanted = written if written is not None else _shown(index)
    if written is None and index is None:
        return found
    same = [each for each in found if _shown(each.index) == wanted]
    return same or found


def _above(module: str) -> tuple[str, tuple[str, Any]]:
    """Return the module that calls one, its name there, and the index of the call."""
    steps = _STEP.findall(module)
    name, index = steps[-1]
    above = ".".join(f"module.{each}{own}" for each, own in steps[:-1])
    text = index[1:-1]
    own: Any = text[1:-1] if text.startswith('"') else int(text) if text.isdigit() else None
    return above, (name, own)


def _items(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _references(expressions: Any, name: str) -> list[str]:
    body = expressions.get(name) if isinstance(expressions, dict) else None
    found = body.get("references") if isinstance(body, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
