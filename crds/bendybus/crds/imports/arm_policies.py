"""Authorization rules of a namespace and its entities → shared access policies of a bus. Pure.

In Azure a name is unique on its entity, and each entity has 12 policies; on a bus all of them are
in one list, with names that become those of Secrets. Keys are not in files: a bus makes its own.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from bendybus.crds import json_text
from bendybus.crds.field_reader import FieldReader
from bendybus.crds.imports.arm_template import Resource
from bendybus.domain import limits

TYPE: Final = "authorizationrules"
_ROOT: Final = "rootmanagesharedaccesskey"
_RIGHTS: Final = {"listen": "Listen", "send": "Send", "manage": "Manage"}
_NAME_CHARS_MAX: Final = 50


def read(reader: FieldReader, found: Sequence[Resource]) -> list[dict[str, Any]]:
    """Return the policies, as the manifest of a bus has them. Errors become problems."""
    made: list[dict[str, Any]] = []
    taken: set[str] = set()
    for each in found:
        if each.types[-1] != TYPE:
            continue
        entity = each.names[1] if len(each.types) > 2 else ""
        if each.names[-1].lower() == _ROOT and not entity:
            reader.taken(each.place, "every bus has it.")
            continue
        rights = _rights(reader, each)
        if not rights:
            # It has a problem.
            continue
        if len(made) == limits.AUTHORIZATION_RULES_MAX:
            reader.not_supported(
                each.place,
                f"is left out: a bus has at most {len(made)} policies. Administration clients "
                "make more, on an entity.",
            )
            continue
        name = _name(each.names[-1], entity, taken)
        if name != each.names[-1]:
            reader.changed(
                json_text.step(each.place, "name"),
                f"the policy is called {name}: on a bus a name is unique, of letters, digits and "
                "-.",
            )
        made.append({"name": name, "rights": rights} | ({"entity": entity} if entity else {}))
    return made


def _name(wanted: str, entity: str, taken: set[str]) -> str:
    """Return a name that no other policy of the bus has, like the one in the file."""
    found = _plain(wanted)
    if found.lower() in taken or found.lower() == _ROOT:
        found = _plain(f"{entity}-{wanted}")
    base, number = found, 2
    while found.lower() in taken:
        found = f"{base[: _NAME_CHARS_MAX - 4]}-{number}"
        number += 1
    taken.add(found.lower())
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name)[:_NAME_CHARS_MAX].strip("-") or "policy"


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
