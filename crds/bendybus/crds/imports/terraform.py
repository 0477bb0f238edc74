"""What `terraform show -json` prints of a plan or a state, and states → resources. Pure.

    planned_values.root_module        a plan: what will be there
    values.root_module                a state, as it is shown
    resources[].instances[]           a state, as the file has it (version 4)
    resource.TYPE.NAME                configuration in JSON (.tf.json), of values and references

Only `azurerm_servicebus_*` are read. A resource names its parent by an id; in a plan ids are not
known yet, and the references of the configuration say it (`terraform_parents`).

Source: "JSON Output Format" of Terraform; resources of the provider azurerm, versions 2 to 4.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import forms, json_text
from bendybus.crds.conversion import Outcome, Reason
from bendybus.crds.field_reader import TRUE_OR_FALSE, Field, FieldReader
from bendybus.crds.forms import Form
from bendybus.crds.imports import arm_template, terraform_blocks
from bendybus.crds.imports.arm_template import Resource
from bendybus.crds.imports.asked import Asked
from bendybus.crds.imports.terraform_parents import BLOCKS, PREFIX, Block, Parents
from bendybus.crds.imports.terraform_text import Expression
from bendybus.domain.entity_kind import EntityKind

# Types that Bendybus has not, by the last part of their names in Azure.
_OTHERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "namespace_network_rule_set": "networkrulesets",
        "namespace_disaster_recovery_config": "disasterrecoveryconfigs",
    }
)
_OF_PARENTS: Final = "is not needed beside the other fields that say what it belongs to."
_OF_TERRAFORM: Final = "is for Terraform alone."
_OF_AZURE: Final = "is what Azure reports."
# Fields that say what a resource is, or that the provider fills in, and why they are not needed.
_READ: Final[Mapping[str, str]] = MappingProxyType(
    {
        "name": "",
        **dict.fromkeys(("id", "endpoint", "sql_filter_compatibility_level"), _OF_AZURE),
        **dict.fromkeys(("timeouts", "depends_on", "lifecycle", "provider", "//"), _OF_TERRAFORM),
        "resource_group_name": "is the group of Azure that it is in.",
        **dict.fromkeys(("namespace_id", "topic_id", "queue_id", "subscription_id"), _OF_PARENTS),
        **dict.fromkeys(
            ("namespace_name", "topic_name", "queue_name", "subscription_name"), _OF_PARENTS
        ),
    }
)
_SECRET: Final = re.compile(r"(default_)?(primary|secondary)_(key|connection_string)(_alias)?")
_RIGHTS: Final = ("listen", "send", "manage")
_NAMESPACE, _RULE = "namespace", "subscription_rule"
# Fields that have another name, or another shape, in templates.
_PARTITIONS, _LOCAL_AUTH = "premium_messaging_partitions", "local_auth_enabled"
_OF_RULES: Final = ("filter_type", "sql_filter", "correlation_filter", "action")
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_BOOLEANS: Final = MappingProxyType({"true": True, "false": False})


def is_one(document: Any) -> bool:
    """Whether a document is a plan, a state, or configuration in JSON, of Terraform."""
    if not isinstance(document, dict):
        return False
    if "terraform_version" in document or "planned_values" in document:
        return True
    found = document.get("resource")
    blocks = found if isinstance(found, list) and found else [found]
    return all(
        isinstance(each, dict) and all(isinstance(one, dict | list) for one in each.values())
        for each in blocks
    )


def read(reader: FieldReader, document: Mapping[str, Any], asked: Asked) -> list[Resource]:
    """Return the resources. Names of parents that only Azure knows are given by ADDRESS.FIELD.

    Errors become problems of the reader.
    """
    blocks = list(terraform_blocks.managed(reader, document))
    if reader.problems:
        return []
    configuration = document.get("configuration")
    root = configuration.get("root_module") if isinstance(configuration, dict) else None
    read_only = terraform_blocks.data(document)
    parents = Parents(reader, [*blocks, *read_only], root, asked.needed)
    made = _Resources(reader, parents)
    if document.get("errored") is True:
        what = "is true: the plan stopped with an error, and may lack resources."
        reader.not_supported("errored", what)
    _changes(reader, document, parents)
    found = [each for block in blocks for each in made.of(block)]
    found += _namespaces_read(read_only, found)
    for name in parents.unused():
        reader.problem("", f"needs no {name!r:.200}, which is given. Leave it out.")
    return found


def _changes(reader: FieldReader, document: Mapping[str, Any], parents: Parents) -> None:
    """Note what a plan deletes, and what it cannot know yet: it is in no other part of it."""
    for number, each in enumerate(terraform_blocks.items(reader, "", document, "resource_changes")):
        change = each.get("change") if isinstance(each, dict) else None
        kind = str(each.get("type", "")) if isinstance(each, dict) else ""
        if not isinstance(change, dict) or not kind.startswith(PREFIX):
            continue
        place = f"resource_changes[{number}]"
        if change.get("actions") in (["delete"], ["forget"]):
            done = "deleted" if change["actions"] == ["delete"] else "forgotten"
            detail = f"is {done} by the plan. Nothing is made of it."
            reader.left_out(place, Reason(detail, Outcome.NO_EFFECT))
        unknown = change.get("after_unknown")
        label, module = str(each.get("name", "")), str(each.get("module_address", ""))
        written = parents.written(kind, label, module)
        for name, value in unknown.items() if isinstance(unknown, dict) else ():
            if name in written and name not in _READ:
                at = f"{place}.change.after_unknown"
                for where in _unknown(json_text.step(at, name), value):
                    reader.not_supported(
                        where, "is not known before the plan is applied, and left out."
                    )


def _namespaces_read(blocks: Sequence[Block], found: Sequence[Resource]) -> Iterator[Resource]:
    """Yield namespaces that a plan reads and does not make, of the resources that are found."""
    ours = {each.names[0].lower() for each in found}
    made = {each.names[0].lower() for each in found if len(each.names) == 1}
    for block in blocks:
        values = block.values if isinstance(block.values, dict) else {}
        name, sku = values.get("name"), values.get("sku")
        if block.type != f"{PREFIX}{_NAMESPACE}" or not isinstance(name, str) or not sku:
            continue
        if name.lower() in ours - made:
            made.add(name.lower())
            place, count = block.place, values.get(_PARTITIONS)
            fields: dict[str, Field] = {"sku": (json_text.step(place, "sku"), {"name": sku})}
            if count:
                at = json_text.step(place, "properties")
                fields["properties"] = at, {"premiumMessagingPartitions": count}
            yield Resource((arm_template.NAMESPACES,), (name,), place, fields, existing=True)


def _unknown(place: str, value: Any) -> Iterator[str]:
    """Yield the places of true in a value."""
    if value is True:
        yield place
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _unknown(json_text.step(place, name), each)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _unknown(f"{place}[{at}]", each)


class _Resources:
    """Makes resources of blocks."""

    def __init__(self, reader: FieldReader, parents: Parents) -> None:
        self._reader = reader
        self._parents = parents

    def of(self, block: Block) -> Iterator[Resource]:
        """Yield the resource of a block, or nothing, with a finding or a problem."""
        kind = block.type.removeprefix(PREFIX)
        if not block.type.startswith(PREFIX):
            self._reader.left_out(block.place, forms.other(block.type))
        elif kind in _OTHERS:
            self._reader.left_out(block.place, forms.OTHER_RESOURCES[_OTHERS[kind]])
        elif kind not in BLOCKS:
            self._reader.not_supported(block.place, f"is {block.type:.100}, not known here.")
        elif not isinstance(block.values, dict):
            self._reader.wrong(block.place, "an object, { … }", block.values)
        else:
            types, names = BLOCKS[kind], self._parents.names(block)
            if names is not None:
                self._reader.written[f"{block.place}.properties"] = block.place
                yield Resource(types, names, block.place, self._fields(kind, block))

    def _fields(self, kind: str, block: Block) -> dict[str, Field]:
        place = block.place
        properties: dict[str, Any] = {}
        made: dict[str, Field] = {}
        policy = kind.endswith("authorization_rule")
        for name, value in block.values.items():
            at = json_text.step(place, name)
            if policy and name in _RIGHTS:
                continue
            if name in _READ:
                self._about(kind, name, at)
            elif _SECRET.fullmatch(name):
                self._reader.taken(at, "is a key: a bus has its own.")
            elif value in _EMPTY:
                self._reader.taken(at, "is empty.")
            elif name == "sku" and kind == _NAMESPACE:
                self._reader.written[f"{at}.name"] = at
                made["sku"] = at, {"name": self._known(at, value)}
            elif name == "capacity" and value == 0:
                self._reader.taken(at, "is 0: none.")
            elif policy and name.lower() == "rights":
                self._reader.unknown(at, name, _RIGHTS)
            elif name in forms.OF_RESOURCES:
                self._reader.left_out(at, forms.OF_RESOURCES[name])
            else:
                properties[name] = self._known(at, value)
        if kind == _NAMESPACE:
            properties = self._of_namespace(place, properties)
        elif kind == _RULE:
            properties = self._of_rule(place, properties)
        elif policy:
            properties = {**properties, "rights": self._rights(place, block.values)}
        else:
            properties = self._of_entity(place, kind, properties)
        made["properties"] = place, properties
        return made

    def _about(self, kind: str, name: str, place: str) -> None:
        """Note a field that says what a resource is, unless something else notes it."""
        if place in self._parents.said or (name == "name" and kind in (_NAMESPACE, _RULE)):
            return
        self._reader.taken(place, _READ[name])

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
            if name == _PARTITIONS:
                self._reader.written[f"{place}.premiumMessagingPartitions"] = at
                made["premiumMessagingPartitions"] = value
            elif name == _LOCAL_AUTH:
                enabled = self._boolean(at, value)
                if enabled is not None:
                    # Its inverse is what Azure has.
                    self._reader.written[f"{place}.disableLocalAuth"] = at
                    made["disableLocalAuth"] = not enabled
            elif name.lower() in ("premiummessagingpartitions", "disablelocalauth"):
                self._reader.unknown(at, name, (_PARTITIONS, _LOCAL_AUTH))
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
            own = name.replace("_", "")
            if name not in _OF_RULES:
                self._reader.unknown(at, name, _OF_RULES)
            elif name in ("sql_filter", "action"):
                self._reader.written[f"{place}.{own}.sqlExpression"] = at
                self._reader.written[f"{place}.{own}"] = at
                made[own] = {"sqlExpression": value}
            elif name == "correlation_filter":
                made[own] = self._correlation(f"{place}.{own}", at, value)
            else:
                self._reader.written[f"{place}.{own}"] = at
                made[own] = value
        kind = str(properties.get("filter_type", "SqlFilter")).lower()
        if kind.startswith("sql") and "sqlfilter" not in made:
            self._reader.problem(
                json_text.step(place, "sql_filter"),
                "is required, and not known in this file. Apply the plan, and convert what "
                "terraform show -json prints of the state.",
            )
        return made

    def _correlation(self, place: str, at: str, value: Any) -> Any:
        """Return a filter as templates have it. `place`: of what is returned; `at`: in the file."""
        self._reader.written[place] = at
        if isinstance(value, list):
            if len(value) != 1:
                self._reader.problem(at, f"must have one filter (got {len(value)}).")
                return None
            at, value = f"{at}[0]", value[0]
            self._reader.written[place] = at
        if not isinstance(value, dict):
            return value if value is not None else {}
        made: dict[str, Any] = {}
        names: dict[str, str] = {}
        for name, each in value.items():
            where = json_text.step(at, name)
            if each in _EMPTY:
                self._reader.taken(where, "is empty.")
                continue
            first, *others = name.split("_")
            own = first + "".join(map(str.capitalize, others))
            if own in made:
                self._reader.problem(where, f"is the same field as {names[own]}. Remove one.")
                continue
            names[own] = where
            self._reader.written[json_text.step(place, own)] = where
            made[own] = each
        return made

    def _rights(self, place: str, values: Mapping[str, Any]) -> list[str]:
        made: list[str] = []
        for name in _RIGHTS:
            value, at = values.get(name), json_text.step(place, name)
            has = None if name not in values or value is None else self._boolean(at, value)
            if has:
                self._reader.written[f"{place}.rights[{len(made)}]"] = at
                made.append(name)
            elif name in values:
                self._reader.taken(at, "is not there.")
        return made

    def _boolean(self, place: str, value: Any) -> bool | None:
        """Return a value that may be in quotes; None, with a problem, if it is another one."""
        found = _BOOLEANS.get(value) if isinstance(value, str) else value
        if isinstance(found, bool):
            return found
        self._reader.wrong(place, TRUE_OR_FALSE, value)
        return None
