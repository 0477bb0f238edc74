"""The parents of resources in a Terraform file: by an id, a name, or the configuration.

Ids are known in a state, and in a plan for what exists already. Else the configuration of the plan
has references, as they were written, without their values:

    azurerm_servicebus_topic.news         a resource of the same module, one instance or all
    var.NAME                              what the call of the module passes
    module.NAME.OUTPUT                    an output of a module that is called

`each.` and `count.` mean the instance with the same index. A name that is left open is asked for
by its address.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import json_text
from bendybus.crds.field_reader import FieldReader
from bendybus.crds.imports import arm_id
from bendybus.crds.imports.terraform_text import Expression

PREFIX: Final = "azurerm_servicebus_"
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
# An index, which may be a text with any character.
_INDEX: Final = r"\[(\"(?:[^\"\\]|\\.)*\"|[^\]\"]*)\]"
# A resource, or an output of a module, in a list of references.
_RESOURCE: Final = re.compile(rf"(data\.)?azurerm_servicebus_(\w+)\.([\w-]+)(?:{_INDEX})?")
_OUTPUT: Final = re.compile(rf"module\.([\w-]+)(?:{_INDEX})?\.([\w-]+)")
_IN_TEXT: Final = re.compile(r"\$\{([^}]+)\}")
_NAME_OF: Final = re.compile(r"\$\{azurerm_servicebus_(\w+)\.([\w-]+)\.name\}")
_STEP: Final = re.compile(rf"module\.([\w-]+)(?:{_INDEX})?")
# References that name nothing of the file by themselves.
_INDIRECT: Final = ("local.", "each.", "count.", "var.", "module.", "path.", "terraform.", "self.")
# References and what they lead to, of one argument.
_LOOKS_MAX: Final = 200
MANAGED: Final = "managed"


@dataclass(frozen=True, slots=True)
class Block:
    """A resource of the file. `module`: its address; `index`: of `count` or `for_each`.

    `mode`: managed, or data for what is read and not made.
    """

    type: str
    name: str
    module: str
    index: Any
    place: str
    values: Any
    mode: str = MANAGED

    @property
    def kind(self) -> str:
        """Its type without the provider's prefix."""
        return self.type.removeprefix(PREFIX)

    @property
    def address(self) -> str:
        """Its address, as Terraform prints it."""
        index = "" if self.index is None else f"[{_shown(self.index)}]"
        module = f"{self.module}." if self.module else ""
        data = "" if self.mode == MANAGED else "data."
        return f"{module}{data}{self.type}.{self.name}{index}"


def _shown(index: Any) -> str:
    return json.dumps(index, ensure_ascii=False) if isinstance(index, str) else str(index)


