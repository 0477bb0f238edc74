"""What `terraform show -json` prints of a plan or a state, and states → resources. Pure.

    planned_values.root_module        a plan: what will be there
    values.root_module                a state, as it is shown
    resources[].instances[]           a state, as the file has it (version 4)
    resource.TYPE.NAME                configuration in JSON (.tf.json), of values and references

Only `azurerm_servicebus_*` are read. What a resource belongs to is an id; in a plan ids are not
known yet, and the references of the configuration say it (`terraform_parents`).

Source: "JSON Output Format" of Terraform; resources of the provider azurerm, versions 2 to 4.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import forms, json_text
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.forms import Form
from bendybus.crds.imports import terraform_text
from bendybus.crds.imports.arm_template import Resource
from bendybus.crds.imports.terraform_parents import BLOCKS, Block, Parents
from bendybus.crds.imports.terraform_text import Expression
from bendybus.domain.entity_kind import EntityKind

_PREFIX: Final = "azurerm_servicebus_"
# Types that Bendybus has not, by the last part of their names in Azure.
_OTHERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "namespace_network_rule_set": "networkrulesets",
        "namespace_disaster_recovery_config": "disasterrecoveryconfigs",
    }
)
_VERSION: Final = re.compile(r"(\d{1,4})\.\d{1,4}")
_STATE_VERSION: Final = 4
_MODULES_DEPTH_MAX: Final = 50
# Fields that say what a resource is, or that the provider fills in.
_READ: Final = frozenset(
    (
        *("id", "name", "timeouts", "resource_group_name", "endpoint", "resource_versions"),
        *("namespace_id", "topic_id", "queue_id", "subscription_id", "depends_on", "lifecycle"),
        *("namespace_name", "topic_name", "queue_name", "subscription_name"),
        "sql_filter_compatibility_level",
    )
)
_SECRET: Final = re.compile(r"(default_)?(primary|secondary)_(key|connection_string)(_alias)?")
_ELSEWHERE: Final = frozenset(("location", "tags", "identity", "capacity", "network_rule_set"))
_RIGHTS: Final = ("listen", "send", "manage")


def is_one(document: Any) -> bool:
    """Whether a document is a plan, a state, or configuration in JSON, of Terraform."""
    if not isinstance(document, dict):
        return False
    if "terraform_version" in document or "planned_values" in document:
        return True
    blocks = document.get("resource")
    return isinstance(blocks, dict) and all(isinstance(each, dict) for each in blocks.values())


def read(
    reader: FieldReader, document: Mapping[str, Any], given: Mapping[str, Any]
) -> list[Resource]:
    """Return the resources. `given`: names of parents that only Azure knows, by ADDRESS.FIELD.

    Errors become problems of the reader.
    """
    blocks = list(_blocks(reader, document))
    if reader.problems:
        return []
    configuration = document.get("configuration")
    root = configuration.get("root_module") if isinstance(configuration, dict) else None
    parents = Parents(reader, [*blocks, *_known_before(document)], root, given)
    made = _Resources(reader, parents)
    _changes(reader, document, parents)
    found = [each for block in blocks for each in made.of(block)]
    for name in parents.unused():
        reader.problem("", f"needs no {name!r:.200}, which is given. Leave it out.")
    return found


def _blocks(reader: FieldReader, document: Mapping[str, Any]) -> Iterator[Block]:
    """Yield every managed resource with its values."""
    if "format_version" in document:
        found = _VERSION.fullmatch(str(document["format_version"]))
        if found is None or int(found[1]) > 1:
            shown = f"{document['format_version']!r:.40}"
            reader.problem("format_version", f"must be 1.x or 0.x (got {shown}).")
            return
        for name in ("planned_values", "values"):
            if name in document:
                yield from _modules(reader, name, document[name], "managed")
                return
    elif document.get("version") == _STATE_VERSION:
        yield from _of_state(reader, document.get("resources"))
    elif "version" in document:
        reader.problem(
            "version", f"must be {_STATE_VERSION}. Convert what terraform show -json prints."
        )
    else:
        yield from _of_configuration(reader, document["resource"])
        for name in ("module", "variable", "locals", "data", "output", "provider", "terraform"):
            if name == "module" and name in document:
                reader.problem(
                    name, "is not in this file: convert what terraform show -json prints of a plan."
                )
            elif name in document:
                reader.taken(name, "is not needed.")


def _known_before(document: Mapping[str, Any]) -> list[Block]:
    """Return the data sources that a plan has read: what belongs to them needs their names."""
    before = document.get("prior_state")
    values = before.get("values") if isinstance(before, dict) else None
    silent = FieldReader("")
    return list(_modules(silent, "prior_state.values", values, "data"))


def _modules(reader: FieldReader, place: str, values: Any, mode: str) -> Iterator[Block]:
    root = values.get("root_module") if isinstance(values, dict) else None
    waiting: list[tuple[str, Any, int]] = [(json_text.step(place, "root_module"), root, 0)]
    while waiting:
        at, module, depth = waiting.pop(0)
        if module is None:
            continue
        if not isinstance(module, dict) or depth > _MODULES_DEPTH_MAX:
            reader.problem(at, f"must be a module, at most {_MODULES_DEPTH_MAX} deep.")
            continue
        address = str(module.get("address", ""))
        for number, each in enumerate(_list(reader, at, module, "resources")):
            where = f"{at}.resources[{number}]"
            if not isinstance(each, dict):
                reader.wrong(where, "an object, { … }", each)
            elif each.get("mode", "managed") == mode:
                yield Block(
                    str(each.get("type", "")),
                    str(each.get("name", "")),
                    address,
                    each.get("index"),
                    json_text.step(where, "values"),
                    each.get("values"),
                )
        for number, each in enumerate(_list(reader, at, module, "child_modules")):
            waiting.append((f"{at}.child_modules[{number}]", each, depth + 1))


def _of_state(reader: FieldReader, resources: Any) -> Iterator[Block]:
    for number, each in enumerate(_list(reader, "", {"resources": resources}, "resources")):
        where = f"resources[{number}]"
        if not isinstance(each, dict):
            reader.wrong(where, "an object, { … }", each)
            continue
        if each.get("mode", "managed") != "managed":
            continue
        for at, instance in enumerate(_list(reader, where, each, "instances")):
            place = f"{where}.instances[{at}]"
            if not isinstance(instance, dict):
                reader.wrong(place, "an object, { … }", instance)
                continue
            yield Block(
                str(each.get("type", "")),
                str(each.get("name", "")),
                str(each.get("module", "")),
                instance.get("index_key"),
                json_text.step(place, "attributes"),
                instance.get("attributes"),
            )


def _of_configuration(reader: FieldReader, blocks: Mapping[str, Any]) -> Iterator[Block]:
    for kind, named in blocks.items():
        for name, body in named.items():
            place = json_text.step(json_text.step("resource", kind), name)
            body = body[0] if isinstance(body, list) and len(body) == 1 else body
            if isinstance(body, dict) and kind.startswith(_PREFIX):
                for each in ("count", "for_each", "dynamic"):
                    if each in body:
                        reader.problem(
                            json_text.step(place, each),
                            "needs Terraform: convert what terraform show -json prints of a plan.",
                        )
            yield Block(kind, name, "", None, place, terraform_text.read(body))


def _list(reader: FieldReader, place: str, value: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = value.get(name)
    if found is None:
        return ()
    if not isinstance(found, list):
        reader.wrong(json_text.step(place, name), "a list, [ … ]", found)
        return ()
    return found


def _changes(reader: FieldReader, document: Mapping[str, Any], parents: Parents) -> None:
    """Note what a plan deletes, and what it cannot know yet: it is in no other part of it."""
    for number, each in enumerate(_list(reader, "", document, "resource_changes")):
        change = each.get("change") if isinstance(each, dict) else None
        kind = str(each.get("type", "")) if isinstance(each, dict) else ""
        if not isinstance(change, dict) or not kind.startswith(_PREFIX):
            continue
        place = f"resource_changes[{number}]"
        if change.get("actions") == ["delete"]:
            reader.not_supported(place, "is deleted by the plan. Nothing is made of it.")
        unknown = change.get("after_unknown")
        written = parents.written(
            kind, str(each.get("name", "")), str(each.get("module_address", ""))
        )
        for name, is_unknown in unknown.items() if isinstance(unknown, dict) else ():
            if is_unknown is True and name in written and name not in _READ:
                reader.not_supported(
                    f"{place}.change.after_unknown.{name}",
                    "is not known before the plan is applied, and left out.",
                )


class _Resources:
    """Makes resources of blocks."""

    def __init__(self, reader: FieldReader, parents: Parents) -> None:
        self._reader = reader
        self._parents = parents

    def of(self, block: Block) -> Iterator[Resource]:
        """Yield the resource of a block; none, with a finding or a problem, if there is none."""
        kind = block.type.removeprefix(_PREFIX)
        if not block.type.startswith(_PREFIX):
            what = f"is {block.type:.100}, no resource of Service Bus."
            self._reader.not_supported(block.place, what)
        elif kind in _OTHERS:
            self._reader.not_supported(block.place, forms.OTHER_RESOURCES[_OTHERS[kind]])
        elif kind not in BLOCKS:
            self._reader.not_supported(block.place, f"is {block.type:.100}, not known here.")
        elif not isinstance(block.values, dict):
            self._reader.wrong(block.place, "an object, { … }", block.values)
        else:
            types, names = BLOCKS[kind], self._parents.names(block)
            if names is not None:
                self._reader.taken(json_text.step(block.place, "name"))
                self._reader.written[f"{block.place}.properties"] = block.place
                yield Resource(types, names, block.place, self._fields(kind, block))

    def _fields(self, kind: str, block: Block) -> dict[str, Field]:
        place = block.place
        properties: dict[str, Any] = {}
        made: dict[str, Field] = {}
        for name, value in block.values.items():
            at = json_text.step(place, name)
            if name in _READ or (kind.endswith("rule") and name in _RIGHTS):
                continue
            if _SECRET.fullmatch(name):
                self._reader.taken(at, "is a key: a bus has its own.")
            elif value in (None, "", [], {}):
                self._reader.taken(at, "is empty.")
            elif name == "sku" and kind == "namespace":
                self._reader.written[f"{at}.name"] = at
                made["sku"] = at, {"name": value}
            elif name == "capacity" and value == 0:
                self._reader.taken(at, "is 0: none.")
            elif name in _ELSEWHERE:
                self._reader.not_supported(at, forms.ELSEWHERE)
            else:
                properties[name] = self._known(at, value)
        if kind == "namespace":
            properties = self._of_namespace(place, properties)
        elif kind == "subscription_rule":
            properties = self._of_rule(place, properties)
        elif kind.endswith("authorization_rule"):
            properties["rights"] = self._rights(place, block.values)
        else:
            properties = self._of_entity(place, kind, properties)
        made["properties"] = place, properties
        return made

    def _known(self, place: str, value: Any) -> Any:
        """Return a value without expressions; a problem for each that is not known here."""
        if isinstance(value, Expression):
            return self._parents.name(place, value)
        if isinstance(value, dict):
            return {
                name: self._known(json_text.step(place, name), each) for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._known(f"{place}[{at}]", each) for at, each in enumerate(value)]
        return value

    def _of_namespace(self, place: str, properties: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in properties.items():
            at = json_text.step(place, name)
            if name == "premium_messaging_partitions":
                self._reader.written[f"{place}.premiumMessagingPartitions"] = at
                made["premiumMessagingPartitions"] = value
            elif name == "local_auth_enabled":
                # Its inverse is what Azure has.
                self._reader.written[f"{place}.disableLocalAuth"] = at
                made["disableLocalAuth"] = value is False
            else:
                made[name] = value
        return made

    def _of_entity(self, place: str, kind: str, properties: dict[str, Any]) -> dict[str, Any]:
        """Return settings without those that have no value: the provider writes 0 for it."""
        made = {}
        for name, value in properties.items():
            setting = forms.settings(Form.TERRAFORM, EntityKind(kind)).get(name)
            if setting is not None and value == 0 and value is not False:
                self._reader.taken(json_text.step(place, name), "is 0: none.")
            else:
                made[name] = value
        return made

    def _of_rule(self, place: str, properties: dict[str, Any]) -> dict[str, Any]:
        """Return a rule as templates have it."""
        made: dict[str, Any] = {}
        for name, value in properties.items():
            at = json_text.step(place, name)
            if name in ("sql_filter", "action"):
                own = "sqlfilter" if name == "sql_filter" else name
                self._reader.written[f"{place}.{own}.sqlExpression"] = at
                made[own] = {"sqlExpression": value}
            elif name == "correlation_filter":
                at, value = (f"{at}[0]", value[0]) if isinstance(value, list) else (at, value)
                self._reader.written[f"{place}.correlationfilter"] = at
                made["correlationfilter"] = self._correlation(
                    f"{place}.correlationfilter", at, value
                )
            elif name == "filter_type":
                self._reader.written[f"{place}.filtertype"] = at
                made["filtertype"] = value
            else:
                made[name] = value
        return made

    def _correlation(self, place: str, at: str, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made: dict[str, Any] = {}
        for name, each in value.items():
            if each in (None, "", {}):
                self._reader.taken(json_text.step(at, name), "is empty.")
                continue
            first, *others = name.split("_")
            own = first + "".join(map(str.capitalize, others))
            self._reader.written[json_text.step(place, own)] = json_text.step(at, name)
            made[own] = each
        return made

    def _rights(self, place: str, values: Mapping[str, Any]) -> list[str]:
        made: list[str] = []
        for name in _RIGHTS:
            value, at = values.get(name), json_text.step(place, name)
            if value is True or value == "true":
                self._reader.written[f"{place}.rights[{len(made)}]"] = at
                made.append(name)
            elif value not in (None, False, "false"):
                self._reader.wrong(at, "true or false", value)
        return made
