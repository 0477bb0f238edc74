"""Authorization rules: the policies on one queue or topic that its managers set, with their keys.

Administration clients of Service Bus create them. `shared_access` decides which calls they allow,
as for the policies of the namespace. In a description their `entity` is "": they are on the entity
that it describes.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.shared_access import Policy, Right

FIELD: Final = "authorizationRules"
KEYS: Final = 2  # the primary and the secondary one
# Every document and connection string carries these unchanged; keys of Service Bus are base64.
_SIGNS: Final = ". _ - ~ ! $ * ( ) : @ ="
_CHARS: Final = r"A-Za-z0-9._~!$*():@=-"
_NAME: Final = re.compile(rf"[{_CHARS}]+")
_KEY: Final = re.compile(rf"[+/{_CHARS}]+")


def check(rules: Sequence[Policy]) -> None:
    """Raise InvalidArgument for rules that no entity can have.

    The numbers, and that Manage includes the others, are those of Service Bus.
    """
    if len(rules) > limits.AUTHORIZATION_RULES_MAX:
        raise InvalidArgument(
            FIELD, f"must be at most {limits.AUTHORIZATION_RULES_MAX} (got {len(rules)})."
        )
    seen: set[str] = set()
    for rule in rules:
        if not 1 <= len(rule.name) <= limits.AUTHORIZATION_NAME_CHARS_MAX:
            raise InvalidArgument(
                FIELD,
                f"a key name must have 1 to {limits.AUTHORIZATION_NAME_CHARS_MAX} characters "
                f"(got {len(rule.name)}).",
            )
        if not _NAME.fullmatch(rule.name):
            raise InvalidArgument(
                FIELD,
                f"a key name must have letters, digits and {_SIGNS} only (got {rule.name!a:.100}).",
            )
        if rule.name.lower() in seen:
            raise InvalidArgument(FIELD, f"{rule.name!r} is there twice. Leave one out.")
        seen.add(rule.name.lower())
        if not rule.rights:
            raise InvalidArgument(FIELD, f"{rule.name!r} grants no right. Name at least one.")
        if Right.MANAGE in rule.rights and rule.rights != frozenset(Right):
            raise InvalidArgument(
                FIELD, f"{rule.name!r}: Manage must come with Send and Listen. Name all three."
            )
        if not all(map(_KEY.fullmatch, filter(None, rule.keys))):
            raise InvalidArgument(
                FIELD, f"a key of {rule.name!r} must have letters, digits, + / and {_SIGNS} only."
            )
        if any(len(key) > limits.AUTHORIZATION_KEY_CHARS_MAX for key in rule.keys):
            raise InvalidArgument(
                FIELD,
                f"a key of {rule.name!r} is longer than {limits.AUTHORIZATION_KEY_CHARS_MAX} "
                "characters.",
            )


def rule(name: str, rights: Iterable[str], *keys: str) -> Policy:
    """Return a rule; a key that is "" is to be made. Raises InvalidArgument for another right."""
    rights = list(rights)
    for each in rights:
        if each not in list(Right):
            allowed = ", ".join(Right)
            raise InvalidArgument(FIELD, f"a right must be one of {allowed} (got {each[:100]!r}).")
    return Policy(name, frozenset(map(Right, rights)), keys=keys)


def completed(
    wanted: Iterable[Policy], current: Iterable[Policy], make_key: Callable[[], str]
) -> tuple[Policy, ...]:
    """Return rules with two keys each: what is not given stays as it is, or is made."""
    known = {each.name.lower(): each.keys for each in current}
    return tuple(
        replace(each, keys=_filled(each.keys, known.get(each.name.lower(), ()), make_key))
        for each in wanted
    )


def _filled(
    given: Sequence[str], known: Sequence[str], make_key: Callable[[], str]
) -> tuple[str, ...]:
    both = zip(_padded(given), _padded(known), strict=True)
    return tuple(new or old or make_key() for new, old in both)


def _padded(keys: Sequence[str]) -> list[str]:
    return [*keys, *[""] * KEYS][:KEYS]


def on(entity: str, rules: Iterable[Policy]) -> list[Policy]:
    """Return the rules of an entity as policies on it."""
    return [replace(each, entity=entity) for each in rules]


# As they are stored, and as messages of the contract have them.


def to_json(rule: Policy) -> dict[str, Any]:
    """Return a rule as JSON."""
    return {"name": rule.name, "rights": sorted(rule.rights), "keys": list(rule.keys)}


def from_json(values: dict[str, Any]) -> Policy:
    """Return the rule of a JSON object."""
    return rule(values["name"], values["rights"], *values["keys"])