class _Instances:
    """The instances of a resource, and each by its index as addresses have it."""

    def __init__(self) -> None:
        self.all: list[Block] = []
        self.by_index: dict[str, Block] = {}

    def add(self, block: Block) -> None:
        self.all.append(block)
        self.by_index[_shown(block.index)] = block

    def chosen(self, written: str | None, index: Any) -> Sequence[Block]:
        """Return those that a reference means: the one that it names, or that of the index."""
        found = self.by_index.get(_shown(index) if written is None else written)
        if found is not None:
            return (found,)
        return () if written is not None else self.all


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
        # Names by the places of resources.
        self._names: dict[str, tuple[str, ...] | None] = {}
        # Those that are managed, by kind.
        self._by_kind: dict[str, list[Block]] = {}
        self._by_label: dict[tuple[str, str, str, str], _Instances] = {}
        # Modules with their indexes, by their addresses without the last one.
        self._modules: dict[str, set[str]] = {}
        self._expressions: dict[tuple[str, ...], dict[tuple[str, str], Any]] = {}
        self._looks = 0
        self._names_others = False
        # Places of fields that said what a resource belongs to.
        self.said: set[str] = set()
        for each in blocks:
            if each.kind in BLOCKS and isinstance(each.values, dict):
                self._add(each)

    def _add(self, block: Block) -> None:
        if block.mode == MANAGED:
            self._by_kind.setdefault(block.kind, []).append(block)
        label = block.module, block.mode, block.kind, block.name
        self._by_label.setdefault(label, _Instances()).add(block)
        for step in _STEP.finditer(block.module):
            base = block.module[: step.end(1)]
            self._modules.setdefault(base, set()).add(block.module[: step.end()])

    def unused(self) -> list[str]:
        """Return the names of given values that nothing asked for."""
        return [each for each in self._given if each not in self._asked]

    def names(self, block: Block) -> tuple[str, ...] | None:
        """Return the names of a resource; None, with a problem, if one is not known."""
        if block.place not in self._names:
            # A resource that belongs to itself has no names.
            self._names[block.place] = None
            self._names[block.place] = self._find(block)
        return self._names[block.place]

    def name(self, place: str, text: str) -> str | None:
        """Return the name of the entity that a reference in configuration means."""
        found = _NAME_OF.fullmatch(text)
        blocks: Sequence[Block] = ()
        if found is not None and ("", MANAGED, found[1], found[2]) in self._by_label:
            blocks = self._by_label["", MANAGED, found[1], found[2]].all
        names = self.names(blocks[0]) if len(blocks) == 1 else None
        if names is None:
            self._reader.problem(
                place, "is an expression: convert what terraform show -json prints of a plan."
            )
            return None
        return names[-1]

    def written(self, type_name: str, name: str, module: str) -> Mapping[str, Any]:
        """Return the arguments that the configuration has for a resource."""
        path = _path(module)
        if path not in self._expressions:
            self._expressions[path] = {
                (str(each.get("type")), str(each.get("name"))): each.get("expressions")
                for each in _items(self._module(path).get("resources"))
                if each.get("mode", MANAGED) == MANAGED
            }
        found = self._expressions[path].get((type_name, name))
        return found if isinstance(found, dict) else {}

    def _find(self, block: Block) -> tuple[str, ...] | None:
        own, place = block.values.get("name"), json_text.step(block.place, "name")
        if not isinstance(own, str) or not own or isinstance(own, Expression):
            self._reader.problem(place, "must be the name: it is not known in this file.")
            return None
        types = BLOCKS[block.kind][:-1]
        if not types:
            return (own,)
        above = self._by_id(block, types)
        if above is None:
            above = self._by_names(block, types) or self._by_reference(block, types)
        return (*above, arm_id.entity_name(own)) if above else None

    def _taken(self, place: str, detail: str = "") -> None:
        self.said.add(place)
        self._reader.taken(place, detail)

    def _by_id(self, block: Block, types: tuple[str, ...]) -> tuple[str, ...] | None:
        for field in (f"{_BY_TYPES[types]}_id", "id"):
            value, place = block.values.get(field), json_text.step(block.place, field)
            found = arm_id.parse(value) if isinstance(value, str) else None
            if found is not None and found[0][: len(types)] == types:
                self._taken(place)
                return found[1][: len(types)]
            if field != "id" and value and not isinstance(value, Expression):
                self._reader.problem(place, f"must be the id of a {_BY_TYPES[types]} in Azure.")
                return ()
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
            self._taken(json_text.step(block.place, each))
        return tuple(map(arm_id.entity_name, map(str, found)))

    def _by_reference(self, block: Block, types: tuple[str, ...]) -> tuple[str, ...] | None:
        kind = _BY_TYPES[types]
        field = f"{kind}_id"
        place, asked = json_text.step(block.place, field), f"{block.address}.{field}"
        self._asked.add(asked)
        if asked in self._given:
            return self._of_given(place, types, str(self._given[asked]))
        found = self._targets_of(block, field, kind)
        same = [each for each in found if each.index == block.index]
        if len(found) > 1 and len(same) == 1 and self._looks <= _LOOKS_MAX:
            found = same
        if not found and not self._names_others and len(self._by_kind.get(kind, ())) == 1:
            # One namespace, or one topic, in the whole file.
            found = self._by_kind[kind]
        if len(found) == 1 and self._looks <= _LOOKS_MAX:
            names = self.names(found[0])
            if names is not None:
                self._taken(place, f"is {found[0].address}.")
            else:
                self._reader.problem(place, f"is {found[0].address}, whose names are not known.")
            return names
        what = "several of them" if self._looks > _LOOKS_MAX else f"{len(found) or 'none'} of them"
        self._reader.problem(
            place,
            f"is not known before the plan is applied, and its references name {what}: give its "
            f"name with --set '{asked}=NAME'.",
        )
        return None

    def _targets_of(self, block: Block, field: str, kind: str) -> list[Block]:
        """Return the resources of a kind that an argument leads to, each once."""
        self._looks, self._names_others = 0, False
        references = self._references(block, field)
        found = self._targets(references, block.module, block.index, kind)
        return list({each.place: each for each in found}.values())

    def _of_given(self, place: str, types: tuple[str, ...], text: str) -> tuple[str, ...] | None:
        """Return the names that a user gives: an id, or NAMESPACE/TOPIC."""
        found = arm_id.parse(text)
        names = found[1] if found is not None else tuple(text.split("/"))
        if len(names) == 1 and len(types) > 1 and len(self._by_kind.get("namespace", ())) == 1:
            names = (*(self.names(self._by_kind["namespace"][0]) or ()), *names)
        if len(names) != len(types) or not all(names):
            wanted = "/".join(_BY_TYPES[types[: at + 1]].upper() for at in range(len(types)))
            self._reader.problem(place, f"is given as {text!r:.200}, and must be {wanted}.")
            return None
        return tuple(map(arm_id.entity_name, names))

    def _references(self, block: Block, field: str) -> list[str]:
        """Return the references of an argument, as they were written."""
        if not self._configuration:
            text = block.values.get(field) or block.values.get(field.replace("_id", "_name"))
            return _IN_TEXT.findall(text) if isinstance(text, Expression) else []
        written = self.written(block.type, block.name, block.module)
        return _references(written, field) or _references(written, field.replace("_id", "_name"))

    def _module(self, path: tuple[str, ...]) -> Mapping[str, Any]:
        """Return the configuration of a module; `path`: the names of the calls that lead there."""
        module: Mapping[str, Any] = self._configuration
        for name in path:
            found = _body(_body(module.get("module_calls")).get(name)).get("module")
            module = _body(found)
        return module

    def _targets(
        self, references: list[str], module: str, index: Any, kind: str
    ) -> Iterator[Block]:
        """Yield the resources of a kind that references lead to, from within a module."""
        before = ""
        for text in references:
            # After `t["a"].id` come `t["a"]` and `t`, which say no more.
            said, before = before.startswith((f"{text}.", f"{text}[")), text
            if said:
                continue
            self._looks += 1
            if self._looks > _LOOKS_MAX:
                # Variables that refer to each other in a circle, or very many instances.
                return
            resource, output = _RESOURCE.match(text), _OUTPUT.match(text)
            if resource is not None and resource[2] == kind:
                mode = "data" if resource[1] else MANAGED
                found = self._by_label.get((module, mode, kind, resource[3]))
                chosen = () if found is None else found.chosen(resource[4], index)
                self._names_others |= not chosen
                for each in chosen:
                    self._looks += 1
                    yield each
                    if self._looks > _LOOKS_MAX:
                        return
            elif output is not None:
                yield from self._of_output(output, module, index, kind)
            elif text.startswith("var.") and module:
                above, name, own = _above(module)
                call = _body(_body(self._module(_path(above)).get("module_calls")).get(name))
                variable = text.removeprefix("var.").partition(".")[0]
                passed = _references(call.get("expressions"), variable)
                yield from self._targets(passed, above, own, kind)
            else:
                self._names_others |= not text.startswith(_INDIRECT)

    def _of_output(
        self, output: re.Match[str], module: str, index: Any, kind: str
    ) -> Iterator[Block]:
        base = f"{module}.module.{output[1]}" if module else f"module.{output[1]}"
        inside = self._modules.get(base, set())
        wanted = f"{base}[{output[2] or _shown(index)}]"
        if wanted in inside:
            inside = {wanted}
        outputs = _body(self._module(_path(base)).get("outputs"))
        passed = _references(outputs.get(output[3]), "expression")
        for each in inside:
            if self._looks > _LOOKS_MAX:
                return
            yield from self._targets(passed, each, index, kind)


def _path(module: str) -> tuple[str, ...]:
    """Return the names of the calls that lead to a module."""
    return tuple(step[1] for step in _STEP.finditer(module))


def _above(module: str) -> tuple[str, str, Any]:
    """Return the module that calls one, the name of the call there, and the index of the call."""
    steps = list(_STEP.finditer(module))
    if not steps:
        return "", "", None
    name, text = steps[-1][1], steps[-1][2] or ""
    own: Any = None
    if text.startswith('"'):
        own = re.sub(r"\\(.)", r"\1", text[1:-1])
    elif re.fullmatch(r"[0-9]{1,9}", text):
        own = int(text)
    return module[: steps[-1].start()].rstrip("."), name, own


def _body(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _references(expressions: Any, name: str) -> list[str]:
    body = expressions.get(name) if isinstance(expressions, dict) else None
    found = body.get("references") if isinstance(body, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
