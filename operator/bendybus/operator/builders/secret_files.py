"""The Secrets of a bus: certificates, policies for front ends, keys for applications.

Deterministic but for the random source of keys. Existing keys are preserved, also if written by
hand; missing ones are generated. So a key is rotated by removing it, or by writing another.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.crds.namespace_manifest import BusNamespaceSpec, Right
from bendybus.operator.builders import frontend, partitions
from bendybus.operator.builders.context import Context, Manifest, metadata
from bendybus.operator.kubernetes import names

_KEY_BYTES: Final = 32


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    """Return the data of a Secret of text files."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}


def tls(context: Context, role: str, files: Mapping[str, str]) -> Manifest:
    """Return the Secret with a role's tls.crt, tls.key and ca.crt."""
    secret = {
        partitions.ROLE: names.partition_tls(context.bus),
        frontend.ROLE: names.frontend_tls(context.bus),
    }[role]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(context, secret, role),
        "type": "kubernetes.io/tls",
        "data": encoded(files),
    }


def trust(context: Context, files: Mapping[str, str]) -> Manifest:
    """Return the Secret with what each role trusts while cert-manager issues certificates."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(context, names.trust(context.bus)),
        "type": "Opaque",
        "data": encoded(files),
    }


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


def policies(context: Context, known: Sequence[Policy]) -> Manifest:
    """Return the Secret that front ends read every policy and key from."""
    document = {
        "policies": [
            {
                "name": policy.name,
                "rights": list(policy.rights),
                "entity": policy.entity,
                "keys": [policy.primary_key, policy.secondary_key],
            }
            for policy in known
        ]
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(context, names.policies(context.bus), frontend.ROLE),
        "type": "Opaque",
        "data": encoded({"policies.json": json.dumps(document, indent=1)}),
    }


def access(context: Context, policy: Policy, trust: str) -> Manifest:
    """Return the Secret of one policy, named and filled as Service Bus users know it.

    It outlives the BusNamespace where the data does: applications keep their connection strings.
    """
    sdk_host = names.frontend_host(context.bus)
    host = f"{sdk_host}:{names.FRONTEND_PORT}"
    name = names.access_secret(context.bus, policy.name)
    values = {
        "primaryKey": policy.primary_key,
        "secondaryKey": policy.secondary_key,
        "primaryConnectionString": connection_string(host, policy, policy.primary_key),
        "secondaryConnectionString": connection_string(host, policy, policy.secondary_key),
        # Without a port: official SDKs have their own, those of AMQP.
        "amqpPrimaryConnectionString": connection_string(sdk_host, policy, policy.primary_key),
        "amqpSecondaryConnectionString": connection_string(sdk_host, policy, policy.secondary_key),
        "endpoint": f"sb://{host}",
        "ca.crt": trust,
    }
    made = metadata(context, name, "access", owned=not context.keeps_data)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": made,
        "type": "Opaque",
        "data": encoded({key: value for key, value in values.items() if value}),
    }


def connection_string(host: str, policy: Policy, key: str) -> str:
    """Return the connection string for one key of a policy."""
    text = f"Endpoint=sb://{host};SharedAccessKeyName={policy.name};SharedAccessKey={key}"
    return f"{text};EntityPath={policy.entity}" if policy.entity else text


def rules(spec: BusNamespaceSpec) -> list[tuple[str, tuple[str, ...], str]]:
    """Return (name, rights, entity) of every policy, the root first."""
    root = (names.ROOT_RULE, tuple(right.value for right in Right), "")
    others = [
        (rule.name, tuple(right.value for right in rule.rights), rule.entity or "")
        for rule in spec.authorization_rules
        if rule.name.lower() != names.ROOT_RULE.lower()
    ]
    return [root, *others]


def policies_of(
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
    return base64.b64encode(random_bytes(_KEY_BYTES)).decode()


def _read(data: Mapping[str, str], field: str) -> str:
    """Return the key in a Secret, "" if there is no usable one."""
    try:
        text = base64.b64decode(data.get(field, ""), validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    # A connection string separates its parts by semicolons.
    return "" if ";" in text else text
