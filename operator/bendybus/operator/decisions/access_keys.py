"""Shared access policies of a bus and their keys. Deterministic but for the random source.

The keys of a policy are stored in its Secret. Existing keys are preserved, also if written by hand;
missing ones are generated. So a key is rotated by removing it, or by writing another.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.crds.namespace_manifest import BusNamespaceSpec, Right
from bendybus.operator.kubernetes import names

KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy and its keys; never printed."""

    name: str
    rights: tuple[str, ...]
    entity: str
    primary_key: str
    secondary_key: str

    def __repr__(self) -> str:
        return f"Policy({self.name!r})"


def rules(spec: BusNamespaceSpec) -> list[tuple[str, tuple[str, ...], str]]:
    """Return (name, rights, entity) of every policy, the root first."""
    root = (names.ROOT_RULE, tuple(right.value for right in Right), "")
    others = [
        (rule.name, tuple(right.value for right in rule.rights), rule.entity or "")
        for rule in spec.authorization_rules
        if rule.name.lower() != names.ROOT_RULE.lower()
    ]
    return [root, *others]


def policies(
    spec: BusNamespaceSpec,
    secrets: Mapping[str, Mapping[str, Any]],
    random_bytes: Callable[[int], bytes],
) -> Sequence[Policy]:
    """Return every policy; `secrets`: policy name → its current Secret."""
    made = []
    for name, rights, entity in rules(spec):
        data = secrets.get(name, {}).get("data") or {}
        primary = _read(data, "primaryKey") or _new(random_bytes)
        secondary = _read(data, "secondaryKey") or _new(random_bytes)
        made.append(Policy(name, rights, entity, primary, secondary))
    return made


def _new(random_bytes: Callable[[int], bytes]) -> str:
    return base64.b64encode(random_bytes(KEY_BYTES)).decode()


def _read(data: Mapping[str, str], field: str) -> str:
    """Return the key in a Secret, "" if there is no usable one."""
    try:
        text = base64.b64decode(data.get(field, ""), validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    # A connection string separates its parts by semicolons.
    return "" if ";" in text else text
