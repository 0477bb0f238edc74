"""Authorization rules of a namespace and its entities → shared access policies of a bus. Pure.

In Azure a name is unique on its entity, and each entity has 12 policies; on a bus all of them are
in one list, with names that become those of Secrets. Keys are not in files: a bus makes its own.
"""

from collections.abc import Sequence
from typing import Any, Final

from bendybus.crds import json_text, policy_names
from bendybus.crds.field_reader import FieldReader
from bendybus.crds.imports.arm_template import Resource
from bendybus.crds.policy_names import PolicyNames
from bendybus.domain import limits

TYPE: Final = "authorizationrules"
_RIGHTS: Final = {"listen": "Listen", "send": "Send", "manage": "Manage"}


def read(
    reader: FieldReader, found: Sequence[Resource], names: PolicyNames
) -> list[dict[str, Any]]:
    """Return the policies, as the manifest of a bus has them. Errors become problems."""
    made: list[dict[str, Any]] = []
    known = {each.names[1].lower() for each in found if len(each.types) == 2}
    for each in found:
        if each.types[-1] != TYPE:
            continue
        entity = each.names[1] if len(each.types) > 2 else ""
        if entity and entity.lower() not in known:
            reader.changed(each.place, f"is on {entity!r:.300}, which this file lacks.")
        if each.names[-1].lower() == policy_names.ROOT and not entity:
            reader.taken(each.place, "every bus has it.")
            continue
        rights = _rights(reader, each)
        if not rights:
            # It has a problem.
            continue
        if len(made) == limits.AUTHORIZATION_RULES_MAX:
            reader.not_supported(
                each.place,
                policy_names.TOO_MANY,
            )
            continue
        name = names.unique(each.names[-1], entity)
        if name != each.names[-1]:
            reader.changed(
                json_text.step(each.place, "name"),
                policy_names.WHY.format(name=name),
            )
        made.append({"name": name, "rights": rights} | ({"entity": entity} if entity else {}))
    return made


def _rights(reader: FieldReader, policy: Resource) -> list[str]:
    field = policy.fields.get("properties", (json_text.step(policy.place, "properties"), {}))
    properties = reader.fields(*field, ("rights",), idle={})
    given = reader.required(field[0], properties, "rights")
    before = len(reader.problems)
    made: list[str] = []
    for at, right in reader.items(given):
        known = _RIGHTS.get(str(right).lower())
        if known is None:
            reader.wrong(at, "Listen, Send or Manage", right)
        else:
            reader.taken(at)
            made += [known] if known not in made else []
    if given is not None and not made and len(reader.problems) == before:
        reader.problem(given[0], "must have at least one of Listen, Send and Manage.")
    return made
